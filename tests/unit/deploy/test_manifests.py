"""What the chart makes, compared with the code that relies on it; and the manifest of the page."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.kube.install.rbac import AGENT, AGENT_AT_HOME, AT_HOME, CONTROLLER, PolicyRule
from admission.kube.webhook.configuration import SERVICE
from deploy.manifests import CHART, INSTALLATION, files
from queues.api.api_resources import PART_OF
from tests.unit.deploy.chart_rendering import DEPLOY, SECRET, Key, rendered

ON = tuple(word for name in ("backup", "tools", "provisioning") for word in ("--set", f"{name}.enabled=true"))


@pytest.fixture(scope="module")
def made(helm_program: Path) -> dict[Key, Any]:
    """What the chart makes by default, with a database that is there."""
    return rendered(helm_program, *SECRET)


def test_the_generated_files_of_the_chart_are_what_the_code_says_and_no_definition_is_left() -> None:
    generated = files()
    wrong = [path for path, text in generated.items() if (CHART / path).read_text() != text]
    assert wrong == [], "run `python -m deploy.manifests`"
    there = {f"crds/{path.name}" for path in (CHART / "crds").iterdir()}
    assert there == {path for path in generated if path.startswith("crds/")}


def test_everything_by_hand_is_found_by_uninstall(helm_program: Path) -> None:
    for key, document in rendered(helm_program, *SECRET, *ON).items():
        assert PART_OF.items() <= document["metadata"]["labels"].items(), key


def test_few_policies_are_asked_about_each_request(made: dict[Key, Any]) -> None:
    assert len([kind for kind, _, _ in made if kind.endswith("AdmissionPolicy")]) <= 24


def test_the_deployment_runs_as_who_the_guard_knows_where_the_webhook_is_looked_for(
    made: dict[Key, Any],
) -> None:
    namespace = INSTALLATION.namespace
    pod = made["Deployment", namespace, "muster"]["spec"]["template"]
    account = f"system:serviceaccount:{namespace}:{pod['spec']['serviceAccountName']}"
    assert account == INSTALLATION.identity
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    for name, port in (("muster", "read"), (SERVICE, "webhook")):
        service = made["Service", namespace, name]["spec"]
        assert service["selector"].items() <= pod["metadata"]["labels"].items()
        assert service["ports"][0]["targetPort"] == port
        assert port in ports


def test_the_network_keeps_pods_of_others_from_the_port_that_asks_nobody_who_they_are(
    made: dict[Key, Any],
) -> None:
    pod = made["Deployment", "muster-system", "muster"]["spec"]["template"]
    policy = made["NetworkPolicy", "muster-system", "muster"]["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress"]
    sources = {port["port"]: rule.get("from") for rule in policy["ingress"] for port in rule["ports"]}
    assert sources.keys() == {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert sources["webhook"] is sources["read"] is None
    prometheus, *others = sources["http"]
    assert prometheus["namespaceSelector"]["matchLabels"]
    assert [other["ipBlock"]["cidr"] for other in others] == ["0.0.0.0/0", "::/0"]
    assert all(other["ipBlock"]["except"] for other in others)


def test_agents_have_no_more_rights_on_their_node_than_the_page_gives_reasons_for(
    made: dict[Key, Any],
) -> None:
    page = (DEPLOY.parent / "docs/how-to/gpu-nodes.md").read_text()
    pod = made["DaemonSet", "muster-agents", "muster-agent"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    held = container["securityContext"]
    assert not held["allowPrivilegeEscalation"]
    assert held["capabilities"] == {"drop": ["ALL"]}
    assert held["readOnlyRootFilesystem"]
    assert "privileged" not in held
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    given = [f"`{key}: {str(pod[key]).lower()}`" for key in pod if key.startswith("host")]
    given += [f"`{volume['hostPath']['path']}`" for volume in pod["volumes"] if "hostPath" in volume]
    given += [f"`runAsUser: {held['runAsUser']}`"]
    assert len(given) == 3
    for each in given:
        assert each in page


@pytest.mark.parametrize("kind", ["DaemonSet", "Deployment"])
def test_a_quota_allows_the_priority_of_the_pods_in_their_namespace(kind: str, made: dict[Key, Any]) -> None:
    ((namespace, owner),) = [(key[1], document) for key, document in made.items() if key[0] == kind]
    (quota,) = [document for key, document in made.items() if key[:2] == ("ResourceQuota", namespace)]
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert (scope["scopeName"], scope["operator"]) == ("PriorityClass", "In"), "others would be counted"
    assert scope["values"] == [owner["spec"]["template"]["spec"]["priorityClassName"]]
    assert set(quota["spec"]["hard"]) == {"pods"}, "limits of anything else would have pods name it"


@pytest.mark.parametrize("page", ["install.md", "page-in-the-cluster.md"])
def test_a_page_shows_how_the_secret_is_made_that_a_deployment_reads(page: str, made: dict[Key, Any]) -> None:
    documents = list(made.values())
    if page == "page-in-the-cluster.md":
        documents = list(yaml.safe_load_all((DEPLOY / "examples/page.yaml").read_text()))
    kinds = [document["kind"] for document in documents]
    assert "Secret" not in kinds, "it would be reset whenever it is applied again"
    pod = documents[kinds.index("Deployment")]["spec"]["template"]["spec"]
    wanted: dict[str, set[str]] = {}
    for container in pod["containers"]:
        for variable in container.get("env", ()):
            reference = variable.get("valueFrom", {}).get("secretKeyRef")
            if reference:
                wanted.setdefault(reference["name"], set()).add(reference["key"])
    for secret in (volume["secret"] for volume in pod["volumes"] if "secret" in volume):
        wanted.setdefault(secret["secretName"], set()).update(item["key"] for item in secret["items"])
    text = (DEPLOY.parent / "docs/how-to" / page).read_text().replace("\\\n", " ")
    shown = {
        name: set(re.findall(r"--from-literal=([a-z-]+)=", rest))
        for name, rest in re.findall(
            r"^kubectl create secret generic (\S+) -n muster-system(.*)$", text, re.M
        )
    }
    assert wanted
    assert shown == wanted


@pytest.mark.parametrize(("everywhere", "at_home"), [(CONTROLLER, AT_HOME), (AGENT, AGENT_AT_HOME)])
def test_every_right_has_a_purpose_of_its_own(
    everywhere: tuple[PolicyRule, ...], at_home: tuple[PolicyRule, ...]
) -> None:
    rules = [*everywhere, *at_home]
    assert len({rule.purpose for rule in rules}) == len(rules)
    granted = [
        (group, resource, verb)
        for rule in everywhere
        for group in (rule.group, *rule.more_groups)
        for resource in rule.resources
        for verb in rule.verbs
    ]
    assert len(set(granted)) == len(granted), "two rules grant the same"
    assert not [one for one in granted if "*" in one]

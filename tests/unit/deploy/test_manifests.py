"""The manifests in ``deploy``: what ``muster install`` applies, as files."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import deploy
from admission.kube.install.queues import first_queue
from admission.kube.install.rbac import AGENT, AGENT_AT_HOME, AT_HOME, CONTROLLER, PolicyRule
from admission.kube.webhook.configuration import SERVICE
from deploy.local.kubernetes import binaries
from deploy.manifests import INSTALLATION, files
from queues.api.api_resources import PART_OF
from tests.unit.deploy.chart_rendering import by_key, environment

DEPLOY = Path(deploy.__file__).parent


@pytest.mark.parametrize("path", sorted(files()))
def test_a_manifest_is_what_the_code_says(path: str) -> None:
    assert (DEPLOY / path).read_text() == files()[path], "run `python -m deploy.manifests`"


def test_the_first_queues_are_those_that_install_makes() -> None:
    assert _documents("queues.yaml") == [first_queue("root"), first_queue("default")]


def test_everything_by_hand_is_found_by_uninstall() -> None:
    for document in _documents("controller.yaml"):
        assert PART_OF.items() <= document["metadata"]["labels"].items(), document["metadata"]["name"]


def test_the_deployment_runs_as_who_the_guard_knows_where_the_webhook_is_looked_for() -> None:
    documents = {(one["kind"], one["metadata"]["name"]): one for one in _documents("controller.yaml")}
    pod = documents["Deployment", "muster"]["spec"]["template"]
    account = f"system:serviceaccount:{INSTALLATION.namespace}:{pod['spec']['serviceAccountName']}"
    assert account == INSTALLATION.identity
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    for name, port in (("muster", "read"), (SERVICE, "webhook")):
        service = documents["Service", name]["spec"]
        assert service["selector"].items() <= pod["metadata"]["labels"].items()
        assert service["ports"][0]["targetPort"] == port
        assert port in ports


def test_the_network_keeps_pods_of_others_from_the_port_that_asks_nobody_who_they_are() -> None:
    documents = {one["kind"]: one for one in _documents("controller.yaml")}
    pod, policy = documents["Deployment"]["spec"]["template"], documents["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress"]
    sources = {port["port"]: rule.get("from") for rule in policy["ingress"] for port in rule["ports"]}
    assert sources.keys() == {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert sources["webhook"] is sources["read"] is None
    prometheus, *others = sources["http"]
    assert prometheus["namespaceSelector"]["matchLabels"]
    assert [other["ipBlock"]["cidr"] for other in others] == ["0.0.0.0/0", "::/0"]
    assert all(other["ipBlock"]["except"] for other in others)


def test_agents_have_no_more_rights_on_their_node_than_the_page_gives_reasons_for() -> None:
    page = (DEPLOY.parent / "docs/how-to/gpu-nodes.md").read_text()
    pod = next(one for one in _documents("agent.yaml") if one["kind"] == "DaemonSet")["spec"]["template"][
        "spec"
    ]
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


@pytest.mark.parametrize(("file", "kind"), [("agent.yaml", "DaemonSet"), ("controller.yaml", "Deployment")])
def test_a_quota_allows_the_priority_of_the_pods_in_their_namespace(file: str, kind: str) -> None:
    documents = {one["kind"]: one for one in _documents(file)}
    quota, owner = documents["ResourceQuota"], documents[kind]
    assert quota["metadata"]["namespace"] == owner["metadata"]["namespace"]
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert (scope["scopeName"], scope["operator"]) == ("PriorityClass", "In"), "others would be counted"
    assert scope["values"] == [owner["spec"]["template"]["spec"]["priorityClassName"]]
    assert set(quota["spec"]["hard"]) == {"pods"}, "limits of anything else would have pods name it"


def test_no_manifest_has_a_secret_which_would_be_reset_when_it_is_applied_again() -> None:
    kinds = {one["kind"] for path in ("controller.yaml", "page.yaml") for one in _documents(path)}
    assert "Deployment" in kinds
    assert "Secret" not in kinds


@pytest.mark.parametrize(
    ("file", "page"), [("controller.yaml", "install.md"), ("page.yaml", "page-in-the-cluster.md")]
)
def test_a_page_shows_how_the_secret_is_made_that_a_deployment_reads(file: str, page: str) -> None:
    (deployment,) = [one for one in _documents(file) if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    wanted: dict[str, set[str]] = {}
    for container in pod["containers"]:
        for variable in container.get("env", ()):
            reference = variable.get("valueFrom", {}).get("secretKeyRef")
            if reference:
                wanted.setdefault(reference["name"], set()).add(reference["key"])
    for secret in (volume["secret"] for volume in pod["volumes"] if "secret" in volume):
        wanted.setdefault(secret["secretName"], set()).update(item["key"] for item in secret["items"])
    text = (DEPLOY.parent / "docs/how-to" / page).read_text().replace("\\\n", " ")
    made = {
        name: set(re.findall(r"--from-literal=([a-z-]+)=", rest))
        for name, rest in re.findall(
            r"^kubectl create secret generic (\S+) -n muster-system(.*)$", text, re.M
        )
    }
    assert wanted
    assert made == wanted


def test_the_overlay_of_the_page_changes_what_it_says(tmp_path: Path) -> None:
    page = (DEPLOY.parent / "docs/how-to/install.md").read_text()
    (overlay,) = (
        each for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "kind: Kustomization" in each
    )
    (tmp_path / "kustomization.yaml").write_text(overlay)
    for path in DEPLOY.rglob("*.yaml"):
        copy = tmp_path / "muster/deploy" / path.relative_to(DEPLOY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    done = subprocess.run([binaries()["kubectl"], "kustomize", tmp_path], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    made = by_key(done.stdout.decode())

    wanted = {
        key: one
        for path in _documents("kustomization.yaml")[0]["resources"]
        for key, one in by_key((DEPLOY / path).read_text()).items()
    }
    assert made.keys() == wanted.keys()
    changed = {key for key in made if made[key] != wanted[key]}
    assert changed == {
        ("Deployment", "muster-system", "muster"),
        ("DaemonSet", "muster-agents", "muster-agent"),
        ("NetworkPolicy", "muster-system", "muster"),
        ("NetworkPolicy", "muster-agents", "muster-agent"),
    }
    for key in changed:
        if key[0] == "NetworkPolicy":
            _, v4, _ = made[key]["spec"]["ingress"][-1]["from"]
            assert v4["ipBlock"] == {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}
        else:
            (container,) = made[key]["spec"]["template"]["spec"]["containers"]
            assert container["image"] == "registry.example/muster:0.1.0"
    variables = environment(made)
    assert variables["MUSTER_LOG_LEVEL"]["value"] == "debug"
    assert "MUSTER_DSN_FILE" in variables


def test_kustomize_applies_every_file() -> None:
    named = set(_documents("kustomization.yaml")[0]["resources"])
    there = {
        str(path.relative_to(DEPLOY))
        for folder in ("rbac", "policies", "crds")
        for path in (DEPLOY / folder).glob("*.yaml")
    }
    assert named == there | {"agent.yaml", "controller.yaml", "read-api.yaml"}


@pytest.mark.parametrize(("everywhere", "at_home"), [(CONTROLLER, AT_HOME), (AGENT, AGENT_AT_HOME)])
def test_every_right_has_a_purpose_of_its_own(
    everywhere: tuple[PolicyRule, ...], at_home: tuple[PolicyRule, ...]
) -> None:
    rules = [*everywhere, *at_home]
    assert len({rule.purpose for rule in rules}) == len(rules)
    granted = [
        (rule.group, resource, verb)
        for rule in everywhere
        for resource in rule.resources
        for verb in rule.verbs
    ]
    assert len(set(granted)) == len(granted), "two rules grant the same"
    assert not [one for one in granted if "*" in one]


def _documents(path: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / path).read_text()))

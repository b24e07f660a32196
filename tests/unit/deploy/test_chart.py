"""The Helm chart, rendered without a cluster: it makes what ``muster install`` applies, and refuses unknown values."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.kube.install.queues import first_queue
from admission.kube.webhook.configuration import SECRET as SECRET_OF_MUSTER
from admission.kube.webhook.configuration import Callee
from admission.settings import Settings, read
from deploy.manifests import OF_THE_CHART, objects, values_schema
from queues.api.crd import SHARED
from tests.tables import with_rows
from tests.unit.deploy.chart_rendering import (
    CHART,
    SECRET,
    Key,
    by_key,
    environment,
    given,
    refused,
    rendered,
    run_helm,
    secret_of,
    values_file,
)

DSN = "postgresql://muster:word@postgres.example:5432/muster"


def test_a_definition_that_may_be_anothers_is_not_looked_at() -> None:
    text = (CHART / "templates" / "definitions.yaml").read_text()
    assert set(re.findall(r'ne \$name "([^"]+)"', text)) == SHARED


def test_it_has_no_fault_that_helm_knows_of(helm_program: Path) -> None:
    done = run_helm(helm_program, "lint", "--strict", str(CHART), *SECRET)
    assert done.returncode == 0, done.stdout


def test_by_default_it_makes_what_install_applies_and_the_pods(helm_program: Path) -> None:
    made = rendered(helm_program, *SECRET, *given("provisioning.enabled=true"))
    for documents in objects().values():
        for key, wanted in by_key(yaml.safe_dump_all(documents)).items():
            # Helm makes the namespace of a release.
            document = made.pop(key, None)
            if document is None:
                assert key in {("Namespace", "", "muster-system")}, key
                continue
            assert document == wanted, key
    for name in ("root", "default"):
        queue = made.pop(("Queue", "", name))
        hook = queue["metadata"].pop("annotations")
        assert hook["helm.sh/hook"] == "post-install,post-upgrade"
        assert hook["helm.sh/hook-delete-policy"] == "hook-failed", "else helm deletes one that is there"
        assert queue == first_queue(name)
    twice = ("NetworkPolicy", "ResourceQuota", "Service")
    once = ("DaemonSet", "Deployment", "PodDisruptionBudget", "ServiceAccount")
    assert sorted(key[0] for key in made) == sorted((*once, *twice, *twice))


def test_with_a_dsn_it_makes_the_secret_and_another_dsn_rolls_the_pods(helm_program: Path) -> None:
    made = rendered(helm_program, *given(f"database.dsn={DSN}"))
    assert made["Secret", "muster-system", "muster-database"]["stringData"] == {"dsn": DSN}
    assert secret_of(made) == ("muster-database", "dsn")

    def mark(found: dict[Key, Any]) -> Any:
        pod = found["Deployment", "muster-system", "muster"]["spec"]["template"]
        return pod["metadata"]["annotations"]["checksum/database"]

    assert mark(made) != mark(rendered(helm_program, *given(f"database.dsn={DSN}2")))


def test_the_dsn_is_a_file_of_the_secret_that_changes_with_it(helm_program: Path) -> None:
    made = rendered(helm_program, *SECRET, *given("database.existingSecretKey=postgres-uri"))
    assert secret_of(made) == ("muster-database", "postgres-uri")
    assert "MUSTER_DSN" not in environment(made)


def test_in_another_namespace_nothing_names_the_usual_one(helm_program: Path) -> None:
    made = rendered(helm_program, *SECRET, namespace="queues")
    assert not [key for key, document in made.items() if "muster-system" in json.dumps(document)]
    own = environment(made, "queues")
    assert own["MUSTER_NAMESPACE"]["value"] == "queues"
    assert own["MUSTER_USERNAME"]["value"] == "system:serviceaccount:queues:muster"


def test_every_setting_becomes_the_variable_that_muster_reads(helm_program: Path, tmp_path: Path) -> None:
    defaults = Settings().model_dump(mode="json", by_alias=True)
    wanted = {name: value for name, value in defaults.items() if name not in OF_THE_CHART}
    assert set(values_schema()["properties"]["settings"]["properties"]) == set(wanted)
    made = environment(rendered(helm_program, *values_file(tmp_path, {"settings": wanted})))
    variables = {name: each["value"] for name, each in made.items() if "value" in each}
    found = read(environment=variables).model_dump(mode="json", by_alias=True)
    assert {name: found[name] for name in wanted} == wanted
    assert len([name for name in variables if name.startswith("MUSTER_")]) == len(wanted) + 2


def test_a_tenant_is_a_queue_that_says_who_may_use_and_who_may_change_it(
    golden: Any, helm_program: Path, tmp_path: Path
) -> None:
    tenant = {
        "name": "vision",
        "namespaces": {"matchLabels": {"team": "vision"}},
        "admins": [{"group": "vision-leads"}],
        "spec": {"deserved": {"nvidia.com/gpu": "64"}, "access": {"maxGang": 64}},
    }
    made = rendered(helm_program, *values_file(tmp_path, {"tenants": [tenant]}))
    assert made["Queue", "", "vision"]["spec"] == golden


CERT_MANAGER = given("webhook.certificates=cert-manager", "webhook.certManager.issuerRef.name=company-ca")


def test_cert_manager_makes_the_certificates_and_says_who_signed_them(helm_program: Path) -> None:
    made = rendered(helm_program, *SECRET, *CERT_MANAGER, namespace="queues")
    certificate = made["Certificate", "queues", "muster"]["spec"]
    assert certificate["issuerRef"] == {"name": "company-ca", "kind": "Issuer", "group": "cert-manager.io"}
    assert set(certificate["dnsNames"]) == Callee(namespace="queues").names()
    assert certificate["secretName"] != SECRET_OF_MUSTER
    assert not {"duration", "renewBefore"} & certificate.keys()

    believers = [
        document
        for (kind, _, _), document in made.items()
        if kind.endswith("WebhookConfiguration") or kind == "APIService"
    ]
    assert len(believers) == 4
    for each in believers:
        assert each["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "queues/muster"}

    pod = made["Deployment", "queues", "muster"]["spec"]["template"]["spec"]
    folder = environment(made, "queues")["MUSTER_CERTIFICATES_DIR"]["value"]
    mounted = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounted["certificates"] == folder
    [volume] = [each for each in pod["volumes"] if each["name"] == "certificates"]
    assert volume["secret"] == {"secretName": certificate["secretName"]}


def test_how_long_certificates_live_and_who_signs_them_are_values(helm_program: Path) -> None:
    told = ("issuerRef.kind=ClusterIssuer", "duration=720h", "renewBefore=240h")
    values = given(*(f"webhook.certManager.{each}" for each in told))
    made = rendered(helm_program, *SECRET, *CERT_MANAGER, *values)
    certificate = made["Certificate", "muster-system", "muster"]["spec"]
    assert certificate["issuerRef"]["kind"] == "ClusterIssuer"
    assert (certificate["duration"], certificate["renewBefore"]) == ("720h", "240h")


def test_replicas_with_the_network_of_their_nodes_leave_before_their_successors_come(
    helm_program: Path,
) -> None:
    """Two of them have no room on one node: both want its ports."""
    key = ("Deployment", "muster-system", "muster")
    without = rendered(helm_program, *SECRET)[key]["spec"]
    spec = rendered(helm_program, *SECRET, *given("hostNetwork=true"))[key]["spec"]
    pod = spec["template"]["spec"]
    assert (pod.pop("hostNetwork"), pod.pop("dnsPolicy")) == (True, "ClusterFirstWithHostNet")
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    spec["strategy"]["rollingUpdate"]["maxSurge"] = 1
    assert spec == without
    said = refused(helm_program, *SECRET, "--set-string", "hostNetwork=true")
    assert "got string, want boolean" in said


def test_parts_can_be_left_out(helm_program: Path) -> None:
    off = ("agent.enabled", "networkPolicy.enabled", "podDisruptionBudget.enabled", "firstQueues.create")
    made = rendered(helm_program, *SECRET, *given(*(f"{name}=false" for name in off)))
    kinds = {kind for kind, _, _ in made}
    assert not kinds & {"DaemonSet", "NetworkPolicy", "PodDisruptionBudget", "Queue"}
    assert not [namespace for _, namespace, _ in made if namespace == "muster-agents"]


def test_networks_and_the_namespace_of_prometheus_are_values_of_both_policies(helm_program: Path) -> None:
    networks = "networkPolicy.podCIDRs.ipv4={10.0.0.0/8,172.16.0.0/12}"
    values = given("networkPolicy.monitoringNamespace=prometheus", networks)
    made = rendered(helm_program, *SECRET, *values)
    policies = [document for key, document in made.items() if key[0] == "NetworkPolicy"]
    assert len(policies) == 2
    for policy in policies:
        prometheus, v4, _ = policy["spec"]["ingress"][-1]["from"]
        assert prometheus["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "prometheus"}
        assert v4["ipBlock"]["except"] == ["10.0.0.0/8", "172.16.0.0/12"]


@with_rows("values", "told")
def test_wrong_values_are_refused_by_name(helm_program: Path, values: str, told: str) -> None:
    assert told in refused(helm_program, *SECRET, *given(values))


def test_older_clusters_are_refused_with_their_version(helm_program: Path) -> None:
    said = refused(helm_program, *SECRET, "--kube-version", "1.33.0")
    assert "chart requires kubeVersion: >=1.36.0-0 which is incompatible with Kubernetes v1.33.0" in said


def test_a_key_that_is_there_twice_is_noticed() -> None:
    with pytest.raises(ValueError, match="found twice: size"):
        by_key("kind: A\nmetadata: {name: a}\nspec:\n  size: 1\n  size: 2\n")

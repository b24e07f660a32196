"""The replicas of the chart: what an administrator can change about their pods, and which scheduler is meant."""

from pathlib import Path
from typing import Any

import pytest

from admission.kube.install.install import Installation
from admission.kube.policies.policy_documents import mutating_policies
from admission.settings import read
from tests.tables import with_rows
from tests.unit.deploy.chart_rendering import SECRET, environment, refused, rendered, values_file

DEPLOYMENT = ("Deployment", "muster-system", "muster")
DIGEST = "sha256:" + "0123456789abcdef" * 4


def test_an_image_is_named_by_its_digest(helm_program: Path) -> None:
    made = rendered(helm_program, *SECRET, "--set", f"image.digest={DIGEST}", "--set", "image.tag=0.1.0")
    for key in (DEPLOYMENT, ("DaemonSet", "muster-agents", "muster-agent")):
        (container,) = made[key]["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"muster@{DIGEST}"


def test_labels_and_annotations_are_merged_with_those_of_the_chart(
    helm_program: Path, tmp_path: Path
) -> None:
    monitoring: dict[str, Any] = {
        "enabled": True,
        "labels": {"app.kubernetes.io/part-of": "platform", "release": "x"},
    }
    values = {
        "database": {"dsn": "postgresql://a/b"},
        "podLabels": {"app.kubernetes.io/name": "muster", "app.kubernetes.io/part-of": "platform"},
        "podAnnotations": {"checksum/database": "mine", "note": "1"},
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:x"}},
        "monitoring": dict.fromkeys(("podMonitors", "rules", "dashboards"), monitoring),
    }
    made = rendered(helm_program, *values_file(tmp_path, values, database=False))
    metadata = made[DEPLOYMENT]["spec"]["template"]["metadata"]
    assert metadata["labels"] == values["podLabels"]
    assert metadata["annotations"]["note"] == "1"
    assert metadata["annotations"]["checksum/database"] != "mine"
    account = made["ServiceAccount", "muster-system", "muster"]["metadata"]
    assert account["annotations"] == {"eks.amazonaws.com/role-arn": "arn:x"}
    labels = [
        one["metadata"]["labels"]
        for key, one in made.items()
        if key[0] in ("PodMonitor", "PrometheusRule", "ConfigMap")
    ]
    assert len(labels) > 5
    assert all(each.items() >= monitoring["labels"].items() for each in labels)


def test_how_replicas_are_spread_is_a_value(helm_program: Path, tmp_path: Path) -> None:
    zones = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    for wanted in ([zones], []):
        made = rendered(helm_program, *values_file(tmp_path, {"topologySpreadConstraints": wanted}))
        assert made[DEPLOYMENT]["spec"]["template"]["spec"].get("topologySpreadConstraints", []) == wanted


def test_further_variables_come_with_those_of_the_chart(helm_program: Path, tmp_path: Path) -> None:
    variable = {"name": "SSL_CERT_FILE", "value": "/etc/company/ca.crt"}
    values = {"extraEnv": [variable]}
    found = environment(rendered(helm_program, *values_file(tmp_path, values)))
    assert found["SSL_CERT_FILE"] == variable
    assert "MUSTER_DSN_FILE" in found


@pytest.mark.parametrize("name", ["MUSTER_LOG_LEVEL", "MUSTER_POD_IP"])
def test_a_variable_that_is_there_already_is_refused(helm_program: Path, tmp_path: Path, name: str) -> None:
    values = {"extraEnv": [{"name": name, "value": "1"}]}
    said = refused(helm_program, *values_file(tmp_path, values))
    assert f"extraEnv: found {name}, which the chart sets itself or which is there twice" in said


def test_the_label_that_pods_are_found_by_is_no_value(helm_program: Path) -> None:
    said = refused(helm_program, *SECRET, "--set", r"podLabels.app\.kubernetes\.io/name=queue")
    assert "podLabels: found app.kubernetes.io/name: queue, expected other labels" in said


@pytest.mark.parametrize("aliases", [("volcano",), ("volcano", "yunikorn"), ("kai.example_1",)])
def test_names_of_schedulers_are_those_of_the_policies_too(
    helm_program: Path, tmp_path: Path, aliases: tuple[str, ...]
) -> None:
    settings = {"schedulerName": "bin-packing", "schedulerAliases": list(aliases)}
    made = rendered(helm_program, *values_file(tmp_path, {"settings": settings}))
    options = Installation(scheduler="bin-packing", aliases=aliases).policy_options
    policies = mutating_policies(options)
    assert policies
    for policy in policies:
        assert made[policy["kind"], "", policy["metadata"]["name"]] == policy
    told = {name: each.get("value", "") for name, each in environment(made).items() if "SCHEDULER" in name}
    found = read(environment=told)
    assert (found.scheduler_name, found.scheduler_aliases) == ("bin-packing", aliases)


@with_rows("value", "told")
def test_wrong_names_are_refused(helm_program: Path, value: Any, told: str) -> None:
    assert told in refused(helm_program, *SECRET, "--set", value)


@pytest.mark.parametrize(
    ("priority", "values"),
    [("system-node-critical", ["system-node-critical"]), ("platform", None), ("", None)],
)
def test_a_priority_of_the_system_has_a_quota(
    helm_program: Path, priority: str, values: list[str] | None
) -> None:
    made = rendered(helm_program, *SECRET, "--set", f"priorityClassName={priority}", namespace="queues")
    pod = made["Deployment", "queues", "muster"]["spec"]["template"]["spec"]
    assert pod.get("priorityClassName", "") == priority
    quota = made.get(("ResourceQuota", "queues", "muster"))
    assert (quota and quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"]) == values

"""The replicas of the chart: what an administrator can change about their pods, and which scheduler is meant."""

from pathlib import Path
from typing import Any

import pytest

from admission.kube.install.install import Installation
from admission.kube.policies.policy_documents import mutating_policies
from admission.settings import read
from tests.unit.deploy.chart_rendering import SECRET, Key, environment, given, rendered, values_file

DEPLOYMENT = ("Deployment", "muster-system", "muster")
AGENT = ("DaemonSet", "muster-agents", "muster-agent")
DIGEST = "sha256:" + "0123456789abcdef" * 4


def test_an_image_is_named_by_its_digest(helm_program: Path) -> None:
    made = rendered(helm_program, *SECRET, *given(f"image.digest={DIGEST}", "image.tag=0.1.0"))
    for key in (DEPLOYMENT, AGENT):
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


REPLICAS = ("priorityClassName", DEPLOYMENT, ("ResourceQuota", "muster-system", "muster"))
AGENTS = ("agent.priorityClassName", AGENT, ("ResourceQuota", "muster-agents", "muster-agent"))


@pytest.mark.parametrize(
    ("pods", "priority", "values"),
    [
        (REPLICAS, "system-node-critical", ["system-node-critical"]),
        (REPLICAS, "platform", None),
        (REPLICAS, "", None),
        (AGENTS, "system-cluster-critical", ["system-cluster-critical"]),
        (AGENTS, "", None),
    ],
)
def test_a_priority_of_the_system_has_a_quota(
    helm_program: Path, pods: tuple[str, Key, Key], priority: str, values: list[str] | None
) -> None:
    name, owner, quota = pods
    made = rendered(helm_program, *SECRET, *given(f"{name}={priority}"))
    assert made[owner]["spec"]["template"]["spec"].get("priorityClassName", "") == priority
    found = made.get(quota)
    assert (found and found["spec"]["scopeSelector"]["matchExpressions"][0]["values"]) == values

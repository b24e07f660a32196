"""The node agents of the chart: what an administrator can change about their pods."""

from pathlib import Path
from typing import Any

import pytest

from admission.agent.settings import AgentSettings
from queues.api.names import RUNS_AGENT
from tests.unit.deploy.chart_rendering import SECRET, Key, given, rendered, values_file

QUOTA = ("ResourceQuota", "muster-agents", "muster-agent")


def agent_pod(made: dict[Key, Any]) -> Any:
    """Spec of the agents' pods."""
    return made["DaemonSet", "muster-agents", "muster-agent"]["spec"]["template"]["spec"]


def test_agents_are_found_by_their_label_and_port_and_see_the_devices_of_the_kubelet(
    helm_program: Path,
) -> None:
    pod = agent_pod(rendered(helm_program, *SECRET))
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    marks = [term["matchExpressions"][0] for term in terms]
    assert {"key": RUNS_AGENT, "operator": "In", "values": ["true"]} in marks
    (container,) = pod["containers"]
    assert container["image"] == "muster:0.1.0"
    settings = AgentSettings(node_name="node")
    assert settings.metrics_listen == f":{container['ports'][0]['containerPort']}"
    assert container["volumeMounts"][0]["mountPath"] == f"{settings.kubelet_dir}/device-plugins"
    assert pod["tolerations"] == [{"operator": "Exists"}], "agents of tainted nodes see the recovery"


@pytest.mark.parametrize("empty", ["null", "[]"])
def test_what_is_empty_is_left_empty(helm_program: Path, empty: str) -> None:
    names = ("networkPolicy.podCIDRs.ipv4", "networkPolicy.podCIDRs.ipv6", "agent.tolerations")
    told = [word for name in names for word in ("--set-json", f"{name}={empty}")]
    made = rendered(helm_program, *SECRET, *told, *given("agent.resources=null"))
    assert not agent_pod(made)["tolerations"]
    assert not agent_pod(made)["containers"][0]["resources"]
    policies = [document for key, document in made.items() if key[0] == "NetworkPolicy"]
    assert len(policies) == 2
    for policy in policies:
        _, *blocks = policy["spec"]["ingress"][-1]["from"]
        assert [each["ipBlock"]["except"] or [] for each in blocks] == [[], []]


def test_nodes_and_images_of_other_clusters_are_values(
    golden: Any, helm_program: Path, tmp_path: Path
) -> None:
    term = {"matchExpressions": [{"key": "example.com/gpu", "operator": "Exists"}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    mount = {"name": "driver", "mountPath": "/usr/local/nvidia", "readOnly": True}
    volume = {"name": "driver", "hostPath": {"path": "/home/kubernetes/bin/nvidia"}}
    values = {
        "image": {"pullSecrets": [{"name": "registry"}], "pullPolicy": "Always"},
        "agent": {
            "image": {"repository": "registry.example/muster-gpu", "tag": "1"},
            "runtimeClassName": "nvidia",
            "priorityClassName": "platform",
            "nodeSelector": {"pool": "gpu"},
            "affinity": affinity,
            "securityContext": {"privileged": True, "allowPrivilegeEscalation": True},
            "podAnnotations": {"sidecar.istio.io/inject": "false"},
            "podLabels": {"team": "platform", "app.kubernetes.io/part-of": "gpu-nodes"},
            "extraVolumes": [volume],
            "extraVolumeMounts": [mount],
        },
    }
    made = rendered(helm_program, *values_file(tmp_path, values))
    pod = agent_pod(made)
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert (pod["runtimeClassName"], pod["priorityClassName"]) == ("nvidia", "platform")
    assert (pod["nodeSelector"], pod["affinity"]) == ({"pool": "gpu"}, affinity)
    assert volume in pod["volumes"]
    (container,) = pod["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("registry.example/muster-gpu:1", "Always")
    assert mount in container["volumeMounts"]
    assert container["securityContext"]["privileged"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    metadata = made["DaemonSet", "muster-agents", "muster-agent"]["spec"]["template"]["metadata"]
    assert metadata["annotations"] == {"sidecar.istio.io/inject": "false"}
    assert metadata["labels"] == golden
    assert QUOTA not in made, "no cluster wants one for this class"


def test_a_variable_of_an_administrator_takes_the_place_of_the_charts(
    golden: Any, helm_program: Path, tmp_path: Path
) -> None:
    own = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        {"name": "MUSTER_AGENT_POLL_SECONDS", "value": "30"},
    ]
    made = rendered(helm_program, *values_file(tmp_path, {"agent": {"extraEnv": own}}))
    variables = agent_pod(made)["containers"][0]["env"]
    assert [each["name"] for each in variables] == golden
    assert own[0] in variables

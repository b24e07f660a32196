"""The node agents of the chart: what an administrator can change about their pods."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.deploy.chart_rendering import SECRET, Key, rendered


def agent_pod(made: dict[Key, Any]) -> Any:
    """Spec of the agents' pods."""
    return made["DaemonSet", "muster-agents", "muster-agent"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("empty", ["null", "[]"])
def test_what_is_empty_is_left_empty(helm_program: Path, empty: str) -> None:
    names = ("networkPolicy.podCIDRs.ipv4", "networkPolicy.podCIDRs.ipv6", "agent.tolerations")
    told = [word for name in names for word in ("--set-json", f"{name}={empty}")]
    made = rendered(helm_program, *SECRET, *told, "--set", "agent.resources=null")
    assert not agent_pod(made)["tolerations"]
    assert not agent_pod(made)["containers"][0]["resources"]
    policies = [document for key, document in made.items() if key[0] == "NetworkPolicy"]
    assert len(policies) == 2
    for policy in policies:
        _, *blocks = policy["spec"]["ingress"][-1]["from"]
        assert [each["ipBlock"]["except"] or [] for each in blocks] == [[], []]

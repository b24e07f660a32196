"""Settings of the agent, and the page that tells them."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from admission.agent.settings import AgentSettings, address, read
from queues.errors import InvalidSettings

PAGE = Path(__file__).parents[4] / "docs/how-to/gpu-nodes.md"


def test_flags_count_more_than_the_environment_and_that_more_than_defaults() -> None:
    environment = {"MUSTER_AGENT_NODE_NAME": "n1", "MUSTER_AGENT_POLL_SECONDS": "5", "HOME": "/root"}
    settings = read({"poll_seconds": "2.5", "log_level": None}, environment)
    assert (settings.node_name, settings.poll_seconds, settings.log_level) == ("n1", 2.5, "info")
    assert read({}, environment).poll_seconds == 5


def test_all_problems_are_told_at_once_with_what_is_expected() -> None:
    environment = {"MUSTER_AGENT_POL_SECONDS": "5", "MUSTER_AGENT_METRICS_LISTEN": "9402"}
    with pytest.raises(InvalidSettings) as refused:
        read({"poll_seconds": "often", "log_format": "xml"}, environment)
    for part in (
        "MUSTER_AGENT_POL_SECONDS: there is no such setting; did you mean MUSTER_AGENT_POLL_SECONDS",
        "metrics_listen: found '9402', expected host:port",
        "poll_seconds: found 'often', expected seconds from 0.1 to 86400",
        "log_format: found 'xml', expected json, console",
        "node_name: found none, expected the name of this Node",
    ):
        assert part in str(refused.value)


def test_variables_of_a_service_with_the_same_name_are_no_settings() -> None:
    links = {"MUSTER_AGENT_SERVICE_HOST": "10.0.0.1", "MUSTER_AGENT_PORT_9402_TCP": "tcp://10.0.0.1:9402"}
    read({"node_name": "n1"}, links)


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0"])
def test_a_poll_has_a_number_of_seconds(text: str) -> None:
    with pytest.raises(InvalidSettings, match="poll_seconds"):
        read({"node_name": "n1", "poll_seconds": text}, {})


def test_every_setting_can_be_given() -> None:
    texts = {each.name: str(each.default) or "n1" for each in fields(AgentSettings)}
    assert read(texts, {}) == AgentSettings(node_name="n1")


def test_an_address_may_leave_the_host_out() -> None:
    assert address(":9402") == ("", 9402)
    assert address("[::1]:0") == ("::1", 0)


def test_the_page_tells_every_setting_with_its_default() -> None:
    told = dict(re.findall(r"^\| `--([a-z-]+)` \| `?([^|`]*?)`? \|", PAGE.read_text(), re.M))
    known = {each.name.replace("_", "-"): each.default for each in fields(AgentSettings)}
    assert told.keys() == known.keys()
    for name, default in known.items():
        expected = f"{default:g}" if isinstance(default, float) else str(default)
        assert told[name] == (expected or "none"), name

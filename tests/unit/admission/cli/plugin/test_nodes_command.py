"""What ``kubectl muster nodes`` says where nodes have no GPUs, nothing is faulty, or Devices cannot be read."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queues.api import names
from queues.api.api_resources import LEASES
from queues.read_api.nodes import DeviceFaultBody, NodeBody
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.fakes.fake_reader import FakeLeader, FakeReader, FakeRights, gpu_node
from tests.fakes.plugin import Asking, Plugin

FAULT = DeviceFaultBody(
    number=3, id="GPU-3", reason="XidFault", message="XID 79", since="2020-01-01T00:00:00Z"
)


def reported(name: str, *faults: DeviceFaultBody) -> NodeBody:
    return gpu_node(name, reported=True, held=0, healthy=8 - len(faults), faults=faults)


@pytest.fixture
def leader() -> FakeLeader:
    leader = FakeLeader()
    without = NodeBody(name="cpu-1", flavor="", usable=True, limits={"cpu": "64"}, used={})
    leader.nodes = [without, gpu_node("gpu-1"), gpu_node("gpu-2")]
    return leader


@pytest.fixture
async def ask(plugin: Plugin, api_server: FakeApiServer, leader: FakeLeader) -> AsyncIterator[Asking]:
    async with plugin.served(FakeReader(), "nodes", server=api_server, leader=leader) as ask:
        yield ask


@pytest.fixture
def without_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may list Devices."""

    async def unlisted(*_: object) -> tuple[str, ...]:
        return ("devices",)

    monkeypatch.setattr(FakeRights, "unlisted", unlisted)


async def test_faulty_ones_alone_are_shown(leader: FakeLeader, ask: Asking) -> None:
    leader.nodes = [reported("gpu-1", FAULT), reported("gpu-2")]
    code, out, err = await ask("--faulty", "--no-headers")
    assert (code, err) == (0, "")
    assert out.startswith("gpu-1   Ready   -   -   8   7   0   GPU 3 XidFault (")
    assert len(out.splitlines()) == 1


async def test_where_nothing_is_faulty_that_is_said(leader: FakeLeader, ask: Asking) -> None:
    leader.nodes = [reported("gpu-1")]
    assert await ask("--faulty") == (0, "", "No node is faulty.\n")
    leader.nodes = [gpu_node("gpu-1")]
    assert await ask("--faulty") == (0, "", "No agent reports anything.\nNo node is faulty.\n")


async def test_a_node_that_is_named_and_has_no_gpus_is_told(ask: Asking) -> None:
    code, out, err = await ask("cpu-1", "gpu-1", "gpu-1", "--health", "--no-headers")
    assert (code, err) == (0, "Node cpu-1 has no GPUs, and no agent reports any.\n")
    assert out == "gpu-1   Ready   -   -   8   8   -   -\n", "a name that is given twice is one line"


@pytest.mark.usefixtures("without_devices")
async def test_without_the_right_to_list_devices_nodes_are_shown_without_faults(
    golden: Any, leader: FakeLeader, ask: Asking
) -> None:
    leader.nodes = [reported("gpu-1", FAULT), reported("gpu-2")]
    code, out, err = await ask("--health", "--no-headers")
    assert (code, [line.split()[5:] for line in out.splitlines()]) == (0, [["-", "-", "-"]] * 2)
    assert err == golden


@pytest.mark.usefixtures("without_devices")
async def test_without_that_right_nothing_is_said_to_be_free_of_faults(ask: Asking) -> None:
    code, out, err = await ask("--faulty")
    assert (code, out) == (1, "")
    assert "it is not known which are faulty" in err
    assert "The role muster-node-viewer has that right (devices.scheduling.koordinator.sh)." in err


async def test_the_age_of_agents_is_that_of_their_leases_in_one_list(
    api_server: FakeApiServer, ask: Asking
) -> None:
    lease = {"metadata": {"name": "gpu-1"}, "spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}}
    await api_server.put(LEASES.path(names.AGENT_NAMESPACE), lease)
    _, out, _ = await ask("--health", "--no-headers")
    assert [line.split()[3][-1] for line in out.splitlines()] == ["d", "-"]
    asked = [each.path for each in api_server.requests if "leases" in each.path]
    assert asked == [LEASES.path(names.AGENT_NAMESPACE)]


async def test_without_the_right_to_list_leases_the_age_of_agents_is_unknown(
    api_server: FakeApiServer, ask: Asking
) -> None:
    api_server.once("LIST", answers(403, "no"))
    code, out, err = await ask("--health", "--no-headers")
    assert (code, err) == (0, "")
    assert [line.split()[3] for line in out.splitlines()] == ["?", "?"]


async def test_json_has_a_form_of_its_own(leader: FakeLeader, ask: Asking) -> None:
    leader.nodes = [reported("gpu-1", FAULT)]
    _, out, _ = await ask("gpu-1", "-o", "json")
    [line] = json.loads(out)["items"]
    assert (line["name"], line["gpus"], line["healthy"]) == ("gpu-1", 8, 7)
    assert line["recovery"] == {"phase": "", "waits": "", "byPerson": False}
    assert line["faults"][0]["number"] == 3
    assert line["agent"] == ""

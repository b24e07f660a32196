"""What ``kubectl muster nodes`` says where nodes have no GPUs, nothing is faulty, or Devices cannot be read."""

import json
from typing import Any

import pytest
from aiohttp import web

from queues.api import names
from queues.api.api_resources import DEVICES, LEASES, NODES, RESOURCE_SLICES
from tests.builders.devices import gpus_of
from tests.builders.node_agents.node_devices import device, device_object
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.fakes.plugin import Asking, Plugin


@pytest.fixture
async def server(api_server: FakeApiServer) -> FakeApiServer:
    for name, gpus in (("cpu-1", None), ("gpu-1", "8"), ("gpu-2", "8")):
        await api_server.put(NODES.path(), node(name, gpus))
    return api_server


@pytest.fixture
def ask(plugin: Plugin, server: FakeApiServer) -> Asking:
    return plugin.at(server, "nodes")


def node(name: str, gpus: str | None) -> dict[str, Any]:
    amounts = {"cpu": "64"} if gpus is None else {"cpu": "64", "nvidia.com/gpu": gpus}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": ready},
    }


async def report(server: FakeApiServer, name: str, *faulty: int) -> None:
    devices = (device(minor, health=minor not in faulty) for minor in range(8))
    await server.put(DEVICES.path(), device_object(name, *devices))


async def listed(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
    """The usual answer."""
    return server.list(request)


def refuse_devices(server: FakeApiServer, status: int) -> None:
    """The second list, which is that of Devices, is refused."""
    server.once("LIST", listed)
    server.once("LIST", answers(status, "no"))


async def test_faulty_ones_alone_are_shown(server: FakeApiServer, ask: Asking) -> None:
    await report(server, "gpu-1", 3)
    await report(server, "gpu-2")
    code, out, err = await ask("--faulty", "--no-headers")
    assert (code, err) == (0, "")
    assert out.startswith("gpu-1   Ready   -   -   8   7   0   GPU 3 XidFault (")
    assert len(out.splitlines()) == 1


async def test_where_nothing_is_faulty_that_is_said(server: FakeApiServer, ask: Asking) -> None:
    await report(server, "gpu-1")
    assert await ask("--faulty") == (0, "", "No node is faulty.\n")


async def test_a_node_that_is_named_and_has_no_gpus_is_told(ask: Asking) -> None:
    code, out, err = await ask("cpu-1", "gpu-1", "gpu-1", "--health", "--no-headers")
    assert (code, err) == (0, "Node cpu-1 has no GPUs, and no agent reports any.\n")
    assert out == "gpu-1   Ready   -   -   8   8   -   -\n", "a name that is given twice is one line"


async def test_without_the_right_to_list_devices_nodes_are_shown_without_faults(
    golden: Any, server: FakeApiServer, ask: Asking
) -> None:
    refuse_devices(server, 403)
    code, out, err = await ask("--health", "--no-headers")
    assert (code, len(out.splitlines())) == (0, 2)
    assert err == golden


async def test_without_that_right_nothing_is_said_to_be_free_of_faults(
    server: FakeApiServer, ask: Asking
) -> None:
    refuse_devices(server, 403)
    code, out, err = await ask("--faulty")
    assert (code, out) == (1, "")
    assert "it is not known which are faulty" in err
    assert "The role muster-queue-admin has that right (devices.scheduling.koordinator.sh)." in err


async def test_where_there_are_no_devices_at_all_no_agent_reports(server: FakeApiServer, ask: Asking) -> None:
    refuse_devices(server, 404)
    code, out, err = await ask("--faulty")
    assert (code, out) == (0, "")
    assert err == "No agent reports anything: this cluster has no Devices.\nNo node is faulty.\n"


def refuse_lists_of(server: FakeApiServer, plural: str) -> None:
    """Lists of this kind are refused, of the four that a command asks for."""

    async def of_kind(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        refused = request.path.endswith(plural)
        return await answers(403, "no")(server, request) if refused else server.list(request)

    server.once("LIST", of_kind, times=4)


async def test_the_age_of_agents_is_that_of_their_leases_in_one_list(
    server: FakeApiServer, ask: Asking
) -> None:
    lease = {"metadata": {"name": "gpu-1"}, "spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}}
    await server.put(LEASES.path(names.AGENT_NAMESPACE), lease)
    _, out, _ = await ask("--health", "--no-headers")
    assert [line.split()[3][-1] for line in out.splitlines()] == ["d", "-"]
    asked = [each.path for each in server.requests if "leases" in each.path]
    assert asked == [LEASES.path(names.AGENT_NAMESPACE)]


async def test_without_the_right_to_list_leases_the_age_of_agents_is_unknown(
    server: FakeApiServer, ask: Asking
) -> None:
    refuse_lists_of(server, "leases")
    code, out, err = await ask("--health", "--no-headers")
    assert (code, err) == (0, "")
    assert [line.split()[3] for line in out.splitlines()] == ["?", "?"]


async def test_a_node_with_gpus_in_slices_only_is_shown_to_those_who_may_read_them(
    server: FakeApiServer, ask: Asking
) -> None:
    await server.put(RESOURCE_SLICES.path(), gpus_of("cpu-1", 4))
    assert await ask("cpu-1", "--health", "--no-headers") == (
        0,
        "cpu-1   Ready   -   -   4   4   -   -\n",
        "",
    )
    refuse_lists_of(server, "resourceslices")
    code, out, err = await ask("cpu-1", "gpu-1", "--health")
    assert (code, len(out.splitlines())) == (0, 2)
    assert err.startswith("Node cpu-1 has no GPUs, and no agent reports any. You may not list resourceslices")


async def test_json_has_a_form_of_its_own(server: FakeApiServer, ask: Asking) -> None:
    await report(server, "gpu-1", 3)
    _, out, _ = await ask("gpu-1", "-o", "json")
    [line] = json.loads(out)["items"]
    assert (line["name"], line["gpus"], line["healthy"]) == ("gpu-1", 8, 7)
    assert line["recovery"] == {"phase": "", "waits": "", "byPerson": False}
    assert line["faults"][0]["number"] == 3
    assert line["agent"] == ""

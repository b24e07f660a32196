"""``kubectl muster nodes``: racks, what is free there, the largest gangs that fit, and whose seats are where."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from admission.cli.access.object_forms import TopologyObject
from admission.cli.output import Output
from admission.cli.plugin.reservations import Closure
from admission.cli.rendering.node_use import use_table, with_use
from admission.cli.rendering.nodes import Accelerator, NodeLine, node_lines
from admission.cli.rendering.racks import Racks, is_in, largest_gangs, rack_lines, rack_table
from admission.wire import WireNode
from queues.api.api_resources import NODE_DRAINS, NODES, TOPOLOGIES
from queues.read_api.bodies import NodeBody, NodeWorkloadsBody, SeatedBody
from tests.fakes import fake_reader
from tests.fakes.fake_api_server import FakeApiServer
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Asking, Plugin
from tests.tables import with_rows

GOLDEN = Path(__file__).parents[1] / "golden"
RACK, BLOCK, HOST = "topology.muster.dev/rack", "topology.muster.dev/block", "kubernetes.io/hostname"
TOPOLOGY = {
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": BLOCK}, {"nodeLabel": RACK}, {"nodeLabel": HOST}]},
}


def node(name: str, rack: str | None, **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": "64", "nvidia.com/gpu": "8"}
    labels = {HOST: name} | ({} if rack is None else {BLOCK: "b1", RACK: rack})
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@pytest.fixture
async def server(api_server: FakeApiServer) -> FakeApiServer:
    taint = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    for document in (
        node("gpu-1", "r1"),
        node("gpu-2", "r1", taints=taint),
        node("gpu-3", "r2"),
        node("gpu-4", "r2", unschedulable=True),
        node("gpu-5", None),
    ):
        await api_server.put(NODES.path(), document)
    await api_server.put(TOPOLOGIES.path(), TOPOLOGY)
    return api_server


@pytest.fixture
async def ask(plugin: Plugin, server: FakeApiServer) -> AsyncIterator[Asking]:
    # Muster is asked directly here; the API server answers for nodes.
    async with plugin.served(FakeReader(), "nodes", server=server) as ask:
        yield ask


@with_rows("golden", "words")
async def test_the_text_is_the_golden_one(ask: Asking, golden: str, words: str) -> None:
    code, out, err = await ask(words)
    expected = (GOLDEN / f"{golden.replace(' ', '-')}.txt").read_text(encoding="utf-8")
    assert (code, err) == (0, "")
    assert expected == out
    if "wide" not in words:
        assert max(map(len, out.splitlines())) <= 80


async def test_json_has_what_is_free_and_whose_seats_are_there(ask: Asking) -> None:
    _, out, _ = await ask("gpu-2 gpu-4 -o json")
    seated, cordoned = json.loads(out)["items"]
    assert (seated["rack"], seated["free"], seated["usable"]) == ("b1/r1", 6, True)
    assert seated["taints"] == ["team=a:NoSchedule"]
    assert seated["accelerators"] == [{"name": "gpu", "resource": "nvidia.com/gpu", "total": 8, "free": 6}]
    assert [one["name"] for one in seated["workloads"]["items"]] == ["yolo"]
    assert (cordoned["usable"], cordoned["free"], cordoned["workloads"]) == (False, None, None)

    _, out, _ = await ask("--racks -o json")
    assert [(each["rack"], each["free"], each["emptyNodes"]) for each in json.loads(out)["items"]] == [
        ("b1/r1", 6, 0),
        ("b1/r2", 8, 1),
        ("", None, None),
    ]


async def test_nodes_are_chosen_by_their_labels_and_their_rack(server: FakeApiServer, ask: Asking) -> None:
    _, out, _ = await ask("--rack b1/r2 -o name")
    assert out == "node/gpu-3\nnode/gpu-4\n"
    await ask("-l team=a,zone!=x")
    asked = [each.query for each in server.requests if each.path == NODES.path()]
    assert asked[-1]["labelSelector"] == "team=a,zone!=x", "the API server knows the grammar"

    code, _, err = await ask("--rack r9")
    assert (code, err) == (1, "Error: No node with GPUs is in rack r9. Racks: b1/r1, b1/r2.\n")
    code, _, err = await ask("gpu-1 -l team=a")
    assert (code, err.splitlines()[-1]) == (2, "Error: Names of nodes and -l exclude each other.")
    code, _, err = await ask("--racks --health")
    assert code == 2
    assert "--racks excludes --faulty and --health" in err


async def test_without_an_answer_of_muster_nodes_are_shown_and_that_is_said(
    ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_TOKEN", "nobody")
    monkeypatch.setenv("MUSTER_SERVER", "http://127.0.0.1:1")
    code, out, err = await ask("--no-headers")
    assert (code, len(out.splitlines())) == (0, 5)
    assert out.splitlines()[0] == "gpu-1   b1/r1   Ready      8   -   0   -"
    assert err.startswith("What is free, and who has seats, is not known: ")


async def test_many_nodes_are_shown_by_rack(server: FakeApiServer, ask: Asking) -> None:
    for number in range(10, 50):
        await server.put(NODES.path(), node(f"node-{number}", f"r{number % 4}"))
    code, out, err = await ask("")
    assert (code, out.splitlines()[0].split()[0]) == (0, "RACK")
    assert err.endswith("45 nodes. --no-racks shows each, --rack RACK those of one rack.\n")
    _, out, _ = await ask("--no-racks --no-headers")
    assert len(out.splitlines()) == 45
    _, out, _ = await ask("-o name")
    assert len(out.splitlines()) == 45, "what programs read does not depend on how many there are"


def line(name: str, rack: str, left: int | None, model: str = "H100", **more: Any) -> NodeLine:
    accelerators = (Accelerator(name=model, resource="nvidia.com/gpu", total=8, free=left),)
    known = {"state": "Ready", "usable": True, "gpus": 8, "healthy": 8, "accelerators": accelerators}
    return NodeLine(name=name, rack=rack, model=model, **{**known, **more})


def test_of_a_rack_the_free_devices_the_empty_nodes_and_what_is_split_are_told(golden: Any) -> None:
    lines = [
        line("a", "r1", 8),
        line("b", "r1", 2),
        line("c", "r1", 0, usable=False, healthy=6),
        line("d", "r2", 4),
        line("e", "r2", 8, model="A100"),
    ]
    racks = rack_lines(lines)
    assert [(rack.rack, rack.accelerator) for rack in racks] == [
        ("r1", "H100"),
        ("r2", "A100"),
        ("r2", "H100"),
    ]
    first = racks[0]
    assert (first.nodes, first.out_of_service, first.gpus, first.unhealthy) == (3, 1, 24, 2)
    assert (first.free, first.empty_nodes, first.split) == (10, 1, 0.2)
    assert largest_gangs(racks) == golden
    assert "20%" in rack_table(racks, Output(headers=False))
    assert largest_gangs(rack_lines([line("a", "r1", None)])) == []


def test_racks_are_those_of_a_topology_or_of_a_usual_label() -> None:
    documents = [node("a", "r1"), node("b", "r2"), node("c", None)]
    documents[2]["metadata"]["labels"][RACK] = "r3"
    one, other, alone = convert(documents, list[WireNode])
    topology = convert(TOPOLOGY, TopologyObject)
    racks = Racks.known([topology], [one], None)
    assert [racks.of(each) for each in (one, other, alone)] == ["b1/r1", "b1/r2", ""]
    assert Racks.known([topology], [one], BLOCK).of(one) == "b1"
    assert Racks.known([], [one], None).of(alone) == "r3"
    assert Racks.known([], [one], "zone").of(one) == ""
    assert (is_in("b1/r1", "r1"), is_in("b1/r1", "b1/r1"), is_in("b1/r1", "b1"), is_in("", "")) == (
        True,
        True,
        False,
        False,
    )


def use_of(name: str, *, usable: bool = True) -> NodeBody:
    return NodeBody(
        name=name,
        flavor="",
        usable=usable,
        limits={},
        used={},
        free_devices={"nvidia.com/gpu": 8},
        workloads=NodeWorkloadsBody(items=(), total=0, hidden=0),
    )


def test_of_a_node_that_takes_no_pods_nothing_is_free() -> None:
    documents = convert([node("gpu-1", "r1"), node("gpu-2", "r1", unschedulable=True)], list[WireNode])
    use = {name: use_of(name, usable=usable) for name, usable in (("gpu-1", False), ("gpu-2", True))}
    lines = with_use(node_lines(documents, []), documents, Racks(), use, {})
    assert [(line.usable, line.free) for line in lines] == [(False, 0), (False, 0)]


def test_drained_and_reserved_nodes_are_told_and_nothing_is_free_there(golden: Any) -> None:
    documents = convert([node(f"gpu-{number}", "r1") for number in range(1, 4)], list[WireNode])
    use = {known.metadata.name: use_of(known.metadata.name) for known in documents}
    closed = Closure(kind="NodeDrain", name="fix", phase="Active", closed=True)
    planned = Closure(kind="Reservation", name="night", phase="Planned", closed=True)
    closures = {"gpu-1": [closed], "gpu-2": [planned]}
    racks = Racks.known([], documents, None)
    lines = with_use(node_lines(documents, []), documents, racks, use, closures)
    text = use_table(lines, Output(headers=False))
    assert [line.split()[2:5] for line in text.splitlines()] == golden
    [rack] = rack_lines(lines)
    assert (rack.out_of_service, rack.free, rack.empty_nodes) == (2, 8, 1)
    assert largest_gangs([rack])[0] == "Largest gang on gpu, of pods with one GPU: 8; in one rack 8 (r1)."


async def test_reservations_and_drains_of_the_cluster_are_told_beside_the_table(
    server: FakeApiServer, ask: Asking
) -> None:
    drain = {"metadata": {"name": "fix"}, "spec": {"at": "2026-11-20T14:00:00Z"}}
    drain["status"] = {"phase": "Active", "nodes": ["gpu-2", "gpu-3"]}
    await server.put(NODE_DRAINS.path(), drain)
    code, out, err = await ask("")
    assert (code, err) == (0, "Nodes gpu-2, gpu-3: drained by nodedrain fix from 2026-11-20T14:00:00Z.\n")
    assert out.splitlines()[3].split() == ["gpu-3", "b1/r2", "drained", "8", "0", "0", "-"]
    assert "of pods with one GPU: 0; in one rack 0" in out
    _, out, _ = await ask("gpu-3 -o json")
    [line] = json.loads(out)["items"]
    assert (line["usable"], line["closures"][0]["name"]) == (False, "fix")


def test_a_node_names_few_workloads_and_counts_the_others() -> None:
    def seated(name: str, held: dict[str, str], *, evicting: bool = False) -> SeatedBody:
        names = {"kind": "job", "namespace": "ml", "name": name, "uid": name, "queue": "train"}
        return SeatedBody(**names, evicting=evicting, seats=1, held=held)

    jobs = [seated(f"job-{gpus}", {"nvidia.com/gpu": str(gpus)}, evicting=gpus == 2) for gpus in (1, 2, 4)]
    there = NodeWorkloadsBody(items=(*jobs, seated("etl", {"cpu": "4"})), total=7, hidden=2)
    shown = line("a", "r1", 1, free=1, workloads=there)
    short = use_table([shown], Output(headers=False))
    assert short.endswith("ml/job-4(4), ml/job-2(2, evicting), ml/job-1(1), +4, 2 hidden\n")
    assert "ml/etl, +3, 2 hidden" in use_table([shown], Output(form="wide", headers=False))


async def test_a_node_that_is_closed_to_gangs_says_so_and_why(
    ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "closed to gangs: pods of 3 different gangs failed soon after their start"
    nodes = [replace(known, closed=why) if known.name == "gpu-3" else known for known in fake_reader.NODES]
    monkeypatch.setattr(fake_reader, "NODES", tuple(nodes))
    code, out, err = await ask("")
    line = next(line for line in out.splitlines() if line.startswith("gpu-3"))
    assert (code, line.split()[2:5]) == (0, ["closed", "8", "0"])
    assert err == f"Node gpu-3: {why}.\n"
    _, out, _ = await ask("gpu-3 -o json")
    assert [(one["usable"], one["closed"], one["free"]) for one in json.loads(out)["items"]] == [
        (False, why, 0)
    ]

"""``kubectl muster nodes``: racks, what is free there, the largest gangs that fit, and whose seats are where."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from admission.cli.output import Output
from admission.cli.rendering.nodes import use_table
from admission.cli.rendering.racks import largest_gangs, rack_lines, rack_table
from queues.read_api.nodes import AcceleratorBody, ClosureBody, NodeBody, NodeWorkloadsBody, SeatedBody
from tests.fakes.fake_api_server import FakeApiServer
from tests.fakes.fake_reader import FakeLeader, FakeReader, gpu_node
from tests.fakes.plugin import Asking, Plugin
from tests.tables import with_rows

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def leader() -> FakeLeader:
    return FakeLeader()


@pytest.fixture
async def ask(plugin: Plugin, api_server: FakeApiServer, leader: FakeLeader) -> AsyncIterator[Asking]:
    # Muster is asked directly here; the API server answers for agents.
    async with plugin.served(FakeReader(), "nodes", server=api_server, leader=leader) as ask:
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
    assert (cordoned["usable"], cordoned["free"]) == (False, 0)

    _, out, _ = await ask("--racks -o json")
    assert [(each["rack"], each["free"], each["emptyNodes"]) for each in json.loads(out)["items"]] == [
        ("b1/r1", 6, 0),
        ("b1/r2", 8, 1),
        ("", 8, 1),
    ]


async def test_nodes_are_chosen_by_their_labels_and_their_rack(leader: FakeLeader, ask: Asking) -> None:
    _, out, _ = await ask("--rack b1/r2 -o name")
    assert out == "node/gpu-3\nnode/gpu-4\n"
    await ask("-l team=a,zone!=x --level zone")
    asked = {name: leader.query[name] for name in ("labels", "level", "names")}
    assert asked == {"labels": "team=a,zone!=x", "level": "zone", "names": None}, "the leader chooses"

    code, _, err = await ask("--rack r9")
    assert (code, err) == (1, "Error: No node with GPUs is in rack r9. Racks: b1/r1, b1/r2.\n")
    code, _, err = await ask("gpu-1 -l team=a")
    assert (code, err.splitlines()[-1]) == (2, "Error: Names of nodes and -l exclude each other.")
    code, _, err = await ask("-l (a)")
    assert (code, err.splitlines()[0]) == (2, "Error: labels is '(a)'.")
    code, _, err = await ask("gpu-9")
    assert (code, err) == (1, "Error: There is no node gpu-9.\n")
    code, _, err = await ask("--racks --health")
    assert code == 2
    assert "--racks excludes --faulty and --health" in err


async def test_without_a_leader_that_is_said(leader: FakeLeader, ask: Asking) -> None:
    leader.lost = True
    code, out, err = await ask("")
    assert (code, out) == (1, "")
    assert err == ("Error: This replica (b) does not lead; a does.\nAsk again; another replica may answer.\n")


async def test_many_nodes_are_shown_by_rack(leader: FakeLeader, ask: Asking) -> None:
    leader.nodes = [gpu_node(f"node-{number}", f"r{number % 4}") for number in range(10, 55)]
    code, out, err = await ask("")
    assert (code, out.splitlines()[0].split()[0]) == (0, "RACK")
    assert err == "45 nodes. --no-racks shows each, --rack RACK those of one rack.\n"
    _, out, _ = await ask("--no-racks --no-headers")
    assert len(out.splitlines()) == 45
    _, out, _ = await ask("-o name")
    assert len(out.splitlines()) == 45, "what programs read does not depend on how many there are"


def line(name: str, rack: str, left: int | None, model: str = "H100", **more: Any) -> NodeBody:
    accelerators = (AcceleratorBody(name=model, resource="nvidia.com/gpu", total=8, free=left),)
    return gpu_node(name, rack, **{"model": model, "accelerators": accelerators, **more})


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


def closed(node: str, **closure: Any) -> NodeBody:
    told = ClosureBody(from_="2026-11-20T14:00:00Z", closed=True, **closure)
    return gpu_node(node, "b1/r2", usable=False, closures=(told,))


async def test_reservations_and_drains_are_told_beside_the_table_and_nothing_is_free_there(
    leader: FakeLeader, ask: Asking
) -> None:
    leader.nodes = [
        gpu_node("gpu-1", "b1/r2"),
        closed("gpu-2", kind="NodeDrain", name="fix", phase="Active"),
        closed("gpu-3", kind="NodeDrain", name="fix", phase="Active"),
        closed("gpu-4", kind="Reservation", name="night", for_="4h", phase="Planned"),
    ]
    code, out, err = await ask("")
    assert (code, err.splitlines()) == (
        0,
        [
            "Nodes gpu-2, gpu-3: drained by nodedrain fix from 2026-11-20T14:00:00Z.",
            "Node gpu-4: kept for reservation night from 2026-11-20T14:00:00Z for 4h.",
        ],
    )
    assert out.splitlines()[3].split()[:6] == ["gpu-3", "b1/r2", "drained", "8", "0", "0"]
    assert out.splitlines()[4].split()[:6] == ["gpu-4", "b1/r2", "reserved", "8", "0", "0"]
    assert "of pods with one GPU: 8; in one rack 8" in out
    _, out, _ = await ask("gpu-3 -o json")
    [line] = json.loads(out)["items"]
    assert (line["usable"], line["closures"][0]["name"]) == (False, "fix")


def test_a_node_names_few_workloads_and_counts_the_others() -> None:
    def seated(name: str, held: dict[str, str], *, evicting: bool = False) -> SeatedBody:
        names = {"kind": "job", "namespace": "ml", "name": name, "uid": name, "queue": "train"}
        gpus = float(held.get("nvidia.com/gpu", "0"))
        return SeatedBody(**names, evicting=evicting, seats=1, held=held, gpus=gpus)

    jobs = [seated(f"job-{gpus}", {"nvidia.com/gpu": str(gpus)}, evicting=gpus == 2) for gpus in (1, 2, 4)]
    there = NodeWorkloadsBody(items=(*jobs, seated("etl", {"cpu": "4"})), total=7, hidden=2)
    shown = line("a", "r1", 1, free=1, workloads=there)
    short = use_table([shown], Output(headers=False))
    assert short.endswith("ml/job-4(4), ml/job-2(2, evicting), ml/job-1(1), +4, 2 hidden\n")
    assert "ml/etl, +3, 2 hidden" in use_table([shown], Output(form="wide", headers=False))


async def test_a_node_that_is_closed_to_gangs_says_so_and_why(leader: FakeLeader, ask: Asking) -> None:
    why = "closed to gangs: pods of 3 different gangs failed soon after their start"
    leader.nodes = [gpu_node("gpu-3", "b1/r2", usable=False, closed=why)]
    code, out, err = await ask("--no-headers")
    assert (code, out.split()[2:5]) == (0, ["closed", "8", "0"])
    assert err == f"Node gpu-3: {why}.\n"

"""A turn that was saved gives the same decision elsewhere: no field is forgotten, and nothing depends on a process."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import pytest
from hypothesis import given

from admission.cli.command_line import finish
from admission.cli.muster import muster
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from admission.replay.snapshot_file import differences, load, nodes_of, save
from queues import kind_names
from queues.plan import Plan
from queues.quota.queue import Limits, Queue
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import FlavorName, NodeName, QueueName, WorkloadKey
from tests.bench.simulate import gang_trace, rules
from tests.bench.simulate.gangs import Simulation
from tests.laws.worlds.settings import in_worlds
from tests.laws.worlds.snapshots import snapshots
from tests.unit.bench.test_simulated_gangs import busy, folder


def bare(kind: Any) -> Any:
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    return kind


def filled(kind: Any, numbers: "itertools.count[int]") -> Any:
    """A value of a type in which every field says something of its own."""
    kind = bare(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return filled(next(each for each in arguments if each is not type(None)), numbers)
    if origin is not None:
        return collected(origin, arguments, numbers)
    if is_dataclass(kind) and isinstance(kind, type) and kind is not NodeTable:
        return told(kind, numbers)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return kind(*(filled(each, numbers) for each in get_type_hints(kind).values()))
    special: dict[Any, Any] = {
        Any: {"any": next(numbers)},
        WorkloadKey: WorkloadKey(kind_names.POD, f"uid-{next(numbers)}"),
        Resources: Resources({f"resource-{next(numbers)}": next(numbers)}),
        bool: True,
        int: next(numbers),
        str: f"text-{next(numbers)}",
    }
    if kind is NodeTable:
        return NodeTable.build([filled(Node, numbers), Node(name=NodeName("plain"), allocatable=Resources())])
    return list(kind)[-1] if isinstance(kind, type) and issubclass(kind, Enum) else special[kind]


def collected(origin: Any, arguments: tuple[Any, ...], numbers: "itertools.count[int]") -> Any:
    if origin is np.ndarray:
        return np.array([[next(numbers)]], dtype=get_args(arguments[1])[0])
    if issubclass(origin, Mapping):
        return {filled(arguments[0], numbers): filled(arguments[1], numbers)}
    return origin(filled(each, numbers) for each in arguments if each is not Ellipsis)


def told(kind: Any, numbers: "itertools.count[int]") -> Any:
    hints = get_type_hints(kind)
    # A tree of queues is built of them again.
    named = [field.name for field in fields(kind) if field.init and (kind, field.name) != (Snapshot, "tree")]
    made = {name: filled(hints[name], numbers) for name in named}
    flags = {field.name: not field.default for field in fields(kind) if hints[field.name] is bool}
    return kind(**made | flags)


def comparable(snapshot: Snapshot) -> tuple[Any, ...]:
    table, layout = snapshot.nodes, snapshot.nodes.layout
    return (
        replace(snapshot, nodes=None),  # type: ignore[arg-type]
        [node.name for node in nodes_of(table)],
        list(nodes_of(table)),
        [[(level.key, level.domains, level.of.tolist()) for level in chain] for chain in layout.chains],
        {
            field.name: np.asarray(getattr(table, field.name)).tolist()
            if isinstance(getattr(table, field.name), np.ndarray)
            else getattr(table, field.name)
            for field in fields(table)
            if field.name not in ("layout", "resources", "allocatable", "used", "unhealthy")
        },
    )


NOTHING_CHANGES = Plan(now=0, ledger_seq=0)


def test_the_tree_of_the_queues_is_no_part_of_a_saved_turn() -> None:
    queues = {
        QueueName("a"): Queue(name=QueueName("a")),
        QueueName("b"): Queue(name=QueueName("b"), parent=None),
    }
    tree = QueueTree.build(queues, None)
    snapshot = Snapshot(now=1, queues=queues, tree=tree, nodes=NodeTable.build([]), pending={}, admissions={})
    again = load(save(snapshot, NOTHING_CHANGES)).snapshot
    assert (again.queues, again.tree) == (queues, None)


def test_every_field_of_everything_in_a_snapshot_comes_back() -> None:
    snapshot = filled(Snapshot, itertools.count(1))

    again = load(save(snapshot, NOTHING_CHANGES)).snapshot

    assert comparable(again) == comparable(snapshot)


def test_every_field_of_a_node_enters_its_table() -> None:
    node = filled(Node, itertools.count(1))

    assert list(nodes_of(NodeTable.build([node]))) == [node]


def test_what_a_table_has_beside_its_nodes_comes_back() -> None:
    numbers = itertools.count(1)
    table = filled(NodeTable, numbers)
    hints = get_type_hints(NodeTable)
    more = {
        field.name: filled(hints[field.name], numbers)
        for field in fields(NodeTable)
        if field.name not in ("layout", "resources", "allocatable", "used")
    }
    snapshot = Snapshot(now=1, queues={}, nodes=replace(table, **more), pending={}, admissions={})

    assert comparable(load(save(snapshot, NOTHING_CHANGES)).snapshot) == comparable(snapshot)


def test_flavors_come_back_in_the_order_in_which_they_are_tried() -> None:
    name, flavors = QueueName("q"), ("h100", "a100", "mi300")
    queue = Queue(name=name, flavors={FlavorName(flavor): Limits() for flavor in flavors})
    snapshot = Snapshot(now=0, nodes=NodeTable.build([], {}), queues={name: queue}, pending={}, admissions={})

    back = load(save(snapshot, NOTHING_CHANGES)).snapshot

    assert tuple(back.queues[name].flavors) == flavors


@pytest.mark.parametrize("levels", [(), (["rack"],), (["rack", HOST],), (["block", "rack"], ["row", HOST])])
def test_levels_come_back_as_they_were(levels: tuple[list[str], ...]) -> None:
    def node(name: str, **labels: str) -> Node:
        return Node(name=NodeName(name), allocatable=Resources({"cpu": 1}), labels=labels)

    nodes = [
        node("a", rack="r2", block="b1", **{HOST: "z"}),
        node("b", rack="r2", row="w1", block="b1", **{HOST: "y"}),
        node("c", rack="r1", row="w1"),
        node("d", row="w2"),
    ]
    snapshot = Snapshot(now=1, queues={}, nodes=NodeTable.build(nodes, levels), pending={}, admissions={})

    assert comparable(load(save(snapshot, NOTHING_CHANGES)).snapshot) == comparable(snapshot)


@in_worlds(60)
@given(snapshots())
def test_a_saved_turn_is_decided_as_before(snapshot: Snapshot) -> None:
    plan, _ = decide(snapshot, Memo())

    saved = load(save(snapshot, plan))
    again, _ = decide(saved.snapshot, Memo())

    assert save(saved.snapshot, again) == save(snapshot, plan)


@in_worlds(20)
@given(snapshots())
def test_the_plan_does_not_depend_on_the_order_of_the_input_or_on_the_memo(snapshot: Snapshot) -> None:
    plan, memo = decide(snapshot, Memo())
    mappings = ("queues", "pending", "admissions", "holders", "claims", "ended", "evictable")
    other: dict[str, Any] = {name: dict(reversed(getattr(snapshot, name).items())) for name in mappings}
    turned = replace(snapshot, **other)

    expected = save(snapshot, plan)
    assert save(snapshot, decide(turned, Memo())[0]) == expected
    assert save(snapshot, decide(turned, memo)[0]) == expected


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved turn with something to decide."""
    case = gang_trace.load(folder(tmp_path_factory.mktemp("case"), *busy()))
    simulation = Simulation(case, rules.under(rules.DEFAULT, case.queues))
    snapshot, plan = max(
        simulation.turns(), key=lambda each: (len(each[1].admits) > 0) * len(each[1].reasons)
    )
    assert plan.admits
    assert plan.reasons
    file = tmp_path_factory.mktemp("turn") / "turn.json"
    file.write_bytes(save(snapshot, plan))
    return file


@pytest.mark.parametrize("seed", ["0", "1", "2026"])
def test_other_processes_with_other_hash_seeds_decide_the_same(turn: Path, seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "admission.cli.muster", "replay", str(turn)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "the same plan" in done.stdout


def test_another_plan_is_told_by_the_lines_that_differ(
    turn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = msgspec.json.decode(turn.read_bytes())
    gone = document["plan"]["admits"].pop(0)["workload"]
    refused, reason = sorted(document["plan"]["reasons"].items())[0]
    document["plan"]["reasons"][refused] = {**reason, "message": "because"}
    file = tmp_path / "other.json"
    file.write_bytes(msgspec.json.encode(document))

    assert finish(muster, "muster", ["replay", "--all", str(file)]) == 1
    told = capsys.readouterr().out
    assert f'\n+   "workload": "{gone}"' in told
    assert '\n-   "message": "because"' in told
    assert f'\n+   "message": {json.dumps(reason["message"])}' in told
    assert "another plan" in told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "no saved turn"),
        (b"[]", "no schema"),
        (b'{"schema": "muster.dev/turn/v1"}', "schema muster.dev/turn/v1"),
        (b'{"schema": "muster.dev/turn/v3", "snapshot": 3}', "snapshot: found 3, expected an object"),
        (
            b'{"schema": "muster.dev/turn/v3", "snapshot": {"now": "x"}, "plan": {}}',
            "snapshot: found a Snapshot without queues, nodes, pending, admissions",
        ),
        (
            b'{"schema": "muster.dev/turn/v3", "snapshot": {"now": 1, "queues": {}, "pending": {}, '
            b'"admissions": {}, "nodes": {}, "weather": 1}, "plan": {}}',
            "found weather in a Snapshot",
        ),
        (
            b'{"schema": "muster.dev/turn/v3", "snapshot": {"now": 1, "queues": {}, "pending": {"car": {}}, '
            b'"admissions": {}, "nodes": {}}, "plan": {}}',
            "found 'car', expected kind/uid",
        ),
        (
            b'{"schema": "muster.dev/turn/v3", "snapshot": {"now": 1, "queues": {}, "pending": {}, '
            b'"admissions": {}, "nodes": {}}, "plan": {}}',
            "snapshot.nodes: found {}, expected nodes, levels and layout",
        ),
        (b'{"schema": "\xe9"}', "no saved turn"),
        (b"[" * 100_000, "no saved turn"),
        (
            b'{"schema": "muster.dev/turn/v3", "snapshot": {"now": 1%s, "queues": {}, "pending": {}, '
            b'"admissions": {}, "nodes": {}}, "plan": {}}' % (b"0" * 19),
            "snapshot.now: found 10000000000000000000, expected a whole number",
        ),
    ],
)
def test_what_is_no_saved_turn_is_told_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, told: str
) -> None:
    file = tmp_path / "turn.json"
    file.write_bytes(content)

    assert finish(muster, "muster", ["replay", str(file)]) == 2
    assert told in capsys.readouterr().err


def part(document: Any, *keys: Any) -> Any:
    for key in keys:
        document = list(document.values())[key] if isinstance(document, dict) and key == 0 else document[key]
    return document


@pytest.mark.parametrize(
    ("keys", "content", "told"),
    [
        (("nodes", "layout"), None, "expected nodes, levels and layout"),
        (("nodes", "layout"), {"names": ["x"]}, "snapshot.nodes.layout: found names, expected known fields"),
        (
            ("nodes", "allocatable"),
            {"shape": [1, 1], "values": [1]},
            "found allocatable, expected known fields",
        ),
        (
            ("nodes", "nodes", 1, "allocatable"),
            {"cpu": 2**60},
            f"snapshot.nodes.nodes[1].allocatable.cpu: found {2**60}, expected at most {2**49}",
        ),
        (("nodes", "nodes", 1, "name"), "n0", "snapshot.nodes.nodes: found a node twice"),
        (
            ("pending", 0, "pod_sets", 0, "partitions"),
            [{"size": 0, "level": gang_trace.RACK}],
            "cannot be decided",
        ),
    ],
)
def test_a_turn_that_cannot_have_been_is_invalid(
    turn: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    keys: tuple[Any, ...],
    content: Any,
    told: str,
) -> None:
    document = msgspec.json.decode(turn.read_bytes())
    part(document["snapshot"], *keys[:-1])[keys[-1]] = content
    file = tmp_path / "turn.json"
    file.write_bytes(msgspec.json.encode(document))

    assert finish(muster, "muster", ["replay", str(file)]) == 2
    assert told in capsys.readouterr().err


def test_a_file_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert finish(muster, "muster", ["replay", str(tmp_path / "none.json")]) == 2
    assert "none.json: No such file" in capsys.readouterr().err


def test_another_configuration_is_told(
    turn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {**msgspec.json.decode(turn.read_bytes()), "configuration": "an-older-one"}
    file = tmp_path / "older.json"
    file.write_bytes(msgspec.json.encode(document))

    assert finish(muster, "muster", ["replay", str(file)]) == 0
    assert "decided by configuration an-older-one" in capsys.readouterr().err


def test_transitions_of_jobs_are_no_difference() -> None:
    assert list(differences({"now": 1, "jobs": [1]}, {"now": 1, "jobs": []})) == []

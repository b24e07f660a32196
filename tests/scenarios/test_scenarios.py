"""Every scenario file is played through ``decide``, turn by turn.

Form of a file: ``about`` (the sentence), ``nodes`` (``COUNT × N GPUs in rack R [linked by N] [of flavor F] [tainted
KEY] [dead|cordoned]``: NVLinks join so many GPUs; cordoned once what runs has started; in place of ``GPUs`` the name of
a resource, several with ``and`` between them), ``queues`` (deserved, guarantee, capability in GPUs or by resource, the
same for each of its ``flavors``, and fields of ``Queue``), ``running`` and ``arrives`` (``queue/name: PODS × N GPUs
[minimum M] [required rack | preferred rack] [in one island] [parts of S per rack|host] [leader of C GPUs]
[near rack R] [priority P] [tolerates KEY] [in NAMESPACE]``),
``expect`` of the first turn and ``then``, a list of further turns that may change ``queues``, let work end
(``ends``; a mapping: so many pods more of it) or arrive; ``deleted``: what runs of these is over, and its pods are
ending; ``after`` so many seconds; ``gone``: the pods of those who were taken back are gone.
``policy`` of a queue and what follows ``with`` (``FIELD=VALUE``) are fields of ``QueuePolicy`` and
``Workload``. ``allows`` of a queue: labels of the namespaces that may use it; ``namespaces``: labels by namespace.
Workloads are in namespace ``team`` unless they say another.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.plan import Plan
from queues.quota.queue import ROOT, Limits, Queue, QueuePolicy
from queues.resources import GPU, Resources, device, devices_text
from queues.workload import (
    NO_FLAVOR,
    DevicePlaces,
    FlavorName,
    NodeFilter,
    NodeName,
    Partition,
    PodSet,
    Preference,
    QueueName,
    Requirement,
    Taint,
    Toleration,
    Workload,
    WorkloadKey,
)
from tests.builders.decided_work import a_snapshot
from tests.builders.device_numbers import places_in
from tests.laws.worlds.plan_effects import apply, drained, seats_after

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
NODES = re.compile(
    r"(\d+) × (\d+ \S+(?: and \d+ \S+)*) in rack (\S+)(?: linked by (\d+))?(?: of flavor (\S+))?"
    r"(?: tainted (\S+))?( dead| cordoned)?"
)
WORK = re.compile(
    r"(\d+) × (\d+) (\S+)(?: minimum (\d+))?(?: (required|preferred) rack)?( in one island)?"
    r"(?: parts of (\d+) per (rack|host))?(?: leader of (\d+) GPUs)?(?: near rack (\S+))?"
    r"(?: priority (\d+))?(?: tolerates (\S+))?(?: in (\S+))?(?: with (.+))?"
)
LIMITS = ("guarantee", "deserved", "capability")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_story_holds(path: Path) -> None:
    story = yaml.safe_load(path.read_text())
    assert story["about"].endswith(".")
    snapshot = started(story)
    memo = Memo()
    for turn in [story, *story.get("then", [])]:
        snapshot = changed(snapshot, turn)
        plan, memo = decide(snapshot, memo)
        assert told(turn["expect"], snapshot, plan) == turn["expect"]
        snapshot = apply(snapshot, plan)


def test_there_are_stories() -> None:
    assert len(FILES) >= 12


def started(story: dict[str, Any]) -> Snapshot:
    """The world before anything of the story arrives: what runs was admitted in turns of its own."""
    snapshot = a_snapshot(queues=[], nodes=NodeTable.build(nodes(story["nodes"]), [("rack", HOST)]), now=1000)
    # What runs came when nothing was limited yet.
    snapshot = changed(snapshot, {"queues": {name.split("/")[0]: {} for name in story.get("running", {})}})
    for name, text in story.get("running", {}).items():
        snapshot = changed(snapshot, {"arrives": {name: text}})
        plan, _ = decide(replace(snapshot, holders={}), Memo())
        assert {admit.workload.uid for admit in plan.admits} == {name}
        holders = {**snapshot.holders, **snapshot.pending}
        snapshot = replace(snapshot, holders=holders)
        snapshot = apply(snapshot, plan)
    used = {name: snapshot.nodes[name][1] for name in snapshot.nodes.layout.names}
    now = [replace(node, used=used[node.name]) for node in nodes(story["nodes"], cordoned=True)]
    return replace(snapshot, nodes=NodeTable.build(now, [("rack", HOST)]))


def changed(snapshot: Snapshot, turn: dict[str, Any]) -> Snapshot:
    arrived = len(snapshot.pending) + len(snapshot.admissions)
    new = [
        workload(name, text, arrived + i) for i, (name, text) in enumerate(turn.get("arrives", {}).items())
    ]
    snapshot = replace(snapshot, now=snapshot.now + turn.get("after", 0))
    if turn.get("gone"):
        snapshot = drained(snapshot)
    ends = turn.get("ends", [])
    over = {
        number: frozenset(index for index in range(len(admission.seats)) if index not in admission.ended)
        for number, admission in snapshot.admissions.items()
        if admission.workload.uid in ends
    }
    if isinstance(ends, dict):
        named = {number: snapshot.admissions[number].workload.uid for number in over}
        over = {number: frozenset(sorted(seats)[: ends[named[number]]]) for number, seats in over.items()}
    leaving = {
        number: snapshot.now
        for number, admission in snapshot.admissions.items()
        if admission.workload.uid in turn.get("deleted", [])
    }
    return replace(
        snapshot,
        queues=queues(turn["queues"]) if "queues" in turn else snapshot.queues,
        namespaces=turn.get("namespaces", snapshot.namespaces),
        pending={**snapshot.pending, **{each.key: each for each in new}},
        ended=over,
        leaving={**snapshot.leaving, **leaving},
    )


def told(wanted: dict[str, Any], snapshot: Snapshot, plan: Plan) -> dict[str, Any]:
    """What the plan says about the things that are expected."""
    held = {key.uid: seats for key, seats in seats_after(snapshot, plan).items()}
    reasons = {key.uid: reason for key, reason in plan.reasons.items()}
    layout = snapshot.nodes.layout
    rack = {name: layout.labels.of(layout.position[name])["rack"] for name in layout.names}
    found = {
        "admits": sorted({admit.workload.uid for admit in plan.admits}),
        "because": {
            snapshot.admissions[evict.admission].workload.uid: str(evict.code) for evict in plan.evicts
        },
        "evicts": sorted(snapshot.admissions[evict.admission].workload.uid for evict in plan.evicts),
        "waits": {name: str(reason.code) for name, reason in reasons.items()},
        "says": {name: reasons[name].message for name in wanted.get("says", {}) if name in reasons},
        "seats": {name: len(held.get(name, ())) for name in wanted.get("seats", {})},
        "devices": {
            name: [devices_text(seat.takes) for seat in held[name]] for name in wanted.get("devices", {})
        },
        "racks": {name: len({rack[seat.node] for seat in held[name]}) for name in wanted.get("racks", {})},
    }
    return {question: found[question] for question in wanted}


def nodes(lines: list[str], *, cordoned: bool = False) -> list[Node]:
    made = []
    for line in lines:
        match = NODES.fullmatch(line)
        assert match is not None, line
        count, devices, rack, linked, flavor, taint, state = match.groups()
        offered = dict(amount_of(each) for each in devices.split(" and "))
        gpus = offered.get(GPU, 0) // 1000
        each = int(linked or gpus or 1)
        places = places_in(*(range(first, first + each) for first in range(0, gpus, each)))
        numbered = {device(GPU, place.number): 1000 for place in places} if linked else {}
        for _ in range(int(count)):
            name = NodeName(f"n{len(made)}")
            made.append(
                Node(
                    name=name,
                    allocatable=Resources({**offered, "pods": 110, **numbered}),
                    labels={"rack": rack, HOST: name},
                    flavor=FlavorName(flavor) if flavor else NO_FLAVOR,
                    taints=(Taint(taint, "", "NoSchedule"),) if taint else (),
                    usable=state is None or (state == " cordoned" and not cordoned),
                    devices=(DevicePlaces(resource=GPU, each=places),) if linked else (),
                )
            )
    return made


def amount_of(text: str) -> tuple[str, int]:
    """``8 GPUs`` or ``4 nvidia.com/h100``, as the resource and its thousandths."""
    number, what = text.split(" ")
    return GPU if what == "GPUs" else what, int(number) * 1000


def limit(written: int | dict[str, int]) -> dict[str, int]:
    """GPUs, or amounts by resource, in thousandths."""
    by_resource = written if isinstance(written, dict) else {GPU: written}
    return {resource: number * 1000 for resource, number in by_resource.items()}


def limits(fields: dict[str, Any]) -> Limits:
    amounts = {kind: limit(fields[kind]) for kind in LIMITS if kind in fields}
    return Limits(**{**amounts, "guarantee": Resources(amounts.get("guarantee", {}))})


def queues(written: dict[str, dict[str, Any]]) -> dict[QueueName, Queue]:
    made = {}
    for name, fields in written.items():
        rest = {field: value for field, value in fields.items() if field not in LIMITS}
        if "allows" in rest:
            allowed = rest.pop("allows").items()
            rest["namespace_selector"] = tuple(Requirement(key, "In", (value,)) for key, value in allowed)
        if "policy" in rest:
            rest["policy"] = QueuePolicy(**rest["policy"])
        of_flavors = {FlavorName(flavor): limits(each) for flavor, each in rest.pop("flavors", {}).items()}
        given = {"parent": ROOT, "limits": limits(fields), "flavors": of_flavors, **rest}
        made[QueueName(name)] = Queue(name=QueueName(name), **given)
    return made


def workload(name: str, text: str, arrival: int) -> Workload:
    match = WORK.fullmatch(text)
    assert match is not None, text
    pods, amount, what, minimum, rack, island, size, level, leader, near, priority, tolerates, *rest = (
        match.groups()
    )
    namespace, more = rest
    given = dict(each.split("=") for each in (more or "").split())
    fields = {
        field: value == "yes" if value in ("yes", "no") else int(value) for field, value in given.items()
    }
    takes = Resources({GPU if what == "GPUs" else what: int(amount) * 1000, "pods": 1})
    tolerations = (Toleration(key=tolerates, operator="Exists"),) if tolerates else ()
    main = PodSet(
        name="main",
        count=int(pods),
        takes=takes,
        nodes=NodeFilter(tolerations=tolerations),
        required_topology="rack" if rack == "required" else None,
        preferred_topology="rack" if rack == "preferred" else None,
        partitions=(Partition(size=int(size), level="rack" if level == "rack" else HOST),) if size else (),
        prefers=(Preference(1, (Requirement("rack", "In", (near,)),)),) if near else (),
        together="all" if leader else None,
        in_one_island=island is not None,
    )
    first = replace(main, name="leader", count=1, takes=Resources({GPU: int(leader or 0) * 1000, "pods": 1}))
    return Workload(
        key=WorkloadKey(kind_names.VOLCANO_JOB, name),
        namespace=namespace or "team",
        name=name.split("/")[1],
        queue=QueueName(name.split("/", maxsplit=1)[0]),
        priority=int(priority or 0),
        arrival=arrival,
        **{"created": 1000, **fields},  # type: ignore[arg-type]
        minimum=int(minimum or pods) + bool(leader),
        pod_sets=(first, main) if leader else (main,),
    )

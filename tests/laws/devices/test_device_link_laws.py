"""Devices that are linked: which a pod gets, against every other choice; and that none is given out twice."""

from collections import Counter
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes import device_links
from admission.engine.nodes.table import Node
from admission.engine.snapshot import Snapshot
from queues.admissions import Seat
from queues.plan import Plan
from queues.quota.queue import Queue
from queues.resources import CPU, GPU, PODS, WHOLE, Resources, device
from queues.workload import DevicePlace, DevicePlaces, DeviceShare, NodeName, PodSet, QueueName, Workload
from tests.builders.decided_work import a_snapshot
from tests.builders.device_numbers import devices_in, gpu_workload
from tests.laws.worlds.settings import in_worlds

Score = tuple[int, list[int], int, int]


@st.composite
def places(draw: st.DrawFn) -> tuple[DevicePlace, ...]:
    """At most eight devices of a node. Root complexes lie in one NUMA node each; islands wherever they like."""
    numbers = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=8)))
    islands = draw(st.integers(1, 8))
    numa_of = [draw(st.sampled_from([0, 0, 1, None])) for _ in range(5)]
    found = []
    for number in numbers:
        root = draw(st.integers(0, 4))
        found.append(DevicePlace(number, draw(st.integers(1, islands)), f"pci{root}", numa_of[root]))
    return tuple(found)


def score(chosen: tuple[int, ...], free: frozenset[int], of_node: tuple[DevicePlace, ...]) -> Score:
    """The smaller the better: islands, what is left of them (the most first), root complexes, NUMA nodes."""
    mine = [place for place in of_node if place.number in chosen]
    rest = Counter(place.island for place in of_node if place.number in free - set(chosen))
    left = sorted(-units for units in rest.values())
    return (
        len({place.island for place in mine}),
        left,
        len({place.bus for place in mine}),
        len({place.numa for place in mine}),
    )


@in_worlds(400)
@given(places(), st.data())
def test_no_choice_of_devices_is_linked_better(of_node: tuple[DevicePlace, ...], data: Any) -> None:
    free = frozenset(data.draw(st.sets(st.sampled_from([each.number for each in of_node]), min_size=1)))
    count = data.draw(st.integers(1, len(free)))

    chosen = device_links.best_linked.__wrapped__(free, of_node, count)

    assert len(set(chosen)) == count
    assert set(chosen) <= free
    others = (score(each, free, of_node) for each in combinations(sorted(free), count))
    assert score(chosen, free, of_node) == min(others)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    """Nodes with several islands, with one, and without reports; some share their devices in parts."""
    made = []
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["islands", "islands", "shared islands", "one island", "unreported"]))
        each = draw(places())
        rows, places_here = {}, ()
        if "islands" in kind and len({place.island for place in each}) > 1:
            places_here = each
            rows = {device(GPU, place.number): WHOLE for place in each}
        held = draw(st.sets(st.sampled_from(sorted(rows)))) if rows else set[str]()
        # Devices of which it is not known which ones pods hold.
        unknown = min(draw(st.sampled_from([0, 0, 1])), len(each) - len(held))
        used = {GPU: (len(held) + unknown) * WHOLE, **dict.fromkeys(held, WHOLE)}
        reported = DevicePlaces(
            resource=GPU, each=places_here, in_parts=kind == "shared islands" and bool(rows)
        )
        made.append(
            Node(
                name=NodeName(f"n{number}"),
                allocatable=Resources({CPU: 16_000, PODS: 30, GPU: len(each) * WHOLE, **rows}),
                used=Resources(used),
                devices=() if kind == "unreported" else (reported,),
            )
        )
    return made


@st.composite
def workloads(draw: st.DrawFn) -> list[Workload]:
    """Gangs and single pods of whole devices, in one island or not, and of parts."""
    made = []
    for number in range(draw(st.integers(1, 8))):
        gpus, linked = draw(st.integers(1, 4)), draw(st.booleans())
        made.append(gpu_workload(number, gpus, count=draw(st.sampled_from([1, 1, 2, 3])), linked=linked))
        if draw(st.integers(0, 4)) == 2:
            share = DeviceShare(devices=draw(st.integers(1, 2)), milli=400)
            takes = Resources({CPU: 1000, PODS: 1, GPU: share.devices * 400})
            made.append(_with(made.pop(), PodSet(name="main", count=1, takes=takes, share=share)))
    return made


def _with(workload: Workload, pods: PodSet) -> Workload:
    return Workload(
        key=workload.key,
        namespace="team",
        name=workload.name,
        queue=workload.queue,
        arrival=workload.arrival,
        minimum=pods.count,
        pod_sets=(pods,),
    )


def decided(of_cluster: list[Node], pending: list[Workload]) -> tuple[Snapshot, Plan]:
    """One turn."""
    snapshot = a_snapshot(*pending, queues=[Queue(name=QueueName("q"))], nodes=of_cluster, now=1)
    return snapshot, decide(snapshot, Memo())[0]


def seats_on(plan: Plan, node: NodeName) -> list[Seat]:
    """Seats of a plan on one node."""
    return [seat for admit in plan.admits for seat in admit.seats if seat.node == node]


@in_worlds(150)
@given(nodes(), workloads())
def test_no_linked_device_is_given_out_twice(of_cluster: list[Node], pending: list[Workload]) -> None:
    snapshot, plan = decided(of_cluster, pending)
    for node in of_cluster:
        offered, used = snapshot.nodes[node.name]
        for seat in seats_on(plan, node.name):
            used += seat.takes
            named = len(devices_in(seat.takes, GPU))
            asked = snapshot.pending[_owner(plan, seat)].pod_sets[0]
            parts = asked.share.devices if asked.share is not None else asked.takes[GPU] // WHOLE
            assert named == (parts if node.devices and node.devices[0].each else 0)
        assert all(units <= offered[resource] for resource, units in used.items())


def _owner(plan: Plan, seat: Seat) -> Any:
    return next(admit.workload for admit in plan.admits if any(each is seat for each in admit.seats))


@in_worlds(150)
@given(nodes(), workloads())
def test_devices_of_a_pod_that_asks_for_one_island_are_in_one(
    of_cluster: list[Node], pending: list[Workload]
) -> None:
    _, plan = decided(of_cluster, pending)
    at = {node.name: node for node in of_cluster}
    asked = {each.key: each.pod_sets[0] for each in pending}
    for admit in plan.admits:
        pods = asked[admit.workload]
        for seat in admit.seats if pods.in_one_island and pods.takes[GPU] > WHOLE else ():
            [links] = at[seat.node].devices
            numbers = devices_in(seat.takes, GPU)
            assert len({place.island for place in links.each if place.number in numbers}) <= 1


@in_worlds(150)
@given(nodes(), st.integers(1, 4), st.booleans(), st.booleans())
def test_as_many_pods_of_whole_devices_fit_as_there_is_room_for(
    of_cluster: list[Node], gpus: int, linked: bool, alone: bool
) -> None:
    expected = sum(_room(node, gpus, linked) for node in of_cluster)
    count = 1 if alone else max(expected, 1)
    _, plan = decided(of_cluster, [gpu_workload(n, gpus, count=count, linked=linked) for n in range(26)])
    assert sum(len(admit.seats) for admit in plan.admits) == expected


def _room(node: Node, gpus: int, linked: bool) -> int:
    """By the plain rule: devices of which it is not known which ones are held may be anywhere."""
    free = (node.allocatable - node.used)[GPU] // WHOLE
    if not linked or gpus == 1:
        return free // gpus
    if not node.devices:
        return 0
    [links] = node.devices
    if not links.each:
        return free // gpus
    untouched = Counter(place.island for place in links.each if not node.used[device(GPU, place.number)])
    unknown = untouched.total() - free
    return min(sum(max(0, units - unknown) // gpus for units in untouched.values()), free // gpus)


@in_worlds(100)
@given(nodes(), workloads())
def test_no_islands_are_split_though_one_has_room(of_cluster: list[Node], pending: list[Workload]) -> None:
    snapshot, plan = decided(of_cluster, pending[:1])
    for admit in plan.admits:
        seen = {node.name: node.used for node in of_cluster}
        for seat in admit.seats:
            node = next(node for node in of_cluster if node.name == seat.node)
            pods = snapshot.pending[admit.workload].pod_sets[0]
            numbers = devices_in(seat.takes, GPU)
            if node.devices and node.devices[0].each and pods.share is None:
                free = Counter(
                    each.island
                    for each in node.devices[0].each
                    if not seen[node.name][device(GPU, each.number)]
                )
                islands = {place.island for place in node.devices[0].each if place.number in numbers}
                assert len(islands) == 1 or max(free.values()) < len(numbers)
            seen[node.name] += seat.takes

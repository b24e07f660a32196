"""The measure of fragmentation against its definition, and devices against a slow count."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.decide import Memo, decide
from admission.engine.nodes.demand import Demand, Shape, Typical, most_frequent, shape_of
from admission.engine.nodes.devices import devices_of
from admission.engine.nodes.fragmentation import STEP, FragmentationGauge
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Seat
from queues.plan import Plan
from queues.quota.queue import Queue
from queues.resources import CPU, GPU, PODS, WHOLE, Resources, device, is_device
from queues.workload import (
    EVERYWHERE,
    DeviceShare,
    NodeFilter,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
)
from tests.builders.decided_work import a_snapshot
from tests.builders.device_numbers import devices_in

_BIG = NodeFilter(selector=(("kind", "big"),))


@st.composite
def _nodes(draw: st.DrawFn) -> list[Node]:
    """Nodes that share their devices, begun here and there."""
    nodes = []
    for number in range(draw(st.integers(1, 4))):
        left = draw(st.lists(st.sampled_from([0, 100, 300, 530, 810, 1000]), min_size=1, max_size=4))
        cpu = draw(st.sampled_from([0, 1000, 4000, 16_000]))
        rows = {device(GPU, index): WHOLE for index in range(len(left))}
        # A device that is given out whole is nobody's in particular.
        used = {device(GPU, index): WHOLE - each for index, each in enumerate(left) if each}
        nodes.append(
            Node(
                name=NodeName(f"n{number}"),
                allocatable=Resources({CPU: 16_000, PODS: 50, GPU: len(left) * WHOLE, **rows}),
                used=Resources({CPU: 16_000 - cpu, GPU: len(left) * WHOLE - sum(left), **used}),
                labels={"kind": draw(st.sampled_from(["big", "small"]))},
            )
        )
    return nodes


@st.composite
def _pods(draw: st.DrawFn) -> PodSet:
    """A pod that asks for nothing, a part, parts, or whole devices."""
    devices, milli = draw(
        st.sampled_from([(0, 0), (1, 250), (1, 470), (1, 810), (2, 300), (1, 1000), (2, 1000)])
    )
    share = DeviceShare(devices=devices, milli=milli) if 0 < milli < WHOLE else None
    return PodSet(
        name="main",
        count=1,
        takes=Resources({CPU: draw(st.sampled_from([500, 2000])), PODS: 1, GPU: devices * milli}),
        nodes=draw(st.sampled_from([EVERYWHERE, _BIG])),
        share=share,
    )


def _fragmentation(left: list[int], cpu: int, node: Node, shapes: Typical) -> int:
    """The definition, times all pods that were counted (field.md, FGD)."""
    lost = 0
    for shape, count in shapes.shapes:
        chosen = all(node.labels.get(key) == value for key, value in shape.nodes.selector)
        holds = sum(each >= shape.milli for each in left) >= shape.devices
        if shape.devices and chosen and cpu >= shape.cpu and holds:
            lost += count * sum(each for each in left if each < shape.milli)
        else:
            lost += count * sum(left)
    return lost


def _ways(left: list[int], shape: Shape) -> list[list[int]]:
    """What can be left of the devices once the pod has its part."""
    if shape.devices != 1:
        fitting = sorted((each, index) for index, each in enumerate(left) if each >= shape.milli)
        taken = {index for _, index in fitting[: shape.devices]}
        enough = len(taken) == shape.devices
        return [[each - shape.milli * (index in taken) for index, each in enumerate(left)]] if enough else []
    return [
        [other - shape.milli * (place == index) for place, other in enumerate(left)]
        for index, each in enumerate(left)
        if each >= shape.milli
    ]


@given(_nodes(), st.lists(st.tuples(_pods(), st.integers(1, 9)), min_size=1, max_size=6), _pods())
def test_costs_order_nodes_as_the_definition_does(
    nodes: list[Node], counts: list[tuple[PodSet, int]], pods: PodSet
) -> None:
    shapes: dict[Shape, int] = {}
    for each, count in counts:
        shape = shape_of(each)
        assert shape is not None
        shapes[shape] = shapes.get(shape, 0) + count
    known = most_frequent(shapes.items())
    table = NodeTable.build(nodes)
    gauge = FragmentationGauge.over(
        known, table, devices_of(table.resources, table.allocatable, table.layout.links)
    )
    asked = shape_of(pods)
    assert asked is not None
    if gauge is None:
        assert not any(shape.devices for shape in shapes)
        return
    costs, _ = gauge.costs(asked, table.allocatable - table.used)
    expected = {}
    weight = sum(shapes.values())
    for column, name in enumerate(table.layout.names):
        node = next(each for each in nodes if each.name == name)
        cpu = node.allocatable[CPU] - node.used[CPU]
        left = [WHOLE - node.used[device(GPU, index)] for index in range(node.allocatable[GPU] // WHOLE)]
        # What is counted and named by no device is given out whole: the first untouched ones.
        whole = (sum(left) - (node.allocatable[GPU] - node.used[GPU])) // WHOLE
        for index, parts in enumerate(left):
            if parts == WHOLE and whole > 0:
                left[index], whole = 0, whole - 1
        before = _fragmentation(left, cpu, node, known)
        steps = [
            (-((before - _fragmentation(after, cpu - asked.cpu, node, known)) // (weight * STEP)), sum(after))
            for after in _ways(left, asked)
        ]
        if steps and cpu >= asked.cpu:
            expected[column] = (*min(steps), cpu - asked.cpu)
    for one, other in product(expected, expected):
        assert (costs[one] < costs[other]) == (expected[one] < expected[other])


def _decided(nodes: list[Node], pods: list[PodSet], known: Typical | None) -> tuple[Snapshot, Plan]:
    pending = [
        Workload(
            key=WorkloadKey(kind_names.POD, f"{number:03}"),
            namespace="team",
            name=f"pod-{number}",
            queue=QueueName("q"),
            arrival=number,
            minimum=1,
            pod_sets=(each,),
        )
        for number, each in enumerate(pods)
    ]
    snapshot = a_snapshot(*pending, queues=[Queue(name=QueueName("q"))], nodes=nodes, now=1, typical=known)
    return snapshot, decide(snapshot, Memo())[0]


@given(_nodes(), st.lists(_pods(), min_size=1, max_size=8), st.booleans())
def test_no_device_is_given_out_twice(nodes: list[Node], pods: list[PodSet], learned: bool) -> None:
    demand = Demand()
    for each in pods:
        demand.count(each, 2)
    snapshot, plan = _decided(nodes, pods, demand.typical() if learned else None)
    seats: list[Seat] = [seat for admit in plan.admits for seat in admit.seats]
    for name in snapshot.nodes.layout.names:
        offered, used = snapshot.nodes[name]
        for seat in seats:
            used = used + seat.takes if seat.node == name else used
        assert all(units <= offered[resource] for resource, units in used.items())
        parts = {each: used[each] for each in offered if is_device(each)}
        begun = sum(1 for units in parts.values() if units)
        whole = (used[GPU] - sum(parts.values())) // WHOLE
        assert begun + whole <= offered[GPU] // WHOLE
    for seat, each in (
        (seat, pods[int(admit.workload.uid)]) for admit in plan.admits for seat in admit.seats
    ):
        assert len(devices_in(seat.takes, GPU)) == (each.share.devices if each.share else 0)


@given(_nodes(), st.lists(_pods(), min_size=2, max_size=6))
def test_a_memo_that_has_seen_other_turns_decides_the_same(nodes: list[Node], pods: list[PodSet]) -> None:
    demand = Demand()
    for each in pods:
        demand.count(each, 3)
    snapshot, plan = _decided(nodes, pods, demand.typical())
    half = dict(list(snapshot.pending.items())[:1])
    before = Snapshot(
        now=1,
        queues=snapshot.queues,
        nodes=snapshot.nodes,
        pending=half,
        admissions={},
        typical=snapshot.typical,
    )
    assert decide(snapshot, decide(before, Memo())[1])[0] == plan


@given(st.lists(st.tuples(_pods(), st.integers(1, 40)), max_size=12), st.randoms(use_true_random=False))
def test_what_is_typical_depends_on_who_is_there_alone(counts: list[tuple[PodSet, int]], random) -> None:  # type: ignore[no-untyped-def]
    straight, winding = Demand(), Demand()
    for each, count in counts:
        straight.count(each, count)
    shuffled = list(counts)
    random.shuffle(shuffled)
    for each, count in shuffled:
        winding.count(each, count + 5)
        winding.typical()
        winding.count(each, -5)
    assert winding.typical() == straight.typical()


def test_free_amounts_that_change_are_followed() -> None:
    node = Node(
        name=NodeName("n"),
        allocatable=Resources({CPU: 8000, GPU: 2000, device(GPU, 0): 1000, device(GPU, 1): 1000}),
    )
    table = NodeTable.build([node])
    shape = Shape(cpu=1000, resource=GPU, devices=1, milli=500)
    gauge = FragmentationGauge.over(
        Typical(shapes=((shape, 1),)),
        table,
        devices_of(table.resources, table.allocatable, table.layout.links),
    )
    assert gauge is not None
    _, first = gauge.costs(shape, table.allocatable)
    later = table.with_used({NodeName("n"): Resources({GPU: 500, device(GPU, 1): 500})})
    _, then = gauge.costs(shape, later.allocatable - later.used)
    assert (first.tolist(), then.tolist()) == ([1000], [500])
    assert np.array_equal(gauge.costs(shape, table.allocatable)[1], first)

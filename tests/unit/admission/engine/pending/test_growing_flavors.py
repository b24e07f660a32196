"""What nodes that an autoscaler can add (``mayGrow`` of ResourceFlavors) change about what can never be admitted."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from admission.replay.snapshot_file import load, replayed_plan, save
from queues.flavor_growth import FlavorGrowth
from queues.plan import NODES_REFUSED, Reason
from queues.quota.queue import Limits, ProvisioningRules, Queue
from queues.reason_codes import ReasonCode
from queues.resources import CPU, GPU, MEMORY, Resources
from queues.workload import FlavorName, NodeFilter, PodSet, Requirement, Workload
from tests.builders.decided_work import a_snapshot, admitted, plan_of, waiting
from tests.builders.decided_work import gpu_pods as pods
from tests.unit.admission.engine.pending.test_never_fits import GI, NODES, RACK, Q, node, work

H100, H200 = FlavorName("h100"), FlavorName("h200")
ASKING = ProvisioningRules(class_name="check-capacity")
#: Eight nodes of 8 GPUs.
OF_H100 = tuple(replace(each, flavor=H100, labels={**each.labels, "gpu": "h100"}) for each in NODES)


def growth(flavor: FlavorName = H100, **largest: int) -> FlavorGrowth:
    """What can be added to a flavor; nothing given: the flavor does not state it."""
    amounts = {GPU: largest["gpus"] * 1000} if "gpus" in largest else {}
    amounts |= {MEMORY: largest["gi"] * GI} if "gi" in largest else {}
    return FlavorGrowth(flavor=flavor, labels={"gpu": flavor}, largest=amounts or None)


def queue(*flavors: FlavorName, asks: bool = False, **more: Any) -> Queue:
    named = {each: Limits() for each in flavors}
    return Queue(name=Q, flavors=named, provisioning=ASKING if asks else None, **more)


def snapshot(
    asked: Workload, of: Queue, *may_grow: FlavorGrowth, nodes: tuple[Node, ...] = OF_H100
) -> Snapshot:
    return a_snapshot(
        asked, queues=[of], nodes=NodeTable.build(nodes, [(RACK, HOST)], growth=may_grow), now=10_000
    )


def why(asked: Workload, of: Queue, *may_grow: FlavorGrowth, nodes: tuple[Node, ...] = OF_H100) -> Reason:
    state = snapshot(asked, of, *may_grow, nodes=nodes)
    plan = plan_of(state)
    saved = load(save(state, plan))
    assert replayed_plan(saved) == saved.plan, "it is part of a saved turn"
    return plan.reasons[asked.key]


def never(reason: Reason) -> str:
    return reason.message if reason.code is ReasonCode.NEVER_FITS else ""


NINE = "9 nvidia.com/gpu asked in one pod, the largest node has 8"
ADDED = ", the largest that can be added has"


@pytest.mark.parametrize(("asks", "named"), [*product((False, True), (False, True))])
def test_every_size_of_a_pod_and_of_what_may_be_added(asks: bool, named: bool) -> None:
    """The table of the rule: a node of 8 exists, and one with so many can be added (None: the flavor states none)."""
    of = queue(H100, asks=asks) if named else queue(asks=asks)
    for asked, largest in product((1, 8, 9, 16, 17), (None, 4, 8, 16)):
        one = work(pods(gpus=asked))
        state = snapshot(one, of, growth() if largest is None else growth(gpus=largest))
        reason = plan_of(state).reasons.get(one.key)
        fits_a_node = asked <= 8
        may_come = asks if largest is None else asked <= largest
        assert (reason is None) == fits_a_node
        is_never = reason is not None and reason.code is ReasonCode.NEVER_FITS
        assert is_never == (not fits_a_node and not may_come), (asked, largest)
        if is_never:
            added = "" if largest is None else f"{ADDED} {largest}"
            assert reason.message == f"{asked} nvidia.com/gpu asked in one pod, the largest node has 8{added}"
        elif reason is not None:
            assert reason.code is ReasonCode.NO_FIT


def test_so_many_nodes_may_come_as_are_needed(golden: Any) -> None:
    gang = work(pods(50, 8))
    assert never(why(gang, queue(H100)))
    assert why(gang, queue(H100), growth(gpus=8)).code is ReasonCode.NO_FIT
    assert never(why(gang, queue(H100), growth(gpus=4))) == golden
    rack = work(pods(5, 8, required_topology=RACK))
    assert never(why(rack, queue(H100)))
    assert not never(why(rack, queue(H100), growth(gpus=8)))


def test_limits_bind_what_may_come_too() -> None:
    limited = Queue(name=Q, flavors={H100: Limits(capability={GPU: 100_000})}, provisioning=ASKING)
    assert why(work(pods(12, 8)), limited, growth(gpus=8)).code is ReasonCode.NO_FIT
    assert never(why(work(pods(13, 8)), limited, growth(gpus=8))) == (
        "104 nvidia.com/gpu of flavor h100 asked, queue q may use 100"
    )


def test_one_flavor_that_states_nothing_may_grow_to_any_size_where_nodes_are_asked_for() -> None:
    nine = work(pods(gpus=9))
    assert never(why(nine, queue(H100, H200, asks=True), growth(gpus=8), growth(H200, gpus=8)))
    assert not never(why(nine, queue(H100, H200, asks=True), growth(gpus=8), growth(H200)))
    assert not never(why(nine, queue(H100, H200, asks=True), growth(gpus=8)))
    # Of a queue that names no flavor nodes without a flavor may come, if there are any.
    assert never(why(nine, queue(asks=True), growth(gpus=8)))
    assert not never(why(nine, queue(asks=True), growth(gpus=8), nodes=(*OF_H100, node(8))))
    # Where nodes are not asked for, nothing is known to come but what is stated.
    assert never(why(nine, queue(H100, H200), growth(gpus=8), growth(H200)))
    assert not never(why(nine, queue(H100, H200), growth(gpus=8), growth(H200, gpus=16)))
    # Flavors of other queues add nothing.
    assert never(why(nine, queue(H100), growth(gpus=8), growth(H200, gpus=16))) == f"{NINE}{ADDED} 8"


@pytest.mark.parametrize(
    ("nodes", "may_come"),
    [
        (NodeFilter(), True),
        (NodeFilter(selector=(("gpu", "h100"),)), True),
        (NodeFilter(selector=(("gpu", "h200"),)), False),
        (NodeFilter(selector=(("zone", "b"),)), True),
        (NodeFilter(affinity=((Requirement("gpu", "In", ("h200", "h100")),),)), True),
        (NodeFilter(affinity=((Requirement("gpu", "NotIn", ("h100",)),),)), False),
        (NodeFilter(affinity=((Requirement("gpu", "DoesNotExist"),),)), False),
        (NodeFilter(affinity=((Requirement("gpu", "DoesNotExist"),), (Requirement("zone", "Exists"),))), True),
    ],
)  # fmt: skip
def test_labels_of_a_flavor_are_those_of_its_nodes_to_come(nodes: NodeFilter, may_come: bool) -> None:
    asked = work(pods(gpus=9, nodes=nodes))
    for asks in (False, True):
        assert bool(never(why(asked, queue(H100, asks=asks), growth(gpus=16)))) == (not may_come)


@pytest.mark.parametrize(
    ("takes", "largest", "message"),
    [
        ({GPU: 9000, CPU: 1000}, {GPU: 16_000}, ""),
        ({GPU: 9000, CPU: 99_000}, {GPU: 16_000, CPU: 64_000}, f"{NINE}{ADDED} 64 cpu"),
        ({GPU: 9000, MEMORY: 600 * GI}, {GPU: 16_000, MEMORY: 512 * GI}, f"{NINE}{ADDED} 512Gi memory"),
        ({MEMORY: 600 * GI}, {GPU: 16_000}, ""),
        ({GPU: 9000}, {CPU: 64_000}, f"{NINE}{ADDED} 0"),
    ],
)  # fmt: skip
def test_devices_that_are_not_stated_are_not_there_and_all_else_has_no_bound(
    takes: Mapping[str, int], largest: Mapping[str, int], message: str
) -> None:
    asked = work(pods(takes=Resources({**takes, "pods": 1})))
    stated = FlavorGrowth(flavor=H100, labels={"gpu": "h100"}, largest=largest)
    assert never(why(asked, queue(H100), stated)) == message


def test_a_pool_that_is_scaled_to_zero_has_a_largest_node_too() -> None:
    others = Resources({CPU: 64_000, MEMORY: 512 * GI, "pods": 110})
    none = tuple(replace(each, allocatable=others) for each in OF_H100)
    eight, nine = work(pods(gpus=8)), work(pods(gpus=9))
    for asks in (False, True):
        of = queue(H100, asks=asks)
        assert why(eight, of, growth(gpus=8), nodes=none).code is ReasonCode.UNKNOWN_RESOURCE
        assert why(nine, of, nodes=none).code is ReasonCode.UNKNOWN_RESOURCE
        said = never(why(nine, of, growth(gpus=8), nodes=none))
        assert said == f"9 nvidia.com/gpu asked in one pod, the largest node has 0{ADDED} 8"


def test_each_set_of_a_gang_is_asked_about() -> None:
    growing = growth(gpus=16)
    assert not never(why(work(pods(name="a"), pods(name="b", gpus=9)), queue(H100), growing))
    assert never(why(work(pods(name="a"), pods(name="b", gpus=17)), queue(H100), growing))
    many = work(pods(7, 8, name="a"), pods(2, 5, name="b"))
    assert never(why(many, queue(H100)))
    assert not never(why(many, queue(H100), growing))
    # What is bound to the nodes that exist still needs room on them together.
    other = NodeFilter(selector=(("gpu", "h100"),))
    stated = FlavorGrowth(flavor=H200, labels={"gpu": "h200"}, largest={GPU: 16_000})
    tied: tuple[PodSet, ...] = (pods(7, 8, name="a", nodes=other), pods(2, 5, name="b", nodes=other))
    assert never(why(work(*tied), queue(H100, H200), stated))
    assert never(why(work(*tied, pods(name="c", gpus=16)), queue(H100, H200), stated))


def test_it_returns_when_the_flavor_states_more() -> None:
    nine, of = work(pods(gpus=9)), queue(H100, asks=True)
    plan, memo = decide(snapshot(nine, of, growth(gpus=8)), Memo())
    assert plan.reasons[nine.key].code is ReasonCode.NEVER_FITS
    raised = snapshot(nine, of, growth(gpus=16))
    plan, memo = decide(raised, memo)
    assert plan.reasons[nine.key].code is ReasonCode.NO_FIT
    plan, _ = decide(snapshot(nine, of, growth(gpus=8)), memo)
    assert plan.reasons[nine.key].code is ReasonCode.NEVER_FITS


def test_it_heads_a_strict_queue_only_while_it_may_start() -> None:
    strict = queue(H100, asks=True, order="strict-fifo")
    nine = work(pods(gpus=9), name="nine", arrival=1)
    small = work(pods(), name="small", arrival=2)
    for largest, goes_in in ((8, {"small"}), (16, set[str]())):
        state = snapshot(nine, strict, growth(gpus=largest))
        plan = plan_of(replace(state, pending={nine.key: nine, small.key: small}))
        assert admitted(plan) == goes_in


REFUSED = "; nodes were asked for and refused"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (work(pods(gpus=9)), NINE),
        (work(pods(9, 8)), "9 pods of 8 nvidia.com/gpu asked at once, all nodes together hold 8 even if empty"),
        # The nodes that exist hold it: it waits for them.
        (work(pods(8, 8)), ""),
        (work(pods(takes=Resources({"amd.com/gpu": 1000, "pods": 1}))),
         "1 amd.com/gpu asked in one pod, the largest node has 0"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("may_grow", [(), (growth(gpus=16),)], ids=["any size", "to 16"])
def test_nodes_that_were_refused_for_good_do_not_come(
    asked: Workload, message: str, may_grow: tuple[FlavorGrowth, ...]
) -> None:
    full = tuple(replace(each, used=Resources({GPU: 8000})) for each in OF_H100)
    open_state = snapshot(asked, queue(H100, asks=True), *may_grow, nodes=full)
    refused = replace(open_state, without_more_nodes=frozenset((asked.key,)))
    plan, memo = decide(open_state, Memo())
    assert not never(plan.reasons[asked.key]) or "amd" in message
    plan, memo = decide(refused, memo)
    assert plan == plan_of(refused)
    assert never(plan.reasons[asked.key]) == (message + REFUSED if message else "")
    assert bool(plan.reasons[asked.key].facts.get(NODES_REFUSED)) == bool(message)
    saved = load(save(refused, plan))
    assert replayed_plan(saved) == saved.plan
    plan, _ = decide(open_state, memo)
    assert plan == plan_of(open_state)


def test_only_the_gang_that_was_refused_is_meant() -> None:
    first, second = work(pods(gpus=9), name="first"), work(pods(gpus=9), name="second", arrival=2)
    state = snapshot(first, queue(H100, asks=True))
    state = replace(state, pending={each.key: each for each in (first, second)})
    plan = plan_of(replace(state, without_more_nodes=frozenset((first.key,))))
    codes = waiting(plan)
    assert codes == {"first": ReasonCode.NEVER_FITS, "second": ReasonCode.NO_FIT}

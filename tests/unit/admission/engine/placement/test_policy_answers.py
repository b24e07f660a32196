"""What the policies of a queue do to decisions: nodes that are left out or taken first, flavors, victims."""

from dataclasses import replace
from typing import Any

import numpy as np

from admission.containment.made_up_clusters import made_up_clusters
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.plugins.interface import FlavorPolicy, PlacementNodes, PlacementPolicy, PodsRequest, Policy
from queues.plugins.interface import VictimCostPolicy as CostPolicy
from queues.quota.queue import ROOT, Limits, Queue, QueuePolicy
from queues.resources import GPU, PODS, Resources
from queues.workload import FlavorName, PodSet, QueueName
from tests.builders.plugin_policies import known

FAST, SLOW = FlavorName("fast"), FlavorName("slow")


def world(number: int = 3, **root: Any) -> Snapshot:
    """A made-up cluster in which nothing runs yet, and queues inherit what root states."""
    snapshot = list(made_up_clusters(number + 1))[number]
    queues = {each: replace(queue, flavors={}) for each, queue in snapshot.queues.items()}
    queues[ROOT] = Queue(name=ROOT, parent=None, **root)
    nodes = replace(snapshot.nodes, used=np.zeros_like(snapshot.nodes.used))
    return replace(snapshot, queues=queues, nodes=nodes, admissions={}, holders={})


def seats(snapshot: Snapshot, *policies: type[Policy]) -> list[Any]:
    with known(*policies):
        plan, _ = decide(snapshot, Memo())
        assert plan.admits
        return [seat for admit in plan.admits for seat in admit.seats]


class FastOnly(PlacementPolicy):
    """Nodes of one flavor."""

    name = "fast-only"

    def filter(self, request: PodsRequest, nodes: PlacementNodes) -> Any:
        return np.array([flavor == FAST for flavor in nodes.flavors])


class FastFirst(PlacementPolicy):
    """Nodes of one flavor first, for those who say so."""

    name = "fast-first"

    def score(self, request: PodsRequest, nodes: PlacementNodes) -> Any:
        wanted = request.hint("speed") or "slow"
        return np.array([100 * (flavor == wanted) for flavor in nodes.flavors], np.int64)


class NoneFits(FlavorPolicy):
    """No flavor will do."""

    name = "none"

    def order(self, request: PodsRequest, flavors: Any, described: Any) -> Any:
        return ()


def test_what_a_filter_leaves_out_gets_no_pods_and_the_reason_names_it() -> None:
    snapshot = world(placement="fast-only")
    assert {seat.flavor for seat in seats(snapshot, FastOnly)} == {FAST}
    with known(FastOnly):
        plan, _ = decide(snapshot, Memo())
    told = [reason.message for reason in plan.reasons.values()]
    assert any("left out by the placement fast-only" in message for message in told), told


def test_nodes_with_the_highest_score_are_taken_first_by_what_a_workload_says() -> None:
    snapshot = world(placement="fast-first")
    key, workload = next(iter(snapshot.pending.items()))
    for speed in (FAST, SLOW):
        one = replace(workload, hints=(("speed", speed),))
        assert {seat.flavor for seat in seats(replace(snapshot, pending={key: one}), FastFirst)} == {speed}


def test_flavors_are_tried_by_price_and_one_that_is_left_out_is_not_tried() -> None:
    listed = dict.fromkeys((SLOW, FAST), Limits())
    for prices, first in (('{"prices": {"fast": 1, "slow": 2}}', FAST), ('{"prices": {"slow": 2}}', SLOW)):
        snapshot = world(
            policy=QueuePolicy(flavors_by="cheapest"), plugin_parameters={"cheapest": prices}, flavors=listed
        )
        key, workload = next(iter(snapshot.pending.items()))
        one = replace(workload, minimum=1, pod_sets=(replace(workload.pod_sets[0], count=1, minimum=1),))
        assert {seat.flavor for seat in seats(replace(snapshot, pending={key: one}))} == {first}
    snapshot = world(policy=QueuePolicy(flavors_by="none"), flavors=listed)
    with known(NoneFits):
        plan, _ = decide(snapshot, Memo())
    assert not plan.admits
    assert {"none of the flavors" in reason.message for reason in plan.reasons.values()} == {True}


def test_the_victim_that_costs_least_goes() -> None:
    cheapest = [""]

    class Named(CostPolicy):
        name = "named"

        def costs(self, running: Any, now: int) -> Any:
            return [10**12 * (each.workload.name != cheapest[0]) for each in running]

    snapshot = next(iter(made_up_clusters(1)))
    own = QueueName("team-a")
    full = {key: replace(each, queue=own, priority=0) for key, each in snapshot.holders.items()}
    running = {
        number: replace(each, queue=own, priority=0, opened_at=snapshot.now - 7200)
        for number, each in snapshot.admissions.items()
    }
    small = PodSet(name="main", count=1, takes=Resources({GPU: 1000, PODS: 1}))
    one = replace(
        next(iter(snapshot.pending.values())), queue=own, priority=500, minimum=1, pod_sets=(small,)
    )
    used = np.maximum(
        snapshot.nodes.used, snapshot.nodes.allocatable * (np.array(snapshot.nodes.resources) == GPU)[:, None]
    )
    queues = {
        name: replace(queue, flavors={}, policy=QueuePolicy(victim_cost="named"))
        for name, queue in snapshot.queues.items()
    }
    snapshot = replace(
        snapshot,
        queues=queues,
        holders=full,
        admissions=running,
        pending={one.key: one},
        nodes=replace(snapshot.nodes, used=used),
    )
    gone = set()
    for cheapest[0] in sorted(each.name for each in full.values()):
        with known(Named):
            plan, _ = decide(snapshot, Memo())
        gone |= {running[each.admission].name for each in plan.evicts}
    assert len(gone) > len(plan.evicts), "other victims where others are the cheapest"

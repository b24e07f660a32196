"""Pods fit nodes with a taint that their flavor's tolerations tolerate, in queues that name the flavor."""

from collections.abc import Mapping
from dataclasses import replace

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from admission.explain.suggestions import suggestions
from admission.replay.snapshot_file import load, replayed_plan, save
from queues.plan import Plan
from queues.quota.queue import Limits, Queue
from queues.reason_codes import ReasonCode
from queues.resources import GPU
from queues.workload import FlavorName, NodeFilter, QueueName, Taint, Toleration
from tests.builders.decided_work import a_node, a_snapshot, a_workload, gpu_pods, plan_of

FAST, SLOW = FlavorName("fast"), FlavorName("slow")
GPU_ONLY, TEAM = Taint("gpu", "", "NoSchedule"), Taint("team", "a", "NoExecute")
BY_KEY = Toleration("gpu", "Exists")


def node(name: str, flavor: FlavorName, *taints: Taint, gpus: int = 8) -> Node:
    return a_node(name, {GPU: gpus * 1000, "pods": 110}, flavor=flavor, taints=taints)


def queue(name: str, *flavors: FlavorName) -> Queue:
    return Queue(name=QueueName(name), flavors=dict.fromkeys(flavors, Limits()))


QUEUES = (queue("both", FAST, SLOW), queue("slow", SLOW), queue("any"))
OF_FAST: Mapping[FlavorName, tuple[Toleration, ...]] = {FAST: (BY_KEY,)}


def decided(
    *nodes: Node, tolerations: Mapping[FlavorName, tuple[Toleration, ...]] = OF_FAST, **by_queue: int
) -> tuple[Snapshot, Plan]:
    """Work of so many pods of one device in each of these queues."""
    asked = [a_workload(name, gpu_pods(count), queue=name) for name, count in by_queue.items()]
    table = NodeTable.build(nodes, [(HOST,)], tolerations=tolerations)
    snapshot = a_snapshot(*asked, queues=QUEUES, nodes=table, now=10)
    return snapshot, plan_of(snapshot)


def places(plan: Plan) -> dict[str, set[str]]:
    return {admit.name: {seat.node for seat in admit.seats} for admit in plan.admits}


def test_only_work_of_queues_that_name_the_flavor_fits_its_tainted_nodes() -> None:
    snapshot, plan = decided(node("f", FAST, GPU_ONLY), both=4, slow=1, any=1)
    assert places(plan) == {"both": {"f"}}
    saved = load(save(snapshot, plan))
    assert replayed_plan(saved) == saved.plan, "it is part of a saved turn"
    codes = {reason.code for key, reason in plan.reasons.items() if key.uid in ("slow", "any")}
    assert codes == {ReasonCode.NEVER_FITS}


def test_a_taint_that_the_flavor_does_not_tolerate_keeps_its_work_off() -> None:
    _, plan = decided(node("f", FAST, GPU_ONLY, TEAM), node("s", SLOW), both=1)
    assert places(plan) == {"both": {"s"}}


def test_the_same_taint_on_nodes_of_another_flavor_counts() -> None:
    snapshot, plan = decided(node("f", FAST, GPU_ONLY, gpus=2), node("s", SLOW, GPU_ONLY), both=4)
    (reason,) = plan.reasons.values()
    assert not plan.admits
    _, plan = decided(
        node("f", FAST, GPU_ONLY, gpus=2), node("s", SLOW, GPU_ONLY), tolerations={SLOW: (BY_KEY,)}, both=4
    )
    assert places(plan) == {"both": {"s"}}
    (workload,) = snapshot.pending.values()
    said = [change.message for change in suggestions(snapshot, workload, reason)]
    assert not any("tolerations" in message for message in said), "it tolerates some of them"


def test_tolerations_of_pods_and_of_the_flavor_count_together() -> None:
    table = NodeTable.build([node("f", FAST, GPU_ONLY, TEAM)], [(HOST,)], tolerations={FAST: (BY_KEY,)})
    own = NodeFilter(tolerations=(Toleration("team", "Equal", "a"),))
    work = a_workload("both", gpu_pods(nodes=own), queue="both")
    snapshot = a_snapshot(work, queues=QUEUES, nodes=table, now=10)
    assert places(plan_of(snapshot)) == {"both": {"f"}}
    alone = replace(snapshot, nodes=NodeTable.build([node("f", FAST, GPU_ONLY, TEAM)], [(HOST,)]))
    assert not plan_of(alone).admits

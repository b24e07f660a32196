"""Work that can never be admitted as queues and nodes are: it is called so, and is in nobody's way.

What can be is asked of the engine itself, without its check for such work: a workload alone, on the same nodes built
anew as if each were empty and open, with many nodes more of the size that may be added.
"""

from dataclasses import replace
from unittest import mock

from hypothesis import strategies as st

from admission.engine import decide as engine
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.pending.empty_cluster import EmptyCluster
from admission.engine.snapshot import Snapshot
from admission.replay.snapshot_file import nodes_of
from queues import kind_names
from queues.admissions import AdmissionState
from queues.flavor_growth import FlavorGrowth
from queues.plan import Plan, Reason
from queues.reason_codes import ReasonCode
from queues.resources import GPU, NOTHING, Resources
from queues.workload import (
    FlavorName,
    NodeFilter,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
)
from tests.laws.worlds.snapshots import LEVELS, NOW, RACK, rarely, snapshots

#: Codes of work that is never admitted as things are; beyond ``maxPending`` it is called so.
NEVER = frozenset((ReasonCode.NEVER_FITS, ReasonCode.UNKNOWN_LEVEL))
#: In the message about the limit of those that wait for something else than room.
COUNTED_APART = "that cannot be admitted as things are"
#: The flavor of nodes that may be added.
ADDED = FlavorName("added")
#: Codes of work that lacks room or quota.
LACKS = frozenset(
    (ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT, ReasonCode.QUEUE_LIMIT, ReasonCode.USER_LIMIT)
)


@st.composite
def worlds_with_impossible_work(draw: st.DrawFn) -> Snapshot:
    """A world with more work, most of which can never be admitted, in all queues and before all others."""
    snapshot = draw(snapshots())
    queues = [*sorted(snapshot.queues)]
    more = {}
    for number in range(draw(st.integers(1, 9))):
        workload = draw(_impossible(number, queues))
        more[workload.key] = workload
    nodes = snapshot.nodes
    if draw(rarely(2)):
        size = draw(st.sampled_from([{GPU: 4000}, {GPU: 9000, "cpu": 32_000}, {GPU: 16_000}]))
        colour = draw(st.sampled_from(["green", "red"]))
        growth = FlavorGrowth(flavor=ADDED, labels={"colour": colour}, largest=size)
        nodes = replace(nodes, layout=replace(nodes.layout, growth=(growth,)))
    return replace(snapshot, nodes=nodes, pending={**snapshot.pending, **more})


def _added(growth: FlavorGrowth, workload: Workload) -> list[Node]:
    """As many nodes as any gang needs, in a rack of their own; of what has no bound as much as any pod asks, and of
    labels that are not known what the pods choose."""
    plenty = {name: growth.most(name) or 10**9 for name in ("cpu", "memory", "pods")}
    amounts = Resources({**plenty, **(growth.largest or {})})
    chosen = dict(workload.pod_sets[0].nodes.selector)
    labels = {**dict.fromkeys(LEVELS, "added"), **chosen, **growth.labels}
    names = [f"added-{number}" for number in range(64)]
    return [
        Node(
            name=NodeName(name),
            allocatable=amounts,
            flavor=growth.flavor,
            labels=labels if HOST in chosen else {**labels, HOST: name},
        )
        for name in names
    ]


@st.composite
def _impossible(draw: st.DrawFn, number: int, queues: list[QueueName]) -> Workload:
    gpus, count = draw(st.sampled_from([(9, 1), (1, 40), (4, 9), (4, 2), (2, 4), (1, 1)]))
    takes = Resources({GPU: gpus * 1000, "cpu": draw(st.sampled_from([0, 0, 0, 64000])), "pods": 1})
    level = draw(st.sampled_from([None, None, RACK, RACK, RACK, "moon"]))
    selector = (("colour", "green"),) if draw(rarely(5)) else ()
    pods = PodSet(
        name="main",
        count=count,
        takes=takes,
        required_topology=level,
        nodes=NodeFilter(selector=selector),
    )
    return Workload(
        key=WorkloadKey(kind_names.JOB, f"x{number}"),
        namespace="team",
        name=f"x{number}",
        queue=draw(st.sampled_from(queues)),
        priority=draw(st.sampled_from([0, 2])),
        arrival=draw(st.sampled_from([-9, 99])) + number,
        created=NOW - 86_400,
        minimum=count,
        pod_sets=(pods,),
        generation="1",
        run_time=draw(st.sampled_from([None, 600])),
    )


def impossible_work_is_in_nobodys_way(snapshot: Snapshot) -> None:
    """Without it the same is decided for all others, with the same reasons."""
    plan = _plan(snapshot)
    never = {key for key, reason in plan.reasons.items() if reason.code in NEVER}
    beyond = {
        key
        for key, reason in plan.reasons.items()
        if reason.code == ReasonCode.PENDING_LIMIT and COUNTED_APART in reason.message
    }
    holding = {
        each.workload
        for number, each in snapshot.admissions.items()
        if each.state is AdmissionState.OPEN
        and number not in snapshot.evictable
        and snapshot.still_held(each)
    }
    # A level that is gone is told to what runs there, too.
    unfit = {key for key in never if plan.reasons[key].code == ReasonCode.NEVER_FITS}
    assert not unfit & holding, "what holds seats fits"
    left = {key: each for key, each in snapshot.pending.items() if key not in never | beyond}
    without = _plan(replace(snapshot, pending=left))
    assert _about(plan, left.keys()) == _about(without, left.keys())


def _about(plan: Plan, keys: "set[WorkloadKey] | object") -> dict[str, object]:
    reasons = {key: reason for key, reason in plan.reasons.items() if key in keys}  # type: ignore[operator]
    return {"reasons": reasons, "admits": plan.admits, "evicts": plan.evicts, "claims": plan.claims}


def never_is_said_where_nothing_else_is_in_the_way(snapshot: Snapshot) -> None:
    """What is called impossible gets no seat alone on empty nodes; of one pod set, the other way round as well.

    But for devices in one island: how those of a node are linked that does not tell it may be told later. And but for
    gangs that are complete without the pods they lack.
    """
    reasons = _plan(snapshot).reasons
    seated = {each.workload for each in snapshot.admissions.values()}
    for key, reason in reasons.items():
        workload = snapshot.pending[key]
        if key in seated:
            continue
        alone = _alone_on_empty_nodes(snapshot, workload)
        if reason.code == ReasonCode.NEVER_FITS:
            assert alone is not None, f"{key} fits alone, and is told: {reason.message}"
        elif alone is not None and alone.code in LACKS and _is_exact(workload):
            is_limited = reason.code == ReasonCode.PENDING_LIMIT and COUNTED_APART in reason.message
            assert is_limited or reason.code not in LACKS, f"{key} is told: {reason.message}"


def _is_exact(workload: Workload) -> bool:
    pods = workload.pod_sets[0]
    return len(workload.pod_sets) == 1 and not pods.in_one_island and not pods.done


def _alone_on_empty_nodes(snapshot: Snapshot, workload: Workload) -> Reason | None:
    """Why a workload gets no seats though nothing else is there; None: it gets some."""
    nodes = [replace(node, used=NOTHING, usable=True, why_not="") for node in nodes_of(snapshot.nodes)]
    for growth in snapshot.nodes.layout.growth:
        nodes += _added(growth, workload)
    alone = Snapshot(
        now=snapshot.now,
        queues=snapshot.queues,
        nodes=NodeTable.build(nodes, [LEVELS]),
        pending={workload.key: workload},
        admissions={},
        namespaces=snapshot.namespaces,
    )
    with mock.patch.object(EmptyCluster, "refusal", return_value=None):
        plan, _ = engine.decide(alone, Memo())
    return plan.reasons.get(workload.key) if plan.admit_of(workload.key) is None else None


def _plan(snapshot: Snapshot) -> Plan:
    return engine.decide(snapshot, Memo())[0]

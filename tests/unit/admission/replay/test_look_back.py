"""A turn that is decided again: what no snapshot holds, and what the ledger refused, is no difference."""

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from admission.replay.compressed import compressed, load_compressed
from admission.replay.look_back import decided_again, decisions_of
from admission.world.learned.namespace_quotas import without_gangs
from queues.plan import Reason
from queues.quota.queue import ROOT, Queue
from queues.reason_codes import ReasonCode
from queues.recorded.logged_decisions import LoggedDecision
from queues.resources import GPU, PODS, Resources
from queues.workload import NodeName, PodSet, QueueName, Workload, WorkloadKey, WorkloadKind


def gang(name: str, arrival: int) -> Workload:
    return Workload(
        key=WorkloadKey(WorkloadKind.JOB, f"{name}-uid"),
        namespace="ns",
        name=name,
        queue=QueueName("team"),
        arrival=arrival,
        minimum=2,
        pod_sets=(PodSet(name="main", count=2, takes=Resources({GPU: 1000, PODS: 1})),),
    )


FIRST, SECOND = gang("first", 1), gang("second", 2)
SNAPSHOT = Snapshot(
    now=1_790_000_000,
    queues={
        QueueName(ROOT): Queue(name=QueueName(ROOT), parent=None),
        QueueName("team"): Queue(name=QueueName("team")),
    },
    nodes=NodeTable.build(
        [Node(name=NodeName("n1"), allocatable=Resources({GPU: 8000, PODS: 110}), labels={HOST: "n1"})]
    ),
    pending={each.key: each for each in (FIRST, SECOND)},
    admissions={},
)
PLAN, _ = decide(SNAPSHOT, Memo())


def test_both_are_admitted_where_nothing_else_is_known() -> None:
    assert {each.workload for each in PLAN.admits} == {FIRST.key, SECOND.key}


def test_a_gang_that_a_resource_quota_kept_back_waits_again() -> None:
    reason = Reason(code=ReasonCode.NAMESPACE_QUOTA, message="no room", facts={"asked": 2})
    plan = without_gangs(PLAN, {SECOND.key: reason})

    again = decided_again(
        load_compressed(compressed(SNAPSHOT, plan)), decisions_of(plan, SNAPSHOT.admissions)
    )

    assert again.is_same(), (again.differences, again.log_differences)
    assert again.plan.reasons[SECOND.key] == reason
    assert again.logged == 1


def test_a_gang_that_the_ledger_refused_is_told_and_is_no_difference() -> None:
    refused = LoggedDecision("reject", SECOND.key, "ns", "second", "team", "NodeLimit")
    log = [each for each in decisions_of(PLAN, {}) if each.workload == FIRST.key]

    again = decided_again(load_compressed(compressed(SNAPSHOT, PLAN)), [*log, refused])

    assert again.is_same(), (again.differences, again.log_differences)
    assert (again.refused, again.logged) == ((refused,), 1)


def test_another_plan_is_told_by_its_differences() -> None:
    plan = without_gangs(PLAN, {SECOND.key: Reason(code=ReasonCode.QUEUE_LIMIT, message="too many")})

    again = decided_again(load_compressed(compressed(SNAPSHOT, plan)), decisions_of(plan, {}))

    assert not again.is_same()
    assert any(SECOND.key.uid in line for line in again.differences)
    assert again.log_differences == (
        "decided now, and not in the log: admit job/second (namespace ns, queue team): gang",
    )

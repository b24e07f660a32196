"""Laws of preemption, reclaim and clearing on small full worlds."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.preemption import running
from admission.engine.preemption.rules import EvictionRule
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Admission, Seat
from queues.quota.queue import Queue, QueuePolicy
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, Workload, WorkloadKey
from tests.laws.laws import idle_devices, preemption
from tests.laws.laws.idle_devices import equal_worlds
from tests.laws.laws.preemption import full_worlds, lent_worlds
from tests.laws.worlds.settings import in_worlds, law_test

worlds = in_worlds(80, may_be_large=False)


test_nobody_goes_but_for_somebody = law_test(
    preemption.no_victim_without_a_beneficiary, full_worlds(), worlds
)
test_nobody_who_is_protected_goes = law_test(preemption.nobody_protected_goes, full_worlds(), worlds)
test_who_is_more_urgent_goes_only_for_what_others_own = law_test(
    preemption.priority_protects, full_worlds(), worlds
)
test_each_eviction_was_named_before = law_test(preemption.evictions_were_named, full_worlds(), worlds)
test_each_eviction_of_what_is_lent_was_named_before = law_test(
    preemption.evictions_were_named, lent_worlds(), worlds
)
test_borrowers_keep_nothing_of_what_others_deserve = law_test(
    preemption.borrowers_keep_nothing, lent_worlds(), worlds
)
test_nothing_goes_for_who_never_preempts = law_test(
    preemption.nothing_goes_for_who_never_preempts, full_worlds(), worlds
)


@worlds
@given(full_worlds(), st.sampled_from([1, 10, 2_000_000_000]))
def test_priority_beyond_the_highest_counts_nothing(snapshot: Snapshot, more: int) -> None:
    preemption.priority_beyond_the_highest_counts_nothing(snapshot, more)


test_budgets_hold = law_test(preemption.budgets_hold, full_worlds(), worlds)
test_nobody_goes_who_need_not = law_test(preemption.victim_sets_are_minimal, full_worlds(), worlds)
test_no_other_victim_would_leave_fewer_devices_idle = law_test(
    idle_devices.no_other_victim_would_leave_less_idle, equal_worlds(), worlds
)
test_what_is_freed_beyond_the_need_is_claimed = law_test(
    idle_devices.what_is_freed_is_claimed, full_worlds(), worlds
)
test_pods_of_victims_may_end_in_any_order = law_test(
    idle_devices.pods_of_victims_may_end_in_any_order, full_worlds(), worlds, st.integers(0, 99)
)
test_who_was_promised_a_place_gets_it = law_test(preemption.beneficiaries_come_in, full_worlds(), worlds)
test_the_order_of_the_input_does_not_matter = law_test(
    preemption.independent_of_order, full_worlds(), worlds, st.integers()
)
test_evicted_work_does_not_evict_back = law_test(preemption.comes_to_rest, full_worlds(), worlds)
test_no_ping_pong_nobody_goes_for_somebody_who_went_for_him = law_test(
    preemption.no_ping_pong, full_worlds(), worlds
)


def test_no_ping_pong_of_a_starved_gang_and_an_older_equal() -> None:
    """The gang may have a place cleared; the older pod could preempt it afterwards, as newer."""
    queue = Queue(name=QueueName("q"), policy=QueuePolicy(within_queue="lower-or-newer-equal"))
    gang = _waits(100, queue, gpus=2, pods=2)
    snapshot = _on_one_node([queue], [_waits(1, queue, gpus=2)], gang)
    preemption.no_ping_pong(snapshot)
    clears = QueuePolicy(within_queue="lower-priority")
    snapshot = replace(snapshot, queues={queue.name: replace(queue, policy=clears)})
    assert preemption.plan_of(snapshot).evicts  # else nothing would be said above


def test_no_ping_pong_of_a_gang_above_its_share_and_an_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two queues deserve half of a node each; a gang of one wants all of it, and the other has it.

    The place is cleared for it, and it keeps what it was lent for a time.
    """
    one, other = Queue(name=QueueName("one")), Queue(name=QueueName("other"))
    holders = [_waits(1, other, gpus=3), _waits(2, other, gpus=1)]
    snapshot = _on_one_node([one, other], holders, _waits(100, one, gpus=2, pods=2))
    assert {evict.code for evict in preemption.plan_of(snapshot).evicts} == {EvictionRule.CLEARED}
    preemption.no_ping_pong(snapshot)
    monkeypatch.setattr(running, "reclaimable_from", lambda workload, first_opened, policy: first_opened)
    with pytest.raises(AssertionError, match="in turns"):
        preemption.no_ping_pong(snapshot)


def _waits(number: int, queue: Queue, gpus: int, pods: int = 1) -> Workload:
    """One that has waited for long enough."""
    return Workload(
        key=WorkloadKey(kind_names.JOB, f"w{number}"),
        namespace="team",
        name=f"w{number}",
        queue=queue.name,
        arrival=number,
        created=preemption.NOW - 100_000,
        minimum=pods,
        generation="1",
        pod_sets=(PodSet(name="main", count=pods, takes=Resources({GPU: gpus * 1000, "pods": 1})),),
    )


def _on_one_node(queues: Sequence[Queue], holders: Sequence[Workload], gang: Workload) -> Snapshot:
    """These single pods have what they ask, and the gang waits."""
    node = NodeName("n0")
    admissions = {
        AdmissionId(number): Admission(
            id=AdmissionId(number),
            workload=holder.key,
            namespace="team",
            name=holder.name,
            queue=holder.queue,
            priority=holder.priority,
            seats=(Seat(pod_set="main", ordinal=0, node=node, takes=holder.pod_sets[0].takes),),
            opened_at=preemption.NOW - 50_000,
            generation="1",
            started=True,
        )
        for number, holder in enumerate(holders, 1)
    }
    return Snapshot(
        now=preemption.NOW,
        queues={queue.name: queue for queue in queues},
        nodes=preemption.table([node], admissions),
        pending={gang.key: gang},
        admissions=admissions,
        holders={holder.key: holder for holder in holders},
    )


@settings(max_examples=5, phases=[Phase.generate])
@given(full_worlds(), st.integers())
def test_no_ping_pong_nobody_goes_more_than_five_times_in_a_day(snapshot: Snapshot, seed: int) -> None:
    preemption.few_evictions_in_a_day(snapshot, Random(seed))


def test_what_joined_a_gang_above_its_minimum_goes_alone_and_first() -> None:
    takes = Resources({GPU: 1000, "pods": 1})
    node = Node(name=NodeName("n"), allocatable=takes * 4, labels={HOST: "n"}, used=takes * 4)

    def workload(name: str, pods: int, minimum: int, priority: int = 0) -> Workload:
        return Workload(
            key=WorkloadKey(kind_names.JOB, name),
            namespace="team",
            name=name,
            queue=QueueName("q"),
            priority=priority,
            arrival=1,
            minimum=minimum,
            pod_sets=(PodSet(name="main", count=pods, takes=takes),),
        )

    def admission(number: int, of: Workload, ordinals: range) -> Admission:
        return Admission(
            id=AdmissionId(number),
            workload=of.key,
            namespace="team",
            name=of.name,
            queue=of.queue,
            priority=of.priority,
            seats=tuple(Seat(pod_set="main", ordinal=i, node=NodeName("n"), takes=takes) for i in ordinals),
            opened_at=0,
        )

    gang, single = workload("gang", 3, 2), workload("single", 1, 1)
    held = [admission(1, gang, range(2)), admission(2, gang, range(2, 3)), admission(3, single, range(1))]
    urgent = workload("urgent", 1, 1, priority=5)
    plan, _ = decide(
        Snapshot(
            now=100,
            queues={QueueName("q"): Queue(name=QueueName("q"))},
            nodes=NodeTable.build([node]),
            pending={urgent.key: urgent},
            admissions={each.id: each for each in held},
            holders={gang.key: gang, single.key: single},
        ),
        Memo(),
    )
    assert [evict.admission for evict in plan.evicts] == [2]

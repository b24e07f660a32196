"""Gangs that a ResourceQuota of their namespace has no room for: held back before their admission, or sent back."""

from dataclasses import replace
from typing import Any

from admission.facts.changes import Change, FactKind
from admission.facts.cluster import FlavorFact
from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import WorkloadFact
from admission.world.learned.held_back import HELD_BACK
from admission.world.world import World
from queues import kind_names
from queues.admissions import Admission
from queues.plan import Admit, Evict, Plan
from queues.quota.namespace_quota import NamespaceQuota, QuotaLimit
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, WorkloadKey
from tests.builders.facts import (
    GRACE,
    JOB,
    NOW,
    TEAM,
    admission,
    gone,
    job,
    node,
    pod,
    released,
    see,
    seen,
    world,
)

OTHER = WorkloadKey(kind_names.JOB, "other-uid")
THIRD = WorkloadKey(kind_names.JOB, "third-uid")


def quota(hard: int, used: int = 0, resource: str = "pods", namespace: str = "ns") -> Change:
    limit = QuotaLimit(resource, resource, hard, used)
    fact = NamespaceQuota(namespace=namespace, name="team", limits=(limit,))
    return Change(FactKind.RESOURCE_QUOTA, f"quota-{namespace}", fact)


def waiting(count: int, key: WorkloadKey = JOB, **facts: Any) -> WorkloadFact:
    return replace(job(count, suspended=True, generation="1"), key=key, name=key.uid, **facts)


def begun(*what: Change | WorkloadFact | PodFact, admissions: tuple[Admission, ...] = ()) -> World:
    return world([node("n1"), *what], admissions, {JOB: 1, OTHER: 2, THIRD: 3})


def plan_of(*keys: WorkloadKey, evicts: tuple[Evict, ...] = ()) -> Plan:
    admits = tuple(
        Admit(workload=key, namespace="ns", name=key.uid, queue=TEAM, priority=0, generation="1", seats=())
        for key in keys
    )
    return Plan(now=NOW, ledger_seq=0, admits=admits, evicts=evicts)


def within(known: World, plan: Plan) -> Plan:
    kept, held_back = known.namespace_quotas.within(plan, known.freeze(NOW), known.states)
    for key in held_back:
        known.mark_dirty(key)
    known.refresh(NOW)
    return kept


def keys(plan: Plan) -> list[WorkloadKey]:
    return [admit.workload for admit in plan.admits]


def test_gangs_of_one_plan_do_not_count_on_the_same_room() -> None:
    known = begun(quota(6), seen(waiting(4)), seen(waiting(4, OTHER)), seen(waiting(2, THIRD)))
    plan = within(known, plan_of(JOB, OTHER, THIRD))
    assert keys(plan) == [JOB, THIRD]
    assert plan.reasons[OTHER].code is ReasonCode.NAMESPACE_QUOTA
    obstacle = known.states[OTHER].workload.obstacle
    assert obstacle.message.startswith(
        "ResourceQuota team of namespace ns: found room for 2 pods (6 hard, 0 used, 4 for pods that are about to be "
        "made), expected 4 for the pods that have to start together"
    )


def test_seats_for_which_pods_are_still_to_be_made_are_promised() -> None:
    running = replace(waiting(4), suspended=False)
    taken = admission(JOB, "n1 n1 n1 n1")
    first = released("a", "main/0", "n1", owner=JOB, owner_name=JOB.uid)
    known = begun(quota(6, 1), seen(running), seen(first), seen(waiting(3, OTHER)), admissions=(taken,))
    assert keys(within(known, plan_of(OTHER))) == []
    known = begun(quota(7, 1), seen(running), seen(first), seen(waiting(3, OTHER)), admissions=(taken,))
    assert keys(within(known, plan_of(OTHER))) == [OTHER]


def test_what_a_gang_that_has_started_leaves_is_promised_to_nobody() -> None:
    """Its pods have ended, one after the other, and their seats are about to be given back."""
    running = replace(waiting(4), suspended=False)
    taken = admission(JOB, "n1 n1 n1 n1", started=True)
    known = begun(quota(6), seen(running), seen(waiting(4, OTHER)), admissions=(taken,))
    assert keys(within(known, plan_of(OTHER))) == [OTHER]


def test_pods_count_that_are_seen_before_their_resource_quota_is_seen_to_count_them() -> None:
    running = replace(waiting(4), suspended=False)
    taken = admission(JOB, "n1 n1 n1 n1", started=True)
    pods = [released(f"{each}", f"main/{each}", "n1", owner=JOB, owner_name=JOB.uid) for each in range(4)]
    changes = [seen(running), seen(waiting(4, OTHER)), *map(seen, pods)]
    known = begun(quota(6, 2), *changes, admissions=(taken,))
    assert keys(within(known, plan_of(OTHER))) == []
    see(known, quota(6, 3), now=NOW + 1)
    assert held_back(known) == {OTHER}, "there is no more room than before"
    for ended, used in ((pods[0], 4), (replace(pods[1], phase=PodPhase.SUCCEEDED), 2)):
        known.observe([gone(ended) if ended is pods[0] else seen(ended), quota(6, used)])
    known.refresh(NOW + 2)
    assert held_back(known) == set()


def test_nothing_is_evicted_for_a_gang_that_would_not_get_its_pods() -> None:
    known = begun(quota(6, 5), seen(waiting(4)))
    eviction = Evict(admission=AdmissionId(7), code=ReasonCode.PREEMPTED, message="", beneficiary=JOB)
    assert within(known, plan_of(evicts=(eviction,))).evicts == ()
    assert within(begun(quota(9, 5), seen(waiting(4))), plan_of(evicts=(eviction,))).evicts == (eviction,)


def test_only_members_that_have_to_start_together_must_fit() -> None:
    elastic = waiting(8, minimum=2)
    assert keys(within(begun(quota(3), seen(elastic)), plan_of(JOB))) == [JOB]
    assert keys(within(begun(quota(1), seen(elastic)), plan_of(JOB))) == []


def test_other_namespaces_and_pods_that_exist_are_not_held_back() -> None:
    assert keys(within(begun(quota(0, namespace="else"), seen(waiting(4))), plan_of(JOB))) == [JOB]
    alone = pod("p", gated=True, queue=TEAM, owner=WorkloadKey(kind_names.POD, "p"))
    key = WorkloadKey(kind_names.POD, "p")
    assert keys(within(begun(quota(0), seen(alone)), plan_of(key))) == [key]


def test_a_resource_that_claimed_devices_count_as_is_left_to_the_api_server() -> None:
    fact = FlavorFact(name="example", device_classes={"gpu.nvidia.com": GPU})
    flavor = Change(FactKind.FLAVOR, "example", fact)
    assert keys(within(begun(quota(0, resource=GPU), seen(waiting(4))), plan_of(JOB))) == []
    assert keys(within(begun(flavor, quota(0, resource=GPU), seen(waiting(4))), plan_of(JOB))) == [JOB]


# ── until when ──────────────────────────────────────────────────────────────────────────────────────────────────


def held_back(known: World) -> set[WorkloadKey]:
    return {key for key, state in known.states.items() if state.workload.obstacle is not None}


def test_as_many_are_considered_again_as_there_is_room_for() -> None:
    known = begun(quota(4, 4), *(seen(waiting(2, key)) for key in (JOB, OTHER, THIRD)))
    within(known, plan_of(JOB, OTHER, THIRD))
    assert held_back(known) == {JOB, OTHER, THIRD}
    see(known, quota(4, 3), now=NOW + 1)
    assert held_back(known) == {JOB, OTHER, THIRD}
    see(known, quota(4, 1), now=NOW + 2)
    assert held_back(known) == {OTHER, THIRD}
    see(known, replace(quota(0), fact=None), now=NOW + 3)
    assert held_back(known) == set()


def test_after_a_while_a_gang_for_which_there_may_be_room_is_considered_again() -> None:
    running = replace(waiting(4), suspended=False)
    known = begun(
        quota(6), seen(running), seen(waiting(4, OTHER)), admissions=(admission(JOB, "n1 n1 n1 n1"),)
    )
    within(known, plan_of(OTHER))
    assert held_back(known) == {OTHER}
    known.refresh(NOW + HELD_BACK - 1)
    assert held_back(known) == {OTHER}
    known.refresh(NOW + HELD_BACK)
    assert held_back(known) == set(), "the promised pods may have been given up"

    known = begun(quota(3), seen(waiting(4)))
    within(known, plan_of(JOB))
    known.refresh(NOW + HELD_BACK)
    assert held_back(known) == {JOB}, "there is no room, whoever gives up"


def test_a_gang_that_asks_more_than_a_resource_quota_ever_allows_never_fits_until_that_allows_more() -> None:
    known = begun(quota(hard=4, used=1), seen(waiting(5)))

    def told() -> tuple[ReasonCode, str]:
        obstacle = known.states[JOB].workload.obstacle
        return obstacle.code, obstacle.message.partition(";")[0]

    assert keys(within(known, plan_of(JOB))) == []
    assert told() == (
        ReasonCode.NEVER_FITS,
        "5 pods asked by the pods that have to start together, ResourceQuota team of namespace ns allows 4",
    )
    see(known, quota(hard=4, used=0))
    assert told()[0] is ReasonCode.NEVER_FITS

    see(known, quota(hard=5, used=1))
    assert known.states[JOB].workload.obstacle is None
    assert keys(within(known, plan_of(JOB))) == []
    assert told()[0] is ReasonCode.NAMESPACE_QUOTA

    see(known, quota(hard=5, used=0))
    assert keys(within(known, plan_of(JOB))) == [JOB]


def test_what_is_gone_is_not_held_back() -> None:
    known = begun(quota(3), seen(waiting(4)))
    within(known, plan_of(JOB))
    see(known, replace(seen(waiting(4)), fact=None))
    known.refresh(NOW + HELD_BACK)
    assert known.namespace_quotas.obstacle_of(JOB) is None


def test_a_gang_that_asks_less_is_considered_at_once() -> None:
    known = begun(quota(3), seen(waiting(4)))
    within(known, plan_of(JOB))
    see(known, waiting(3, generation="2"))
    assert held_back(known) == set()


def test_a_gang_whose_pods_turn_out_smaller_is_considered_after_a_while() -> None:
    small = replace(waiting(4).pod_sets[0], takes=Resources({"pods": 1}))
    known = begun(quota(4000, resource=GPU), seen(waiting(5)))
    within(known, plan_of(JOB))
    assert held_back(known) == {JOB}
    see(known, replace(waiting(5), pod_sets=(replace(small, count=5),)))
    known.refresh(NOW + HELD_BACK)
    assert held_back(known) == set()


# ── after the admission ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_gang_goes_back_when_others_have_taken_the_room_for_its_pods() -> None:
    running = replace(waiting(4), suspended=False)
    taken = admission(JOB, "n1 n1 n1 n1")  # a minute ago
    pods = [
        seen(released(name, f"main/{n}", "n1", owner=JOB, owner_name=JOB.uid, created=NOW - 5))
        for n, name in enumerate("ab")
    ]
    known = begun(quota(6, 4), seen(running), *pods, admissions=(taken,))
    assert not known.states[JOB].evictable, "two may still be made"
    see(known, quota(6, 5))
    assert not known.states[JOB].evictable, "the last pod was made a moment ago"
    assert known.states[JOB].look_at == 0
    known.refresh(NOW + GRACE)
    (rollback,) = known.states[JOB].evictable.values()
    assert rollback.code is ReasonCode.NAMESPACE_QUOTA
    assert rollback.not_before > NOW + GRACE
    assert "found room for 1 pods (6 hard, 5 used), expected 2" in rollback.message


def test_a_gang_that_may_start_with_the_pods_it_has_stays() -> None:
    running = replace(waiting(4, minimum=2), suspended=False)
    pods = [
        seen(released(name, f"main/{n}", "n1", owner=JOB, owner_name=JOB.uid, created=NOW - 60))
        for n, name in enumerate("ab")
    ]
    known = begun(quota(2, 2), seen(running), *pods, admissions=(admission(JOB, "n1 n1 n1 n1"),))
    assert not known.states[JOB].evictable


def test_a_gang_that_has_started_stays() -> None:
    running = replace(waiting(4), suspended=False)
    taken = admission(JOB, "n1 n1 n1 n1", started=True)
    known = begun(quota(2, 2), seen(running), admissions=(taken,))
    assert ReasonCode.NAMESPACE_QUOTA not in {each.code for each in known.states[JOB].evictable.values()}

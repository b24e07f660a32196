"""Gangs with pods that do not get ready in time go back whole, and are held back in the end."""

from dataclasses import replace
from typing import Any

from admission.facts.pods import Conduct, PodFact, PodPhase
from admission.workloads.inputs import revision_of
from admission.workloads.state import WorkloadState
from queues.admissions import Admission, Setbacks, Unready
from queues.quota.queue import DEFAULT_POLICY
from tests.builders.facts import (
    JOB,
    NOW,
    VOLCANO,
    admission,
    gated,
    job,
    queue,
    released,
    seen,
    state_of,
    volcano_job,
    world,
)

PULLS = 'ImagePullBackOff: Back-off pulling image "x"'
BOUND = NOW - 100
#: When the time of the default policy is over.
OVER = BOUND + 600


def gang(nodes: str = "n1 n2", **facts: Any) -> Admission:
    return admission(VOLCANO, nodes, **{"started": True, "ready": False, "opened_at": NOW - 200, **facts})


def member(ordinal: int, *, ready: int | None = None, waits_for: str = "", **facts: Any) -> PodFact:
    """A bound pod; ``ready``: since when it is."""
    given: dict[str, Any] = {
        "owner": VOLCANO,
        "bound_at": BOUND,
        "ready_since": ready,
        "waits_for": waits_for,
    }
    if ready is None:
        given["phase"] = PodPhase.PENDING
    return released(f"train-{ordinal}", f"worker/{ordinal}", f"n{ordinal + 1}", **given | facts)


def state(*pods: PodFact, now: int = OVER, taken: Admission | None = None, **inputs: Any) -> WorkloadState:
    return state_of(volcano_job(2), pods, [taken or gang()], now=now, **inputs)


READY, STUCK = member(0, ready=NOW), member(1, waits_for=PULLS)


def test_a_gang_goes_back_whole_and_says_which_pods_wait_for_what() -> None:
    (rollback,) = state(READY, STUCK).evictable.values()
    assert rollback.code == "NotReady"
    assert rollback.message == (f"1 of 2 pods not ready 10m after the last one was bound: train-1 ({PULLS})")
    assert rollback.not_before == OVER + 10


def test_the_time_runs_from_the_last_pod_bound() -> None:
    assert not state(READY, STUCK, now=OVER - 1).evictable
    late = replace(STUCK, bound_at=BOUND + 50)
    assert not state(READY, late).evictable
    assert state(READY, late, now=OVER + 50).evictable


def test_a_gang_whose_pods_nobody_makes_goes_back_so_long_after_it_got_its_seats() -> None:
    taken = admission(JOB, "n1 n2", opened_at=NOW)
    assert not (before := state_of(job(2), [], [taken], now=NOW + 599)).evictable
    assert before.look_at == NOW + 600
    (rollback,) = state_of(job(2), [], [taken], now=NOW + 600).evictable.values()
    assert rollback.code == "NotReady"
    since = "10m after the gang got its seats, none was bound"
    assert rollback.message == f"2 of 2 pods not ready {since}: 2 seats without a pod"
    assert rollback.revision, "it counts as a failure to get ready"


def test_pods_that_nothing_binds_are_named_when_their_gang_goes_back() -> None:
    taken = gang(started=False, opened_at=NOW)
    waits = [released(f"train-{each}", f"worker/{each}", owner=VOLCANO) for each in range(2)]
    (rollback,) = state(*waits, now=NOW + 600, taken=taken).evictable.values()
    assert "none was bound: train-0 (it is not bound) and train-1 (it is not bound)" in rollback.message


def test_a_gang_with_a_pod_bound_goes_back_so_long_after_it_if_the_others_never_come() -> None:
    taken = gang(started=False)
    assert not state(READY, now=OVER - 1, taken=taken).evictable
    (rollback,) = state(READY, now=OVER, taken=taken).evictable.values()
    assert rollback.message == "1 of 2 pods not ready 10m after the last one was bound: 1 seat without a pod"


def test_it_is_looked_at_again_when_the_time_is_over() -> None:
    assert state(READY, STUCK, now=NOW).look_at == OVER
    assert state(READY, STUCK, now=NOW).look_at != 0, "not in every turn"


def test_the_time_is_the_queues() -> None:
    short = replace(DEFAULT_POLICY, ready_within=30)
    assert state(READY, STUCK, now=BOUND + 30, policy=short).evictable
    never = replace(DEFAULT_POLICY, ready_within=0)
    assert not state(READY, STUCK, now=NOW + 10**6, policy=never).evictable


def test_a_pod_that_succeeded_counts_as_ready() -> None:
    assert state(READY, replace(STUCK, phase=PodPhase.SUCCEEDED)).ready
    assert state(READY, outcomes={("worker", 1): PodPhase.SUCCEEDED}).ready


def test_a_gang_is_ready_once_all_pods_have_been_ready_together_for_a_while() -> None:
    both = (READY, member(1, ready=NOW + 5))
    assert state(*both, now=NOW + 34).ready == ()
    assert state(*both, now=NOW + 34).look_at == NOW + 35
    assert state(*both, now=NOW + 35).ready == (1,)


def test_a_container_that_crashes_at_once_is_not_ready_for_long_enough() -> None:
    flickers = member(1, ready=OVER - 1)
    assert not state(READY, flickers).evictable, "it may have got over it"
    assert state(READY, flickers).ready == ()
    crashed = member(1, waits_for="CrashLoopBackOff", restarts=5, phase=PodPhase.RUNNING)
    (rollback,) = state(READY, crashed, now=OVER + 5).evictable.values()
    assert "train-1 (CrashLoopBackOff)" in rollback.message


def test_a_gang_that_was_ready_once_is_left_alone() -> None:
    assert not state(READY, STUCK, taken=replace(gang(), ready=True)).evictable


def test_what_joined_a_gang_that_is_ready_goes_back_alone() -> None:
    base = replace(gang("n1"), ready=True)
    joined = gang("n2", number=2, first=1)
    late = member(1, waits_for=PULLS, by=2)
    found = state_of(volcano_job(2), (READY, late), [base, joined], now=OVER)
    assert set(found.evictable) == {2}


def test_what_joined_a_gang_goes_back_with_it() -> None:
    joined = gang("n2", number=2, first=1)
    late, well = member(0, waits_for=PULLS), member(1, ready=NOW, by=2)
    found = state_of(volcano_job(2), (late, well), [gang("n1"), joined], now=OVER)
    assert set(found.evictable) == {1, 2}
    assert found.ready == ()


def test_what_joined_a_job_stays_because_a_job_is_suspended_whole() -> None:
    base = admission(JOB, "n1", started=True)
    joined = admission(JOB, "n2", number=2, first=1, started=True, ready=False)
    pods = [released("a", "main/0", "n1"), released("b", "main/1", "n2", by=2, ready_since=None)]
    assert not state_of(job(2), pods, [base, joined], now=OVER + 1000).evictable


def test_what_holds_a_pod_up_is_told_while_there_is_time_left() -> None:
    problem = state(READY, STUCK, now=NOW).problem
    assert problem.code == "NotReady"
    assert problem.message == (
        f"1 of 2 pods not ready: train-1 ({PULLS}); the gang goes back at 2027-01-15T08:08:20Z unless they get ready"
    )


def test_a_gang_that_only_starts_tells_nothing() -> None:
    assert state(READY, member(1), now=NOW).problem is None


def held(times: int, *, generation: str = "g", retry: str = "", **policy: Any) -> WorkloadState:
    """A Job whose pods did not get ready so often, as it was with this generation and annotation."""
    was = volcano_job(2, generation="g", conduct=Conduct(retry=""))
    revision = revision_of(was, ())
    setbacks = Setbacks(unready=Unready(revision=revision, times=times, message="1 of 2 pods …"))
    fact = volcano_job(2, generation=generation, conduct=Conduct(retry=retry))
    return state_of(fact, setbacks=setbacks, policy=replace(DEFAULT_POLICY, **policy))


def test_after_its_last_try_a_gang_is_held_back_and_says_what_for(golden: Any) -> None:
    assert held(3).workload.obstacle is None
    obstacle = held(4).workload.obstacle
    assert obstacle.code == "BackoffLimitExceeded"
    assert obstacle.message == golden


def test_another_object_or_somebody_who_says_so_has_it_tried_again() -> None:
    assert held(4, generation="h").workload.obstacle is None
    assert held(4, retry="mended").workload.obstacle is None


def test_a_queue_that_allows_more_has_it_tried_again() -> None:
    assert held(4, ready_backoff_limit=4).workload.obstacle is None
    assert held(4, ready_within=0).workload.obstacle is None
    assert held(1, ready_backoff_limit=0).workload.obstacle is not None


def test_a_change_of_the_policy_is_noticed_though_nothing_else_changes() -> None:
    facts = (volcano_job(2), READY, STUCK)
    known = world((queue("team"), *facts), [gang()], arrivals={VOLCANO: 1})
    known.refresh(OVER - 1)
    assert not known.states[VOLCANO].evictable
    policy = replace(DEFAULT_POLICY, ready_within=60)
    known.observe([seen(queue("team", policy=policy))])
    assert VOLCANO in known.refresh(OVER - 1)
    assert known.states[VOLCANO].evictable


def test_the_world_looks_at_a_gang_when_its_time_is_over_and_not_before() -> None:
    known = world((queue("team"), volcano_job(2), READY, STUCK), [gang()], arrivals={VOLCANO: 1})
    assert VOLCANO not in known.refresh(OVER - 1)
    assert VOLCANO in known.refresh(OVER)
    assert known.snapshot_is_stale
    assert set(known.freeze(OVER).evictable) == {1}


def test_a_gang_that_got_ready_begins_to_count_anew() -> None:
    known = world((queue("team"), volcano_job(2)), arrivals={VOLCANO: 1})
    known.ledger.setbacks[VOLCANO] = Setbacks(
        rollbacks=2, unready=Unready(revision="r", message="m"), evictions=1
    )
    known.put_ready({VOLCANO})
    assert known.ledger.setbacks[VOLCANO] == Setbacks(evictions=1)


def test_a_gang_with_pods_that_others_hold_says_so_from_the_beginning() -> None:
    """Another controller gave the pods a gate that the template does not have."""
    held = [
        gated(f"job-{index}", owner=JOB, other_gates=("example.org/wait",), controller="job/a")
        for index in range(2)
    ]
    taken = admission(JOB, "n1 n2", ready=False, opened_at=NOW)
    found = state_of(job(2), held, [taken])
    assert "2 seats without a pod (scheduling gates of others: example.org/wait)" in found.problem.message
    assert not found.evictable

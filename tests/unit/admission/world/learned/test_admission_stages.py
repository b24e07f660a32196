"""What a leader knows of the stages of admissions, and hands to the ledger with other changes of theirs; what it
remembers of Jobs that are resumed, and of workloads that are over."""

from collections.abc import Iterable, Mapping
from typing import Any

from admission.facts.pods import PodFact, PodPhase
from admission.workloads.state import WorkloadState
from admission.world.learned.seen_times import AdmissionStages, SeenTimes
from queues.admissions import Admission, StageTimes
from queues.plan import Evict, Free, Plan
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, WorkloadKey
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    admission,
    gone,
    group,
    job,
    queue,
    released,
    see,
    state_of,
    world,
)

ONE = AdmissionId(1)


def pods(**facts: Any) -> list[PodFact]:
    given: dict[str, Any] = {
        "owner": JOB,
        "phase": PodPhase.RUNNING,
        "created": NOW - 300,
        "bound_at": NOW - 1,
    }
    return [released(name, None, "n1", **given | facts) for name in ("a", "b")]


def told(
    stages: AdmissionStages, plan: Plan, held: Admission, members: Iterable[PodFact] = ()
) -> Mapping[AdmissionId, StageTimes]:
    state = state_of(job(2), tuple(members), [held])
    states: dict[WorkloadKey, WorkloadState] = {JOB: state}
    stages.note_state(state)
    return stages.of(plan, {ONE: held}, states, NOW + 0.25)


def plan(**changes: Any) -> Plan:
    return Plan(now=NOW, ledger_seq=1, **changes)


def test_a_start_tells_the_last_release_before_it_and_when_the_last_pod_was_bound() -> None:
    stages = AdmissionStages()
    stages.note_released([ONE], NOW - 2.5)
    stages.note_released([ONE], NOW - 1.5)

    assert told(stages, plan(starts=(ONE,)), admission(JOB, "n1 n1"), pods()) == {
        ONE: StageTimes(released=NOW - 1.5, bound=NOW + 0.25)
    }


def test_a_new_leader_tells_what_the_pods_say() -> None:
    members = pods(created=NOW - 50, bound_at=NOW - 49)

    assert told(AdmissionStages(), plan(starts=(ONE,)), admission(JOB, "n1 n1"), members) == {
        ONE: StageTimes(released=NOW - 50, bound=NOW - 49)
    }


def test_pods_that_were_there_before_the_admission_do_not_tell_when_they_were_released() -> None:
    found = told(AdmissionStages(), plan(starts=(ONE,)), admission(JOB, "n1 n1"), pods())

    assert found == {ONE: StageTimes(bound=NOW + 0.25)}


def test_readiness_tells_since_when_all_pods_are_ready_and_the_first_time_counts() -> None:
    stages, held = AdmissionStages(), admission(JOB, "n1 n1", started=True, ready=False)
    told(stages, plan(), held, pods(ready_since=NOW - 40))

    found = told(stages, plan(ready=(ONE,)), held, pods(ready_since=NOW - 35))

    assert found == {ONE: StageTimes(running=NOW - 40)}


def test_what_goes_before_it_is_ready_tells_how_far_it_came() -> None:
    evict = Evict(admission=ONE, code=ReasonCode.PREEMPTED, message="")
    free = Free(admission=ONE, seats=frozenset((0, 1)), closes=True)
    stages = AdmissionStages()
    stages.note_released([ONE], NOW - 2.5)

    assert told(stages, plan(evicts=(evict,)), admission(JOB, "n1 n1")) == {
        ONE: StageTimes(released=NOW - 2.5)
    }
    runs = admission(JOB, "n1 n1", started=True, ready=False)
    assert told(stages, plan(frees=(free,)), runs, pods(ready_since=NOW - 5)) == {
        ONE: StageTimes(running=NOW - 5)
    }


def test_nothing_is_kept_of_what_is_closed() -> None:
    stages = AdmissionStages()
    stages.note_released([ONE], NOW)
    told(stages, plan(), admission(JOB, "n1 n1", started=True, ready=False), pods(ready_since=NOW))

    closed = plan(frees=(Free(admission=ONE, seats=frozenset((0, 1)), closes=True),))
    stages.forget(closed)

    assert stages.of(closed, {ONE: admission(JOB, "n1 n1")}, {}, NOW) == {}


TOLD = 1_800_000_000


def test_the_suspension_of_before_is_remembered_until_the_controller_has_seen_the_job_resumed() -> None:
    times = SeenTimes()
    times.note_object(JOB, job(1, suspended=True, suspended_at=TOLD))
    assert times.suspended_before == {}
    times.note_object(JOB, job(1, suspended_at=TOLD))
    times.note_object(JOB, job(1, suspended=True, suspended_at=TOLD))
    assert times.suspended_before == {JOB: TOLD}
    times.note_object(JOB, job(1, suspended_at=0))
    times.note_object(JOB, job(1, suspended=True, suspended_at=0))
    times.note_object(JOB, job(1, suspended=True, suspended_at=TOLD + 1))
    assert times.suspended_before == {}


def test_nothing_is_remembered_of_a_job_that_is_gone() -> None:
    times = SeenTimes()
    times.note_object(JOB, job(1, suspended_at=TOLD))
    times.note_object(JOB, None)
    assert times.suspended_before == {}


def test_since_when_a_gang_is_leaving_is_remembered_until_its_last_pod_is_gone() -> None:
    members = [released(name, f"main/{number}", f"n{number}") for number, name in enumerate("ab")]
    known = world(
        [queue("team"), group(2), *members], [admission(GROUP, "n0 n1", pod_set="main")], {GROUP: 1}
    )
    assert known.freeze(NOW).leaving == {}
    see(known, gone(group(2)), now=NOW + 1)
    assert (known.snapshot_is_stale, known.freeze(NOW + 1).leaving) == (True, {AdmissionId(1): NOW + 1})
    see(known, gone(members[0]), now=NOW + 20)
    assert known.freeze(NOW + 20).leaving == {AdmissionId(1): NOW + 1}
    see(known, gone(members[1]), now=NOW + 30)
    assert known.freeze(NOW + 30).ended == {AdmissionId(1): frozenset({0, 1})}

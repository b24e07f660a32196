from typing import Any

import pytest

from admission.facts.pods import PodFact, PodPhase
from admission.volcano_jobs.lifecycle import ACTIONS, RULES, act, advance, expired
from admission.volcano_jobs.state import FINAL, HISTORY, STOPPED, TARGETED, Action, JobState, Phase
from admission.volcano_jobs.view import JobView, at_version_of_pods, is_stale
from tests.builders.volcano_jobs import UID, admission, job, pod
from tests.tables import with_rows

NOW = 1_000

RUN, DONE, BAD, WAIT = PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.PENDING


def state(phase: Phase = Phase.PENDING, **fields: Any) -> JobState:
    return JobState(uid=UID, phase=phase, history=((phase, 0),), **fields)


def seen(*phases: PodPhase | None, outcomes: Any = None, spec: dict[str, Any] | None = None) -> JobView:
    pods = tuple(pod(index, phase) for index, phase in enumerate(phases) if phase is not None)
    return JobView(spec=job(**(spec or {})), pods=pods, admissions=(admission(),), outcomes=outcomes or {})


def two_tasks(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c"}]}}
    return {
        "tasks": [
            {"name": "master", "replicas": 1, "template": template},
            {"name": "worker", "replicas": 3, "minAvailable": 2, "template": template},
        ],
        **spec,
    }


LOOSE = {"minAvailable": 2}

STEPS = [
    ("some of the gang still start", Phase.PENDING, seen(RUN, RUN, RUN, WAIT), Phase.PENDING),
    ("the whole gang runs", Phase.PENDING, seen(RUN, RUN, RUN, RUN), Phase.RUNNING),
    ("minAvailable of the gang run", Phase.PENDING, seen(RUN, RUN, spec=LOOSE), Phase.RUNNING),
    ("no pod exists", Phase.PENDING, seen(), Phase.PENDING),
    ("all succeeded unseen", Phase.PENDING, seen(DONE, DONE, DONE, DONE), Phase.COMPLETED),
    ("one failed, the others run", Phase.RUNNING, seen(BAD, RUN, RUN, RUN), Phase.RUNNING),
    ("all succeeded", Phase.RUNNING, seen(DONE, DONE, DONE, DONE), Phase.COMPLETED),
    ("one of a full gang failed, all ended", Phase.RUNNING, seen(BAD, DONE, DONE, DONE), Phase.FAILED),
    ("enough of a loose gang did", Phase.RUNNING, seen(BAD, BAD, DONE, DONE, spec=LOOSE), Phase.COMPLETED),
    ("too few of a loose gang did", Phase.RUNNING, seen(BAD, BAD, BAD, DONE, spec=LOOSE), Phase.FAILED),
    ("minSuccess is reached", Phase.RUNNING, seen(DONE, RUN, RUN, RUN, spec={"minSuccess": 1}), Phase.COMPLETED),
    ("it is never reached", Phase.RUNNING, seen(DONE, DONE, BAD, BAD, spec={**LOOSE, "minSuccess": 3}), Phase.FAILED),
    ("a pod of a full gang is missing", Phase.RUNNING, seen(RUN, RUN, RUN, None), Phase.PENDING),
    ("one above the minimum is missing", Phase.RUNNING, seen(RUN, RUN, RUN, None, spec=LOOSE), Phase.RUNNING),
    ("scaled to nothing", Phase.RUNNING, seen(spec={"tasks": [{"name": "w", "replicas": 0}]}), Phase.RUNNING),
    ("old pods are gone", Phase.RESTARTING, seen(), Phase.PENDING),
    ("pods still run", Phase.ABORTING, seen(RUN), Phase.ABORTING),
    ("only ended pods are left", Phase.ABORTING, seen(DONE, BAD), Phase.ABORTED),
    ("the last pod is gone", Phase.COMPLETING, seen(), Phase.COMPLETED),
    ("the last pod is gone", Phase.TERMINATING, seen(), Phase.TERMINATED),
]  # fmt: skip


@pytest.mark.parametrize(("what", "before", "view", "after"), STEPS, ids=[f"{s[1]}: {s[0]}" for s in STEPS])
def test_the_phase_follows_from_what_is_seen_and_looking_twice_changes_nothing_more(
    what: str, before: Phase, view: JobView, after: Phase
) -> None:
    once = advance(state(before), view, NOW)
    assert once.phase is after
    assert advance(once, view, NOW + 60) == once


@pytest.mark.parametrize("phase", sorted(FINAL | {Phase.ABORTED}))
@pytest.mark.parametrize("phases", [(), (RUN, RUN, RUN, RUN), (DONE, DONE, DONE, DONE)])
def test_what_is_over_stays_over(phase: Phase, phases: tuple[PodPhase, ...]) -> None:
    assert phase == advance(state(phase), seen(*phases), NOW).phase


def test_every_phase_has_rules_or_is_left_only_by_an_action() -> None:
    assert set(Phase) == set(RULES)
    assert {phase for phase, rules in RULES.items() if not rules} == FINAL | {Phase.ABORTED}


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("action", list(Action))
def test_an_action_leads_where_the_table_says_and_nowhere_else(phase: Phase, action: Action) -> None:
    before = state(phase, version=3, retry_count=1)
    after = act(before, action, NOW)

    if (phase, action) not in ACTIONS:
        assert after is before
        return
    assert after.phase == ACTIONS[phase, action]
    # Who resumes a Job has not tried it in vain.
    restarts = after.phase is Phase.RESTARTING and action is not Action.RESUME
    assert after.retry_count == before.retry_count + restarts
    assert after.version == before.version + (action not in TARGETED | {Action.RESUME})


def test_a_restart_waits_until_the_old_pods_are_gone_and_gives_up_after_the_last_retry() -> None:
    restarting = act(state(Phase.RUNNING), Action.RESTART, NOW)

    assert advance(restarting, seen(RUN, RUN, RUN, RUN), NOW).phase is Phase.RESTARTING
    assert advance(restarting, seen(), NOW).phase is Phase.PENDING
    assert advance(state(Phase.RESTARTING, retry_count=3), seen(), NOW).phase is Phase.FAILED


@pytest.mark.parametrize(
    ("workers", "after"),
    [((DONE, DONE, BAD), Phase.COMPLETED), ((DONE, BAD, BAD), Phase.FAILED)],
)
def test_every_task_needs_its_own_minimum_of_successes(workers: tuple[PodPhase, ...], after: Phase) -> None:
    ended = (pod(index, phase) for index, phase in enumerate(workers))
    pods = (pod(0, DONE, task="master", uid="m"), *ended)
    view = JobView(spec=job(**two_tasks(minAvailable=3)), pods=pods)

    assert after == advance(state(Phase.RUNNING), view, NOW).phase


def test_a_succeeded_seat_counts_though_its_pod_is_gone() -> None:
    view = seen(None, DONE, DONE, DONE, outcomes={("worker", 0): DONE})

    assert view.counts(state()).succeeded == 4
    assert advance(state(Phase.RUNNING), view, NOW).phase is Phase.COMPLETED


def test_pods_count_by_what_they_do() -> None:
    leaving = pod(3, RUN, deleting=True)
    view = JobView(spec=job(), pods=(pod(0, WAIT), pod(1, RUN), pod(2, BAD), leaving))
    counts = view.counts(state())

    assert (counts.pending, counts.running, counts.failed, counts.terminating) == (1, 1, 1, 1)
    assert counts.tasks == {"worker": {"Failed": 1, "Pending": 1, "Running": 1}}


def test_a_successor_counts_and_not_the_pod_it_replaces() -> None:
    old: PodFact = pod(0, RUN, uid="old", deleting=True)
    view = JobView(spec=job(), pods=(pod(0, RUN), old))

    assert (view.counts(state()).running, view.counts(state()).terminating) == (1, 0)


def test_pods_of_an_older_version_are_on_their_way_out() -> None:
    view = JobView(spec=job(), pods=(pod(0, RUN, version=0), pod(1, DONE, version=0)))

    assert view.counts(state(version=1)).terminating == 2


def test_a_job_that_is_being_deleted_changes_no_more() -> None:
    view = JobView(spec=job(), pods=tuple(pod(index) for index in range(4)), deleting=True)

    assert advance(state(), view, NOW) == state()


def test_times_and_history_tell_when_phases_were_entered() -> None:
    new = advance(JobState(uid=UID), seen(RUN, RUN, RUN, RUN), 10)
    ended = advance(new, seen(DONE, DONE, DONE, DONE), 20)

    assert (ended.started_at, ended.finished_at, ended.last_transition) == (10, 20, 20)
    assert ended.history == ((Phase.PENDING, 10), (Phase.RUNNING, 10), (Phase.COMPLETED, 20))


def test_history_is_kept_short() -> None:
    flapping = state()
    for turn in range(HISTORY):
        flapping = advance(flapping, seen(RUN, RUN, RUN, RUN), turn)
        flapping = advance(flapping, seen(), turn)

    assert len(flapping.history) == HISTORY


def test_a_state_survives_the_ledger() -> None:
    ended = advance(JobState(uid=UID), seen(DONE, DONE, DONE, DONE), 20)

    assert JobState.from_json(ended.to_json()) == ended


@pytest.mark.parametrize(
    ("phase", "ttl", "now", "gone"),
    [
        (Phase.COMPLETED, 60, 159, False),
        (Phase.COMPLETED, 60, 160, True),
        (Phase.FAILED, 0, 100, True),
        (Phase.COMPLETED, None, 10**9, False),
        (Phase.ABORTED, 0, 10**9, False),
    ],
)
def test_a_job_goes_its_time_after_the_end(phase: Phase, ttl: int | None, now: int, gone: bool) -> None:
    assert gone == expired(state(phase, finished_at=100), job(ttlSecondsAfterFinished=ttl), now)


def test_stopped_phases_want_no_pods() -> None:
    wanting = {phase for phase in Phase if state(phase).wants_pods()}

    assert wanting == {Phase.PENDING, Phase.RUNNING}
    assert not wanting & STOPPED


def view(*versions: int, leaving: tuple[int, ...] = ()) -> JobView:
    """Four running pods, or fewer, of these versions; those of ``leaving`` are being deleted."""
    pods = [
        pod(index, PodPhase.RUNNING, version=version, deleting=index in leaving)
        for index, version in enumerate(versions)
    ]
    return JobView(spec=job(), pods=tuple(pods))


@with_rows("known", "seen", "leaving", "version")
def test_a_job_is_at_the_version_of_all_its_pods(
    known: int, seen: tuple[int, ...], leaving: tuple[int, ...], version: int
) -> None:
    state = JobState(uid=UID, version=known)
    assert at_version_of_pods(state, view(*seen, leaving=leaving)).version == version


def test_a_job_that_volcano_restarted_runs_and_can_be_restarted_again() -> None:
    seen = view(1, 1, 1, 1)
    state = advance(at_version_of_pods(JobState(uid=UID), seen), seen, 10)
    assert state.phase is Phase.RUNNING
    restarted = act(state, Action.RESTART, 20)
    assert all(is_stale(each, restarted) for each in seen.pods)
    assert at_version_of_pods(restarted, seen) is restarted

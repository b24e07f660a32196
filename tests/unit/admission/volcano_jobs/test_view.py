"""Pods of a Job that was restarted before Muster, or this ledger, knew it."""

from admission.facts.pods import PodPhase
from admission.volcano_jobs.lifecycle import act, advance
from admission.volcano_jobs.state import Action, JobState, Phase
from admission.volcano_jobs.view import JobView, at_version_of_pods, is_stale
from tests.builders.volcano_jobs import UID, job, pod
from tests.tables import with_rows


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

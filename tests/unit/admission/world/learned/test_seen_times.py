"""What a leader remembers of Jobs that are resumed."""

from admission.world.learned.seen_times import SeenTimes
from tests.builders.facts import JOB, job

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

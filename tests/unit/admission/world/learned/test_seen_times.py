"""What a leader remembers of Jobs that are resumed, and of workloads that are over."""

from admission.world.learned.seen_times import SeenTimes
from queues.workload import AdmissionId
from tests.builders.facts import GROUP, JOB, NOW, admission, gone, group, job, queue, released, see, world

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

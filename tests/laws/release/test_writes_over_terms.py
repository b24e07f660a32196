"""Writes that one leader has sent and that are carried out in the term of the next: no pod runs in another's seat."""

from collections.abc import Awaitable, Callable

import pytest

from admission.world.learned.inherited_seats import InheritedSeats
from queues.sql.database import Database
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_components import control_jobs, run_pods, schedule
from tests.laws.laws.release import no_device_twice, no_two_pods_on_one_seat
from tests.laws.worlds.ring import Ring


async def begun(muster: Database) -> Ring:
    """Two queues, and one node of 4 GPUs."""
    cluster = FakeCluster()
    for queue in ("root", "a", "b"):
        cluster.add_queue(queue)
    cluster.add_node("n1", 4)
    return await Ring.begin(muster, cluster)


async def goes_on(ring: Ring, turns: int) -> None:
    """Each component gets round to everything so many times, a second each."""
    for _ in range(turns):
        await ring.turn()
        ring.carry_out()
        control_jobs(ring.cluster)
        holds(ring)
        schedule(ring.cluster)
        run_pods(ring.cluster)
        ring.cluster.now += 1


def holds(ring: Ring) -> None:
    no_two_pods_on_one_seat(ring.cluster)
    no_device_twice(ring.cluster)


async def another_comes_and_the_write_arrives(ring: Ring) -> None:
    """What was lent is got back; in the last second of the minute a write of the last term is carried out."""
    ring.cluster.add_job("mine", "a", 1, 1, indexed=False, gpus=2)
    await goes_on(ring, 59)
    ring.write_late(0)
    holds(ring)
    control_jobs(ring.cluster)
    holds(ring)
    await goes_on(ring, 30)


async def a_pod_is_made_for_one_that_ended(ring: Ring) -> None:
    ring.cluster.add_volcano_job("lent", "b", 1, 1, 4)
    await goes_on(ring, 4)
    (pod,) = ring.cluster.running()
    ring.delete_as_user(pod)
    run_pods(ring.cluster)
    await ring.turn()
    assert [len(work.creates) for work in ring.works.values()] == [1]
    await ring.crash()
    ring.cluster.remove("vcjobs", next(iter(ring.cluster.objects["vcjobs"])))
    await another_comes_and_the_write_arrives(ring)


async def a_job_is_resumed_that_its_user_had_suspended(ring: Ring) -> None:
    uid = ring.cluster.add_job("lent", "b", 2, 2, indexed=False, gpus=2)
    await goes_on(ring, 4)
    assert len(ring.cluster.running()) == 2
    ring.cluster.suspend_or_resize(uid, 2)
    for _ in range(2):
        control_jobs(ring.cluster)
        run_pods(ring.cluster)
    ring.cluster.now += 5
    await ring.turn()
    assert [intent for _, intent in ring.release.queue.steps] == ["resume 1"]
    await ring.crash()
    await another_comes_and_the_write_arrives(ring)


HISTORIES = (a_pod_is_made_for_one_that_ended, a_job_is_resumed_that_its_user_had_suspended)


@pytest.mark.parametrize("history", HISTORIES)
async def test_a_seat_is_kept_for_what_the_term_before_has_sent(
    muster: Database, history: Callable[[Ring], Awaitable[None]]
) -> None:
    await history(await begun(muster))


@pytest.mark.parametrize("history", HISTORIES)
async def test_a_term_that_knows_of_no_writes_before_it_breaks_the_law(
    muster: Database,
    history: Callable[[Ring], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(InheritedSeats, "of", lambda self, key, now: {})
    with pytest.raises(AssertionError):
        await history(await begun(muster))

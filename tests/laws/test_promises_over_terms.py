"""A place that was promised is given by whoever leads next, and nobody is taken back twice for it."""

import pytest

from queues.errors import OutcomeUnknown
from queues.sql.database import Database
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_components import control_jobs, run_pods, schedule
from tests.laws.laws.ring import balances_equal_seats, equals_reloaded
from tests.laws.worlds.ring import Killed, Ring


async def beat(ring: Ring, fault: tuple[str, type[BaseException] | None] = ("", None)) -> None:
    """Everybody gets round to everything once."""
    await ring.turn(fault=fault)
    ring.carry_out()
    control_jobs(ring.cluster)
    schedule(ring.cluster)
    run_pods(ring.cluster)
    ring.cluster.now += 1


def running(ring: Ring, queue: str) -> int:
    """GPUs of a queue's open admissions."""
    return sum(
        admission.holds()["nvidia.com/gpu"] // 1000
        for admission in ring.world.admissions.values()
        if admission.queue == queue and admission.started
    )


@pytest.mark.parametrize(
    "fault",
    [("", None), ("decided", Killed), ("applied", Killed), ("applied", OutcomeUnknown), ("freeing", Killed)],
    ids=lambda fault: fault[0] or "no fault",
)
async def test_what_was_lent_is_got_back_whoever_leads(
    database: str, fault: tuple[str, type[BaseException] | None]
) -> None:
    connected = await Database.connect(database)
    try:
        cluster = FakeCluster()
        cluster.add_queue("root")
        for queue in ("a", "b"):
            cluster.add_queue(queue)
        for node in ("n1", "n2"):
            cluster.add_node(node, 4)
        ring = await Ring.begin(connected, cluster)
        for number in range(4):
            cluster.add_volcano_job(f"lent{number}", "b", 1, 1, 2)
        for _ in range(6):
            await beat(ring)
        assert running(ring, "b") == 8

        cluster.add_volcano_job("mine", "a", 1, 1, 4)
        for turn in range(12):
            await beat(ring, fault if turn < 3 else ("", None))
        assert (running(ring, "a"), running(ring, "b")) == (4, 4)
        assert sum(setbacks.evictions for setbacks in ring.world.setbacks.values()) == 2
        assert ring.world.claims == {}
        await equals_reloaded(ring)
        await balances_equal_seats(ring)
    finally:
        await connected.close()

"""What runs is what was admitted, also where a Job changes while the write that resumes it is under way."""

import pytest

from queues.sql.database import Database
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_components import control_jobs, run_pods, schedule
from tests.fakes.fake_objects import gpus_of
from tests.laws.laws.ring import balances_equal_seats, equals_reloaded, no_pod_beyond_its_seat
from tests.laws.worlds.ring import Ring


async def beat(ring: Ring) -> None:
    """Each component gets round to everything once."""
    await ring.turn()
    ring.carry_out()
    control_jobs(ring.cluster)
    schedule(ring.cluster)
    run_pods(ring.cluster)
    ring.cluster.now += 1
    no_pod_beyond_its_seat(ring)


def suspended(ring: Ring, uid: str) -> bool:
    return bool(ring.cluster.objects["jobs"][uid]["spec"]["suspend"])


def sizes(ring: Ring) -> list[int]:
    """GPUs of each pod that runs."""
    return [gpus_of(ring.cluster.objects["pods"][uid]["spec"]) for uid in ring.cluster.running()]


@pytest.mark.parametrize("deposed", [False, True], ids=["of its own", "of a deposed leader"])
@pytest.mark.parametrize("pods", [2, 3], ids=["on its nodes", "pod by pod"])
async def test_a_job_that_is_changed_before_it_is_resumed_runs_with_what_it_asks_then(
    database: str, pods: int, deposed: bool
) -> None:
    connected = await Database.connect(database)
    try:
        cluster = FakeCluster()
        for queue in ("root", "a"):
            cluster.add_queue(queue)
        for node in ("n1", "n2", "n3"):
            cluster.add_node(node, 4)
        ring = await Ring.begin(connected, cluster)
        uid = cluster.add_job("train", "a", pods, pods, indexed=False, gpus=2)
        control_jobs(cluster)
        await ring.turn()
        assert [order.intent.partition(" ")[0] for _, order in ring.under_way.values()] == ["resume"]

        cluster.suspend_or_resize(uid, 4)
        if deposed:
            await ring.crash()
            ring.write_late(0)
        else:
            ring.carry_out()
        assert suspended(ring, uid), "the Job was compared as another one"
        for _ in range(12):
            await beat(ring)
        assert sizes(ring) == [4] * pods
        await equals_reloaded(ring)
        await balances_equal_seats(ring)
    finally:
        await connected.close()

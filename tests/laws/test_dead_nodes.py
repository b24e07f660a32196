"""A gang does not wait for ever for a node that does not answer, and no pod of it is made twice before that."""

import pytest

from queues.sql.database import Database
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_components import control_jobs, run_pods, schedule
from tests.fakes.fake_objects import is_up
from tests.laws.laws.ring import balances_equal_seats, equals_reloaded
from tests.laws.worlds.ring import PATIENCE, Ring


async def beat(ring: Ring, seconds: int = 1) -> None:
    """Each component gets round to everything once."""
    await ring.turn()
    ring.carry_out()
    control_jobs(ring.cluster)
    schedule(ring.cluster)
    run_pods(ring.cluster)
    ring.cluster.now += seconds


def on_nodes_that_answer(ring: Ring) -> int:
    nodes = ring.cluster.objects["nodes"]
    pods = (ring.cluster.objects["pods"][uid] for uid in ring.cluster.running())
    return sum(is_up(nodes[pod["spec"]["nodeName"]]) for pod in pods)


def is_there(ring: Ring, uid: str) -> bool:
    return uid in ring.cluster.objects["pods"]


@pytest.mark.parametrize("kind", ["vcjob", "job"])
async def test_a_gang_goes_on_once_its_pod_on_a_silent_node_counts_as_gone(database: str, kind: str) -> None:
    connected = await Database.connect(database)
    try:
        cluster = FakeCluster()
        for queue in ("root", "a"):
            cluster.add_queue(queue)
        for node in ("n1", "n2", "n3"):
            cluster.add_node(node, 4)
        ring = await Ring.begin(connected, cluster)
        if kind == "vcjob":
            cluster.add_volcano_job("train", "a", 2, 2, 3)
        else:
            cluster.add_job("train", "a", 2, 2, indexed=False, gpus=3)
        for _ in range(6):
            await beat(ring)
        assert on_nodes_that_answer(ring) == 2

        lost, pod = next(iter(cluster.objects["pods"].items()))
        silent = [{"type": "Ready", "status": "Unknown"}]
        cluster.change("nodes", pod["spec"]["nodeName"], {"status": {"conditions": silent}})
        cluster.delete_pod(lost)
        for _ in range(5):
            await beat(ring, PATIENCE.dead_node // 6)
            assert is_there(ring, lost)
        (state,) = ring.world.states.values()
        assert state.problem is not None
        assert state.problem.code == "NodeNotReady"
        for _ in range(12):
            await beat(ring, PATIENCE.dead_node // 6)
        assert not is_there(ring, lost)
        assert on_nodes_that_answer(ring) == 2
        await equals_reloaded(ring)
        await balances_equal_seats(ring)
    finally:
        await connected.close()

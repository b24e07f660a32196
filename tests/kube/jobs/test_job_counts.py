"""What Muster says of the pods that a Job still gets, against the job controller of Kubernetes."""

import asyncio
from contextlib import suppress

import pytest

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.errors import Conflict
from tests.kube.support.job_histories import NODE, JobHistory
from tests.kube.support.seated_jobs import SeatedJob

#: Histories that are played at the same time.
AT_ONCE = 24


async def play(api: Client, namespace: str, seed: int, steps: int) -> None:
    """One history. At each step the seats of the Job are what its controller makes pods for."""
    directed = seed % 2 == 1
    history = JobHistory(api, namespace, f"h{seed}", seed, shrinks_only=directed)
    seated = SeatedJob(nodes=1 if seed % 4 == 3 else 2, directed=directed, draw=history.draw)
    seen = await history.begin()
    for _ in range(steps):
        if wrong := seated.wrong_at_rest(seen):
            raise AssertionError("\n".join([f"seed {seed}", *history.log, wrong, str(seen.job["status"])]))
        if seen.fact.finished:
            return
        seen = await history.step(seen)


@pytest.mark.parametrize(
    ("first", "count", "steps"),
    [(0, 32, 9), pytest.param(1000, 400, 16, marks=pytest.mark.long)],
    ids=["some", "many"],
)
async def test_a_job_has_seats_for_the_pods_that_its_controller_will_make_and_lacks_no_others(
    local_cluster: LocalCluster, first: int, count: int, steps: int
) -> None:
    namespace = f"histories-{first}"
    async with await Client.connect(local_cluster.kubeconfig) as api:
        await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        with suppress(Conflict):
            await api.create("/api/v1/nodes", {"metadata": {"name": NODE}, "spec": {"unschedulable": True}})
        places = asyncio.Semaphore(AT_ONCE)

        async def one(seed: int) -> str:
            async with places:
                try:
                    await play(api, namespace, seed, steps)
                except AssertionError as error:
                    return str(error)
                return ""

        wrong = await asyncio.gather(*(one(seed) for seed in range(first, first + count)))
    assert not any(wrong), "\n\n".join(filter(None, wrong))

"""What Muster says of the pods that a Job still gets, against the job controller of Kubernetes."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.errors import Conflict
from tests.kube.support.job_histories import NODE, JobHistory, Seen
from tests.kube.support.job_records import recorded
from tests.kube.support.seated_jobs import SeatedJob

#: Histories that are played at the same time.
AT_ONCE = 24
#: File to which the histories are added, for ``tests/laws/planted/test_job_count_bugs.py``; "": none.
RECORD = os.environ.get("MUSTER_RECORD_JOB_HISTORIES", "")


async def play(api: Client, namespace: str, seed: int, steps: int) -> list[Seen]:
    """One history. At each step the seats of the Job, and those of its JobSet, are what its controller makes
    pods for."""
    directed = seed % 2 == 1
    history = JobHistory(api, namespace, f"h{seed}", seed, shrinks_only=directed)
    seated = [SeatedJob(nodes=1 if seed % 4 == 3 else 2, directed=directed, draw=history.draw)]
    if not directed:
        seated.append(SeatedJob(nodes=2, directed=False, draw=history.draw, in_job_set=True))
    seen = await history.begin()
    rests = []
    for _ in range(steps):
        rests.append(seen)
        if wrong := "".join(each.wrong_at_rest(seen) for each in seated):
            raise AssertionError("\n".join([f"seed {seed}", *history.log, wrong, str(seen.job["status"])]))
        if seen.fact.finished:
            break
        seen = await history.step(seen)
    return rests


def record(seed: int, rests: list[Seen]) -> None:
    """Add a history to the file of records."""
    if RECORD:
        with Path(RECORD).open("a") as file:
            file.write(recorded(seed, rests) + "\n")


@pytest.mark.parametrize(
    ("first", "count", "steps"),
    [(0, 16, 9), pytest.param(1000, 400, 16, marks=pytest.mark.long)],
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
                    record(seed, await play(api, namespace, seed, steps))
                except AssertionError as error:
                    return str(error)
                return ""

        wrong = await asyncio.gather(*(one(seed) for seed in range(first, first + count)))
    assert not any(wrong), "\n\n".join(filter(None, wrong))

"""What Kubernetes' own job controller does when a Job that runs gets more pods, and what the API server lets pass: what
Jobs that grow rest on (docs/decisions/pods-and-gangs.md)."""

from typing import Any

import msgspec
import pytest

from admission.kube.client.client import Client
from queues.api.api_resources import JOBS, PODS
from queues.errors import ApiRefused
from tests.kube.support.cluster_objects import becomes

GATE = "muster.dev/admission"
Document = dict[str, Any]


def affinity(node: str) -> Document:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


class Running:
    """A Job that runs, named ``train``."""

    def __init__(self, api: Client, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    async def begin(self, count: int, *, mode: str = "Indexed", **pod: Any) -> None:
        container = {"name": "main", "image": "x"}
        spec = {
            "parallelism": count,
            "completions": count,
            "completionMode": mode,
            "podReplacementPolicy": "Failed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [container], **pod}},
        }
        await self._api.create(JOBS.path(self._namespace), {"metadata": {"name": "train"}, "spec": spec})
        await self.has(count)

    async def change(self, **spec: Any) -> None:
        await self._api.patch(JOBS.path(self._namespace, "train"), {"spec": spec})

    async def has(self, count: int) -> list[Document]:
        """Its pods, once there are so many."""

        async def pods() -> list[Document]:
            found = msgspec.json.decode(await self._api.get(PODS.path(self._namespace)))["items"]
            left = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
            return left if len(left) == count else []

        return await becomes(pods)


@pytest.fixture
def job(api: Client, namespace: str) -> Running:
    return Running(api, namespace)


def indexes(pods: list[Document]) -> list[int]:
    key = "batch.kubernetes.io/job-completion-index"
    return sorted(int(pod["metadata"]["annotations"][key]) for pod in pods)


async def test_pods_that_are_added_come_up_behind_the_gate_of_the_template(job: Running) -> None:
    """So they wait for seats of their own, also while nobody watches; what is taken away goes from the end."""
    await job.begin(2, schedulingGates=[{"name": GATE}])
    await job.change(parallelism=4, completions=4)
    pods = await job.has(4)
    assert indexes(pods) == [0, 1, 2, 3]
    assert all(pod["spec"]["schedulingGates"] == [{"name": GATE}] for pod in pods)
    await job.change(parallelism=1, completions=1)
    assert indexes(await job.has(1)) == [0]


async def test_pods_that_are_added_to_a_job_with_the_nodes_of_its_seats_start_on_these(job: Running) -> None:
    """Past what was admitted, so a policy refuses it: other nodes cannot be written while the Job runs."""
    await job.begin(1, affinity=affinity("nowhere"))
    with pytest.raises(ApiRefused, match="field is immutable"):
        await job.change(template={"spec": {"affinity": affinity("elsewhere")}})
    await job.change(parallelism=2, completions=2)
    assert [pod["spec"]["affinity"] for pod in await job.has(2)] == [affinity("nowhere")] * 2


async def test_only_an_indexed_job_gets_more_completions(job: Running) -> None:
    """Another one gets more pods at a time, up to the completions that it has."""
    await job.begin(1, mode="NonIndexed", schedulingGates=[{"name": GATE}])
    with pytest.raises(ApiRefused, match="field is immutable"):
        await job.change(completions=2)
    await job.change(parallelism=2)
    await job.has(1)

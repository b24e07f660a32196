"""A Job is resumed only as the version of its spec that was compared with what was admitted."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.facts.cluster import NodeFact
from admission.facts.workloads import WorkloadFact
from admission.kube.client.client import Client
from admission.kube.writers.release import ReleaseWriter
from admission.workloads.kinds.batch_job import WireJob, job_fact
from admission.world.world import World
from queues.api.api_resources import JOBS
from queues.errors import ApiError
from queues.resources import Resources
from queues.workload import NodeName, QueueName
from tests.builders.facts import admission, node, seen, world
from tests.kube.support.cluster_objects import becomes
from tests.tables import with_rows
from tests.waiting import eventually

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SEAT = Resources({"cpu": 1000, "pods": 1})


def template(cpu: str, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}}
    container = {"name": "main", "image": "train", "resources": resources}
    return {"spec": {"containers": [container], "restartPolicy": "Never", **spec}}


async def made(api: Client, namespace: str, **spec: Any) -> WorkloadFact:
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"muster.dev/queue-name": "team"}},
        "spec": {"suspend": True, "template": template("1", **spec)},
    }
    await api.create(JOBS.path(namespace), document)
    return await as_seen(api, namespace)


async def as_seen(api: Client, namespace: str) -> WorkloadFact:
    raw = await api.get(JOBS.path(namespace, "train"))
    return job_fact(msgspec.json.decode(raw, type=WireJob))


def n1() -> NodeFact:
    return replace(node("n1"), allocatable=Resources({"cpu": 8000, "pods": 110}))


def admitted(fact: WorkloadFact) -> World:
    """A world in which the Job has a seat for a pod of one CPU."""
    held = admission(fact.key, "n1", pod_set="main", namespace=fact.namespace, name="train")
    seat = replace(held.seats[0], takes=SEAT, node=NodeName("n1"))
    return world([n1(), fact], [replace(held, seats=(seat,), queue=QueueName("team"))])


def writer(api: Client, known: World) -> ReleaseWriter:
    return ReleaseWriter(api, known, lambda: None, requeue=lambda key: None, failpoint=lambda point: None)


async def resumed(api: Client, namespace: str) -> bool:
    return not (await as_seen(api, namespace)).suspended


async def suspends(api: Client, namespace: str) -> None:
    """Its controller has said that no pod of it runs: from then on its template may be changed."""

    async def holds() -> bool:
        job = msgspec.json.decode(await api.get(JOBS.path(namespace, "train")))
        conditions = job["status"].get("conditions", ())
        return any(each["type"] == "Suspended" and each["status"] == "True" for each in conditions)

    await becomes(holds)


async def test_a_job_that_was_changed_meanwhile_is_not_resumed(api: Client, namespace: str) -> None:
    fact = await made(api, namespace)
    await suspends(api, namespace)
    known = admitted(fact)
    change = {"spec": {"template": {"spec": {"containers": template("8")["spec"]["containers"]}}}}
    await api.patch(JOBS.path(namespace, "train"), change)

    release = writer(api, known)
    release.reconcile([fact.key])
    await eventually(lambda: not release.queue.is_busy(), "the write")
    assert not await resumed(api, namespace)
    assert release.problems == {}, "nothing was refused: it is another Job by now"
    known.observe([seen(await as_seen(api, namespace))])
    known.refresh(0)
    assert [each.code for each in known.states[fact.key].evictable.values()] == ["RequestChanged"]
    await eventually(lambda: not release.queue.is_busy(), "what was tried again before that")
    release.reconcile([fact.key])
    assert not release.queue.is_busy(), "it goes back first"
    await release.queue.stop()


@with_rows("spec")
async def test_a_job_as_it_was_admitted_is_resumed_on_its_nodes(
    api: Client, namespace: str, spec: dict[str, Any]
) -> None:
    fact = await made(api, namespace, **spec)
    release = writer(api, admitted(fact))
    release.reconcile([fact.key])

    async def runs() -> bool:
        return await resumed(api, namespace)

    await becomes(runs)
    found = await as_seen(api, namespace)
    assert found.directed is not None
    assert found.generation == fact.generation
    written = msgspec.json.decode(await api.get(JOBS.path(namespace, "train")))["spec"]["template"]
    terms = written["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["n1"]]
    assert written["metadata"]["labels"]["muster.dev/released"] == "true"
    await release.queue.stop()
    with pytest.raises(ApiError):
        await api.patch(JOBS.path(namespace, "train"), {"spec": {"template": template("8")}})


async def test_what_an_earlier_admission_wrote_is_taken_out_of_the_template(
    api: Client, namespace: str
) -> None:
    """It was resumed on its nodes, and is suspended again; now its pods are seated one by one."""
    fact = await made(api, namespace)
    first = writer(api, admitted(fact))
    first.reconcile([fact.key])

    async def runs() -> bool:
        return await resumed(api, namespace)

    await becomes(runs)
    await first.queue.stop()
    await api.patch(JOBS.path(namespace, "train"), {"spec": {"suspend": True}})
    await suspends(api, namespace)
    fact = await as_seen(api, namespace)
    assert fact.directed is not None
    held = admission(fact.key, "n1 n2", number=2, pod_set="main", namespace=namespace, name="train")
    seats = tuple(replace(seat, takes=SEAT) for seat in held.seats)
    n2 = replace(n1(), name=NodeName("n2"))
    known = world([n1(), n2, fact], [replace(held, seats=seats)])
    second = writer(api, known)
    second.reconcile([fact.key])
    await becomes(runs)
    found = await as_seen(api, namespace)
    assert (found.directed, found.pod_sets[0].nodes.affinity) == (None, ())
    await second.queue.stop()

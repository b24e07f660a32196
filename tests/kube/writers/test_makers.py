"""A TrainJob is suspended while its JobSet waits, whatever came between the writes to the two."""

from typing import Any

from admission.kube.client.client import Client
from admission.kube.writers.release import ReleaseWriter
from admission.world.world import World
from queues.admissions import Admission
from queues.kind_names import KindName
from tests.builders.facts import admission, evicting, node, world
from tests.builders.operator_jobs import fact, replicated
from tests.fakes.fake_api_server import FakeApiServer, answers, hangs
from tests.waiting import eventually

OWNER = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "tune", "uid": "t"}
JOB_SET = fact(
    KindName("jobset"),
    {"replicatedJobs": [replicated("driver")]},
    suspended=True,
    ownerReferences=[{**OWNER, "controller": True}],
)
ADMITTED = admission(JOB_SET.key, "n1", pod_set="driver")


def job_set(*admissions: Admission) -> World:
    return world([node("n1"), JOB_SET], admissions)


def release_writer(client: Client, known: World) -> ReleaseWriter:
    return ReleaseWriter(client, known, lambda: None, requeue=lambda key: None, failpoint=lambda point: None)


def writes(server: FakeApiServer) -> list[tuple[str, Any]]:
    """The object, and whether it is suspended, of each write."""
    found = []
    for request in server.seen("PATCH"):
        body = request.body
        said = (
            [step["value"] for step in body if step["path"] == "/spec/suspend"]
            if isinstance(body, list)
            else []
        )
        found.append((request.path.split("/")[-2], said[0] if said else body["spec"]["suspend"]))
    return found


async def quiet(release: ReleaseWriter) -> None:
    await eventually(lambda: not release.queue.is_busy(), "all orders")


async def test_a_train_job_is_suspended_again_if_its_job_set_goes_back_before_it_was_resumed(
    server: FakeApiServer, client: Client
) -> None:
    """The write to the TrainJob may be carried out late, so it is suspended once more when that is certain."""
    known = job_set(ADMITTED)
    release = release_writer(client, known)
    server.once("PATCH", hangs)
    release.reconcile([JOB_SET.key])
    await eventually(lambda: bool(server.seen("PATCH")), "the write to the TrainJob")

    release.world = job_set(evicting(ADMITTED))
    release.reconcile([JOB_SET.key])
    await quiet(release)

    assert writes(server) == [("trainjobs", False), ("trainjobs", True)]
    release.reconcile([JOB_SET.key])
    assert not release.queue.is_busy(), "not before the first one is over in any case"
    release.queue.forget_expectations("t")
    release.reconcile([JOB_SET.key])
    await quiet(release)
    assert writes(server)[2:] == [("trainjobs", True)]
    await release.queue.stop()


async def test_the_next_leader_suspends_the_train_job_of_each_job_set_that_waits_once(
    server: FakeApiServer, client: Client
) -> None:
    release = release_writer(client, job_set())
    for _ in range(3):
        release.reconcile([JOB_SET.key])
        await quiet(release)
        release.queue.forget_expectations("t")
    assert writes(server) == [("trainjobs", True)]
    await release.queue.stop()


async def test_a_train_job_that_is_gone_is_not_asked_for_again(server: FakeApiServer, client: Client) -> None:
    server.once("PATCH", answers(404, "not found"))
    release = release_writer(client, job_set())
    for _ in range(2):
        release.reconcile([JOB_SET.key])
        await quiet(release)
    assert len(server.seen("PATCH")) == 1
    await release.queue.stop()


async def test_an_admitted_job_set_is_resumed_after_its_train_job(
    server: FakeApiServer, client: Client
) -> None:
    release = release_writer(client, job_set(ADMITTED))
    release.reconcile([JOB_SET.key])
    await quiet(release)
    assert writes(server) == [("trainjobs", False), ("jobsets", False)]
    await release.queue.stop()

"""Volcano Jobs as tests post them, their admissions, and the work that follows for Muster."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn, cast

import msgspec

from admission.facts.pods import PodFact, PodPhase, PodShape
from admission.facts.volcano_jobs import JobSpec
from admission.kube.client.client import Client
from admission.kube.writers.repeated_writes import RepeatedWrites, finalizer_removed
from admission.kube.writers.volcano_jobs import VolcanoJobWriter
from admission.volcano_jobs.pod_changes import JobWork, work_for
from admission.volcano_jobs.pods import PodRules
from admission.volcano_jobs.state import JobState, Phase
from admission.volcano_jobs.view import JobView
from admission.wire import WirePod
from admission.workloads.kinds import read_pod
from admission.world.world import World
from queues import kind_names
from queues.admissions import Admission, Seat
from queues.errors import Conflict, NotFound
from queues.plan import Reason
from queues.resources import Resources
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey
from tests import waiting
from tests.builders.volcano_jobs import document, read_job
from tests.kube.support.cluster_objects import becomes

Document = dict[str, Any]


def gang_of_four() -> Document:
    """A Job of 4 workers with the plugins ssh and svc."""
    return {**document(), "metadata": {"name": "pytorch-distributed"}}


def plain(name: str = "plain", **spec: Any) -> Document:
    """A Job without plugins."""
    return {**document(**{"plugins": {}, **spec}), "metadata": {"name": name}}


async def submitted(api: Client, namespace: str, document: Document) -> JobSpec:
    path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"

    async def create() -> bytes:
        # A kind may not be served yet right after its definition was created.
        return await api.create(path, document)

    return read_job(await eventually(create))


def admitted(spec: JobSpec, nodes: list[str], number: int = 7) -> Admission:
    seats = [(task.name, index) for task in spec.tasks for index in range(task.replicas)]
    return Admission(
        id=AdmissionId(number),
        workload=WorkloadKey(kind_names.VOLCANO_JOB, spec.uid),
        namespace=spec.namespace,
        name=spec.name,
        queue=QueueName("default"),
        priority=0,
        seats=tuple(
            Seat(
                pod_set=task,
                ordinal=index,
                node=NodeName(nodes[position % len(nodes)]),
                takes=Resources({"pods": 1}),
            )
            for position, (task, index) in enumerate(seats)
        ),
        opened_at=0,
    )


def work(
    spec: JobSpec,
    *admissions: Admission,
    pods: tuple[PodFact, ...] = (),
    phase: Phase = Phase.PENDING,
    **more: Any,
) -> JobWork:
    key = WorkloadKey(kind_names.VOLCANO_JOB, spec.uid)
    view = JobView(spec=spec, pods=pods, admissions=admissions)
    return work_for(key, JobState(uid=spec.uid, phase=phase), view, 100, rules=PodRules(), **more)


def fact(pod: Document, admission: int | None = None) -> PodFact:
    task, index = pod["metadata"]["annotations"]["muster.dev/seat"].split("/")
    return PodFact(
        uid=pod["metadata"]["uid"],
        namespace=pod["metadata"]["namespace"],
        name=pod["metadata"]["name"],
        phase=PodPhase(pod["status"]["phase"]),
        shape=PodShape(takes=Resources({"pods": 1})),
        task=task,
        index=int(index),
        admission=AdmissionId(admission or int(pod["metadata"]["annotations"]["muster.dev/admission-id"])),
    )


async def listed(api: Client, namespace: str, what: str = "pods", group: str = "api/v1") -> list[Document]:
    found: list[Document] = json.loads(await api.get(f"/{group}/namespaces/{namespace}/{what}"))["items"]
    return found


async def named(api: Client, namespace: str, what: str, name: str, group: str = "api/v1") -> Document:
    found: Document = json.loads(await api.get(f"/{group}/namespaces/{namespace}/{what}/{name}"))
    return found


async def eventually(look: Callable[[], Awaitable[Any]]) -> Any:
    """The first answer that is true, of objects that come, change and go."""
    return await becomes(look, despite=(NotFound, Conflict))


#: A world in which every seat is held and no pod is shown: the work of these tests is made by hand.
_SHOWS_NOTHING = cast(
    World,
    SimpleNamespace(
        admission_index=SimpleNamespace(holds_seats=lambda id_, seats: True),
        pod_index=SimpleNamespace(of=lambda key: []),
        states={},
    ),
)


class Report(NamedTuple):
    """What became of the work of a Job; pods made and deleted are those of all Jobs that were reconciled with it."""

    workload: WorkloadKey
    created: int
    deleted: int
    problem: Reason | None


class ReportingWriter(VolcanoJobWriter):
    """A writer that can be waited for, with what became of each Job's work."""

    def __init__(
        self,
        api: Client,
        check_lease: Callable[[], None] = lambda: None,
        *,
        requeue: Callable[[WorkloadKey], None] = lambda key: None,
        failpoint: Callable[[str], None] = lambda point: None,
    ) -> None:
        super().__init__(api, _SHOWS_NOTHING, check_lease, requeue=requeue, failpoint=failpoint)

    async def reconciled(self, works: Sequence[JobWork]) -> list[Report]:
        """Carry out and wait."""
        counts = self._client.counts
        created, deleted = counts["POST", "pods", 201], counts["DELETE", "pods", 200]
        self.reconcile(works)
        keys = {work.key for work in works}
        await waiting.eventually(lambda: not any(map(self.queue.is_busy_with, keys)), "all Jobs")
        created, deleted = counts["POST", "pods", 201] - created, counts["DELETE", "pods", 200] - deleted
        return [Report(work.key, created, deleted, self.problems.get(work.key)) for work in works]


async def removing_finalizers(api: Client, namespace: str) -> NoReturn:
    """Take Muster's finalizer off pods that are being deleted, as Muster does, until cancelled."""
    remover = RepeatedWrites(lambda: None)
    try:
        while True:
            pods = msgspec.json.decode(await api.get(f"/api/v1/namespaces/{namespace}/pods"), type=_Pods)
            leaving = [each for each in map(read_pod, pods.items) if each.kept and each.deleting]
            remover.reconcile(finalizer_removed(api, lambda: None, each) for each in leaving)
            await asyncio.sleep(0.05)
    finally:
        await remover.stop()


class _Pods(msgspec.Struct):
    items: list[WirePod]

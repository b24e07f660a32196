"""How pods of Volcano Jobs are made and removed: one write each, and what came of it."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from admission.engine.plan import Reason
from admission.jobs.pods import PodMold
from admission.jobs.work import JobWork, PodUnwanted, PodWanted
from admission.kube.client import Client
from admission.kube.companions import Companions, NameTaken
from queues.api import names
from queues.api.names import BATCH_VOLCANO
from queues.errors import ApiError, Conflict, InvalidDocument, NotFound, Refused
from queues.workload import AdmissionId, WorkloadKey

#: Pods of one Job that are being written at a time; the client bounds all Jobs together.
AT_A_TIME: Final = 64

#: Codes of reasons that are shown on the Job.
POD_REFUSED: Final = "PodRefused"
OBJECT_REFUSED: Final = "ObjectRefused"
NAME_TAKEN: Final = "NameTaken"
INVALID_SPEC: Final = "InvalidSpec"


@dataclass(slots=True, kw_only=True)
class JobReport:
    """What became of one Job's work."""

    workload: WorkloadKey
    created: int = 0
    #: Pods that were there already, made by an attempt whose answer was lost.
    found: int = 0
    deleted: int = 0
    companions: int = 0
    #: What the user must know; None: nothing.
    problem: Reason | None = None
    #: Something is left to do: it is tried again after a pause.
    unfinished: bool = False


class JobPods:
    """Writes of one term. ``done`` is told what was brought about: the name of a pod made, the uid of one removed."""

    def __init__(
        self,
        client: Client,
        guard: Callable[[], None],
        companions: Companions,
        *,
        done: Callable[[JobWork, str], None],
        pause: Callable[[str], None],
    ) -> None:
        self._client = client
        self._guard = guard
        self._companions = companions
        self._done = done
        self._pause = pause

    # ── making ──────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, work: JobWork, creates: deque[PodWanted], report: JobReport) -> None:
        """Companions, then the pods; a task whose pods are refused does not stop the others."""
        try:
            report.companions += await self._companions.ensure(work.spec, work.companions)
            molds = _molds(work, creates)
        except NameTaken as error:
            _blame(report, NAME_TAKEN, str(error))
            return
        except InvalidDocument as error:
            _blame(report, INVALID_SPEC, str(error))
            return
        except ApiError as error:
            self._failed(report, error, OBJECT_REFUSED)
            return
        hopeless: set[str] = set()

        async def writer() -> None:
            while creates:
                wanted = creates.popleft()
                if wanted.task not in hopeless:
                    await self._create(work, wanted, molds[wanted.task, wanted.admission], report, hopeless)

        with self._companions.waiting():
            await all_of(writer() for _ in range(min(AT_A_TIME, len(creates))))

    async def _create(
        self, work: JobWork, wanted: PodWanted, mold: PodMold, report: JobReport, hopeless: set[str]
    ) -> None:
        path = f"/api/v1/namespaces/{work.spec.namespace}/pods"
        name = pod_name(work, wanted)
        try:
            body = mold.cast(wanted.index, wanted.node, wanted.devices)
            await self._client.create(path, body, brief=True, guard=self._guard)
            report.created += 1
        except Conflict as error:
            if error.facts.get("code") != "AlreadyExists":
                self._failed(report, error)
                return
            if not await self._is_ours(work, wanted, report):
                return
            report.found += 1
        except (Refused, NotFound) as error:
            hopeless.add(wanted.task)
            self._failed(report, error)
            return
        except ApiError as error:
            self._failed(report, error)
            return
        self._done(work, name)
        self._pause("one-released")

    async def _is_ours(self, work: JobWork, wanted: PodWanted, report: JobReport) -> bool:
        """Whether the pod that has the name already is the one we wanted; a stray of ours is removed."""
        name = pod_name(work, wanted)
        path = f"/api/v1/namespaces/{work.spec.namespace}/pods/{name}"
        report.unfinished = True
        try:
            meta = msgspec.json.decode(await self._client.get(path), type=_Pod).metadata
        except ApiError:
            return False
        if not any(owner.controller and owner.uid == work.key.uid for owner in meta.owner_references):
            _blame(
                report, NAME_TAKEN, f"pod {name} exists and is not this Job's; delete it or rename the Job"
            )
            return False
        if meta.annotations.get(names.ADMISSION_ID) == str(wanted.admission):
            return meta.deletion_timestamp is None
        if meta.deletion_timestamp is None and _admission(meta.annotations) not in work.stamps:
            stray = PodUnwanted(name=name, uid=meta.uid, why="AdmissionClosed")
            await self.delete(work, stray, report)
        return False

    # ── removing ────────────────────────────────────────────────────────────────────────────────────────────

    async def delete(self, work: JobWork, unwanted: PodUnwanted, report: JobReport) -> None:
        """A pod that is not to be there, whatever it does."""
        path = f"/api/v1/namespaces/{work.spec.namespace}/pods/{unwanted.name}"
        if await self._gone(path, unwanted.uid, report):
            report.deleted += 1
            self._done(work, unwanted.uid)

    async def remove_job(self, work: JobWork, report: JobReport) -> None:
        """The Job itself, with its pods."""
        path = f"/apis/{BATCH_VOLCANO}/namespaces/{work.spec.namespace}/jobs/{work.spec.name}"
        # Foreground, as Volcano does it: the Job is there until its pods are gone.
        if await self._gone(path, work.key.uid, report, propagation="Foreground"):
            self._done(work, work.key.uid)

    async def _gone(
        self, path: str, uid: str, report: JobReport, propagation: Literal["Foreground"] | None = None
    ) -> bool:
        try:
            await self._client.delete(path, uid=uid, propagation=propagation, guard=self._guard)
        except (NotFound, Conflict):
            return False  # it is gone, or another one has its name
        except ApiError as error:
            self._failed(report, error)
            return False
        return True

    # ── what went wrong ─────────────────────────────────────────────────────────────────────────────────────

    def _failed(self, report: JobReport, error: ApiError, code: str = POD_REFUSED) -> None:
        """A refusal is for the user to see; anything else passes."""
        report.unfinished = True
        if isinstance(error, Refused | NotFound):
            _blame(report, code, str(error.facts.get("reason", error)))


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool = False


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    annotations: dict[str, str] = {}
    owner_references: list[_Owner] = []
    deletion_timestamp: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata


def _admission(annotations: dict[str, str]) -> AdmissionId | None:
    text = annotations.get(names.ADMISSION_ID, "")
    return AdmissionId(int(text)) if text.isdecimal() else None


def pod_name(work: JobWork, wanted: PodWanted) -> str:
    """What the pod is called."""
    return work.spec.pod_name(wanted.task, wanted.index)


def _molds(work: JobWork, creates: Iterable[PodWanted]) -> dict[tuple[str, AdmissionId], PodMold]:
    """A mold per task and admission. Raises InvalidDocument."""
    kinds = {(wanted.task, wanted.admission) for wanted in creates}
    tasks = {task.name: task for task in work.spec.tasks}
    return {
        (task, admission): PodMold(work.spec, tasks[task], work.stamps[admission])
        for task, admission in kinds
    }


def _blame(report: JobReport, code: str, message: str) -> None:
    """The first problem is shown: the others are mostly the same."""
    report.unfinished = True
    if report.problem is None:
        report.problem = Reason(code=code, message=message)


async def all_of(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run at the same time; the first to raise stops the others."""
    async with asyncio.TaskGroup() as tasks:
        for one in work:
            tasks.create_task(one)

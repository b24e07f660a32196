"""Writes that are named again in every turn until their effect is seen, so that one that fails is only tried again.

Pods whose end is stored lose the finalizer ``muster.dev/outcome``, one patch each, and so may disappear; Jobs that
others are to come after get it before; Commands that were carried out are deleted; AdmissionChecks are asked, each
about each workload by one write.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from admission.facts.admission_checks import CheckRequestFact
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.kube.client.client import Client
from admission.kube.writers.work_queue import EXPECTATION_SECONDS, WorkQueue
from admission.workloads.kinds import support_of
from admission.world.admission_checks import CheckQuestion, request_name
from queues.api.api_resources import CHECK_REQUESTS, COMMANDS, JOBS, PODS, Document
from queues.api.names import FINALIZER
from queues.command import Command
from queues.errors import ApiError, Conflict, NotFound
from queues.text_format import rfc3339

_log = logging.getLogger(__name__)

#: Writes of one kind at a time. Pods that are not being deleted can wait, and starting other pods comes first.
AT_A_TIME: Final = 32
AT_LEISURE: Final = 4
_COMMANDS_AT_A_TIME: Final = 8
_JOBS_AT_A_TIME: Final = 8
_CHECKS_AT_A_TIME: Final = 8
#: Seconds before a write that failed is tried again.
_PAUSE: Final = 1.0
#: The queue has one key, all writes: whichever has to be named again, all are.
_ALL: Final = "all"
#: Of a strategic merge patch: these finalizers go, and others stay.
_REMOVED: Final = "$deleteFromPrimitiveList/finalizers"


class RepeatedWrite(NamedTuple):
    """One write, for the object with this uid."""

    uid: str
    #: Its path or name, for the log.
    path: str
    #: So many may be under way when it begins.
    at_a_time: int
    send: Callable[[], Awaitable[Any]]


class RepeatedWrites:
    """Writes of one kind, for one term."""

    def __init__(self, requeue: Callable[[], None]) -> None:
        """``requeue`` is called when the writes have to be named again though nothing changes."""
        self._queue: WorkQueue[str] = WorkQueue(lambda _: requeue(), lambda _: self._start())
        self._waiting: deque[RepeatedWrite] = deque()

    def reconcile(self, writes: Iterable[RepeatedWrite]) -> None:
        """Carry out these writes, in this order, and no others; returns at once."""
        named = {write.uid: write for write in writes}
        self._queue.keep_expectations(_ALL, named.keys())
        self._waiting = deque(
            write
            for uid, write in named.items()
            if not self._queue.is_under_way(uid) and not self._queue.is_expected(_ALL, _ALL, uid)
        )
        self._start()

    def _start(self) -> None:
        while self._waiting and self._queue.under_way() < self._waiting[0].at_a_time:
            write = self._waiting.popleft()
            self._queue.start(_ALL, write.uid, partial(self._write, write), f"write {write.path}")

    async def _write(self, write: RepeatedWrite) -> None:
        seconds = EXPECTATION_SECONDS
        try:
            await write.send()
        except NotFound:
            pass  # the informer is about to show it
        except Conflict:
            seconds = _PAUSE  # another object has its name, or too many write to it
        except ApiError as error:
            seconds = _PAUSE
            _log.warning("write failed, and is tried again", extra={"object": write.path, "why": str(error)})
        self._queue.expect(_ALL, write.uid, seconds)
        if seconds < EXPECTATION_SECONDS:
            self._queue.requeue_after(_ALL, seconds)

    async def stop(self) -> None:
        """Cancel the writes under way."""
        self._waiting.clear()
        await self._queue.stop()


def finalizer_removed(client: Client, check_lease: Callable[[], None], pod: PodFact) -> RepeatedWrite:
    """A pod may disappear. Other finalizers stay, whether they are there now or come meanwhile."""

    def send() -> Awaitable[bytes]:
        # Worked out when its turn has come: thousands may wait for theirs, and are named in every turn.
        body = {"metadata": {"uid": pod.uid, _REMOVED: [FINALIZER]}}
        path = PODS.path(pod.namespace, pod.name)
        return client.patch(path, body, kind="strategic", brief=True, check_lease=check_lease)

    return RepeatedWrite(pod.uid, pod.name, AT_A_TIME if pod.deleting else AT_LEISURE, send)


def finalizer_changed(client: Client, check_lease: Callable[[], None], job: WorkloadFact) -> RepeatedWrite:
    """A batch/v1 Job that carries the finalizer loses it, and may disappear; another one gets it."""
    path, uid = JOBS.path(job.namespace, job.name), job.key.uid
    body = {"metadata": {"uid": uid, _REMOVED if job.kept else "finalizers": [FINALIZER]}}
    send = partial(client.patch, path, body, kind="strategic", brief=True, check_lease=check_lease)
    # Added and removed are different writes: what is expected of one is not expected of the other.
    return RepeatedWrite(f"{uid} {job.kept}", path, _JOBS_AT_A_TIME, send)


def command_deleted(client: Client, check_lease: Callable[[], None], command: Command) -> RepeatedWrite:
    """A Command that was carried out goes."""
    path = COMMANDS.path(command.namespace, command.name)
    send = partial(client.delete, path, uid=command.uid, check_lease=check_lease)
    return RepeatedWrite(command.uid, path, _COMMANDS_AT_A_TIME, send)


def check_asked(
    client: Client, check_lease: Callable[[], None], question: CheckQuestion, now: float
) -> RepeatedWrite:
    """A CheckRequest is made, or renewed: then its generation goes up, and its answer does not count any more."""
    workload, progress = question.workload, question.progress
    document = check_request(question, now)
    name, before = document["metadata"]["name"], progress.request
    if before is None:
        path = CHECK_REQUESTS.path(workload.namespace)
        send = partial(client.create, path, document, brief=True, check_lease=check_lease)
    else:
        path = CHECK_REQUESTS.path(workload.namespace, name)
        body = {"metadata": {"uid": before.uid}, "spec": document["spec"]}
        send = partial(client.patch, path, body, brief=True, check_lease=check_lease)
    return RepeatedWrite(question.uid, path, _CHECKS_AT_A_TIME, send)


def check_request(question: CheckQuestion, now: float) -> Document:
    """The CheckRequest of a question that is asked at ``now`` (seconds since the epoch)."""
    workload, progress = question.workload, question.progress
    owner = support_of(workload.key).resource
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": workload.name,
        "uid": workload.key.uid,
    }
    spec = {
        "check": progress.check,
        "answeredBy": progress.account,
        "workload": {"kind": str(workload.kind), "name": workload.name, "uid": workload.key.uid},
        "queue": workload.queue,
        "generation": workload.generation,
        "attempt": progress.attempt,
        "askedAt": rfc3339(now),
    }
    document = CHECK_REQUESTS.document(request_name(progress.check, workload.key), workload.namespace)
    document["metadata"]["ownerReferences"] = [reference]
    return {**document, "spec": spec}


def check_withdrawn(
    client: Client, check_lease: Callable[[], None], request: CheckRequestFact
) -> RepeatedWrite:
    """A CheckRequest goes that is not needed any more."""
    path = CHECK_REQUESTS.path(request.namespace, request.name)
    send = partial(client.delete, path, uid=request.uid, check_lease=check_lease)
    return RepeatedWrite(request.uid, path, _CHECKS_AT_A_TIME, send)

"""Carries out at the API server what the recovery of a node asks for."""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from admission.kube.node_recovery.marked_nodes import MarkedNodes, marks_of
from admission.kube.node_recovery.recovery_jobs import RecoveryJobs
from admission.kube.writers.events import write_event
from admission.node_recovery.jobs import CreateJob, job_document
from admission.node_recovery.state import RecoveryState
from admission.node_recovery.step import NodeEvent
from admission.node_recovery.view import NodeView, RecoveryJob
from admission.reconcile.status import EventNote
from admission.wire import WireNode
from queues.api import names
from queues.api.api_resources import CRON_JOBS, JOBS, NODES, ObjectRef
from queues.errors import ApiRefused, Conflict, MusterError, NotFound
from queues.workload import NodeName

_log = logging.getLogger(__name__)

_TAINT: Final = {"key": names.GPU_FAULT, "value": names.GPU_FAULT_BY_MUSTER, "effect": "NoSchedule"}


class NodeHasChanged(MusterError):
    """Node {node} says something else by now than what was decided on. It is decided again."""


class NodeWriter:
    """Writes of one term. Every method may raise ApiError and Fenced."""

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        marks: MarkedNodes,
        jobs: RecoveryJobs,
        *,
        instance: str,
    ) -> None:
        self._client = client
        self._check_lease = check_lease
        self._marks = marks
        self._jobs = jobs
        self._instance = instance

    async def write_state(self, view: NodeView, state: RecoveryState) -> None:
        """Annotation and taint in one patch, which holds only for the version of the Node that was seen.

        Raises NodeHasChanged, also if another writer was faster.
        """
        path = NODES.path(name=view.name)
        content = await self._client.get(path)
        node: dict[str, Any] = msgspec.json.decode(content)
        marks = marks_of(msgspec.json.decode(content, type=WireNode))
        if (view.annotation, view.taint) != (marks.annotation, marks.taint):
            self._marks.written(content)
            raise NodeHasChanged(node=view.name)
        taints = [each for each in node["spec"].get("taints") or () if not _is_own(each)]
        if state.phase.is_out and not any(each["key"] == names.GPU_FAULT for each in taints):
            taints.append(_TAINT)
        patch = {
            "metadata": {
                "resourceVersion": node["metadata"]["resourceVersion"],
                "annotations": {names.RECOVERY: state.annotation() or None},
            },
            "spec": {"taints": taints or None},
        }
        try:
            self._marks.written(await self._client.patch(path, patch, check_lease=self._check_lease))
        except Conflict as error:
            raise NodeHasChanged(node=view.name) from error

    async def create_job(self, create: CreateJob) -> str:
        """The Job from its template; why the API server refuses it, "": it does not."""
        namespace, _, name = create.template.partition("/")
        node = msgspec.json.decode(await self._client.get(NODES.path(name=create.node)))
        try:
            template = msgspec.json.decode(await self._client.get(CRON_JOBS.path(namespace, name)))
            document = job_document(template, create, node_uid=node["metadata"]["uid"])
            path = JOBS.path(namespace)
            content = await self._client.create(path, document, check_lease=self._check_lease)
        except Conflict as error:
            if error.facts.get("code") != "AlreadyExists":
                raise
            content = await self._client.get(JOBS.path(namespace, create.name))
        except (ApiRefused, NotFound) as error:
            return str(error)
        self._jobs.created(content, create.node)
        return ""

    async def delete_job(self, job: RecoveryJob) -> None:
        """Delete a Job with its pods; it may be gone."""
        path = JOBS.path(job.namespace, job.name)
        try:
            await self._client.delete(path, propagation="Background", check_lease=self._check_lease)
        except NotFound:
            return

    async def tell(self, node: NodeName, found: NodeEvent) -> None:
        """An event of the Node. That it cannot be written stops nothing."""
        ref = ObjectRef(resource=NODES, name=node, uid=node)
        message = found.message.encode(errors="replace").decode()  # an annotation may hold what UTF-8 cannot
        note = EventNote(
            ref=ref, reason=found.reason, message=message, action="Recover", warning=found.warning
        )
        level = logging.WARNING if found.warning else logging.INFO
        _log.log(level, "node recovery", extra={"node": node, "what": message})
        await write_event(self._client, note, self._instance, self._check_lease)


def _is_own(taint: dict[str, Any]) -> bool:
    return bool(taint["key"] == names.GPU_FAULT and taint.get("value") == names.GPU_FAULT_BY_MUSTER)

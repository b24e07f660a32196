"""Carries out at the API server what the recovery of a node asks for."""

import logging
from collections.abc import Callable
from time import time_ns
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from admission.kube.node_recovery.marked_nodes import MarkedNodes, marks_of
from admission.kube.node_recovery.recovery_jobs import RecoveryJobs
from admission.kube.writers.events import event
from admission.node_recovery.effects import CreateJob, DeleteJob, Tell, WriteNode
from admission.node_recovery.recovery_jobs import job_document
from admission.node_recovery.view import NodeView
from admission.reconcile.status import EventNote
from admission.wire import WireNode
from queues.api import names
from queues.api.api_resources import CRON_JOBS, EVENTS, JOBS, NODES, ObjectRef
from queues.errors import ApiRefused, Conflict, Fenced, MusterError, NotFound

_log = logging.getLogger(__name__)

_TAINT: Final = {"key": names.GPU_FAULT, "value": names.GPU_FAULT_BY_MUSTER, "effect": "NoSchedule"}


class NodeHasChanged(MusterError):
    """Node {node} says something else by now than what was decided on. It is decided again."""


class EffectWriter:
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

    async def write_node(self, effect: WriteNode, view: NodeView) -> None:
        """Annotations and taint in one patch. Raises NodeHasChanged, also if another writer was faster."""
        path = NODES.path(name=effect.node)
        content = await self._client.get(path)
        node: dict[str, Any] = msgspec.json.decode(content)
        marks = marks_of(msgspec.json.decode(content, type=WireNode))
        seen = (view.annotation, view.order, view.hold, view.taint)
        if seen != (marks.annotation, marks.order, marks.hold, marks.taint):
            self._marks.written(content)
            raise NodeHasChanged(node=effect.node)
        annotations: dict[str, str | None] = {names.RECOVERY: effect.annotation or None}
        if effect.consumes_order:
            annotations[names.RECOVERY_STEP] = None
        taints = [each for each in node["spec"].get("taints") or () if not _is_own(each)]
        if effect.tainted and not any(each["key"] == names.GPU_FAULT for each in taints):
            taints.append(_TAINT)
        patch = {
            "metadata": {
                "resourceVersion": node["metadata"]["resourceVersion"],
                "annotations": annotations,
            },
            "spec": {"taints": taints or None},
        }
        try:
            self._marks.written(await self._client.patch(path, patch, check_lease=self._check_lease))
        except Conflict as error:
            raise NodeHasChanged(node=effect.node) from error

    async def create_job(self, effect: CreateJob) -> str:
        """The Job from its template; why the API server refuses it, "": it does not."""
        namespace, _, name = effect.template.partition("/")
        node = msgspec.json.decode(await self._client.get(NODES.path(name=effect.node)))
        try:
            template = msgspec.json.decode(await self._client.get(CRON_JOBS.path(namespace, name)))
            document = job_document(template, effect, node_uid=node["metadata"]["uid"])
            path = JOBS.path(namespace)
            content = await self._client.create(path, document, check_lease=self._check_lease)
        except Conflict as error:
            if error.facts.get("code") != "AlreadyExists":
                raise
            content = await self._client.get(JOBS.path(namespace, effect.name))
        except (ApiRefused, NotFound) as error:
            return str(error)
        self._jobs.created(content, effect.node)
        return ""

    async def delete_job(self, effect: DeleteJob) -> None:
        """Delete a Job with its pods; it may be gone."""
        path = JOBS.path(effect.namespace, effect.name)
        try:
            await self._client.delete(path, propagation="Background", check_lease=self._check_lease)
        except NotFound:
            return

    async def tell(self, effect: Tell) -> None:
        """An event of the Node. That it cannot be written stops nothing."""
        ref = ObjectRef(resource=NODES, name=effect.node, uid=effect.node)
        message = effect.message.encode(errors="replace").decode()  # an annotation may hold what UTF-8 cannot
        note = EventNote(
            ref=ref, reason=effect.reason, message=message, action="Recover", warning=effect.warning
        )
        level = logging.WARNING if effect.warning else logging.INFO
        _log.log(level, "node recovery", extra={"node": effect.node, "what": message})
        try:
            body = event(note, time_ns(), self._instance)
            path = EVENTS.path(body["metadata"]["namespace"])
            await self._client.create(path, body, brief=True, check_lease=self._check_lease)
        except Fenced:
            raise
        except Exception as error:
            _log.info("event not written", extra={"object": ref.path, "why": str(error)})


def _is_own(taint: dict[str, Any]) -> bool:
    return bool(taint["key"] == names.GPU_FAULT and taint.get("value") == names.GPU_FAULT_BY_MUSTER)

"""Carries out at the API server what the recovery of a node asks for."""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from admission.decode.nodes import node_fact
from admission.kube.client.client import Client
from admission.kube.writers.events import write_event
from admission.node_recovery.jobs import CreateJob, JobName, job_document
from admission.node_recovery.state import RecoveryState
from admission.node_recovery.step import NodeEvent, NodeView
from admission.reconcile.status import EventNote
from admission.wire import WireNode
from queues.api import names
from queues.api.api_resources import CRON_JOBS, JOBS, NODES, ObjectRef
from queues.errors import Conflict, NotFound
from queues.workload import NodeName

_log = logging.getLogger(__name__)

_TAINT: Final = {"key": names.GPU_FAULT, "value": names.GPU_FAULT_BY_MUSTER, "effect": "NoSchedule"}


class NodeWriter:
    """Writes of one term. Every method may raise ApiError and Fenced."""

    def __init__(self, client: Client, check_lease: Callable[[], None], *, instance: str) -> None:
        self._client = client
        self._check_lease = check_lease
        self._instance = instance

    async def write_state(self, view: NodeView, state: RecoveryState) -> bool:
        """Annotation and taint in one patch, which holds only for the version of the Node that was read for it.

        False if the Node says something else by now than what was decided on: it is to be decided again.
        """
        path = NODES.path(name=view.name)
        content = await self._client.get(path)
        fact, node = node_fact(msgspec.json.decode(content, type=WireNode)), msgspec.json.decode(content)
        if (view.annotation, view.taint) != (fact.recovery, fact.fault_taint):
            return False
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
            await self._client.patch(path, patch, check_lease=self._check_lease)
        except Conflict:
            return False
        return True

    async def create_job(self, create: CreateJob) -> None:
        """The Job from its template. Raises ApiRefused and NotFound if the API server refuses it."""
        node = msgspec.json.decode(await self._client.get(NODES.path(name=create.node)))
        namespace = create.job.namespace
        template = msgspec.json.decode(await self._client.get(CRON_JOBS.path(namespace, create.template)))
        document = job_document(template, create, node_uid=node["metadata"]["uid"])
        try:
            await self._client.create(JOBS.path(namespace), document, check_lease=self._check_lease)
        except Conflict as error:
            if error.facts.get("code") != "AlreadyExists":
                raise

    async def delete_job(self, job: JobName) -> None:
        """Delete a Job with its pods; it may be gone."""
        try:
            await self._client.delete(
                JOBS.path(*job), propagation="Background", check_lease=self._check_lease
            )
        except NotFound:
            return

    async def tell(self, node: NodeName, event: NodeEvent) -> None:
        """An event of the Node. That it cannot be written stops nothing."""
        ref = ObjectRef(resource=NODES, name=node, uid=node)
        note = EventNote(
            ref=ref, reason=event.reason, message=event.message, action="Recover", warning=event.warning
        )
        level = logging.WARNING if event.warning else logging.INFO
        _log.log(level, "node recovery", extra={"node": node, "what": event.message})
        await write_event(self._client, note, self._instance, self._check_lease)


def _is_own(taint: dict[str, Any]) -> bool:
    return bool(taint["key"] == names.GPU_FAULT and taint.get("value") == names.GPU_FAULT_BY_MUSTER)

"""Jobs that recover and test nodes, as the informer of all batch/v1 Jobs shows them."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from admission.decode.fields import is_true, seconds
from admission.node_recovery.view import JobProgress, RecoveryJob
from admission.workloads.kinds.batch_job import WireJob
from queues.api.names import RECOVERY_NODE
from queues.api.reading.user_values import is_dns_name
from queues.workload import NodeName


class RecoveryJobs:
    """By namespace and node. Any user may write the annotation, so callers ask for the templates' namespaces only."""

    def __init__(self) -> None:
        #: Called when something has changed in a namespace of the templates.
        self.changed: Callable[[], None] = lambda: None
        #: Namespaces of the templates, as the policy had them at the last look.
        self.namespaces: frozenset[str] = frozenset()
        self._by_uid: dict[str, tuple[NodeName, RecoveryJob]] = {}
        #: Uids, by namespace and node.
        self._places: dict[str, dict[NodeName, set[str]]] = {}

    def seen(self, found: Any, raw: msgspec.Raw) -> None:
        """A Job as its informer shows it."""
        job: WireJob = found
        node = (job.metadata.annotations or {}).get(RECOVERY_NODE)
        if node is None or not is_dns_name(node):  # no Node has such a name, and it may be very long
            self.gone(job.metadata.uid)
            return
        self._put(NodeName(node), job)

    def created(self, content: bytes, node: NodeName) -> None:
        """A Job as it was created."""
        job = msgspec.json.decode(content, type=WireJob)
        if job.metadata.uid not in self._by_uid:
            self._put(node, job)

    def gone(self, uid: str) -> None:
        """A Job is gone."""
        if (job := self._removed(uid)) is not None:
            self._tell(job)

    def of(self, node: NodeName, namespaces: frozenset[str]) -> Mapping[str, RecoveryJob]:
        """Jobs for a node in these namespaces, by name; of two that had the name in turn the later one."""
        uids = [uid for each in namespaces for uid in self._places.get(each, {}).get(node, ())]
        jobs = [self._by_uid[uid][1] for uid in uids]
        return {job.name: job for job in sorted(jobs, key=lambda job: (job.created, not job.deleting))}

    def nodes(self, namespaces: frozenset[str]) -> set[NodeName]:
        """Nodes with such Jobs."""
        return {node for each in namespaces for node in self._places.get(each, ())}

    def _put(self, node: NodeName, job: WireJob) -> None:
        uid, found = job.metadata.uid, _recovery_job(job)
        if self._by_uid.get(uid) == (node, found):
            return
        self._removed(uid)
        self._by_uid[uid] = (node, found)
        self._places.setdefault(found.namespace, {}).setdefault(node, set()).add(uid)
        self._tell(found)

    def _removed(self, uid: str) -> RecoveryJob | None:
        """Take out the Job of this uid. None if it was not known."""
        if uid not in self._by_uid:
            return None
        node, job = self._by_uid.pop(uid)
        nodes = self._places[job.namespace]
        nodes[node].discard(uid)
        if not nodes[node]:
            del nodes[node]
        if not nodes:
            del self._places[job.namespace]
        return job

    def _tell(self, job: RecoveryJob) -> None:
        """Wake the loop, but not for Jobs of users."""
        if job.namespace in self.namespaces:
            self.changed()


def _recovery_job(job: WireJob) -> RecoveryJob:
    conditions = job.status.conditions
    failed, complete = is_true(conditions, "Failed"), is_true(conditions, "Complete")
    return RecoveryJob(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        progress=JobProgress.FAILED if failed else JobProgress.SUCCEEDED if complete else JobProgress.RUNNING,
        created=seconds(job.metadata.creation_timestamp),
        deleting=job.metadata.deletion_timestamp is not None,
    )

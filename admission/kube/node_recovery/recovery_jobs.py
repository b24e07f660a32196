"""Jobs that recover and test nodes, heard from the informer of all batch/v1 Jobs."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from admission.decode.fields import condition, is_true, seconds
from admission.node_recovery.view import JobProgress, RecoveryJob
from admission.workloads.kinds.batch_job import WireJob
from queues.api.names import RECOVERY_NODE
from queues.workload import NodeName


class RecoveryJobs:
    """By node and name. Any user may write the annotation: callers ask for the namespaces of the templates only."""

    def __init__(self) -> None:
        #: Called when something has changed.
        self.changed: Callable[[], None] = lambda: None
        self._by_uid: dict[str, tuple[NodeName, RecoveryJob]] = {}
        self._of_node: dict[NodeName, dict[str, RecoveryJob]] = defaultdict(dict)

    def seen(self, found: Any, raw: msgspec.Raw) -> None:
        """A Job as its informer shows it."""
        job: WireJob = found
        node = (job.metadata.annotations or {}).get(RECOVERY_NODE)
        if node is None:
            if job.metadata.uid in self._by_uid:
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
        if (known := self._by_uid.pop(uid, None)) is not None:
            node, job = known
            self._of_node[node].pop(job.name, None)
            if not self._of_node[node]:
                del self._of_node[node]
            self.changed()

    def of(self, node: NodeName, namespaces: frozenset[str]) -> Mapping[str, RecoveryJob]:
        """Jobs for a node in these namespaces, by name."""
        jobs = self._of_node.get(node, {})
        return {name: job for name, job in jobs.items() if job.namespace in namespaces}

    def nodes(self, namespaces: frozenset[str]) -> set[NodeName]:
        """Nodes with such Jobs."""
        return {node for node in self._of_node if self.of(node, namespaces)}

    def _put(self, node: NodeName, job: WireJob) -> None:
        found = _recovery_job(job)
        if self._by_uid.get(job.metadata.uid) == (node, found):
            return
        self._by_uid[job.metadata.uid] = (node, found)
        self._of_node[node][found.name] = found
        self.changed()


def _recovery_job(job: WireJob) -> RecoveryJob:
    conditions = job.status.conditions
    failed = is_true(conditions, "Failed")
    ended = failed or is_true(conditions, "Complete")
    told = condition(conditions, "Failed" if failed else "Complete")
    return RecoveryJob(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        progress=JobProgress.FAILED if failed else JobProgress.SUCCEEDED if ended else JobProgress.RUNNING,
        created=seconds(job.metadata.creation_timestamp),
        ended=seconds(told.last_transition_time) if ended and told is not None else None,
        deleting=job.metadata.deletion_timestamp is not None,
    )

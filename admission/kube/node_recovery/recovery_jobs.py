"""Jobs that recover and test nodes, as the informer of all batch/v1 Jobs shows them."""

from typing import Any

import msgspec

from admission.decode.fields import is_true, seconds
from admission.node_recovery.jobs import JobName, RecoveryJob
from admission.workloads.kinds.batch_job import WireJob
from queues.api.names import RECOVERY_NODE


class RecoveryJobs:
    """By namespace and name: any user may write the annotation, but not in the namespaces of the templates."""

    def __init__(self) -> None:
        self.by_name: dict[JobName, RecoveryJob] = {}
        self._names: dict[str, JobName] = {}

    def seen(self, found: Any, raw: msgspec.Raw) -> None:
        """A Job as its informer shows it."""
        job: WireJob = found
        if RECOVERY_NODE not in (job.metadata.annotations or {}):
            self.gone(job.metadata.uid)
            return
        name, conditions = JobName(job.metadata.namespace, job.metadata.name), job.status.conditions
        failed, complete = is_true(conditions, "Failed"), is_true(conditions, "Complete")
        succeeded = False if failed else True if complete else None
        created, uid = seconds(job.metadata.creation_timestamp), job.metadata.uid
        self.by_name[name] = RecoveryJob(created, succeeded, uid)
        self._names[uid] = name

    def gone(self, uid: str) -> None:
        """A Job is gone. A later one may have its name."""
        name = self._names.pop(uid, None)
        if name is not None and self.by_name[name].uid == uid:
            del self.by_name[name]

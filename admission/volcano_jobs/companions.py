"""Objects that stand beside a Job's pods: what plugins and volumes need."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.volcano_jobs.job import JobSpec
from queues.api.names import BATCH_VOLCANO, JOB_NAME, JOB_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """One object to exist before the Job's first pod is made."""

    #: Path of its collection under the API server, without the namespace: ("api/v1", "services").
    api: str
    plural: str
    name: str
    manifest: Mapping[str, Any]
    #: Line of ``status.controlledResources`` that it earns.
    entry: tuple[str, str] | None = None
    #: The manifest lacks an SSH key pair, which is made only when the object does not exist.
    wants_keys: bool = False
    #: ``data`` follows the Job when that is scaled.
    follows: bool = False


CORE: Final = "api/v1"


def metadata(job: JobSpec, name: str) -> dict[str, Any]:
    """Metadata of an object that belongs to the Job and goes with it."""
    return {"name": name, "namespace": job.namespace, "ownerReferences": [owner_reference(job)]}


def owner_reference(job: JobSpec) -> dict[str, Any]:
    """The Job as controlling owner."""
    return {
        "apiVersion": BATCH_VOLCANO,
        "kind": "Job",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def job_selector(job: JobSpec) -> dict[str, str]:
    """Labels that all pods of the Job carry, and no others."""
    return {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace}

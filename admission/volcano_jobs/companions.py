"""Companions of a Volcano Job: the objects that its pods need, such as Services and volume claims."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from admission.facts.volcano_jobs import JobSpec
from queues.api.api_resources import ApiResource
from queues.api.names import BATCH_VOLCANO, JOB_NAME, JOB_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """One object that must exist before the Job's first pod is created."""

    resource: ApiResource
    name: str
    manifest: Mapping[str, Any]
    #: Key and value in the Job's ``status.controlledResources``; None if the object is not listed there.
    status_entry: tuple[str, str] | None = None
    #: The manifest lacks an SSH key pair; one is generated if the object does not exist.
    needs_key_pair: bool = False
    #: The Job's uid is part of the name: an object of that name is the Job's and is never read.
    named_by_uid: bool = False
    #: The object's ``data``, or its ``spec`` where it has one, is updated when the Job is scaled.
    follows_scale: bool = False


def owned_manifest(resource: ApiResource, job: JobSpec, name: str, **body: Any) -> dict[str, Any]:
    """An object in the Job's namespace that is deleted with the Job; ``body``: its fields besides the metadata."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": job.namespace, "ownerReferences": [owner_reference(job)]},
        **body,
    }


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
    """Labels that select the pods of the Job and no other pods."""
    return {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace}

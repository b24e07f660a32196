"""The annotation by which pods, and the Jobs that make them, say which workload they are made for. Pure.

Muster writes it into the pod templates of an object of an operator when it resumes the object.
"""

from sys import intern
from typing import Final, NamedTuple

from admission.decode.fields import one
from admission.facts.pods import PodController
from admission.wire import WireMetadata
from queues import kind_names
from queues.api import names
from queues.api.reading.user_values import LONGEST_NAME, is_uid
from queues.kind_names import KindName
from queues.workload import WorkloadKey

_LONGEST_MEMBER: Final = 3 * LONGEST_NAME


class Membership(NamedTuple):
    """The pod set of a workload."""

    workload: WorkloadKey
    name: str
    pod_set: str


def member_text(key: WorkloadKey, name: str, pod_set: str) -> str:
    """The annotation of the pods of one pod set."""
    return f"{key.kind}/{name}/{key.uid}/{pod_set}"


def membership(said: str | None) -> Membership | None:
    """The pod set that the annotation of a pod, or of a pod template, names; None if it names none."""
    if said is None or len(said) > _LONGEST_MEMBER:
        return None
    parts = said.split("/")
    if len(parts) != 4 or not is_uid(parts[2]):
        return None
    return Membership(WorkloadKey(KindName(intern(parts[0])), parts[2]), parts[1], parts[3])


def is_controlled(metadata: WireMetadata) -> bool:
    """Whether another object controls this one."""
    return any(reference.controller for reference in metadata.owner_references or ())


def member_of(metadata: WireMetadata) -> PodController | None:
    """The workload of a kind of another project that a pod is part of, as its template says; None if of none.

    The templates name the queue as well, so that policies make these pods wait. A pod that they did not make wait has
    the annotation from another client: taken for a member that runs, it would keep the workload from being admitted.
    """
    if names.RELEASED not in (metadata.labels or {}) or not is_controlled(metadata):
        return None
    found = membership((metadata.annotations or {}).get(names.MEMBER_OF))
    if found is None or found.workload.kind in kind_names.BUILT_IN:
        return None
    return one(PodController(found.workload, found.name, True, found.pod_set))

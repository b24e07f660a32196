"""The kinds of objects that can wait in a queue, each described by one module. Pure.

To add a kind: its module, its line in ``KINDS``, and what docs/contributing.md names.
"""

from collections.abc import Mapping
from typing import Final

from admission.decode.pods import pod_fact
from admission.facts.pods import PodController, PodFact
from admission.wire import WireMetadata, WirePod
from admission.workloads.kinds.batch_job import BATCH_JOB
from admission.workloads.kinds.members import member_of
from admission.workloads.kinds.operators import objects
from admission.workloads.kinds.pod import BARE_POD
from admission.workloads.kinds.pod_group import POD_GROUP
from admission.workloads.kinds.support import SUSPENDED, Holding, KindSupport, ObjectReader, StatusForm
from admission.workloads.kinds.volcano_job import VOLCANO_JOB
from queues import kind_names
from queues.api.api_resources import ObjectRef
from queues.api.workload_kinds import OPERATOR_KINDS
from queues.kind_names import KindName
from queues.workload import WorkloadKey

__all__ = [
    "BARE_POD",
    "BATCH_JOB",
    "KINDS",
    "OPERATOR_KINDS",
    "POD_GROUP",
    "SUSPENDED",
    "VOLCANO_JOB",
    "Holding",
    "KindSupport",
    "ObjectReader",
    "StatusForm",
    "controller_of",
    "is_told_by_pods",
    "object_ref",
    "read_pod",
    "support_of",
]

KINDS: Final = (
    BARE_POD,
    BATCH_JOB,
    VOLCANO_JOB,
    POD_GROUP,
    *map(objects.support_of, OPERATOR_KINDS),
)

_BY_KIND: Final[Mapping[KindName, KindSupport]] = {support.kind: support for support in KINDS}
_OF_OPERATORS: Final = frozenset(description.kind for description in OPERATOR_KINDS)


def support_of(key: WorkloadKey) -> KindSupport:
    """What is known of the kind of a workload."""
    return _BY_KIND[key.kind]


def is_told_by_pods(key: WorkloadKey) -> bool:
    """Whether pods say how a workload ended, and what it asks: it is a pod without a group, or a group."""
    return key.kind == kind_names.POD or support_of(key).is_group


def controller_of(metadata: WireMetadata) -> PodController | None:
    """The workload that a pod names as its controller; None if it names none."""
    if not metadata.owner_references:
        return None
    if (member := member_of(metadata, _OF_OPERATORS)) is not None:
        return member
    found = (support.controller_of(metadata) for support in KINDS)
    return next((controller for controller in found if controller is not None), None)


def read_pod(pod: WirePod) -> PodFact:
    """A pod, with the workload that it names as its controller."""
    return pod_fact(pod, controller_of(pod.metadata))


def object_ref(key: WorkloadKey, namespace: str, name: str) -> ObjectRef:
    """Where the API server serves the object of a workload."""
    return ObjectRef(resource=support_of(key).resource, namespace=namespace, name=name, uid=key.uid)

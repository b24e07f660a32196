"""What Muster has to know of a kind of object that can wait: the interface that each kind's module fills in. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from admission.decode.fields import one
from admission.facts.pods import PodController, PodFact
from admission.facts.workloads import Child, WorkloadFact
from admission.wire import WireMetadata, WireOwnerReference
from admission.workloads.inputs import WorkloadInputs
from admission.workloads.seats import SeatMap
from queues.api.api_resources import ApiResource
from queues.api.reading.user_values import is_uid
from queues.api.types.workload_kind import Path
from queues.kind_names import KindName
from queues.workload import PodSet, WorkloadKey


class Holding(Enum):
    """How workloads of a kind are kept from running until they are admitted, and what follows from that."""

    #: No pods exist. Muster is the controller: it makes them after the admission, deletes them after the eviction,
    #: and stores how they ended (``admission.volcano_jobs``).
    NO_PODS = "no pods"
    #: The object is suspended. Muster resumes it, and suspends it again; its own controller makes and deletes pods.
    SUSPENDED = "suspended"
    #: Pods carry the scheduling gate. Muster takes it off, deletes the pods after the eviction, and makes pods
    #: without a controller again.
    GATED = "gated"
    #: The object is suspended, and the pods that an operator makes of it carry the scheduling gate: Muster resumes it,
    #: and gives each pod its seat. For an eviction it is suspended again, and the operator deletes its pods.
    SUSPENDED_AND_GATED = "suspended, then gated"


#: The object is suspended while it waits.
SUSPENDED: Final = frozenset((Holding.SUSPENDED, Holding.SUSPENDED_AND_GATED))


class StatusForm(Enum):
    """Which status Muster writes on objects of a kind."""

    #: Volcano's job status, and the one of the PodGroup that stands for the Job.
    VOLCANO_JOB = "volcano job"
    #: Volcano's PodGroup status.
    POD_GROUP = "pod group"
    #: One condition next to those that other controllers write.
    CONDITION = "condition"
    #: The same, of a custom resource: the API server does not merge conditions by their types there.
    CUSTOM_CONDITION = "custom condition"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReader:
    """How objects of a kind are read."""

    #: Name of the informer, in logs and metrics.
    informer: str
    #: What msgspec decodes the object's JSON into.
    wire: type
    #: From the decoded object and its JSON: the workload, or a part of one; None if another object stands for it.
    fact: Callable[[Any, msgspec.Raw], WorkloadFact | Child | None]
    #: The cluster may not serve the kind: it is another project's.
    may_be_absent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSupport:
    """One kind of object that can wait in a queue."""

    kind: KindName
    resource: ApiResource
    #: None if the object is a pod, and all that is known of it is its PodFact.
    reader: ObjectReader | None
    holding: Holding
    status: StatusForm
    #: True: an object that names no queue, in a namespace without a default queue, is not Muster's.
    #: False: it is in the queue ``default``.
    needs_queue: bool = False
    #: Labels with the name of the object, which its controller writes on all its pods.
    name_labels: tuple[str, ...] = ()
    #: Fields from an object to the one that suspends it.
    suspend: Path = ("spec", "suspend")
    #: Type of the condition on which its own controller has an object fail; "": there is none.
    failing_condition: str = ""
    #: True: pods join by naming the object. They say what it asks; the object says how many must start together.
    is_group: bool = False
    #: The workload of this kind that a pod names as its controller; None if none. A group's members name it instead
    #: (``PodFact.group``).
    controller_of: Callable[[WireMetadata], PodController | None] = lambda metadata: None
    #: True if each pod has a seat of its own, so that no other pod can take it. The fact is None once the object
    #: is gone.
    is_by_ordinal: Callable[[WorkloadFact | None], bool] = lambda fact: False
    #: The pod sets that are asked for, with the ordinals that need no seat any more. Not called without a fact,
    #: unless the kind has no reader.
    pod_sets: Callable[[WorkloadInputs, Sequence[SeatMap]], tuple[PodSet, ...]]
    #: Name of the pod set that a pod of the workload is in.
    pod_set_name: Callable[[PodFact, WorkloadFact | None], str]


def is_made_by(metadata: WireMetadata, kinds: Iterable[ApiResource]) -> bool:
    """Whether an object of one of these kinds, in any version, controls this one."""
    owners = [reference for reference in metadata.owner_references or () if reference.controller]
    return bool(owners) and any(
        reference.kind == kind.kind and reference.api_version.partition("/")[0] == kind.group
        for kind in kinds
        for reference in owners
    )


#: Whether a pod carries what a controller writes on each of its pods: from the pod's metadata and the reference.
Marks = Callable[[WireMetadata, WireOwnerReference], bool]


def controlled_by(
    kind: KindName, resource: ApiResource, marks: Marks
) -> Callable[[WireMetadata], PodController | None]:
    """``controller_of`` for kinds of objects that control their pods directly, in any API version."""
    group = f"{resource.api_version.partition('/')[0]}/"

    def controller_of(metadata: WireMetadata) -> PodController | None:
        for reference in metadata.owner_references or ():
            is_controller = reference.controller and reference.kind == resource.kind
            if is_controller and reference.api_version.startswith(group) and is_uid(reference.uid):
                key = WorkloadKey(kind, reference.uid)
                return one(PodController(key, reference.name, marks(metadata, reference)))
        return None

    return controller_of

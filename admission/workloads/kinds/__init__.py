"""The kinds of objects that can wait in a queue: some described by a module each, the others by documents. Pure.

What a process knows of them is one value. It is replaced as a whole, between two lives of what is built from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from admission.decode.pods import pod_fact
from admission.facts.pods import PodController, PodFact
from admission.wire import WireMetadata, WirePod
from admission.workloads.kinds.batch_job import batch_job_support
from admission.workloads.kinds.members import member_of
from admission.workloads.kinds.operators import objects
from admission.workloads.kinds.pod import BARE_POD
from admission.workloads.kinds.pod_group import POD_GROUP
from admission.workloads.kinds.support import SUSPENDED, Holding, KindSupport, ObjectReader, StatusForm
from admission.workloads.kinds.volcano_job import VOLCANO_JOB
from queues import kind_names
from queues.api.api_resources import ObjectRef
from queues.api.types.workload_kind import WorkloadKindSpec
from queues.api.workload_kinds import OPERATOR_KINDS
from queues.kind_names import KindName
from queues.workload import WorkloadKey

__all__ = [
    "BARE_POD",
    "OPERATOR_KINDS",
    "POD_GROUP",
    "SUSPENDED",
    "VOLCANO_JOB",
    "Holding",
    "KindSupport",
    "Kinds",
    "ObjectReader",
    "StatusForm",
    "controller_of",
    "is_told_by_pods",
    "known_kinds",
    "object_ref",
    "read_pod",
    "support_of",
    "use_kinds",
]


class _SupportByKind(dict[KindName, KindSupport]):
    """What is known of each kind. Of one that was taken out of use seats may be left in the ledger, and pods: they keep
    their seats until they have ended."""

    def __missing__(self, kind: KindName) -> KindSupport:
        self[kind] = support = objects.out_of_use(kind)
        return support


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """All kinds whose objects wait in queues: Muster's own, and those that administrators have added."""

    added: tuple[WorkloadKindSpec, ...] = ()
    #: Those of them that are being taken out of use: what runs goes on, and nothing more is admitted.
    leaving: frozenset[KindName] = frozenset()

    @cached_property
    def descriptions(self) -> tuple[WorkloadKindSpec, ...]:
        """Kinds of other projects, each by its document."""
        return (*OPERATOR_KINDS, *self.added)

    @cached_property
    def supports(self) -> tuple[KindSupport, ...]:
        """All of them."""
        jobs = batch_job_support(frozenset(each.resource for each in self.descriptions))
        others = (
            objects.support_of(each, is_leaving=each.kind in self.leaving) for each in self.descriptions
        )
        return (BARE_POD, jobs, VOLCANO_JOB, POD_GROUP, *others)

    @cached_property
    def by_kind(self) -> Mapping[KindName, KindSupport]:
        """Those that are not known any more included."""
        return _SupportByKind({each.kind: each for each in self.supports})

    @cached_property
    def by_resource(self) -> Mapping[tuple[str, str], KindSupport]:
        """By API version and kind."""
        return {(each.resource.api_version, each.resource.kind): each for each in self.supports}

    def description_of(self, kind: KindName) -> WorkloadKindSpec | None:
        """The document of a kind of another project; None if it is none."""
        return next((each for each in self.descriptions if each.kind == kind), None)


_kinds = Kinds()


def known_kinds() -> Kinds:
    """The kinds that this process knows."""
    return _kinds


def use_kinds(kinds: Kinds) -> None:
    """From now on this process knows these kinds. What was built for others goes first: a term, its informers."""
    global _kinds  # noqa: PLW0603 - the process has one
    _kinds = kinds


def support_of(key: WorkloadKey) -> KindSupport:
    """What is known of the kind of a workload."""
    return _kinds.by_kind[key.kind]


def is_told_by_pods(key: WorkloadKey) -> bool:
    """Whether pods say how a workload ended, and what it asks: it is a pod without a group, or a group."""
    return key.kind == kind_names.POD or support_of(key).is_group


def controller_of(metadata: WireMetadata) -> PodController | None:
    """The workload that a pod names as its controller; None if it names none."""
    if not metadata.owner_references:
        return None
    if (member := member_of(metadata)) is not None:
        return member
    found = (support.controller_of(metadata) for support in _kinds.supports)
    return next((controller for controller in found if controller is not None), None)


def read_pod(pod: WirePod) -> PodFact:
    """A pod, with the workload that it names as its controller."""
    return pod_fact(pod, controller_of(pod.metadata))


def object_ref(key: WorkloadKey, namespace: str, name: str) -> ObjectRef:
    """Where the API server serves the object of a workload."""
    return ObjectRef(resource=support_of(key).resource, namespace=namespace, name=name, uid=key.uid)

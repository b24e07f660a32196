"""Facts about Jobs, PodGroups and objects of other kinds that are admitted whole."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from admission.facts.devices import PodResourceClaim
from admission.facts.pods import NOTHING_SAID, Conduct
from admission.facts.volcano_jobs import NOTHING_SHOWN, JobSpec, ShownState
from admission.facts.volumes import PodVolume
from queues.api.api_resources import ObjectRef
from queues.label_selectors import selects
from queues.resources import Resources
from queues.workload import AdmissionId, Obstacle, PodSet, PodSetProgress, QueueName, Requirement, WorkloadKey

#: An empty mapping that facts share.
NOTHING_BY_NAME: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SubGroup:
    """Members of a PodGroup that start together in one domain: an entry of ``subGroupPolicy``."""

    name: str
    #: Members of one group; so many groups have to start, 0: no minimum.
    size: int = 1
    minimum: int = 0
    #: Over pod labels; () = all members.
    selector: tuple[Requirement, ...] = ()
    #: Members with equal values of these labels are one group.
    keys: tuple[str, ...] = ()
    #: As in ``GroupRequest.network_tier``.
    tier: tuple[str, int | str] | None = None
    #: The level of the tier, as (required, level).
    level: tuple[bool, str] | None = None

    def group_of(self, labels: Mapping[str, str]) -> str | None:
        """Which group a member with these labels is in; None if in none of this entry."""
        if not selects(self.selector, labels):
            return None
        if any(key not in labels for key in self.keys):
            return None
        return ".".join([self.name, *(labels[key] for key in self.keys)])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """What a Volcano Job or a PodGroup asks of its members together. Apart from the rest, since most have none."""

    #: minResources of a PodGroup; None if it has none.
    min_resources: Resources | None = None
    #: Seconds for which quota for ``min_resources`` is held while the pods are being made; 0: it is not.
    hold_seconds: int = 0
    #: minTaskMember of a PodGroup.
    task_minimums: Mapping[str, int] = field(default_factory=lambda: NOTHING_BY_NAME)
    #: Volcano's networkTopology as (mode, tier or its name), tier 1 the innermost above the node; None if none is asked
    #: for.
    network_tier: tuple[str, int | str] | None = None
    #: The same of the partitions of each pod set.
    partition_tiers: Mapping[str, tuple[str, int | str]] = field(default_factory=lambda: NOTHING_BY_NAME)
    #: subGroupPolicy of a PodGroup.
    subgroups: tuple[SubGroup, ...] = ()
    #: The level for all members of a PodGroup together, as (required, level); from ``network_tier``.
    within: tuple[bool, str] | None = None


#: What nearly all workloads ask.
NO_GROUP_REQUEST: Final = GroupRequest()


@dataclass(frozen=True, slots=True)
class JobRevision:
    """One version of the spec of an object that is suspended while it waits."""

    #: ``metadata.generation``: the API server raises it with every change of the spec, and of nothing else.
    generation: int
    #: JSON pointers of what Muster may write into the template and what contains that, as far as they exist.
    existing: frozenset[str] = frozenset()
    #: Fields from the object to what has the labels of each of its ``pod_sets``, of a kind with several.
    templates: tuple[tuple[str, ...], ...] = ()
    #: False: of a kind with several, no template says that Muster resumed it.
    resumed: bool = True


#: Completion indexes in ascending ranges, each from its first to its last.
IndexRanges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """What spec and status of a batch/v1 Job say of its pods: the job controller makes pods by nothing else."""

    parallelism: int
    #: None for a work queue. Its controller makes no pod any more after the first one that succeeds.
    completions: int | None = None
    #: Pods that have succeeded, also those that the controller is about to count.
    succeeded: int = 0
    #: Those among them (by uid) that it is about to count.
    counting: frozenset[str] = frozenset()
    #: Completion indexes for which no pod is made any more: one has succeeded, or they have failed for good. None if
    #: the Job is not Indexed.
    over: IndexRanges | None = None
    #: It has succeeded or failed: the controller removes the pods that are left, and makes none.
    ends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildJob:
    """A batch/v1 Job that an operator made for a workload: its pods are those of a pod set of the workload."""

    uid: str
    namespace: str
    name: str
    created: int
    #: The workload, as the pod template says (``muster.dev/member-of``).
    workload: WorkloadKey
    workload_name: str
    pod_set: str
    counts: JobCounts
    #: ``status.active``.
    active: int = 0
    #: It has failed, is about to, or is being deleted: its operator decides whether another one takes its place.
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCluster:
    """A RayCluster that was made for a RayJob: its autoscaler lets workers go that are idle."""

    uid: str
    namespace: str
    name: str
    workload: WorkloadKey
    workload_name: str
    #: Pods that it has, by pod set.
    pods: Mapping[str, int]
    #: It is being deleted.
    is_lost: bool = False


#: An object that was made for a workload, whose pods are those of the workload.
Child = ChildJob | ChildCluster

#: Type of Muster's condition on objects with a status of others: whether they are admitted, or why not.
ADMITTED: Final = "muster.dev/Admitted"

#: Status and reason of a condition that an object does not have.
NO_CONDITION: Final = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFact:
    """A Volcano Job, a batch/v1 Job or a PodGroup: what it asks. Bare pods and a group's members are PodFacts."""

    key: WorkloadKey
    namespace: str
    name: str
    queue: QueueName | None
    priority: int = 0
    created: int = 0
    minimum: int
    #: Without ``done``. Empty for a PodGroup: its pod sets follow from its pods.
    pod_sets: tuple[PodSet, ...] = ()
    #: batch/v1; None for another kind.
    counts: JobCounts | None = None
    #: By pod set; of a kind with several whose status says it.
    progress: Mapping[str, PodSetProgress] = field(default_factory=lambda: NOTHING_BY_NAME)
    group: GroupRequest = NO_GROUP_REQUEST
    #: Labels of the pods by pod set, without those that are made for one Job (``admission.world.pod_relations``).
    pod_labels: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=lambda: NOTHING_BY_NAME)
    #: Digests of the templates of ``pod_sets``, in their order; "": one cannot be read. Empty: a PodGroup, or ended.
    templates: tuple[str, ...] = ()
    #: What pods of a pod set claim of devices, not counted yet; empty: nothing, or ``pod_sets`` have it.
    claims: Mapping[str, tuple[PodResourceClaim, ...]] = field(default_factory=lambda: NOTHING_BY_NAME)
    #: Volumes of the pods of a pod set that say something about nodes; empty: none has any.
    volumes: Mapping[str, tuple[PodVolume, ...]] = field(default_factory=lambda: NOTHING_BY_NAME)
    generation: str = ""
    #: Name of the priority class, "" = the cluster's default; ``priority`` is its value.
    priority_class: str = ""
    #: False: the class says ``preemptionPolicy: Never``.
    preempts: bool = True
    #: ``status.state.phase`` or ``status.phase`` as last seen; batch/v1: ``Unstarted``, ``Failing`` or "".
    phase: str = ""
    #: Ended by its own status (Complete, Failed, Aborted, …) or being deleted.
    finished: bool = False
    #: It ended by failing.
    failed: bool = False
    deleting: bool = False
    #: batch/v1: carries Muster's finalizer, so that it does not disappear before Muster removes it.
    kept: bool = False
    #: batch/v1: spec.suspend now.
    suspended: bool = False
    #: batch/v1: whether its owner wants to add pods while it runs; None if it does not say.
    may_grow: bool | None = None
    #: batch/v1: it has several pods without names of their own in a Service, and does not say how many start together.
    #: ``minimum`` is all of them; its queue may say otherwise (``policy.jobs``).
    whole_by_default: bool = False
    #: batch/v1: lastTransitionTime (seconds) of the condition Suspended while it is True; 0: it is not.
    suspended_at: int = 0
    #: batch/v1: spec.parallelism and status.active.
    parallelism: int = 1
    active: int = 0
    #: Why it can never be considered as written: invalid template, unsupported field, …
    obstacle: Obstacle | None = None
    #: Fields that are accepted but not acted on yet; shown as a condition.
    unsupported: tuple[str, ...] = ()
    #: The Volcano Job that a PodGroup stands for: then it is no workload of its own. None if it stands for itself.
    stands_for: WorkloadKey | None = None
    #: batch/v1: completion mode is Indexed with completions == parallelism, so ordinals are completion indexes.
    indexed: bool = False
    #: batch/v1: the admission that wrote its nodes into the pod template; None if its pods are seated one by one.
    directed: AdmissionId | None = None
    #: batch/v1: which version of the spec this is, and how it can be patched on condition that it still is.
    revision: "JobRevision | None" = None
    #: What is suspended and resumed with it; None for nothing.
    maker: ObjectRef | None = None
    conduct: Conduct = NOTHING_SAID
    #: Status and reason of Muster's condition on the object when it was first seen; None if not known. Not compared.
    told: tuple[str, str] | None = field(default=None, compare=False)
    #: Volcano Job: what its pods are made from; None if it cannot be read. Not compared: ``generation`` is.
    job: JobSpec | None = field(default=None, compare=False, repr=False)
    #: Volcano Job: where it is, as its status says. Not compared, as the ledger knows better.
    shown: ShownState = field(default=NOTHING_SHOWN, compare=False)

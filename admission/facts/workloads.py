"""Jobs and PodGroups: what they ask."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.facts.labels import holds
from admission.facts.pods import NOTHING_SAID, Conduct
from queues.workload import AdmissionId, Obstacle, PodSet, QueueName, Requirement, WorkloadKey


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
    #: As in ``WorkloadFact.network_tier``.
    tier: tuple[str, int | str] | None = None
    #: The level of the tier, as (required, level).
    level: tuple[bool, str] | None = None

    def group_of(self, labels: Mapping[str, str]) -> str | None:
        """Which group a member with these labels is in; None: in none of this entry."""
        if not all(holds(each, labels) for each in self.selector):
            return None
        if any(key not in labels for key in self.keys):
            return None
        return ".".join([self.name, *(labels[key] for key in self.keys)])


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
    #: minTaskMember of a PodGroup.
    task_minimums: Mapping[str, int] = field(default_factory=dict)
    generation: str = ""
    #: Not compared: a write that changes nothing else is no change. The informer has the current version.
    resource_version: str = field(default="", compare=False)
    #: Name of the priority class, "" = the cluster's default; ``priority`` is its value.
    priority_class: str = ""
    #: ``status.state.phase`` or ``status.phase`` as last seen.
    phase: str = ""
    #: Volcano's networkTopology as (mode, tier or its name), tier 1 the innermost above the node; None: none asked.
    network_tier: tuple[str, int | str] | None = None
    #: The same of the partitions of each pod set.
    partition_tiers: Mapping[str, tuple[str, int | str]] = field(default_factory=dict)
    #: subGroupPolicy of a PodGroup.
    subgroups: tuple[SubGroup, ...] = ()
    #: The level for all members of a PodGroup together, as (required, level); from ``network_tier``.
    within: tuple[bool, str] | None = None
    #: Ended by its own status (Complete, Failed, Aborted, …) or being deleted.
    finished: bool = False
    deleting: bool = False
    #: batch/v1: spec.suspend now.
    suspended: bool = False
    #: batch/v1: spec.parallelism, Volcano: unused.
    parallelism: int = 1
    #: batch/v1: status.active, Volcano: unused.
    active: int = 0
    #: Why it can never be considered as written: invalid template, unsupported field, …
    obstacle: Obstacle | None = None
    #: Fields that are accepted but not acted on yet; shown as a condition.
    unsupported: tuple[str, ...] = ()
    #: The Volcano Job that a PodGroup stands for: then it is no workload of its own. None: it stands for itself.
    stands_for: WorkloadKey | None = None
    #: batch/v1: completion mode is Indexed with completions == parallelism, so ordinals are completion indexes.
    indexed: bool = False
    #: batch/v1: the admission that wrote its nodes into the pod template; None: its pods are seated one by one.
    directed: AdmissionId | None = None
    conduct: Conduct = NOTHING_SAID
    #: Volcano Job: the object as JSON, from which pods are made.
    document: bytes = field(default=b"", compare=False, repr=False)

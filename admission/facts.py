"""What the cluster shows, in domain terms: the output of translation, the input of intake and the world.

A fact is about one object at one resource version. Facts are compared with ``==``: an update that changes nothing
that matters is no change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from queues.queue import Queue
from queues.resources import Resources
from queues.workload import (
    EVERYWHERE,
    AdmissionId,
    DeviceShare,
    HostPort,
    NodeFilter,
    NodeName,
    Partition,
    PodSet,
    Preference,
    QueueName,
    Requirement,
    Taint,
    WorkloadKey,
    WorkloadKind,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFact:
    """A node as admissions see it."""

    name: NodeName
    allocatable: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """What its owner says about interrupting a piece of work. Seconds."""

    #: Who asked; "": unknown.
    user: str = ""
    run_time: int | None = None
    checkpoint_interval: int | None = None
    min_run_time: int = 0
    #: None: nothing is said.
    preemptable: bool | None = None
    cooldown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """What a pod template says about where its pods go, beyond the nodes and the level they need."""

    prefers: tuple[Preference, ...] = ()
    ports: tuple[HostPort, ...] = ()
    partitions: tuple[Partition, ...] = ()
    together: str | None = None
    balanced: bool = False
    share: DeviceShare | None = None


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


class PodPhase(StrEnum):
    """How far a pod is."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFact:
    """A pod, ours or other people's."""

    uid: str
    namespace: str
    name: str
    phase: PodPhase
    ready: bool = False
    #: Bound to this node.
    node: NodeName | None = None
    #: Still carries the gate ``muster.dev/admission``.
    gated: bool = False
    #: Carries other gates than ours.
    held_by_others: bool = False
    deleting: bool = False
    #: Nobody waits for it to end: its grace period is over, or it was deleted without one.
    forced: bool = False
    #: It had ended when its deletion was asked for; None: the pod alone cannot tell any more.
    ended_first: bool | None = True
    #: Carries our finalizer: it does not disappear before Muster says so.
    kept: bool = False
    #: Requests of the pod, ``pods: 1`` included.
    takes: Resources
    nodes: NodeFilter = EVERYWHERE
    required_topology: str | None = None
    preferred_topology: str | None = None
    priority: int = 0
    created: int = 0
    #: Queue named on the pod itself (label or Volcano's annotation); None: not ours unless its owner is.
    queue: QueueName | None = None
    #: The workload the pod belongs to as far as itself tells: its controlling Job, or itself; None: foreign.
    owner: WorkloadKey | None = None
    #: Has a controller that makes a successor when it is deleted.
    controlled: bool = False
    #: Name of the PodGroup in the same namespace, if the pod names one.
    group: str | None = None
    #: Task or template of a Volcano Job, else "".
    task: str = ""
    #: Task index of a Volcano Job's pod or completion index of an Indexed Job's.
    index: int | None = None
    #: Annotations written by Muster.
    admission: AdmissionId | None = None
    seat: tuple[str, int] | None = None
    #: Made again by Muster: uid of the pod that was taken back.
    recreated_from: str | None = None
    #: volcano.sh/job-version; a pod of an older version is stale.
    version: int = 0
    #: Since when (seconds) the stock scheduler says Unschedulable, with its message; None: it does not.
    refused: tuple[int, str] | None = None
    #: Exit code of the first container that terminated with one, once the pod failed.
    exit_code: int | None = None
    restarts: int = 0
    conduct: Conduct = Conduct()
    #: Those that all pods of one template share: what PodDisruptionBudgets select by.
    labels: tuple[tuple[str, str], ...] = ()
    placing: Placing = Placing()


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
    #: Without ``done``. Empty for a PodGroup, whose pods tell.
    pod_sets: tuple[PodSet, ...] = ()
    #: minTaskMember of a PodGroup.
    task_minimums: Mapping[str, int] = field(default_factory=dict)
    generation: str = ""
    #: Not compared: a write that changes nothing else is no news. The informer knows the current one.
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
    #: Why it can never be considered as written, as (code, message): invalid template, unsupported field, …
    obstacle: tuple[str, str] | None = None
    #: Fields that are accepted but not acted on yet; shown as a condition.
    unsupported: tuple[str, ...] = ()
    #: PodGroup written by Muster for a Volcano Job: not a workload of its own.
    owned_by_job: bool = False
    #: batch/v1: completion mode is Indexed with completions == parallelism, so ordinals are completion indexes.
    indexed: bool = False
    #: batch/v1: the admission whose nodes are written into the pod template; None: its pods are seated one by one.
    directed: AdmissionId | None = None
    conduct: Conduct = Conduct()
    #: Volcano Job: the object as JSON, from which pods are made.
    document: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFact:
    """A Queue object with who changed it last."""

    queue: Queue
    uid: str
    changed_by: str = ""
    document: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFact:
    """A ResourceFlavor: the nodes whose labels match are of this flavor. Names decide where two match (sorted)."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyFact:
    """A Topology: node label keys, outermost level first, the host last."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Whom a HyperNode contains: nodes, or (exact only) HyperNodes."""

    hypernode: bool = False
    exact: str | None = None
    regex: str | None = None
    #: Requirements over node labels; None: not chosen by labels.
    labels: tuple[Requirement, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperNodeFact:
    """A HyperNode of Volcano: a domain of the network. The lower the tier, the closer its nodes."""

    name: str
    tier: int
    tier_name: str = ""
    #: Those that can be used.
    members: tuple[Member, ...] = ()
    uid: str = ""
    #: What is wrong with the others.
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetFact:
    """A PodDisruptionBudget: how many more of the pods that it selects may go now."""

    namespace: str
    name: str
    allowed: int
    #: Requirements over pod labels, all of which must hold: matchLabels and matchExpressions; None: no pods.
    selector: tuple[Requirement, ...] | None = None

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod of the namespace with these labels is under it. An empty selector selects every pod."""
        return self.selector is not None and all(holds(each, labels) for each in self.selector)


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet one requirement of a label selector."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


class FactKind(StrEnum):
    """Collections of facts, one per informer."""

    NODE = "nodes"
    POD = "pods"
    WORKLOAD = "workloads"
    QUEUE = "queues"
    FLAVOR = "flavors"
    TOPOLOGY = "topologies"
    HYPERNODE = "hypernodes"
    BUDGET = "poddisruptionbudgets"


Fact = NodeFact | PodFact | WorkloadFact | QueueFact | FlavorFact | TopologyFact | HyperNodeFact | BudgetFact


@dataclass(frozen=True, slots=True)
class Change:
    """One object appeared, changed or vanished (``fact`` is None). ``key``: uid, or name for cluster-scoped ones."""

    kind: FactKind
    key: str
    fact: Fact | None
    workload_kind: WorkloadKind | None = None


def asks(before: Fact | None, after: Fact | None) -> bool:
    """Whether somebody waits for an answer now: a workload that is new or wants something else, a gated pod."""
    match before, after:
        case WorkloadFact(), WorkloadFact():
            return before.generation != after.generation
        case None, WorkloadFact():
            return True
        case None, PodFact():
            return after.gated
    return False

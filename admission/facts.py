"""What the cluster shows, in domain terms: the output of translation, the input of intake and the world.

A fact is about one object at one resource version. Facts are compared with ``==``: an update that changes nothing
that matters is no change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from queues.admissions import Recreation
from queues.api import names
from queues.api.api_resources import ObjectRef
from queues.api.reading.device_shares import with_share
from queues.command import Command
from queues.label_selectors import selects
from queues.ledger_record import LedgerRecord
from queues.quota.namespace_quota import NamespaceQuota
from queues.quota.queue import Queue
from queues.resources import Resources
from queues.workload import (
    EVERYWHERE,
    AdmissionId,
    DeviceShare,
    HostPort,
    NodeFilter,
    NodeName,
    Obstacle,
    Partition,
    PodSet,
    PodSetProgress,
    Preference,
    QueueName,
    Requirement,
    Taint,
    WorkloadKey,
    WorkloadKind,
)

# ── the cluster around workloads ────────────────────────────────────────────────────────────────────────────────

#: An empty mapping that facts share.
NOTHING_BY_NAME: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFact:
    """A node as admissions see it."""

    name: NodeName
    allocatable: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    #: Since when (seconds) it is not ready; 0: it is, or it does not say.
    not_ready_since: int = 0

    @property
    def out_of_service(self) -> bool:
        """Whether an administrator has vouched, by Kubernetes' own taint, that nothing runs there any more."""
        return any(taint.key == names.OUT_OF_SERVICE for taint in self.taints)

    def offer(self) -> tuple[object, ...]:
        """What of the node matters to the seats on it."""
        return (self.ready, self.unschedulable, self.allocatable, self.out_of_service)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFact:
    """A Queue object, with the user who changed it last."""

    queue: Queue
    uid: str
    changed_by: str = ""
    document: Mapping[str, object] = field(default_factory=dict)
    #: The state in its status; "": none.
    shown: str = ""
    #: The ledger that leads the cluster, as root says; None: it says nothing, or is another queue.
    ledger: LedgerRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFact:
    """A ResourceFlavor. A node is of the flavor with matching labels; if several match, of the first one by name."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    #: The resource that devices of a DeviceClass count as, by class.
    device_classes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyFact:
    """A Topology: node label keys, outermost level first, the host last."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperNodeMember:
    """A member of a HyperNode: nodes, or (exact only) another HyperNode."""

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
    #: Members that can be used.
    members: tuple[HyperNodeMember, ...] = ()
    uid: str = ""
    #: What is wrong with the members that cannot be used.
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
        return self.selector is not None and selects(self.selector, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFact:
    """A Namespace: its labels, the queue of objects in it that name none, and whether running pods are adopted."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    #: None: it has no default queue.
    queue: QueueName | None = None
    #: Migration mode: when it ends or ended (seconds); 0: it is not in that mode.
    adopt_until: int = 0


# ── devices of dynamic resource allocation ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaimFact:
    """A ResourceClaim, or what a ResourceClaimTemplate makes: devices for a pod."""

    namespace: str
    name: str
    #: Numbers of devices by DeviceClass: as they were allocated, else as they are asked for.
    devices: tuple[tuple[str, int], ...] = ()
    #: Why they cannot be counted as they are asked for, as found and expected; "": they can.
    problem: str = ""
    #: Uid of the first pod that it is reserved for; "": none.
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClassFact:
    """A DeviceClass: which devices it selects."""

    name: str
    #: "": of all drivers.
    driver: str = ""
    #: Attributes that a device must have, as in ``ResourceSliceFact.devices``.
    attributes: frozenset[tuple[str, str]] = frozenset()
    #: Why its selectors cannot be read, as found and expected; "": they can.
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSliceFact:
    """Devices of one driver on one node: a ResourceSlice."""

    node: NodeName
    driver: str
    pool: str
    #: Slices of older generations than the pool's newest count no more.
    generation: int
    #: Devices that pods may get: attributes, (``domain/name``, type and value), and how many devices have these.
    devices: tuple[tuple[frozenset[tuple[str, str]], int], ...] = ()


class PodResourceClaim(NamedTuple):
    """An entry of a pod's ``resourceClaims``."""

    name: str
    #: The ResourceClaimTemplate of its namespace that a claim is made from for each pod; "": it names a claim.
    template: str = ""
    #: The ResourceClaim: the one it names, or the one that was made for it; "": not made yet.
    claim: str = ""


# ── pods ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """What the owner of a workload says about its run time and its eviction. Durations in seconds."""

    #: The user who created the object; "": unknown.
    user: str = ""
    run_time: int | None = None
    checkpoint_interval: int | None = None
    min_run_time: int = 0
    #: None: not given.
    preemptable: bool | None = None
    cooldown: int = 0
    #: Another value than before has the workload tried again that was held back because its pods did not get ready.
    retry: str = ""


NOTHING_SAID: Final = Conduct()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodShape:
    """What one pod asks for, and where it may go. Pods of equal shapes are interchangeable.

    Fields mean what they mean in ``PodSet``. A new field belongs here, in ``PodSet``, and in what reads it
    (``admission.decode.topology_requests``); digests and pod sets follow.
    """

    #: Requests as written, ``pods: 1`` included; without the share of devices.
    takes: Resources
    nodes: NodeFilter = EVERYWHERE
    required_topology: str | None = None
    preferred_topology: str | None = None
    prefers: tuple[Preference, ...] = ()
    ports: tuple[HostPort, ...] = ()
    partitions: tuple[Partition, ...] = ()
    together: str | None = None
    balanced: bool = False
    share: DeviceShare | None = None

    def with_ports(self, more: tuple[HostPort, ...]) -> "PodShape":
        """The same pod with these host ports beside its own; itself if there are none."""
        return replace(self, ports=(*self.ports, *more)) if more else self

    def details(self) -> dict[str, object]:
        """The fields beyond resources, nodes and levels, which most pods leave out. Empty: all are left out."""
        found = {name: getattr(self, name) for name in SHAPE_DETAILS}
        return found if any(found.values()) else {}

    def pod_set(self, name: str, count: int = 0) -> PodSet:
        """So many pods of this shape."""
        return PodSet(
            name=name,
            count=count,
            takes=with_share(self.takes, self.share),
            nodes=self.nodes,
            required_topology=self.required_topology,
            preferred_topology=self.preferred_topology,
            **self.details(),  # type: ignore[arg-type]
        )


#: Fields of a shape, and of a pod set, that most pods leave out; in the order of digests that are stored.
SHAPE_DETAILS: Final = tuple(
    each.name
    for each in fields(PodShape)
    if each.name not in ("takes", "nodes", "required_topology", "preferred_topology")
)


class PodPhase(StrEnum):
    """How far a pod is."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class PodController:
    """What a pod says about the workload that controls it."""

    key: WorkloadKey
    name: str
    #: The pod carries what the controller of such workloads writes on each of its pods.
    marked: bool
    #: The pod set that it says it is in; "": it does not say.
    pod_set: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFact:
    """A pod, of a workload or not."""

    uid: str
    namespace: str
    name: str
    phase: PodPhase
    #: Since when (seconds) its containers are ready, or have completed; None: they are not.
    ready_since: int | None = None
    #: What a container that is not ready waits for, in a few words; "": it only starts, or all are ready.
    waits_for: str = ""
    #: Bound to this node.
    node: NodeName | None = None
    #: When (seconds) it was bound; 0: it is not, or does not say.
    bound_at: int = 0
    #: Still carries the gate ``muster.dev/admission``.
    gated: bool = False
    #: Scheduling gates of other controllers that it carries, by name, the first few.
    other_gates: tuple[str, ...] = ()
    deleting: bool = False
    #: When the grace period of its deletion is over, and how long it is in all, in seconds; 0: it is not being deleted.
    ends_by: int = 0
    grace: int = 0
    #: Being deleted without a grace period, or the grace period is over.
    forced: bool = False
    #: The pod had ended before its deletion was requested; None: its object no longer shows whether.
    ended_first: bool | None = True
    #: Carries Muster's finalizer: the pod does not disappear before Muster removes it.
    kept: bool = False
    shape: PodShape
    priority: int = 0
    #: False: it says ``preemptionPolicy: Never``, as the API server fills it in from the priority class.
    preempts: bool = True
    created: int = 0
    #: Queue named on the pod itself (label or Volcano's annotation); None: not ours unless its owner is.
    #: ``UNUSABLE_QUEUE``: it names one that cannot exist.
    queue: QueueName | None = None
    #: The workload it belongs to, as it says itself (``admission.world.pods`` compares that); None: foreign.
    owner: WorkloadKey | None = None
    #: Name of the controlling Job in that reference.
    owner_name: str = ""
    #: Carries what the controller of that Job writes on each of its pods.
    marked: bool = True
    #: Kind and name of what makes a successor when it is deleted, such as ``deployment/web``; "": nothing does.
    controller: str = ""
    #: Name of the PodGroup in the same namespace, if the pod names one.
    group: str | None = None
    #: Members that start together in the PodGroup that Muster makes for the pod's owner; 0: others make its PodGroup.
    group_minimum: int = 0
    #: Task or template of a Volcano Job, else "".
    task: str = ""
    #: Task index of a Volcano Job's pod or completion index of an Indexed Job's.
    index: int | None = None
    admission: AdmissionId | None = None
    seat: tuple[str, int] | None = None
    #: Its namespace lets Muster adopt pods that run until then (seconds); 0: it does not.
    adopt_until: int = 0
    #: Of a released pod without a controller that kube-scheduler preempts: its successor as JSON; "": of no such pod.
    successor: str = ""
    #: Which of ``/spec/affinity`` and ``/spec/affinity/nodeAffinity`` its document has: a JSON patch has to know.
    affinity: frozenset[str] = frozenset()
    #: Made again by Muster: uid of the pod that was taken back.
    recreated_from: str | None = None
    #: volcano.sh/job-version; a pod of an older version is stale.
    version: int = 0
    #: Since when (seconds) the stock scheduler says Unschedulable, with its message; None: it does not.
    refused: tuple[int, str] | None = None
    #: Exit code of the first container that terminated with one, once the pod failed.
    exit_code: int | None = None
    restarts: int = 0
    conduct: Conduct = NOTHING_SAID
    #: Those that all pods of one template share: what PodDisruptionBudgets select by.
    labels: tuple[tuple[str, str], ...] = ()
    #: What it claims of devices, not counted yet; (): nothing, or ``shape`` has it (``admission.world.devices``).
    claims: tuple[PodResourceClaim, ...] = ()
    #: Why the pod cannot be considered as it is written; None: it can. What it uses is counted all the same.
    obstacle: Obstacle | None = None


class TemplateKey(NamedTuple):
    """A pod template in a namespace. Pods of templates with equal keys turn out equal."""

    namespace: str
    #: ``admission.decode.template_trials.template_digest``.
    digest: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFact:
    """What the API server makes of a pod template. With neither a shape nor a refusal: it could not tell so far."""

    key: TemplateKey
    #: What the pods ask, with all that the cluster's defaults and webhooks add.
    shape: PodShape | None = None
    #: Why the pods would be refused; "": they would not.
    refusal: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the API server has told."""
        return self.shape is not None or bool(self.refusal)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaultsFact:
    """Something that decides what templates become: a LimitRange, a RuntimeClass, a configuration of webhooks."""

    #: "": of all namespaces.
    namespace: str = ""
    digest: str


# ── Jobs and PodGroups ──────────────────────────────────────────────────────────────────────────────────────────


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
        """Which group a member with these labels is in; None: in none of this entry."""
        if not selects(self.selector, labels):
            return None
        if any(key not in labels for key in self.keys):
            return None
        return ".".join([self.name, *(labels[key] for key in self.keys)])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """What a Volcano Job or a PodGroup asks of its members together. Apart from the rest, since most have none."""

    #: minResources of a PodGroup; None: it has none.
    min_resources: Resources | None = None
    #: minTaskMember of a PodGroup.
    task_minimums: Mapping[str, int] = field(default_factory=lambda: NOTHING_BY_NAME)
    #: Volcano's networkTopology as (mode, tier or its name), tier 1 the innermost above the node; None: none asked.
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
    #: By pod set; of a kind with several whose status says it.
    progress: Mapping[str, PodSetProgress] = field(default_factory=lambda: NOTHING_BY_NAME)
    group: GroupRequest = NO_GROUP_REQUEST
    #: Digests of the templates of ``pod_sets``, in their order; "": one cannot be read. Empty: a PodGroup, or ended.
    templates: tuple[str, ...] = ()
    #: What pods of a pod set claim of devices, not counted yet; empty: nothing, or ``pod_sets`` have it.
    claims: Mapping[str, tuple[PodResourceClaim, ...]] = field(default_factory=lambda: NOTHING_BY_NAME)
    generation: str = ""
    #: Name of the priority class, "" = the cluster's default; ``priority`` is its value.
    priority_class: str = ""
    #: False: the class says ``preemptionPolicy: Never``.
    preempts: bool = True
    #: ``status.state.phase`` or ``status.phase`` as last seen; batch/v1: ``Unstarted`` or "".
    phase: str = ""
    #: Ended by its own status (Complete, Failed, Aborted, …) or being deleted.
    finished: bool = False
    deleting: bool = False
    #: batch/v1: spec.suspend now.
    suspended: bool = False
    #: batch/v1: lastTransitionTime (seconds) of the condition Suspended while it is True; 0: it is not.
    suspended_at: int = 0
    #: batch/v1: spec.parallelism and status.active.
    parallelism: int = 1
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
    #: batch/v1: which version of the spec this is, and how it can be patched on condition that it still is.
    revision: "JobRevision | None" = None
    #: What is suspended and resumed with it; None: nothing.
    maker: ObjectRef | None = None
    conduct: Conduct = NOTHING_SAID
    #: Status and reason of Muster's condition on the object when it was first seen; None: not known. Not compared.
    told: tuple[str, str] | None = field(default=None, compare=False)
    #: Volcano Job: the object as JSON, from which pods are made.
    document: bytes = field(default=b"", compare=False, repr=False)


class FactKind(StrEnum):
    """Collections of facts: one per informer, and those that a writer hands in: intents, answers to dry runs."""

    NODE = "nodes"
    POD = "pods"
    WORKLOAD = "workloads"
    QUEUE = "queues"
    FLAVOR = "flavors"
    TOPOLOGY = "topologies"
    HYPERNODE = "hypernodes"
    BUDGET = "poddisruptionbudgets"
    NAMESPACE = "namespaces"
    RECREATION = "recreations"
    TEMPLATE = "templates"
    POD_DEFAULTS = "pod defaults"
    DEVICE_CLASS = "deviceclasses"
    RESOURCE_SLICE = "resourceslices"
    CLAIM_TEMPLATE = "resourceclaimtemplates"
    RESOURCE_CLAIM = "resourceclaims"
    RESOURCE_QUOTA = "resourcequotas"
    COMMAND = "commands"


Fact = (
    NodeFact
    | PodFact
    | WorkloadFact
    | QueueFact
    | FlavorFact
    | TopologyFact
    | HyperNodeFact
    | BudgetFact
    | NamespaceFact
    | Recreation
    | TemplateFact
    | PodDefaultsFact
    | DeviceClassFact
    | ResourceSliceFact
    | ResourceClaimFact
    | NamespaceQuota
    | Command
)


@dataclass(frozen=True, slots=True)
class Change:
    """One object appeared, changed or vanished (``fact`` is None). ``key``: uid, or name for cluster-scoped ones.

    Of an intent to make a pod again ``key`` is the uid of the pod that goes; None: forget the intent.
    """

    kind: FactKind
    key: str
    fact: Fact | None
    workload_kind: WorkloadKind | None = None

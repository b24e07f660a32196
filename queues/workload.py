"""Workloads: their pod sets with requests and placement wishes, and the ids of other domain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, NewType

import msgspec

from queues.kind_names import KindName
from queues.reason_codes import ReasonCode
from queues.resources import Resources, total

QueueName = NewType("QueueName", str)
NodeName = NewType("NodeName", str)
FlavorName = NewType("FlavorName", str)
AdmissionId = NewType("AdmissionId", int)

#: Key of the requirement, of a node's name, that leaves out nodes whose pods the stock scheduler refused.
NOT_REFUSED: Final = "muster.dev/not-refused"
#: Key of the requirement, which every node meets, of terms that leave out nodes whose volumes others have now.
NOT_TAKEN: Final = "muster.dev/not-taken"

#: The queue of objects that name one which no Queue can be called; it is no DNS name itself.
UNUSABLE_QUEUE = QueueName("?")

#: The flavor of nodes that no ResourceFlavor describes.
NO_FLAVOR = FlavorName("")


class Result(StrEnum):
    """How a workload ended."""

    #: It has not ended, or that is not known.
    UNKNOWN = ""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    #: Its object was deleted before it ended.
    DELETED = "deleted"
    #: A group that Muster made for an owner without pods: it goes on when there are some.
    IDLE = "idle"


class WorkloadKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """Identity of a workload by its uid: a name may be used again, a uid never.

    A struct because it is the key of most mappings: hashed, compared and made without Python code, and small.
    """

    kind: KindName
    uid: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.uid}"


class Obstacle(NamedTuple):
    """Why a workload cannot be considered as it is."""

    code: ReasonCode
    message: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression over a node's labels (or, if ``field``, over ``metadata.name``)."""

    key: str
    #: In, NotIn, Exists, DoesNotExist, Gt, Lt
    operator: str
    values: tuple[str, ...] = ()
    field: bool = False


@dataclass(frozen=True, slots=True)
class Toleration:
    """Lets a pod onto nodes with a matching taint, as in the core API."""

    #: "" with operator Exists tolerates every key.
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    #: "" tolerates every effect.
    effect: str = ""
    #: Of a flavor: how long (seconds) a pod stays on a node that gets such a taint; None for good. No part of the text,
    #: and not read of pods.
    seconds: int | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps pods without a matching toleration off a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """The nodes that a pod may use: nodeSelector, required node affinity and tolerations. Hashable: part of a shape."""

    #: (label, value) pairs, all of them, sorted.
    selector: tuple[tuple[str, str], ...] = ()
    #: Terms are ORed, the requirements of a term ANDed; no terms at all = any node.
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    #: Closures (``queues.node_closures``) whose nodes it may use all the same, and flavors (``entry_to``) whose
    #: tolerations its pods get. The engine fills it in; the text stays as it was, for digests of it are stored.
    enters: tuple[str, ...] = field(default=(), repr=False)
    #: Where its volumes can be used: each is to be met; of one the terms are ORed. Like ``enters`` no part of the text.
    also: tuple[tuple[tuple[Requirement, ...], ...], ...] = field(default=(), repr=False)
    #: Worked out once: hundreds of tolerations of hundreds of pods are many to go through each time.
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(
                self, "_hash", hash((self.selector, self.affinity, self.tolerations, self.enters, self.also))
            )
        return self._hash or 0

    def narrowed(self, more: Sequence[Requirement]) -> "NodeFilter":
        """The same nodes, as far as they meet these requirements as well."""
        if not self.affinity:
            return replace(self, affinity=(tuple(more),))
        # A term that asks nothing matches nothing, and stays so.
        return replace(self, affinity=tuple((*term, *more) if term else term for term in self.affinity))

    def with_refused(self) -> "NodeFilter":
        """The same nodes, and those that are left out only because the stock scheduler refused them."""
        if not any(each.key == NOT_REFUSED for term in self.affinity for each in term):
            return self
        terms = [tuple(each for each in term if each.key != NOT_REFUSED) for term in self.affinity]
        # The term had nothing else: it is none of the pod's own.
        return replace(self, affinity=() if terms == [()] else tuple(terms))

    def lasting(self) -> "NodeFilter":
        """The same nodes, and those that are left out only for what passes: refusals, and volumes that others have."""
        nodes = self.with_refused()
        also = tuple(
            terms for terms in nodes.also if not any(each.key == NOT_TAKEN for term in terms for each in term)
        )
        return nodes if also == nodes.also else replace(nodes, also=also)


def entry_to(flavor: FlavorName) -> str:
    """A flavor among what a filter ``enters``."""
    return f"flavor/{flavor}"


#: No conditions on labels, no tolerations.
EVERYWHERE = NodeFilter()


@dataclass(frozen=True, slots=True)
class Preference:
    """One preferred node affinity term: nodes that meet all requirements gain its weight (1 … 100)."""

    weight: int
    requirements: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Pods of a set in equal parts, each part in one domain: Volcano's partitionPolicy, Kueue's slices.

    Ordinals 0 … size-1 are the first part. Parts may be nested: ``PodSet.partitions`` goes from the outermost
    (largest) to the innermost, and each size divides the one before.
    """

    #: Pods of one part.
    size: int
    #: Node label key of a topology level: each part is in one domain of it.
    level: str
    #: False: only if some domain holds the part, else wider.
    required: bool = True
    #: At least this many whole parts start together (minPartitions); 0: no minimum of their own.
    minimum: int = 0


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods of some namespaces whose labels meet all requirements."""

    #: By name.
    namespaces: tuple[str, ...]
    #: Requirements of their labels; no requirement selects every pod.
    labels: tuple[Requirement, ...]
    #: Further namespaces, by their labels (no requirement: all); None for only those by name.
    of_namespaces: tuple[Requirement, ...] | None = None


@dataclass(frozen=True, slots=True)
class PodSelection:
    """Pods that meet all of some terms."""

    #: A short name that only equal selections have: pods are counted by it.
    name: str
    terms: tuple[PodTerm, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadRule:
    """A topologySpreadConstraint: how evenly the selected pods are to lie over the domains of a node label."""

    key: str
    pods: PodSelection
    max_skew: int
    #: With fewer domains the emptiest of them counts as empty.
    min_domains: int = 1
    #: Only nodes that the pod's nodeSelector and required node affinity choose count as domains.
    honors_affinity: bool = True
    #: Only nodes whose taints the pod tolerates count as domains.
    honors_taints: bool = False
    #: False: ScheduleAnyway.
    required: bool = True


@dataclass(frozen=True, slots=True)
class ApartRule:
    """A required term of podAntiAffinity: no selected pod in the pod's domain of a node label, and none comes there."""

    key: str
    pods: PodSelection

    @property
    def bearers(self) -> str:
        """The name under which the pods that have this rule are counted: it keeps selected pods away from them."""
        return f"{self.pods.name} by {self.key}"


@dataclass(frozen=True, slots=True)
class NearRule:
    """All required terms of podAffinity: a pod that meets all of them in the pod's domain of each node label."""

    keys: tuple[str, ...]
    pods: PodSelection


@dataclass(frozen=True, slots=True)
class AffinityWish:
    """A preferred term of pod affinity (weight above 0) or anti-affinity (below)."""

    key: str
    pods: PodSelection
    weight: int


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """Where pods may go with regard to other pods."""

    spread: tuple[SpreadRule, ...] = ()
    apart: tuple[ApartRule, ...] = ()
    near: tuple[NearRule, ...] = ()
    wishes: tuple[AffinityWish, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any rule or wish."""
        return bool(self.spread or self.apart or self.near or self.wishes)

    def selections(self) -> tuple[PodSelection, ...]:
        """The pods that the rules are about, each selection once."""
        rules: tuple[SpreadRule | ApartRule | NearRule | AffinityWish, ...] = (
            *self.spread,
            *self.apart,
            *self.near,
            *self.wishes,
        )
        return tuple(dict.fromkeys(rule.pods for rule in rules))


#: Other pods do not matter.
NO_RULES: Final = PlacementRules()

#: ``protocol`` of what is no port: anti-affinity of pods against pods like themselves, which ``ip`` names.
ANTI_AFFINITY: Final = "AntiAffinity"
#: The same: pods that rules of others are about, counted by node. ``ip``: name of the selection.
COUNTED: Final = "Counted"
#: The same: volumes that a node attaches for the pod. ``port``: the number of those that only this pod has, of the
#: driver in ``ip``; 0: one that other pods may have too, driver and volume (``DRIVER/VOLUME``) in ``ip``.
ATTACHED: Final = "Attached"


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of a node, which only one pod can have. ``ip`` "" and "0.0.0.0" collide with every address."""

    port: int
    protocol: str = "TCP"
    ip: str = ""


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """Parts of devices that one pod takes: an equal part of each of some devices of one node."""

    #: Number of different devices.
    devices: int
    #: Thousandths of each device, at most 1000; 0: asked for by memory only.
    milli: int = 0
    #: MiB of memory of each device; 0: none asked.
    memory: int = 0
    #: Extended resource that names whole devices of this kind, such as nvidia.com/gpu.
    resource: str = "nvidia.com/gpu"


class DevicePlace(NamedTuple):
    """Where one device is. Numbers and names mean something on its node only."""

    #: Its number, as in ``muster.dev/devices``.
    number: int
    #: NVLinks join devices of the same island.
    island: int
    #: PCIe root complex, such as ``pci0000:17``; "": unknown.
    root: str = ""
    #: NUMA node; None if unknown.
    numa: int | None = None

    @property
    def bus(self) -> tuple[int | None, str]:
        """The root complex together with its NUMA node. What is unknown counts as one place."""
        return self.numa, self.root


class NodeLoad(NamedTuple):
    """How busy and how hot the devices of a node are, as its agent reports it: 1 low, 2 medium, 3 high.

    0: it is not reported.
    """

    utilisation: int = 0
    temperature: int = 0


#: No agent reports it.
NO_LOAD: Final = NodeLoad()


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlaces:
    """How the whole devices of a node are linked that count as one resource."""

    #: The extended resource that they count as.
    resource: str
    #: Each of them, by number, where there are several islands. Empty: NVLinks join all of them.
    each: tuple[DevicePlace, ...] = ()
    #: Whether the node offers parts of its devices as well.
    in_parts: bool = False


@dataclass(frozen=True, slots=True)
class PodSetProgress:
    """What an object says of how the pods of one of its pod sets come and end."""

    #: Pods that shall succeed in all, and those that have; 0: its status does not count pods.
    wanted: int = 0
    succeeded: int = 0
    #: Jobs that make its pods, and say themselves which pods they still get; 0: it does not say of how many.
    jobs: int = 0
    #: False: its pods are made once pods of other sets are ready or have ended.
    is_due: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Pods of one shape inside a workload: a Volcano task, a Job's template, the equal pods of a PodGroup."""

    name: str
    #: Pods that should exist when everything runs; their ordinals are 0 … count-1, or ``ordinals``.
    count: int
    #: Ordinals of the pods, ascending, where those of pods that ended are left out; (): 0 … count-1.
    ordinals: tuple[int, ...] = ()
    #: Ordinals that need no seat any more, because their pod ended for good.
    done: frozenset[int] = frozenset()
    #: At least this many of the pods start together (``minTaskMember``); 0: no minimum of their own.
    minimum: int = 0
    #: Requests of one pod, ``pods: 1`` included.
    takes: Resources
    nodes: NodeFilter = EVERYWHERE
    #: Node label key that is a topology level: all pods of the set in one domain of it.
    required_topology: str | None = None
    #: Node label key of a topology level: all pods in one domain of it if one holds them, else wider.
    preferred_topology: str | None = None
    #: Node label key of the topology level of the whole workload: all its pod sets in one domain of it.
    within: str | None = None
    #: False: only if some domain holds it, else wider.
    within_required: bool = True
    #: Parts of the set with a topology of their own, outermost first.
    partitions: tuple[Partition, ...] = ()
    #: Pod sets of one workload with equal names here are placed in one domain together (a leader with its workers, a
    #: subgroup); None for each on its own.
    together: str | None = None
    #: Pods as evenly over the domains as the level's smallest number of domains allows.
    balanced: bool = False
    #: Preferred node affinity.
    prefers: tuple[Preference, ...] = ()
    ports: tuple[HostPort, ...] = ()
    #: Parts of devices that each pod takes; ``takes`` contains their sum. None for whole devices or none.
    share: DeviceShare | None = None
    #: NVLinks join all devices of each pod.
    in_one_island: bool = False
    #: Where its pods may go with regard to other pods.
    rules: PlacementRules = NO_RULES
    #: Labels of its pods.
    labels: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    #: Selections that rules are about and that its pods are in. Filled in once such rules exist.
    counted: tuple[HostPort, ...] = ()
    #: Rules that other pods have against its pods: label key, and the name that those pods are counted by.
    kept_from: tuple[tuple[str, str], ...] = ()
    #: Volumes of each pod that nodes attach, of drivers with a limit. Filled in while volumes are watched.
    attached: tuple[HostPort, ...] = ()

    @property
    def occupies(self) -> tuple[HostPort, ...]:
        """What a pod of it is noted with on its node: host ports, what it is counted as, and volumes."""
        if not self.counted and not self.attached:
            return self.ports
        return (*self.ports, *self.counted, *self.attached)

    @property
    def has_node_limits(self) -> bool:
        """Whether host ports or volumes limit how many of its pods a node takes, next to amounts."""
        return bool(self.ports or self.attached)

    @property
    def has_rules(self) -> bool:
        """Whether other pods decide about where its pods may go."""
        rules = self.rules
        if rules is NO_RULES:
            return bool(self.kept_from)
        hard = any(rule.required for rule in rules.spread)
        return bool(hard or rules.near or rules.apart or self.kept_from)

    def beside_devices(self) -> Resources:
        """Requests of one pod without its parts of devices."""
        if self.share is None:
            return self.takes
        return Resources({name: units for name, units in self.takes.items() if name != self.share.resource})

    def needs_single_devices(self) -> bool:
        """Whether the amounts of a node do not show how many of these pods its devices take."""
        return self.share is not None or self.in_one_island

    def wanted_count(self) -> int:
        """Number of ordinals that need a seat."""
        return len(self.wanted()) if self.done else self.count

    def wanted(self) -> tuple[int, ...]:
        """Ordinals that need a seat."""
        every = self.ordinals or range(self.count)
        return tuple(ordinal for ordinal in every if ordinal not in self.done)


@dataclass(frozen=True, slots=True)
class QuotaHold:
    """What a gang asks its queue to keep for it while its pods are being made (``muster.dev/hold-min-resources``)."""

    takes: Resources
    #: How long it is kept from the second on in which the queue has it.
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload: a gang of pods that waits in a queue, or holds a part of the queue's quota."""

    key: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    #: Value of the priority class. What of it counts in the queue: ``QueueTree.counted_priority``.
    priority: int = 0
    #: Other workloads may be evicted for it (``preemptionPolicy`` of the priority class is not ``Never``).
    preempts: bool = True
    #: Sequence number given by intake; smaller is earlier.
    arrival: int
    #: Seconds since the epoch, from the object; only ageing uses it.
    created: int = 0
    #: Gang size over all pod sets: at least this many pods start together, or none starts.
    minimum: int
    pod_sets: tuple[PodSet, ...]
    #: Nothing says that its pods start together but the default for Jobs: an annotation lets each start alone.
    whole_by_default: bool = False
    #: Changes with every change of the request; a plan for another generation is not applied.
    generation: str = ""
    #: Why the workload cannot be considered at all; None if it can.
    obstacle: Obstacle | None = None
    #: What it asks to be kept while it lacks pods; None for nothing.
    hold: QuotaHold | None = None
    #: No attempt before this time (seconds since the epoch): backoff after a rollback.
    not_before: int = 0
    #: The user (``muster.dev/user``); "": unknown.
    user: str = ""
    #: Image of its pods' first container, at most 200 characters: its run time is learned by it. "": unknown.
    image: str = ""
    #: Declared run time in seconds (``muster.dev/run-time``, activeDeadlineSeconds …); None if unknown.
    run_time: int | None = None
    #: Work lost on eviction is at most this many seconds (``muster.dev/checkpoint-interval``); None for all of it.
    checkpoint_interval: int | None = None
    #: Not evicted for a beneficiary in so many seconds after its start (``muster.dev/min-run-time``).
    min_run_time: int = 0
    #: May be chosen as a victim (``volcano.sh/preemptable``; pods that no controller recreates may not).
    preemptable: bool = True
    #: Not evicted for a beneficiary in so many seconds after its admission (``volcano.sh/cooldown-time``).
    cooldown: int = 0
    #: Evictions for beneficiaries so far.
    evictions: int = 0
    #: Start of the current waiting time (seconds since the epoch); 0: ``created``.
    waiting_since: int = 0
    #: A device under it failed, or its nodes were closed: among equals of its queue it comes first, whatever its size.
    comes_first: bool = False
    #: What it says to the policies of its queue (``policy.muster.dev/KEY``), sorted by key.
    hints: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def kind(self) -> KindName:
        """The kind of the object."""
        return self.key.kind

    @property
    def was_admitted(self) -> bool:
        """Whether it was evicted or went back to its queue. One that its owner suspended was not, once more."""
        return bool(self.evictions or self.not_before)

    def gang_size(self) -> int:
        """Pods that start together at least: what the minimums of its pod sets require counts too."""
        return max(self.minimum, sum(pods.minimum for pods in self.pod_sets))

    def asks(self) -> Resources:
        """The sum of the requests of all pods that still need a seat."""
        return total(pods.takes * pods.wanted_count() for pods in self.pod_sets)

    def hint(self, key: str) -> str | None:
        """What it says to policies under a key; None if nothing."""
        return next((text for name, text in self.hints if name == key), None)

    def pod_set(self, name: str) -> PodSet | None:
        """The pod set of that name."""
        return next((pods for pods in self.pod_sets if pods.name == name), None)

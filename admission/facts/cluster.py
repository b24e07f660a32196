"""Facts about nodes, queues and what else is around workloads."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.facts.devices import DeviceFault
from queues.api import names
from queues.flavor_growth import FlavorGrowth
from queues.label_selectors import selects
from queues.ledger_record import LedgerRecord
from queues.node_closures import ClosureKind, NodeClosure
from queues.quota.queue import Queue
from queues.resources import NOTHING, Resources
from queues.workload import (
    NO_LOAD,
    DevicePlaces,
    FlavorName,
    NodeLoad,
    NodeName,
    QueueName,
    Requirement,
    Taint,
    Toleration,
    WorkloadKey,
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
    #: Since when (seconds) it is not ready; 0: it is, or it does not say.
    not_ready_since: int = 0
    #: What of its devices the kubelet leaves out of ``allocatable``: its device plugin says that they are unhealthy.
    withheld: Resources = NOTHING
    #: Unhealthy devices. ``allocatable`` is without them.
    faults: tuple[DeviceFault, ...] = ()
    #: What ``allocatable`` is without because of them, beyond what is withheld.
    faulty: Resources = NOTHING
    #: Faults of devices that pods have, by the pod's uid: the first one of each.
    faulty_pods: Mapping[str, DeviceFault] = field(default_factory=dict)
    #: Whether the kubelet may give unhealthy devices to new pods: it is the device plugin that chooses, and it does not
    #: hold all of them back.
    offers_faulty_devices: bool = False
    #: Faults that a person has accepted, as ``DeviceFault.name``.
    accepted: tuple[str, ...] = ()
    #: How far its recovery has come (``muster.dev/recovery``); "": nothing is remembered.
    recovery: str = ""
    #: How its devices are linked, by resource: for resources with a report about all of their devices.
    devices: tuple[DevicePlaces, ...] = ()
    #: How busy and hot its devices are.
    load: NodeLoad = NO_LOAD

    @property
    def out_of_service(self) -> bool:
        """Whether an administrator has vouched, by Kubernetes' own taint, that nothing runs there any more."""
        return any(taint.key == names.OUT_OF_SERVICE for taint in self.taints)

    @property
    def fault_taint(self) -> str | None:
        """Value of its taint ``muster.dev/gpu-fault``: Muster's own, if it has several. None if it has none."""
        values = [taint.value for taint in self.taints if taint.key == names.GPU_FAULT]
        return names.GPU_FAULT_BY_MUSTER if names.GPU_FAULT_BY_MUSTER in values else next(iter(values), None)

    @property
    def is_recovered(self) -> bool:
        """Whether Muster has taken it out of service because of its devices."""
        return self.fault_taint == names.GPU_FAULT_BY_MUSTER

    @property
    def unhealthy(self) -> Resources:
        """What it would offer besides if all of its devices were healthy."""
        return self.withheld if self.faulty is NOTHING else self.withheld + self.faulty

    def offer(self) -> tuple[object, ...]:
        """What of the node matters to the seats on it."""
        return (self.ready, self.unschedulable, self.allocatable, self.out_of_service, self.faulty_pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecoveryFact:
    """What the recovery of a node asks of admissions."""

    node: NodeName
    #: Why the node counts as one that kills pods, in words; "": it does not. And since when (seconds).
    kills_pods: str = ""
    since: int = 0
    #: Gangs to take back whole, with the sentence that their users see.
    evicted: Mapping[WorkloadKey, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFact:
    """A Queue object, with the user who changed it last."""

    queue: Queue
    uid: str
    changed_by: str = ""
    document: Mapping[str, object] = field(default_factory=dict)
    #: What it says to no effect, in words.
    without_effect: tuple[str, ...] = ()
    #: The state in its status; "": none. ``DatabaseAway`` instead if it says that.
    shown: str = ""
    #: What of it is not read, because it is beyond its bounds; "": nothing.
    unread: str = ""
    #: The ledger that leads the cluster, as root says; None if it says nothing, or is another queue.
    ledger: LedgerRecord | None = None

    def decides(self) -> tuple[object, ...]:
        """What of it is stored or decided by, and not in its status."""
        return self.queue, self.uid, self.changed_by, self.document


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureFact:
    """A Reservation or NodeDrain."""

    kind: ClosureKind
    name: str
    uid: str
    #: None if it cannot be used.
    closure: NodeClosure | None = None
    #: Why it cannot; "": it can.
    problem: str = ""
    #: The phase in its status; "": none.
    shown: str = ""
    #: What of it is not read, because it is beyond its bounds; "": nothing.
    unread: str = ""
    #: When the object was made, in seconds since the epoch; 0: unknown.
    created: int = 0

    @property
    def id(self) -> str:
        """As ``NodeClosure.id``."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFact:
    """A ResourceFlavor. A node is of the flavor with matching labels; if several match, of the first one by name."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    #: The resource that devices of a DeviceClass count as, by class.
    device_classes: Mapping[str, str] = field(default_factory=dict)
    #: Amounts of the largest node that an autoscaler can add to it; None if it states none.
    may_grow: Mapping[str, int] | None = None
    #: What pods get that are released to its nodes.
    tolerations: tuple[Toleration, ...] = ()
    uid: str = ""
    #: What of it is not read, because it is beyond its bounds; "": nothing.
    unread: str = ""

    def growth(self) -> FlavorGrowth:
        """What can be added to it."""
        return FlavorGrowth(flavor=FlavorName(self.name), labels=self.node_labels, largest=self.may_grow)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyFact:
    """A Topology: node label keys, outermost level first, the host last."""

    name: str
    levels: tuple[str, ...]
    uid: str = ""
    #: As of a flavor.
    unread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperNodeMember:
    """A member of a HyperNode: nodes, or (exact only) another HyperNode."""

    hypernode: bool = False
    exact: str | None = None
    regex: str | None = None
    #: Requirements over node labels; None if not chosen by labels.
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
    #: Requirements over pod labels, which must all hold: matchLabels and matchExpressions; None for no pods.
    selector: tuple[Requirement, ...] | None = None

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod of the namespace with these labels is under it. An empty selector selects every pod."""
        return self.selector is not None and selects(self.selector, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClassFact:
    """A PriorityClass: what pods that name it rank as, and whether others may be evicted for them."""

    value: int
    is_default: bool = False
    preempts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFact:
    """A Namespace: its labels, the queue of objects in it that name none, and whether running pods are adopted."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    #: None if it has no default queue.
    queue: QueueName | None = None
    #: Migration mode: when it ends or ended (seconds); 0: it is not in that mode.
    adopt_until: int = 0

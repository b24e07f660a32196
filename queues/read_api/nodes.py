"""What the read API answers about nodes: devices, what is free and held there, what is wrong, and what closes them."""

from collections.abc import Mapping

import msgspec

from queues.read_api.bodies import Body, PagedBody


class RecoveryBody(Body, frozen=True, kw_only=True):
    """How far the recovery of a node is."""

    #: draining | recovering | verifying | failed; "": it does not recover.
    phase: str = ""
    #: What the recovery waits for, in one word; "": nothing.
    waits: str = ""
    #: Whether a person keeps GPU work off the node, by a taint.
    by_person: bool = False


class DeviceFaultBody(Body, frozen=True, kw_only=True):
    """What is wrong with a device."""

    #: The number by which pods and people name the device.
    number: int
    id: str
    reason: str
    message: str
    #: null: not known.
    since: str | None


class AcceleratorBody(Body, frozen=True, kw_only=True):
    """A kind of whole device of a node."""

    #: Its model, or its resource in short where there is another kind or the model is not known.
    name: str
    #: "": the node offers parts of devices only.
    resource: str
    total: int
    #: What new pods may have. null: that is not counted in whole devices.
    free: int | None


class ClosureBody(Body, frozen=True, kw_only=True):
    """A Reservation or NodeDrain that concerns a node and has not ended."""

    #: Reservation | NodeDrain
    kind: str
    name: str
    #: The queue with work that is placed there in the window; null: none.
    queue: str | None = None
    from_: str = msgspec.field(name="from")
    #: How long, as ``4h``; null: until it is deleted.
    for_: str | None = msgspec.field(default=None, name="for")
    #: Planned | Active
    phase: str
    #: Whether it closes the node now. A drain names its nodes long before.
    closed: bool


class SeatedBody(Body, frozen=True, kw_only=True):
    """A workload with seats on one node."""

    kind: str
    namespace: str
    name: str
    uid: str
    queue: str
    #: The user that created it; "": unknown.
    user: str = ""
    #: It is being evicted.
    evicting: bool
    #: Seats on this node, and what they hold.
    seats: int
    held: Mapping[str, str]
    #: GPUs that they hold, parts of them too.
    gpus: float = 0.0


class NodeWorkloadsBody(Body, frozen=True, kw_only=True):
    """The workloads with seats on one node."""

    #: The first of those that the user may list, by namespace and name.
    items: tuple[SeatedBody, ...]
    #: All of those.
    total: int
    #: Workloads that the user may not list.
    hidden: int


class NodeBody(Body, frozen=True, kw_only=True):
    """One node, as the leader knows it."""

    name: str
    flavor: str
    #: In the words of ``kubectl get nodes``.
    state: str = "Ready"
    #: Takes new seats of any queue: ready, not cordoned, not out of service, not closed.
    usable: bool
    #: Why it takes no gangs all the same, in words; "": it does.
    closed: str = ""
    #: Reservations and drains that have not ended.
    closures: tuple[ClosureBody, ...] = ()
    recovery: RecoveryBody = RecoveryBody()
    #: The domain of the level of topology that was asked for, from the outermost level down; "": in none.
    rack: str = ""
    #: As ``key=value:effect``, without those that ``state`` says.
    taints: tuple[str, ...] = ()
    #: What Muster may give, by resource: allocatable less the pods that it has not admitted.
    limits: Mapping[str, str]
    #: What seats hold, by resource.
    used: Mapping[str, str]
    #: Whole devices that no pod has any part of, by resource.
    free_devices: Mapping[str, int] = {}
    #: Its kinds of GPUs; empty: it has none.
    accelerators: tuple[AcceleratorBody, ...] = ()
    #: Of all kinds together, what new pods may have; null: that is not counted in whole devices.
    free: int | None = None
    #: "": not known.
    model: str = ""
    driver: str = ""
    #: GPUs; null: it has parts of GPUs only, or none.
    gpus: int | None = None
    #: Those of them without a fault that are not held back; null: no GPUs, or the user may not list Devices.
    healthy: int | None = None
    #: Devices that the device plugin or the driver holds back.
    not_offered: int = 0
    #: Whether an agent reports devices.
    reported: bool = False
    #: Devices that pods have, as the agent reports; null: none does.
    held: int | None = None
    #: Sets of devices that NVLinks join; null: not reported.
    islands: int | None = None
    faults: tuple[DeviceFaultBody, ...] = ()
    #: null: not asked for.
    workloads: NodeWorkloadsBody | None = None


class NodeList(PagedBody, frozen=True, kw_only=True):
    """``GET …/nodes``: by name. From the leader."""

    items: tuple[NodeBody, ...]
    #: Kinds of objects that the user may not list, in the plural: what they say of nodes is left out.
    unread: tuple[str, ...] = ()

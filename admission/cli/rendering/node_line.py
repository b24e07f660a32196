"""What ``kubectl muster nodes`` shows of a node, as ``-o json`` has it."""

from admission.cli.closures.closed_nodes import Closure
from admission.read_api.bodies import Body, NodeWorkloadsBody


class Recovery(Body, frozen=True, kw_only=True):
    """How far the recovery of a node is."""

    #: "": it does not recover.
    phase: str = ""
    #: What the recovery waits for; "": nothing.
    waits: str = ""
    #: Whether a person keeps GPU work off the node, by a taint.
    by_person: bool = False


class DeviceFaultLine(Body, frozen=True, kw_only=True):
    """What is wrong with a device."""

    #: The number by which pods and people name the device. Null: it has none.
    number: int | None
    id: str
    reason: str
    message: str
    since: str | None


class Accelerator(Body, frozen=True, kw_only=True):
    """A kind of whole device of a node."""

    name: str
    resource: str
    total: int
    #: What new pods may have. Null: Muster does not know the node.
    free: int | None


class NodeLine(Body, frozen=True, kw_only=True):
    """A node with devices: what it and its agent say, and what is free and held there. Null: not known."""

    name: str
    #: In the words of ``kubectl get nodes``.
    state: str
    recovery: Recovery = Recovery()
    model: str = ""
    driver: str = ""
    gpus: int | None = None
    healthy: int | None = None
    #: Devices that the device plugin or the driver holds back.
    not_offered: int = 0
    #: Whether an agent reports devices.
    reported: bool = False
    held: int | None = None
    #: Sets of devices that NVLinks join.
    islands: int | None = None
    faults: tuple[DeviceFaultLine, ...] = ()
    #: When the agent was last heard of; "": never.
    agent: str | None = None
    closures: tuple[Closure, ...] = ()
    #: "": in none.
    rack: str = ""
    #: Whether it takes new pods with GPUs.
    usable: bool = False
    #: Why Muster places no gangs there; "": it does.
    closed: str = ""
    accelerators: tuple[Accelerator, ...] = ()
    free: int | None = None
    taints: tuple[str, ...] = ()
    workloads: NodeWorkloadsBody | None = None

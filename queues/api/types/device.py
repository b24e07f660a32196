"""Koordinator's Device, scheduling.koordinator.sh/v1alpha1: the devices of a node, as an agent on it reports them.

Muster's agent writes it, and Muster reads koordlet's. As in Koordinator, status is not a subresource: one write
carries both.
"""

from typing import Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Flag, Int32, Labels, OpenModel, Quantities, Text, Time
from queues.api.names import KOORDINATOR_SCHEDULING


class DeviceTopology(OpenModel):
    """Where in the node a device is."""

    #: Number of the CPU socket; -1: unknown.
    socket_id: Int32 = Field(default=-1, alias="socketID")
    #: Number of the NUMA node; -1: unknown.
    node_id: Int32 = Field(default=-1, alias="nodeID")
    #: The PCIe root complex that it hangs on, such as pci0000:17; empty: unknown.
    pcie_id: Text = Field(default="", alias="pcieID")
    #: Its address on the PCI bus, such as 0000:18:00.0.
    bus_id: Text = Field(default="", alias="busID")


class VirtualFunction(OpenModel):
    """A virtual function of a device."""

    #: Its number; -1: it has none.
    minor: Int32 = -1
    #: Its address on the PCI bus.
    bus_id: Text = Field(default="", alias="busID")


class VirtualFunctionGroup(OpenModel):
    """Virtual functions of a device that are alike."""

    #: What selects them.
    labels: Labels = Field(default_factory=dict)
    #: The functions.
    vfs: tuple[VirtualFunction, ...] = ()


class DeviceCondition(OpenModel):
    """One aspect of a device's health, with the reason."""

    #: Healthy, or a kind of fault such as XidFault.
    type: Text = ""
    #: True, False or Unknown.
    status: Text = ""
    #: Since when.
    last_transition_time: Time | None = None
    #: Why, in one word.
    reason: Text = ""
    #: Why, for people.
    message: Text = ""


class DeviceInfo(OpenModel):
    """One device of a node."""

    #: gpu, rdma, fpga or xpu.
    type: Text = ""
    #: What selects it: model, vendor, links, modes. Its number, by which pods and people name it, is
    #: muster.dev/device-index.
    labels: Labels = Field(default_factory=dict)
    #: Its uuid, as its vendor writes it.
    id: Text = ""
    #: Number of its device file: its minor, which may differ from its number. Where it has no file, its number.
    minor: Int32 | None = None
    #: Its place on the board.
    module_id: Int32 | None = Field(default=None, alias="moduleID")
    #: Whether it takes work.
    health: Flag = False
    #: What it has: koordinator.sh/gpu-core and gpu-memory-ratio in per cent, gpu-memory in bytes.
    resources: Quantities = Field(default_factory=dict)
    #: Where in the node it is.
    topology: DeviceTopology | None = None
    #: Its virtual functions.
    vf_groups: tuple[VirtualFunctionGroup, ...] = ()
    #: Why it is healthy or not.
    conditions: tuple[DeviceCondition, ...] = ()


class DeviceSpec(OpenModel):
    """The devices of a node."""

    #: Each device.
    devices: tuple[DeviceInfo, ...] = ()


class DeviceAllocationEntry(OpenModel):
    """Devices that a pod uses."""

    #: The pod.
    name: Text = ""
    #: Its namespace.
    namespace: Text = ""
    #: Its uid.
    uuid: Text = ""
    #: Minors of the devices, as in spec.devices[].minor.
    minors: tuple[Int32, ...] = ()


class DeviceAllocation(OpenModel):
    """Devices of one type that pods use."""

    #: gpu, rdma, fpga or xpu.
    type: Text = ""
    #: One for each pod.
    entries: tuple[DeviceAllocationEntry, ...] = ()


class DeviceStatus(OpenModel):
    """What uses the devices."""

    #: By type of device.
    allocations: tuple[DeviceAllocation, ...] = ()


class Device(OpenModel):
    """The devices of one node. Its name is the node's."""

    api_version: Literal["scheduling.koordinator.sh/v1alpha1"] = KOORDINATOR_SCHEDULING
    kind: Literal["Device"] = "Device"
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceSpec = DeviceSpec()
    status: DeviceStatus = DeviceStatus()

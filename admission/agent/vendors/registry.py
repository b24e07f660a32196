"""The vendors whose devices an agent reads, and what says that a node has devices of one besides the vendor's library:
labels of its Node, and the PCI bus.

A new vendor is one module with a class that is a ``Vendor``, and one entry here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admission.agent.vendors import pci
from admission.agent.vendors.vendor import Vendor


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownVendor:
    """One vendor."""

    #: As Koordinator's label has it.
    name: str
    #: The end of the domain of its resources.
    domain: str
    #: Labels of nodes that have its devices, with the beginning of the value that counts.
    labels: tuple[tuple[str, str], ...]
    #: Its number on the PCI bus, and classes of devices that compute.
    pci: tuple[str, tuple[str, ...]]
    #: What gives the agent its library.
    remedy: str
    #: Makes the reader of its devices, which finds out by itself whether it has a library here.
    reader: Callable[[], Vendor]


def _nvidia() -> Vendor:
    from admission.agent.vendors.nvidia.nvidia import Nvidia

    return Nvidia()


#: In the order in which their devices are shown.
VENDORS: Final = (
    KnownVendor(
        name="nvidia",
        domain="nvidia.com",
        labels=(
            ("nvidia.com/gpu.present", "true"),
            ("feature.node.kubernetes.io/pci-10de.present", "true"),
            ("feature.node.kubernetes.io/pci-0302_10de.present", "true"),
            ("feature.node.kubernetes.io/pci-0300_10de.present", "true"),
            ("cloud.google.com/gke-accelerator", "nvidia"),
            ("k8s.amazonaws.com/accelerator", "nvidia"),
        ),
        pci=("0x10de", ("0x0300", "0x0302")),
        remedy=(
            "Its container runtime has to mount the library into this pod: set `runtimeClassName: nvidia` where that "
            "runtime is not the default one. With accept-nvidia-visible-devices-envvar-when-unprivileged = false in "
            "its configuration a pod that is not privileged gets no library by NVIDIA_VISIBLE_DEVICES, whatever its "
            "class."
        ),
        reader=_nvidia,
    ),
)
_BY_NAME: Final = {vendor.name: vendor for vendor in VENDORS}


class ExpectedDevices:
    """Devices that a node should have. ``sysfs``: where the kernel's ``/sys`` is; its bus is looked at once."""

    def __init__(self, sysfs: Path = pci.SYSFS) -> None:
        self._sysfs = sysfs
        self._on_bus: dict[str, str] = {}

    def sign(self, vendor: str, labels: Mapping[str, str]) -> str:
        """What says that there are devices of a vendor; "": nothing does. ``labels``: of the Node."""
        known = _BY_NAME.get(vendor)
        if known is None:
            return ""
        for label, value in known.labels:
            if labels.get(label, "").startswith(value):
                return f"the label {label}={labels[label]} of the Node"
        if vendor not in self._on_bus:
            bus = pci.first_device(*known.pci, self._sysfs)
            self._on_bus[vendor] = f"PCI device {bus}" if bus else ""
        return self._on_bus[vendor]


def remedy(vendor: str) -> str:
    """What to do where devices of a vendor are expected and its library is not found."""
    known = _BY_NAME.get(vendor)
    return "" if known is None else known.remedy

"""What says that a node has devices of a vendor, beside the vendor's library: labels of its Node, and the PCI bus."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from admission.agent.vendors import pci

#: Labels by vendor, with the beginning of the value that counts.
_LABELS: Final = {
    "nvidia": (
        ("nvidia.com/gpu.present", "true"),
        ("feature.node.kubernetes.io/pci-10de.present", "true"),
        ("feature.node.kubernetes.io/pci-0302_10de.present", "true"),
        ("feature.node.kubernetes.io/pci-0300_10de.present", "true"),
        ("cloud.google.com/gke-accelerator", "nvidia"),
        ("k8s.amazonaws.com/accelerator", "nvidia"),
    ),
    "amd": (("feature.node.kubernetes.io/amd-gpu", "true"),),
    "intel": (("intel.feature.node.kubernetes.io/gpu", "true"),),
}
#: PCI vendor, and classes of devices that compute. Cards for a screen count only where they are NVIDIA's: those of the
#: others are mostly parts of a processor.
_PCI: Final = {
    "nvidia": ("0x10de", ("0x0300", "0x0302")),
    "amd": ("0x1002", ("0x0380", "0x1200")),
    "intel": ("0x8086", ("0x0380",)),
}
#: What gives the agent the library of a vendor.
_REMEDIES: Final = {
    "nvidia": "Its container runtime has to mount the library into this pod: set `runtimeClassName: nvidia` where that "
    "runtime is not the default one. With accept-nvidia-visible-devices-envvar-when-unprivileged = false in its "
    "configuration a pod that is not privileged gets no library by NVIDIA_VISIBLE_DEVICES, whatever its class.",
    "amd": "The image has to contain amd-smi, and the pod needs /dev/kfd and /dev/dri.",
    "intel": "The image has to contain xpu-smi, and the pod needs /dev/dri.",
}


class ExpectedDevices:
    """Devices that a node should have. ``sysfs``: where the kernel's ``/sys`` is; its bus is looked at once."""

    def __init__(self, sysfs: Path = pci.SYSFS) -> None:
        self._sysfs = sysfs
        self._on_bus: dict[str, str] = {}

    def sign(self, vendor: str, labels: Mapping[str, str]) -> str:
        """What says that there are devices of a vendor; "": nothing does. ``labels``: of the Node."""
        for label, value in _LABELS.get(vendor, ()):
            if labels.get(label, "").startswith(value):
                return f"the label {label}={labels[label]} of the Node"
        if vendor not in self._on_bus:
            self._on_bus[vendor] = self._device_on_bus(vendor)
        return self._on_bus[vendor]

    def _device_on_bus(self, vendor: str) -> str:
        maker, classes = _PCI.get(vendor, ("", ()))
        bus = pci.first_device(maker, classes, self._sysfs) if maker else ""
        return f"PCI device {bus}" if bus else ""


def remedy(vendor: str) -> str:
    """What to do where devices of a vendor are expected and its library is not found."""
    return _REMEDIES.get(vendor, "")

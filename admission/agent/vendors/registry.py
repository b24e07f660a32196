"""The vendors whose devices an agent reads.

A new vendor is one module with a class that is a ``Vendor``, and one entry here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from admission.agent.vendors.vendor import Vendor


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownVendor:
    """One vendor."""

    #: The end of the domain of its resources.
    domain: str
    #: What gives the agent its library.
    remedy: str
    #: Makes the reader of its devices, which finds out by itself whether it has a library here.
    reader: Callable[[], Vendor]


def _nvidia() -> Vendor:
    from admission.agent.vendors.nvidia.nvidia import Nvidia

    return Nvidia()


#: By name, as Koordinator's label has it, in the order in which their devices are shown.
VENDORS: Final = {
    "nvidia": KnownVendor(
        domain="nvidia.com",
        remedy=(
            "Its container runtime has to mount the library into this pod: set `runtimeClassName: nvidia` where that "
            "runtime is not the default one. With accept-nvidia-visible-devices-envvar-when-unprivileged = false in "
            "its configuration a pod that is not privileged gets no library by NVIDIA_VISIBLE_DEVICES, whatever its "
            "class."
        ),
        reader=_nvidia,
    ),
}

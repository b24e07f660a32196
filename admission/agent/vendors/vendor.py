"""What the agent asks of a vendor's library."""

from typing import Protocol

from admission.agent.readings import DeviceEvent, NodeReading
from queues.errors import MusterError


class VendorAbsent(MusterError):
    """No device of {vendor} on this node: {why}."""


class VendorFailed(MusterError):
    """The library of {vendor} fails: {why}. It is started again."""


class Vendor(Protocol):
    """Devices of one vendor. All methods block; one thread calls them."""

    def read(self) -> NodeReading:
        """All devices that answer, as they are now, numbered in the order of the library.

        Starts the library where it does not run, also again after a restart of the driver. Raises VendorAbsent: there
        is no library, no driver or no device; VendorFailed: it does not answer now.
        """
        ...

    def wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        """Events since the last call; empty after ``seconds`` without one, or before if it cannot wait now."""
        ...

    def close(self) -> None:
        """Let go of the driver: while the library runs, devices cannot be reset nor the driver be unloaded.

        The next ``read`` starts the library again.
        """
        ...

"""What the agent asks of a vendor's library."""

from typing import Protocol, runtime_checkable

from admission.agent.readings import DeviceEvent, NodeReading
from queues.errors import MusterError


class VendorAbsent(MusterError):
    """No device of {vendor} on this node: {why}."""


class VendorFailed(MusterError):
    """The library of {vendor} fails: {why}. It is started again."""


class Vendor(Protocol):
    """Devices of one vendor. Both methods block, each is called by one thread; the two threads may differ."""

    def read(self) -> NodeReading:
        """All devices as they are now; those that were lost since the start too.

        Starts the library where it does not run, also again after a restart of the driver. Raises VendorAbsent: there
        is no library, no driver or no device; VendorFailed: it does not answer now.
        """
        ...

    def wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        """Events since the last call; after ``seconds`` without one: none. Raises VendorFailed."""
        ...


@runtime_checkable
class HoldsDriver(Protocol):
    """A vendor's library that keeps devices from being reset, and the driver from being unloaded, while it runs."""

    def close(self) -> None:
        """Let go of the driver; the next ``read`` starts the library again. Raises VendorFailed."""
        ...

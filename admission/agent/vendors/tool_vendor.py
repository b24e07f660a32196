"""What vendors have in common whose devices a command-line tool tells of."""

from abc import ABC, abstractmethod
from threading import Event
from typing import ClassVar

from admission.agent.readings import DeviceEvent, NodeReading
from admission.agent.vendors.command_line import Run, ToolFailed, ToolMissing, ToolRunner
from admission.agent.vendors.seen_devices import SeenDevices
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed


class ToolVendor(ABC):
    """A vendor with a tool. Its tool tells of no events: what goes wrong is seen by reading.

    ``run`` runs a command; None: as a process.
    """

    name: ClassVar[str]
    #: What the tool says where there is no driver or no device.
    no_device: ClassVar[tuple[str, ...]]

    def __init__(self, run: Run | None) -> None:
        self._run = run or ToolRunner()
        self._seen = SeenDevices()
        self._idle = Event()

    def read(self) -> NodeReading:
        """All devices as they are now, and the lost ones. Raises VendorAbsent, VendorFailed."""
        try:
            return self._read()
        except ToolMissing as error:
            raise VendorAbsent(vendor=self.name, why=error) from error
        except ToolFailed as error:
            self._forget()
            if not self._seen and any(words in str(error) for words in self.no_device):
                raise VendorAbsent(vendor=self.name, why=error) from error
            raise VendorFailed(vendor=self.name, why=error) from error

    def wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        """No events, after ``seconds``."""
        self._idle.wait(seconds)
        return ()

    @abstractmethod
    def _read(self) -> NodeReading:
        """The same as ``read``. Raises ToolMissing, ToolFailed, VendorAbsent."""

    @abstractmethod
    def _forget(self) -> None:
        """The tool has failed: ask about everything again, also what does not change."""

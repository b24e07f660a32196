"""What vendors have in common whose devices a command-line tool tells of."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

from admission.agent.readings import DeviceEvent, DeviceReading, Link, NodeReading
from admission.agent.vendors import pci
from admission.agent.vendors.command_line import Run, ToolFailed, ToolMissing, ToolRunner, at, text_of
from admission.agent.vendors.seen_devices import SeenDevices, links_by_index
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What does not change while the same devices are there, by the tool's number of the device."""

    devices: Mapping[int, DeviceReading]
    #: ``Link.between`` holds the tool's numbers.
    links: tuple[Link, ...]
    driver_version: str
    runtime_version: str


class ToolVendor(ABC):
    """A vendor with a tool. Its tool tells of no events: what goes wrong is seen by reading.

    ``run`` runs a command (None: as a process); ``sysfs`` is the kernel's view of the devices.
    """

    name: ClassVar[str]
    tool: ClassVar[str]
    #: What the tool says where there is no driver or no device.
    no_device: ClassVar[tuple[str, ...]]

    def __init__(self, run: Run | None = None, sysfs: Path = pci.SYSFS) -> None:
        self._run = run or ToolRunner()
        self._sysfs = sysfs
        self._seen = SeenDevices()
        #: None: to be read.
        self._fixed: ToolFacts | None = None
        self._idle = Event()

    def read(self) -> NodeReading:
        """All devices as they are now, and the lost ones. Raises VendorAbsent, VendorFailed."""
        try:
            return self._read()
        except ToolMissing as error:
            raise VendorAbsent(vendor=self.name, why=str(error).rstrip(".")) from error
        except ToolFailed as error:
            self._forget()
            if not self._seen and any(words in str(error) for words in self.no_device):
                raise VendorAbsent(vendor=self.name, why=str(error).rstrip(".")) from error
            raise VendorFailed(vendor=self.name, why=str(error).rstrip(".")) from error

    def wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        """No events, after ``seconds``."""
        self._idle.wait(seconds)
        return ()

    @abstractmethod
    def _read(self) -> NodeReading:
        """The same as ``read``. Raises ToolMissing, ToolFailed, VendorAbsent."""

    def _forget(self) -> None:
        """The tool has failed: ask about everything again, also what does not change."""
        self._fixed = None

    def _reading(self, fixed: ToolFacts, found: Mapping[int, DeviceReading]) -> NodeReading:
        """The devices that are there by the tool's numbers, and the lost ones. Raises VendorAbsent: none ever was."""
        if not found and not self._seen:
            raise VendorAbsent(vendor=self.name, why=f"{self.tool} lists no device")
        devices = self._seen.settle(found.values())
        index = {device.id: device.index for device in devices}
        return NodeReading(
            vendor=self.name,
            driver_version=fixed.driver_version,
            runtime_version=fixed.runtime_version,
            devices=devices,
            links=links_by_index(fixed.links, {key: index[device.id] for key, device in found.items()}),
        )


def version_of(told: Iterable[Mapping[str, Any]], *path: str) -> str:
    """The version that entries of devices tell; "": none does."""
    return min({text_of(at(one, *path)) for one in told} - {""}, default="")

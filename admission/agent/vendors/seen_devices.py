"""The devices of a vendor that were seen since the agent started: their numbers stay, and lost ones are told."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from admission.agent.readings import DeviceId, DeviceReading, Link, Process, Telemetry


class SeenDevices:
    """Tools that number what they find number the rest anew when a device is lost. This keeps the first numbers."""

    def __init__(self) -> None:
        self._seen: dict[DeviceId, DeviceReading] = {}

    def __bool__(self) -> bool:
        return bool(self._seen)

    def settle(self, found: Iterable[DeviceReading]) -> tuple[DeviceReading, ...]:
        """All devices by index: those that are there, with the index that they had first, and the lost ones."""
        present: dict[DeviceId, DeviceReading] = {}
        newcomers = []
        for device in found:
            if device.id in self._seen:
                present[device.id] = replace(device, index=self._seen[device.id].index)
            else:
                newcomers.append(device)
        taken = {device.index for device in self._seen.values()}
        for device in newcomers:
            index = device.index if device.index not in taken else _first_free(taken)
            taken.add(index)
            present[device.id] = replace(device, index=index)
        for device in present.values():
            self._seen[device.id] = _lasting(device)
        lost = (device for device in self._seen.values() if device.id not in present)
        return tuple(sorted((*present.values(), *lost), key=lambda device: device.index))


def device_ids(
    numbers: Iterable[int], uuids: Mapping[int, str], buses: Mapping[int, str]
) -> dict[int, DeviceId]:
    """Ids of devices by the tool's numbers of them.

    The uuid; the bus id where there is no uuid or several have the same (integrated devices, partitions of one
    device); with the number where they share this too.
    """
    shared = Counter(uuids.values()) + Counter(buses.values())
    ids = {}
    for key in numbers:
        own = (one for one in (uuids.get(key), buses.get(key)) if one and shared[one] == 1)
        ids[key] = next(own, f"{buses.get(key, 'device')}/{key}")
    return ids


def links_by_index(links: Iterable[Link], index: Mapping[int, int]) -> tuple[Link, ...]:
    """Links with indices in place of the tool's numbers of devices, in order."""
    found = []
    for link in links:
        near, far = sorted(index[key] for key in link.between)
        found.append(replace(link, between=(near, far)))
    return tuple(sorted(found, key=lambda link: link.between))


def _lasting(device: DeviceReading) -> DeviceReading:
    """What stays known of a device that is lost."""
    no_processes: tuple[Process, ...] = ()
    return replace(device, ecc=None, processes=no_processes, telemetry=Telemetry(), lost=True)


def _first_free(taken: set[int]) -> int:
    return next(number for number in range(len(taken) + 1) if number not in taken)

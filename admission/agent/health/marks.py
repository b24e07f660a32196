"""The annotation ``muster.dev/gpu-unhealthy`` of a node: devices that a person calls unhealthy. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from admission.agent.readings import DeviceId, DeviceReading, NodeReading
from queues.api.names import GPU_UNHEALTHY

#: Characters of a reason, and of a value in a message, that are kept.
_LONGEST: Final = 200
_EXCERPT: Final = 60
#: Entries of the annotation that are looked at.
_MOST_ENTRIES: Final = 256
_ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What the annotation says."""

    #: Why, by device that is marked.
    devices: Mapping[DeviceId, str] = field(default_factory=dict)
    #: What is wrong with its value: found and expected; "": nothing.
    problem: str = ""


def read_marks(value: str | None, readings: Sequence[NodeReading]) -> Marks:
    """The marks of a value: ``all``, or indices and uuids of devices with commas between, each with ``=reason`` if
    wanted. ``value``: None if there is no annotation. An entry that names no device marks none; the others count."""
    if value is None:
        return Marks()
    devices = [device for reading in readings for device in reading.devices]
    marked: dict[DeviceId, str] = {}
    wrong = []
    for entry in value.split(",", _MOST_ENTRIES)[:_MOST_ENTRIES]:
        name, _, reason = (part.strip() for part in entry.partition("="))
        if not name and value.strip():
            continue  # a comma too many
        named = [device.id for device in devices if _names(name, device)]
        marked |= dict.fromkeys(named, reason[:_LONGEST] or f"{GPU_UNHEALTHY} of the node names it")
        if not named:
            wrong.append(name)
    return Marks(devices=marked, problem=_told(wrong[0], devices) if wrong else "")


def _names(name: str, device: DeviceReading) -> bool:
    return name in (_ALL, str(device.index)) or name.lower() == device.id.lower()


def _told(found: str, devices: Sequence[DeviceReading]) -> str:
    shown = repr(found[:_EXCERPT]) + ("…" if len(found) > _EXCERPT else "")
    expected = (
        f"all, one of the numbers {', '.join(sorted({str(device.index) for device in devices}, key=int))}, "
        "or the uuid of a device"
        if devices
        else "no value: the node has no devices"
    )
    return f"{GPU_UNHEALTHY}: found {shown}, expected {expected}"

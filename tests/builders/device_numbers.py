"""The numbers of the devices that a seat has a part of."""

from queues.resources import DEVICE_MARK, Resources


def devices_in(takes: Resources, resource: str) -> tuple[int, ...]:
    """Ascending; empty: the seat has whole devices, or none."""
    start = f"{resource}{DEVICE_MARK}"
    return tuple(sorted(int(name[len(start) :]) for name in takes if name.startswith(start)))

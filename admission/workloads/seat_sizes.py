"""What a seat has, against what a pod or a template asks: a seat is for pods that ask no more. Pure."""

from collections.abc import Iterator

from admission.facts import PodFact
from queues.admissions import Seat
from queues.api.reading.device_shares import with_share
from queues.resources import NOTHING, PODS, Resources, is_device, show
from queues.workload import DeviceShare, PodSet


def is_at(seat: Seat, pod: PodFact) -> bool:
    """Whether a pod is on the node of a seat, or on none yet."""
    return pod.node is None or pod.node == seat.node


def has_room_for(seat: Seat, pod: PodFact, *, adopted: bool) -> bool:
    """Whether a seat has all that a pod asks. ``adopted``: the seat was made for the pod, without parts of devices."""
    takes, share = pod.shape.takes, pod.shape.share
    if adopted:
        return takes is seat.takes or takes.fits(seat.takes)
    return _has(seat, takes if share is None else with_share(takes, share), share)


def may_take(seat: Seat, pod: PodFact, pods: PodSet | None) -> bool:
    """Whether a pod that waits may have a seat. ``pods``: the set it is in, which says what ports were counted."""
    ports = pods is None or set(pod.shape.ports) <= set(pods.ports)
    return ports and has_room_for(seat, pod, adopted=False)


def is_large_enough(seat: Seat, pods: PodSet) -> bool:
    """Whether a seat has all that a pod of a set asks."""
    return _has(seat, pods.takes, pods.share)


def _has(seat: Seat, takes: Resources, share: DeviceShare | None) -> bool:
    if not (takes is seat.takes or takes.fits(seat.takes)):
        return False
    if share is None:
        return True
    parts = [units for name, units in seat.takes.items() if is_device(name)]
    return len(parts) == share.devices and all(units >= share.milli for units in parts)


def beyond(seat: Seat, takes: Resources) -> Resources:
    """What is asked beyond what the seat has."""
    if takes is seat.takes or takes.fits(seat.takes):
        return NOTHING
    return Resources({name: max(0, units - seat.takes[name]) for name, units in takes.items()})


def difference(seat: Seat, takes: Resources, share: DeviceShare | None = None) -> str:
    """What is asked beyond what the seat has, for people: ``8 nvidia.com/gpu, expected at most 1``."""
    return "; ".join(_differences(seat, with_share(takes, share))) or "other parts of devices than before"


def _differences(seat: Seat, takes: Resources) -> Iterator[str]:
    for name, units in sorted(takes.items()):
        if units > seat.takes[name] and name != PODS:
            yield f"{show(name, units)} {name}, expected at most {show(name, seat.takes[name])}"

"""What an eviction would free of one admission: its seats that have not ended, their charges and their size."""

from collections.abc import Mapping

import msgspec

from admission.engine.nodes.host_ports import NodePorts
from admission.engine.placement.need import size_of_pod
from queues.admissions import Admission, Seat
from queues.quota.accounts import Account, charges
from queues.resources import Resources
from queues.workload import FlavorName, Workload

#: So many shapes are kept by ``ChargesByShape``.
_SHAPES_KEPT = 4096


class HeldAdmission(msgspec.Struct, eq=False, gc=False):
    """One admission with what an eviction would free of it. A struct as ``Candidate`` is."""

    admission: Admission
    #: Seats that have not ended.
    seats: tuple[Seat, ...]
    #: What these seats are charged in the queue.
    charges: Mapping[Account, int]
    #: Thousandths of CPUs plus 16 times thousandths of devices: the work that is lost per second.
    size: int
    #: The workload and the host ports of the seats. None and (): not looked up yet.
    holder: Workload | None = None
    ports: tuple[NodePorts, ...] = ()


class ChargesByShape:
    """Charges and sizes of seats, worked out once for all admissions of one shape."""

    def __init__(self) -> None:
        self._known: dict[
            tuple[tuple[FlavorName, Resources, int], ...], tuple[Mapping[Account, int], int]
        ] = {}

    def hold(self, admission: Admission, ending: frozenset[int] = frozenset()) -> HeldAdmission:
        """What an admission holds. ``ending``: indices of seats that end now, besides those that have ended."""
        over = admission.ended | ending
        seats = admission.seats
        if over:
            seats = tuple(seat for index, seat in enumerate(seats) if index not in over)
        # A plain dict: most admissions have one seat, and a Counter costs more than counting it.
        counts: dict[tuple[FlavorName, Resources], int] = {}
        for seat in seats:
            counts[seat.flavor, seat.takes] = counts.get((seat.flavor, seat.takes), 0) + 1
        shape = tuple((flavor, takes, count) for (flavor, takes), count in counts.items())
        known = self._known.get(shape)
        if known is None:
            size = sum(size_of_pod(takes) * count for _, takes, count in shape)
            if len(self._known) >= _SHAPES_KEPT:
                self._known.clear()
            known = self._known[shape] = charges(seats), max(1, size)
        return HeldAdmission(admission, seats, *known)

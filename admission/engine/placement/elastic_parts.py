"""Elastic gangs in parts: the minimum is one admission, and what goes beyond it are further ones (elastic parts).

An admission is evicted whole, so the parts are what a gang can lose without its end. A pod each would be exact, but
each part is a row of the ledger: a gang has at most ``MOST_PARTS`` parts, larger ones if it has many pods.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from admission.engine.placement.need import MissingMembers, parts
from queues.admissions import Seat
from queues.plan import Admit
from queues.workload import Workload

#: Elastic parts of one gang: a reclaim takes at most a sixteenth of what is above the minimum more than it needs.
MOST_PARTS: Final = 16


def in_parts(admit: Admit, workload: Workload, need: MissingMembers, admissions: int) -> list[Admit]:
    """The same seats as the minimum of the gang and elastic parts; of a gang that has its minimum, as parts.

    ``need``: what the workload lacked; ``admissions``: how many it has. The first one is the gang, and is taken before
    the others. Only the one given: the gang is not elastic, or its pods can only be removed together.
    """
    seats = {(seat.pod_set, seat.ordinal): seat for seat in admit.seats}
    core = {(name, ordinal) for name, ordinals in need.minimum.items() for ordinal in ordinals}
    begins = bool(core)
    if not workload.key.kind.can_shrink or not core < seats.keys() or begins == bool(need.seated):
        return [admit]
    above = [
        [seats[pods.name, ordinal] for ordinal in ordinals]
        for pods in workload.pod_sets
        for ordinals in parts(
            pods, _ordinals(need.missing.get(pods.name, ()), pods.name, seats.keys() - core)
        )
    ]
    room = max(1, MOST_PARTS - max(0, admissions - 1))
    joining = [replace(admit, seats=tuple(part), elastic=True) for part in _chunks(above, room)]
    if not begins:
        return joining
    first = tuple(seat for seat in admit.seats if (seat.pod_set, seat.ordinal) in core)
    return [replace(admit, seats=first), *joining]


def _ordinals(missing: Sequence[int], name: str, seated: set[tuple[str, int]]) -> list[int]:
    return [ordinal for ordinal in missing if (name, ordinal) in seated]


def _chunks(units: Sequence[Sequence[Seat]], most: int) -> Iterator[list[Seat]]:
    """These units in order, in at most so many parts of equally many units; the last one may be smaller.

    Of parts of two sizes victims that are taken one by one could be more than need be.
    """
    size = -(-len(units) // most)
    for begin in range(0, len(units), size):
        yield [seat for unit in units[begin : begin + size] for seat in unit]

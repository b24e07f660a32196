"""What the books count in: a resource of one flavor, or summed over all."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from queues.admissions import Seat
from queues.resources import Resources, is_device, show
from queues.workload import NO_FLAVOR, FlavorName


class Account(NamedTuple):
    """One line of the books. ``NO_FLAVOR`` sums over all flavors (the plain fields)."""

    flavor: FlavorName
    resource: str

    def __str__(self) -> str:
        return self.resource if self.flavor == NO_FLAVOR else f"{self.resource} of flavor {self.flavor}"

    def amount(self, units: int) -> str:
        """``8 nvidia.com/gpu of flavor h100``."""
        return f"{self.show(units)} {self}"

    def show(self, units: int | None) -> str:
        """An amount of this account as people write it."""
        return "unset" if units is None else show(self.resource, units)


def charges(seats: Collection[Seat]) -> Mapping[Account, int]:
    """Amounts that seats are charged to their queue: in each flavor, and summed over all flavors.

    Single devices are counted on nodes, not in queues.
    """
    if len(seats) == 1:  # quick, for many single pods
        (seat,) = seats
        return pod_charges(seat.takes, seat.flavor, 1)
    kinds = _kinds(seats)
    if len(kinds) == 1:
        (((flavor, takes), count),) = kinds.items()
        return pod_charges(takes, flavor, count)
    return flavor_charges(_by_flavor(kinds))


def flavor_charges(takes: Mapping[FlavorName, Resources]) -> dict[Account, int]:
    """The same for amounts by flavor."""
    amounts: dict[Account, int] = {}
    for flavor, vector in takes.items():
        for resource, units in vector.items():
            if is_device(resource):
                continue
            plain = Account(NO_FLAVOR, resource)
            amounts[plain] = amounts.get(plain, 0) + units
            if flavor != NO_FLAVOR:
                amounts[Account(flavor, resource)] = units
    return amounts


@lru_cache(maxsize=8192)
def pod_charges(takes: Resources, flavor: FlavorName, count: int) -> Mapping[Account, int]:
    """The same for so many pods of one shape in one flavor. One result for all that ask."""
    return flavor_charges({flavor: takes * count})


def charges_in_own_flavor(seats: Iterable[Seat]) -> dict[Account, int]:
    """Amounts that seats take, each seat only in the flavor that it has: what the journal records."""
    return {
        Account(flavor, resource): units
        for flavor, takes in _by_flavor(_kinds(seats)).items()
        for resource, units in takes.items()
        if not is_device(resource)
    }


def _kinds(seats: Iterable[Seat]) -> Mapping[tuple[FlavorName, Resources], int]:
    """Seats by what is charged for them: a gang has few kinds, however large it is."""
    return Counter([(seat.flavor, seat.takes) for seat in seats])


def _by_flavor(kinds: Mapping[tuple[FlavorName, Resources], int]) -> dict[FlavorName, Resources]:
    """What seats take together, by flavor."""
    sums: dict[FlavorName, dict[str, int]] = {}
    for (flavor, takes), count in kinds.items():
        amounts = sums.setdefault(flavor, {})
        for resource, units in takes.items():
            amounts[resource] = amounts.get(resource, 0) + units * count
    return {flavor: Resources(amounts) for flavor, amounts in sums.items()}

"""What the books count in: a resource of one flavor, or summed over all."""

from collections.abc import Iterable, Mapping
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
        return self.resource if self.flavor == NO_FLAVOR else f"{self.resource} in flavor {self.flavor}"

    def show(self, units: int | None) -> str:
        """An amount of this account as people write it."""
        return "unset" if units is None else show(self.resource, units)


def accounts(takes: Mapping[FlavorName, Resources]) -> dict[Account, int]:
    """The accounts that these amounts by flavor are posted to: each flavor's, and the sum over all.

    Single devices are counted on nodes, not in queues.
    """
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


def seats_by_flavor(seats: Iterable[Seat]) -> dict[FlavorName, Resources]:
    """What seats take together, by flavor."""
    sums: dict[FlavorName, dict[str, int]] = {}
    for seat in seats:
        book = sums.setdefault(seat.flavor, {})
        for resource, units in seat.takes.items():
            book[resource] = book.get(resource, 0) + units
    return {flavor: Resources(book) for flavor, book in sums.items()}


@lru_cache(maxsize=8192)
def posted(takes: Resources, flavor: FlavorName, count: int) -> Mapping[Account, int]:
    """The accounts that so many pods of one shape in one flavor are posted to."""
    return accounts({flavor: takes * count})

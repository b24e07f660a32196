"""What the books count in: a resource of one flavor, or summed over all."""

from typing import NamedTuple

from queues.resources import show
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

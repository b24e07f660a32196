"""Use in a period as it is defined: what each posting adds from its time on, added up from the first one."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class PostedAmount(NamedTuple):
    """A row of ``muster_postings``, of one amount."""

    #: Second, since the epoch.
    at: int
    kind: str
    admission: int
    queue: str
    user: str
    flavor: str
    resource: str
    #: Below 0: given back.
    units: int


def used_time(
    postings: Iterable[PostedAmount], begins: int, ends: int, group: Callable[[PostedAmount], K]
) -> dict[K, int]:
    """Units × seconds in a period by group, without zeros."""
    sums = Counter[K]()
    for each in postings:
        sums[group(each)] += each.units * max(0, ends - max(each.at, begins))
    return {of: units for of, units in sums.items() if units}

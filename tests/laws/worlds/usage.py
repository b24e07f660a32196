"""Use in a period as it is defined: what each posting adds from its time on, added up from the first one."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise
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


class Owned(NamedTuple):
    """What a queue owns from a second on, until before another one."""

    queue: str
    since: int
    until: int
    #: None: not stated.
    deserved: int | None
    guarantee: int


class Split(NamedTuple):
    """Units × seconds of a queue."""

    used: int
    stated: int
    borrowed: int
    idle: int


def split(
    postings: Iterable[PostedAmount], owned: Iterable[Owned], queue: str, begins: int, ends: int
) -> Split:
    """Use of a queue beside what it owned, from one moment at which something changes to the next."""
    mine = [(each.at, each.units) for each in postings if each.queue == queue]
    limits = [each for each in owned if each.queue == queue]
    moments = {begins, ends, *(at for at, _ in mine)}
    moments |= {at for each in limits for at in (each.since, each.until)}
    inside = sorted(at for at in moments if begins <= at <= ends)
    sums = Split(0, 0, 0, 0)
    for at, until in pairwise(inside):
        used, seconds = sum(units for since, units in mine if since <= at), until - at
        parts = [Split(used, 0, 0, 0)]
        for each in limits:
            if each.since <= at < each.until:
                stated = each.deserved is not None
                borrowed = max(0, used - each.deserved) if each.deserved is not None else 0
                parts.append(Split(0, used if stated else 0, borrowed, max(0, each.guarantee - used)))
        sums = Split(
            *(total + seconds * sum(more) for total, more in zip(sums, zip(*parts, strict=True), strict=True))
        )
    return sums

"""Use in a period as it is defined: what each posting adds from its time on, added up from the first one."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
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


def split(
    postings: Iterable[PostedAmount], owned: Iterable[Owned], queue: str, begins: int, ends: int
) -> Split:
    """Use of a queue beside what it owned, from one moment at which something changes to the next."""
    mine = [(each.at, each.units) for each in postings if each.queue == queue]
    limits = [each for each in owned if each.queue == queue]
    sums = Split(0, 0, 0)
    for at, until in _times((at for at, _ in mine), limits, begins, ends):
        used, seconds = sum(units for since, units in mine if since <= at), until - at
        parts = [Split(used, 0, 0)]
        for each in limits:
            if each.since <= at < each.until:
                stated = each.deserved is not None
                borrowed = max(0, used - each.deserved) if each.deserved is not None else 0
                parts.append(Split(0, used if stated else 0, borrowed))
        sums = Split(
            *(total + seconds * sum(more) for total, more in zip(sums, zip(*parts, strict=True), strict=True))
        )
    return sums


def kept_idle(
    postings: Iterable[PostedAmount],
    owned: Iterable[Owned],
    parents: Mapping[str, str],
    begins: int,
    ends: int,
) -> dict[str, int]:
    """By queue what it keeps idle by its guarantee beyond those below it, × seconds. ``parents``: "" at the top."""
    every, limits = list(postings), list(owned)
    sums = dict.fromkeys(parents, 0)
    for at, until in _times((each.at for each in every), limits, begins, ends):

        def counts(queue: str, at: int = at, until: int = until) -> int:
            used = sum(each.units for each in every if each.queue == queue and each.at <= at)
            used += sum(counts(each) for each, above in parents.items() if above == queue)
            kept = sum(
                each.guarantee for each in limits if each.queue == queue and each.since <= at < each.until
            )
            sums[queue] += max(0, kept - used) * (until - at)
            return max(kept, used)

        for queue, above in parents.items():
            if not above:
                counts(queue)
    return sums


def _times(
    moments: Iterable[int], limits: Iterable[Owned], begins: int, ends: int
) -> Iterable[tuple[int, int]]:
    found = {begins, ends, *moments, *(at for each in limits for at in (each.since, each.until))}
    return pairwise(sorted(at for at in found if begins <= at <= ends))

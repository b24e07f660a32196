"""Whose gangs ask first: queues take turns, from the root of their tree on, and namespaces within a queue. Pure.

So no tenant's gangs keep those of another one from asking, however many there are, and into however many queues and
namespaces they are split.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import zip_longest
from typing import TypeVar

from admission.provisioning.wishes import NodeWish

T = TypeVar("T")


def in_turns(wishes: Sequence[NodeWish]) -> list[NodeWish]:
    """One of each queue in turn, and so on below it. Those of one queue and namespace keep their order.

    The first so many of them are a fair share: no queue has more than another one that would have more.
    """
    return _below(wishes, 0)


def taking_turns(each_of: Iterable[T], whose: Callable[[T], Hashable]) -> list[T]:
    """One of each in turn, as long as it has some; their own order stays."""
    lines: dict[Hashable, list[T]] = {}
    for one in each_of:
        lines.setdefault(whose(one), []).append(one)
    return _merged(list(lines.values()))


def _below(wishes: Sequence[NodeWish], level: int) -> list[NodeWish]:
    lines: dict[str | None, list[NodeWish]] = {}
    for wish in wishes:
        place = wish.place
        lines.setdefault(place[level] if level < len(place) else None, []).append(wish)
    if None in lines:
        return list(wishes)  # all of one queue and namespace
    return _merged([_below(line, level + 1) for line in lines.values()])


def _merged(lines: Sequence[Sequence[T]]) -> list[T]:
    if len(lines) == 1:
        return list(lines[0])
    boxed = zip_longest(*([(one,) for one in line] for line in lines), fillvalue=())
    return [one for each in boxed for box in each for one in box]

"""Many items in parts of about the same weight."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def one(item: object) -> int:
    """The weight of an item of the usual size."""
    return 1


def parts(items: Iterable[T], size: int | None, weight: Callable[[T], int] = one) -> Iterator[list[T]]:
    """Many items in parts of at most so much weight (all in one if None). A heavier item is a part of its own."""
    part: list[T] = []
    left = size or 0
    for item in items:
        takes = weight(item) if size is not None else 0
        if part and takes > left:
            yield part
            part, left = [], size or 0
        part.append(item)
        left -= takes
    if part:
        yield part

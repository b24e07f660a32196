"""Long work on the event loop, in slices: between two of them other tasks get their turn."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import Final, TypeVar

from queues.parts import one, parts

T = TypeVar("T")

#: Objects or workloads of the usual size in a slice: a few milliseconds of work. A transaction next to it needs about
#: ten rounds of the loop, and a renewal has to get through also on a machine that gives this process a tenth of a
#: processor.
SLICE: Final = 100


async def slices(
    items: Iterable[T], size: int = SLICE, weight: Callable[[T], int] = one
) -> AsyncIterator[list[T]]:
    """Many items in parts of at most so much weight; the loop runs its other tasks after each part."""
    for part in parts(items, size, weight):
        yield part
        await asyncio.sleep(0)


async def run_in_slices(work: Generator[None, None, T]) -> T:
    """What ``work`` returns in the end; it yields after each slice, and the loop runs its other tasks."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)

"""Long work on the event loop, in slices: between two of them other tasks get their turn."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

#: Objects or workloads in a slice: a few milliseconds of work. A transaction beside it needs about ten rounds of the
#: loop, and a renewal has to get through also on a machine that gives this process a tenth of a processor.
SLICE: Final = 100


async def slices(items: Iterable[T], size: int = SLICE) -> AsyncIterator[list[T]]:
    """Many items in parts; the loop runs its other tasks after each part."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
        await asyncio.sleep(0)

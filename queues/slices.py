"""Long work on the event loop, in slices: between two of them other tasks get their turn."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

#: Objects or workloads in a slice: some ten milliseconds of work.
SLICE: Final = 500


async def slices(items: Iterable[T], size: int = SLICE) -> AsyncIterator[list[T]]:
    """Many items in parts; the loop runs its other tasks after each part."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
        await asyncio.sleep(0)

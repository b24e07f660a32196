"""How what is under way ends when a term does."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancelled(under_way: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these, and wait until they are over."""
    tasks = list(under_way)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

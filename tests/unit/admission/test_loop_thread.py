"""Work in a loop and a thread of its own ends as it would here, and not without being told."""

import asyncio
import threading

import pytest

from admission.leadership import run_in_loop_thread
from tests.waiting import until


async def test_it_goes_on_while_this_loop_stands_still() -> None:
    steps = 0

    async def count() -> int:
        nonlocal steps
        while steps < 20:
            steps += 1
            await asyncio.sleep(0.001)
        return threading.get_ident()

    task = asyncio.create_task(run_in_loop_thread(count, name="count"))
    await asyncio.sleep(0)
    until(lambda: steps == 20, "the steps of the other loop")  # this loop stands still
    assert await task != threading.get_ident()


async def test_its_error_is_raised_here() -> None:
    async def fail() -> None:
        raise ZeroDivisionError("of a test")

    with pytest.raises(ZeroDivisionError):
        await run_in_loop_thread(fail, name="fail")


async def test_who_cancels_it_waits_for_its_end() -> None:
    begun, steps = asyncio.Event(), list[str]()
    loop = asyncio.get_running_loop()

    async def last() -> None:
        try:
            loop.call_soon_threadsafe(begun.set)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            steps.append("closed")

    task = asyncio.create_task(run_in_loop_thread(last, name="last"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["closed"]

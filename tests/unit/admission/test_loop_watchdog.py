"""How long the event loop stood still, and what it was doing."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from admission import loop_watchdog
from admission.loop_watchdog import LoopWatchdog
from tests.waiting import eventually, until


def block_this_loop_until(holds: Callable[[], bool]) -> None:
    until(holds, "what happens beside this loop")


async def test_a_block_is_measured_and_its_place_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, loop_watchdog.__name__)
    watchdog = LoopWatchdog()
    task = asyncio.create_task(watchdog.run())
    try:
        while "block_this_loop_until" not in watchdog._seen:  # else this machine stood still elsewhere
            await asyncio.sleep(2 * loop_watchdog._TICK)
            block_this_loop_until(lambda: bool(watchdog._seen))
        await eventually(lambda: watchdog.longest() > 0.1, "the block")
        lines = [record for record in caplog.records if record.message == "event loop stood still"]
        assert any("block_this_loop_until" in record.where for record in lines)  # type: ignore[attr-defined]
    finally:
        task.cancel()


def test_only_the_last_minutes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(loop_watchdog, "monotonic", lambda: now)
    watchdog = LoopWatchdog()
    watchdog._note(0.09)
    now += 10
    watchdog._note(0.05)
    watchdog._note(0.02)
    assert watchdog.longest() == 0.09
    now += loop_watchdog.WINDOW - 5
    assert watchdog.longest() == 0.05
    now += loop_watchdog.WINDOW
    assert watchdog.longest() == 0.0


async def test_another_thread_is_told_for_how_long_the_loop_has_stood_still_by_now() -> None:
    watchdog = LoopWatchdog()
    assert watchdog.standing() == 0.0
    task = asyncio.create_task(watchdog.run())
    try:
        await asyncio.sleep(0)
        block_this_loop_until(lambda: watchdog.standing() > 0.2)
        await eventually(lambda: watchdog.standing() < 0.2, "the next tick")
    finally:
        task.cancel()

"""How many requests are worked on at a time."""

import asyncio
from pathlib import Path
from time import process_time

import pytest

from admission.web.access import limits
from admission.web.access.limits import (
    Gate,
    ProcessorShare,
    RequestLimits,
    ShareUsed,
    TooBusy,
    counted_as,
    processor_time,
)
from tests.tables import with_rows


async def test_requests_wait_for_a_place_and_those_beyond_are_sent_away() -> None:
    gate, going = Gate(RequestLimits(at_once=1, waiting=1, of_one=9)), asyncio.Event()
    inside = []

    async def ask(user: str) -> None:
        async with gate.entered(user):
            inside.append(user)
            await going.wait()

    first = asyncio.create_task(ask("ada"))
    second = asyncio.create_task(ask("bo"))
    await asyncio.sleep(0)
    with pytest.raises(TooBusy, match="From all users too many requests"):
        async with gate.entered("cy"):
            pass
    assert inside == ["ada"]
    going.set()
    await asyncio.gather(first, second)
    assert inside == ["ada", "bo"]


async def test_one_user_does_not_take_all_the_places() -> None:
    gate = Gate(RequestLimits(at_once=9, waiting=9, of_one=2))

    async with gate.entered("ada"), gate.entered("ada"):
        with pytest.raises(TooBusy, match="From this user too many"):
            async with gate.entered("ada"):
                pass
        async with gate.entered("bo"):
            pass
    async with gate.entered("ada"):
        pass


async def test_some_places_are_for_those_who_have_none() -> None:
    gate = Gate(RequestLimits(at_once=3, waiting=0, of_one=9, newcomers=1))

    async with gate.entered("ada"), gate.entered("ada"):
        with pytest.raises(TooBusy, match="From all users too many"):
            async with gate.entered("ada"):
                pass
        async with gate.entered("bo"):
            with pytest.raises(TooBusy, match="From all users too many"):
                async with gate.entered("cy"):
                    pass


@with_rows("user", "counted")
def test_service_accounts_of_a_namespace_count_as_one_user(user: str, counted: str) -> None:
    assert counted_as(user) == counted


async def test_nobody_waits_for_ever() -> None:
    gate = Gate(RequestLimits(at_once=1, patience=0.01))

    async with gate.entered("ada"):
        with pytest.raises(TooBusy):
            async with gate.entered("bo"):
                pass
    async with gate.entered("bo"):
        pass


async def test_a_refusal_is_held_back_and_so_many_at_a_time() -> None:
    gate = Gate(RequestLimits(at_once=1, waiting=0, held_back=30.0, held=1))

    async def ask() -> None:
        async with gate.entered("bo"):
            pass

    async with gate.entered("ada"):
        held = asyncio.create_task(ask())
        await asyncio.sleep(0)
        with pytest.raises(TooBusy):  # one is held back already
            await ask()
        assert not held.done()
        held.cancel()


class Clock:
    """Seconds gone by, and seconds of processor time used."""

    def __init__(self) -> None:
        self.now = self.used = 100.0


def share_of(clock: Clock) -> ProcessorShare:
    return ProcessorShare(0.2, 3.0, now=lambda: clock.now, used=lambda: clock.used)


def test_what_was_saved_up_is_used_at_once_and_then_it_is_a_share() -> None:
    clock = Clock()
    share = share_of(clock)
    clock.used += 2.9
    assert share.pause() == 0
    clock.used += 0.3
    assert share.pause() == pytest.approx(1.0)
    clock.now += 1.0
    assert share.pause() == pytest.approx(0.0)


def test_whatever_else_the_process_does_users_wait_two_seconds_at_most() -> None:
    clock = Clock()
    share = share_of(clock)
    clock.now, clock.used = clock.now + 600.0, clock.used + 600.0
    assert share.pause() == pytest.approx(2.0)
    clock.now += 2.0
    assert share.pause() == pytest.approx(0.0)


def test_no_more_is_saved_up_in_a_long_pause() -> None:
    clock = Clock()
    share = share_of(clock)
    clock.now += 1000.0
    assert share.pause() == 0
    clock.used += 3.2
    assert share.pause() == pytest.approx(1.0)


async def test_requests_wait_until_the_process_is_within_its_share() -> None:
    clock = Clock()
    share = share_of(clock)
    clock.used += 3.4
    gate = Gate(RequestLimits(at_once=1, patience=0.01), share)
    for _ in range(2):  # the place is free again
        with pytest.raises(ShareUsed, match=r"^Answers to users have used their share of this machine"):
            async with gate.entered("ada"):
                pass
    clock.now += 1000.0
    async with gate.entered("ada"):
        pass


def test_waiting_for_a_busy_processor_counts_like_using_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = tmp_path / "schedstat"
    monkeypatch.setattr(limits, "_SCHEDULED", waited)
    waited.write_text("7000000000 90000000000 12\n")
    assert processor_time() - process_time() == pytest.approx(90.0, abs=1.0)
    waited.unlink()
    assert processor_time() - process_time() == pytest.approx(0.0, abs=1.0)

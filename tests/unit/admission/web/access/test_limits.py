"""How many requests are worked on at a time."""

import asyncio

import pytest

from admission.web.access.limits import Gate, RequestLimits, TooBusy


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


async def test_nobody_waits_for_ever() -> None:
    gate = Gate(RequestLimits(at_once=1, patience=0.01))

    async with gate.entered("ada"):
        with pytest.raises(TooBusy):
            async with gate.entered("bo"):
                pass
    async with gate.entered("bo"):
        pass

"""The commands of the page about looking back print what the page says."""

import asyncio
import time
from pathlib import Path

import pytest

from admission.cli.failures import finish
from admission.cli.muster import muster
from tests.builders.look_back.leading import NOW, gang, leading_over
from tests.builders.look_back.recorded_work import record_a_day
from tests.console_sessions import exchanges

PAGE = Path(__file__).parents[2] / "docs/how-to/look-back.md"


async def test_commands_print_what_the_page_says(
    database: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading_over(database) as leading:
        await leading.decide(gang("small", 4), gang("train", 6))
        await leading.keep()
        await record_a_day(leading.database, NOW)
    monkeypatch.setenv("MUSTER_DSN", database)
    monkeypatch.setattr(time, "time", lambda: NOW + 100.0)
    commands = list(exchanges(PAGE))
    assert len(commands) == 4
    for exchange in commands:
        words = exchange.command.split()
        code = await asyncio.to_thread(finish, muster, "muster", words[1:])
        printed = capfd.readouterr()
        assert code == ("Error" in exchange.expected[0])
        assert exchange.matches(printed.out + printed.err), f"$ {exchange.command}\n{printed}"

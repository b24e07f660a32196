"""The commands of the page about accounting print what the page says."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.console_sessions import exchanges
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Plugin

PAGE = Path(__file__).parents[2] / "docs/how-to/accounting.md"
BEFORE = ["kubectl", "muster"]


async def test_commands_print_what_the_page_says(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "admission.cli.plugin.usage.time.time", datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp
    )
    commands = list(exchanges(PAGE))
    assert len(commands) >= 4
    async with Plugin(capfd, monkeypatch, tmp_path).served(FakeReader()) as ask:
        for exchange in commands:
            words = exchange.command.split()
            assert words[:2] == BEFORE
            code, out, err = await ask(*words[2:])
            assert (code, err) == (0, "")
            assert exchange.matches(out), f"$ {exchange.command}\n{out}"

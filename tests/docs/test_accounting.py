"""The commands of the page about accounting print what the page says."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from admission.cli.failures import finish
from admission.cli.kubectl_muster import kubectl_muster
from tests.console_sessions import exchanges
from tests.fakes.fake_reader import FakeReader, served

PAGE = Path(__file__).parents[2] / "docs/how-to/accounting.md"
BEFORE = ["kubectl", "muster"]


async def test_commands_print_what_the_page_says(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    monkeypatch.setattr(
        "admission.cli.usage.command.time.time", datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp
    )
    commands = list(exchanges(PAGE))
    assert len(commands) >= 6
    async with served(FakeReader()) as url:
        monkeypatch.setenv("MUSTER_SERVER", url)
        for exchange in commands:
            words = exchange.command.split()
            assert words[:2] == BEFORE
            code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", words[2:])
            printed = capfd.readouterr()
            assert (code, printed.err) == (0, "")
            assert exchange.matches(printed.out), f"$ {exchange.command}\n{printed.out}"

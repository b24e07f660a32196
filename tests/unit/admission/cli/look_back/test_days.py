"""``muster replay --days``: what can not be simulated is one clear line, and progress is for terminals."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import pytest

from admission.cli.failures import finish
from admission.cli.look_back import days
from admission.cli.muster import muster
from admission.simulate import past_days
from tests.builders.look_back.leading import NOW, Leading, gang, leading_over
from tests.builders.look_back.recorded_work import record_a_day


@pytest.fixture
async def leading(database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Leading]:
    monkeypatch.setattr(time, "time", lambda: NOW + 100.0)
    monkeypatch.setenv("MUSTER_DSN", database)
    async with leading_over(database) as leader:
        yield leader


async def replay(*words: str) -> int:
    return await asyncio.to_thread(finish, muster, "muster", ["replay", *words])


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("--days", "0"), 2, "0 is not in the range 1<=x<=90"),
        (("--days", "1", "--at", "1h"), 2, "Expected one of FILE, --at TIME and --days N"),
        (("--at", "1h", "--quota", "team.gpu=1"), 2, "--quota, --drain and --add-nodes are for --days"),
        (("--days", "1", "--explain", "train"), 2, "--explain and --namespace are for --at"),
        (
            ("--days", "1", "--quota", "taem.gpu=16"),
            1,
            "There is no queue taem.",
        ),
        (("--days", "1", "--quota", "team.gpu=lots"), 1, "found 'lots', expected a quantity"),
        (("--days", "1", "--drain", "n7"), 1, "--drain: found 'n7', expected a node"),
        (("--days", "1", "--add-nodes", "2"), 2, "--add-nodes N and --like NODE belong together"),
    ],
)
async def test_what_can_not_be_simulated_is_one_clear_line(
    words: tuple[str, ...], code: int, complaint: str, leading: Leading, capsys: pytest.CaptureFixture[str]
) -> None:
    await leading.decide(gang("small", 4))
    await leading.keep()
    await record_a_day(leading.database, NOW)

    assert await replay(*words) == code
    printed = capsys.readouterr()
    assert (printed.out, complaint in printed.err, "Traceback" in printed.err) == ("", True, False)


async def test_without_turns_or_work_it_says_so(leading: Leading, capsys: pytest.CaptureFixture[str]) -> None:
    assert await replay("--days", "7") == 1
    assert "no turn is kept in this database" in capsys.readouterr().err

    await leading.decide()
    await leading.keep()
    assert await replay("--days", "7") == 1
    assert "no work of the last 7 days is recorded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "bound", "complaint"),
    [
        (past_days, "MOST_WORKLOADS", "found 5 workloads of the last day, expected at most 0"),
        (days, "MOST_SECONDS", "the replay as it was has come to"),
    ],
)
async def test_more_than_can_be_simulated_is_told(
    module: object,
    bound: str,
    complaint: str,
    leading: Leading,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await leading.decide(gang("small", 4))
    await leading.keep()
    await record_a_day(leading.database, NOW)
    monkeypatch.setattr(module, bound, 0)
    words = ("--days", "1")

    assert await replay(*words) == 1
    err = capsys.readouterr().err
    assert complaint in err
    assert "Give fewer --days." in err


async def test_a_terminal_is_told_how_far_it_has_come_and_a_file_is_not(
    leading: Leading, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await leading.decide(gang("small", 4))
    await leading.keep()
    await record_a_day(leading.database, NOW)
    monkeypatch.setattr(days, "_TELL_EVERY", 0.0)

    assert await replay("--days", "1") == 0
    assert capsys.readouterr().err == ""

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert await replay("--days", "1") == 0
    assert "\rreplaying as it was: " in capsys.readouterr().err


async def test_lines_fit_80_columns(leading: Leading, capsys: pytest.CaptureFixture[str]) -> None:
    await leading.decide(gang("small", 4))
    await leading.keep()
    await record_a_day(leading.database, NOW)

    assert (
        await replay(
            "--days",
            "1",
            "--quota",
            "team.gpu=16",
            "--quota",
            "team.capability.gpu=16",
            "--add-nodes",
            "1",
            "--like",
            "n1",
        )
        == 0
    )
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80

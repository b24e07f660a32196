"""The leader keeps turns beside its turns; whoever looks back later decides the same again."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sqlalchemy import text

from admission.cli.failures import finish
from admission.cli.muster import muster as program
from admission.history import turn_keeper
from queues.errors import Fenced
from queues.sql.history.kept_turns import TurnBounds
from queues.sql.leadership import Term
from queues.sql.read.look_back.kept_turns import kept_span
from tests.builders.look_back.leading import Leading, gang, leading_over


@pytest.fixture
async def leading(database: str) -> AsyncIterator[Leading]:
    async with leading_over(database) as leader:
        yield leader


def replayed(monkeypatch: pytest.MonkeyPatch, leading: Leading, *words: str) -> int:
    monkeypatch.setenv("MUSTER_DSN", leading.database.dsn)
    return finish(program, "muster", ["replay", *words])


AT = "2026-09-21T14:14:00"


async def test_a_turn_of_the_day_is_decided_again_as_it_was(
    leading: Leading, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await leading.decide(gang("fits", 4), gang("waits", 6))
    assert await leading.keep()

    code = await asyncio.to_thread(replayed, monkeypatch, leading, "--at", AT)

    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    assert printed.out.splitlines() == [
        "Turn of 2026-09-21T14:13:20Z, 40s before 2026-09-21T14:14:00Z (term 1)",
        "  2 workloads waiting, 0 admissions, 2 nodes",
        "Decided: 1",
        "  WHAT    WORKLOAD     NAMESPACE   QUEUE   PODS   WHY",
        "  admit   vcjob/fits   ns          team       4   gang",
        "Waited: 1",
        "  QueueLimit: 1",
        "    vcjob/waits (namespace ns, queue team)",
        "      queue team may use 8 nvidia.com/gpu: 4 used, 6 asked, 2 too many",
        "Decided again: the same plan as then",
        "Decision log: the same (1 decision)",
    ]


async def test_why_a_workload_was_not_admitted_then_is_told_as_explain_tells_it(
    leading: Leading, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await leading.decide(gang("fits", 4), gang("waits", 6))
    await leading.keep()

    code = await asyncio.to_thread(
        replayed, monkeypatch, leading, "--at", AT, "--explain", "waits", "-n", "ns"
    )

    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    assert "vcjob/waits in namespace ns" in printed.out
    assert (
        "Waits because\n  QueueLimit\n  queue team may use 8 nvidia.com/gpu: 4 used, 6 asked, 2 too many\n"
        in printed.out
    )
    assert "What would let it in\n  - " in printed.out

    assert await asyncio.to_thread(replayed, monkeypatch, leading, "--at", AT, "--explain", "vcjob/fits") == 0
    assert "Admitted in this turn\n  4 pods on n1" in capsys.readouterr().out


async def test_a_plan_or_a_log_that_is_another_one_is_told(
    leading: Leading, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await leading.decide(gang("fits", 4), gang("waits", 6))
    last = leading.cycle.last
    assert last is not None
    await leading.keeper().keep(replace(last, plan=replace(last.plan, admits=())))
    async with leading.database.transaction() as tx:
        await tx.execute(text("UPDATE decisions SET code = 'elastic'"))

    code = await asyncio.to_thread(replayed, monkeypatch, leading, "--at", AT)

    out = capsys.readouterr().out
    assert code == 1
    assert "Decided again: another plan than then, 1 difference\n  admits" in out
    assert (
        "Decision log: 2 differences\n"
        "  in the log, and not decided now: admit vcjob/fits (namespace ns, queue team): elastic\n"
        "  decided now, and not in the log: admit vcjob/fits (namespace ns, queue team): gang\n" in out
    )


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (
            ("--at", "2026-09-21T14:13:19"),
            1,
            "no turn at or before 2026-09-21T14:13:19Z is kept: the only one is of",
        ),
        (("--at", "noon"), 2, "found 'noon', expected how long ago"),
        (("--at", "2126-01-01"), 2, "which is not past yet"),
        (("--at", AT, "turn.json"), 2, "Expected one of FILE, --at TIME and --days N"),
        ((), 2, "Expected one of FILE, --at TIME and --days N"),
        (("turn.json", "--explain", "fits"), 2, "--explain and --namespace are for --at"),
        (("--at", AT, "-n", "ns"), 2, "--namespace is for --explain"),
        (("--at", AT, "--explain", "wait"), 1, "no workload wait waited or ran at that turn.*\nNear: waits"),
        (("--at", AT, "--explain", "job/waits"), 1, "no workload job/waits"),
        (("--at", AT, "--explain", "waits", "-n", "other"), 1, "no workload waits in namespace other"),
    ],
)
async def test_what_can_not_be_looked_at_is_one_clear_line(
    words: tuple[str, ...],
    code: int,
    complaint: str,
    leading: Leading,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await leading.decide(gang("fits", 4), gang("waits", 6))
    await leading.keep()

    assert await asyncio.to_thread(replayed, monkeypatch, leading, *words) == code
    printed = capsys.readouterr()
    assert re.search(complaint, printed.err)
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("'corrupt'::bytea", "turn of 2026-09-21T14:13:20Z: This is no saved turn: found corrupt content"),
        ("substr(content, 1, 200)", "found content that ends too early"),
        (r"'\x1f8b08000000000000035362d62b4e2e4a2d01005ac8dc4c08000000'::bytea", "This is no saved turn"),
    ],
)
async def test_corrupt_turns_are_one_clear_line(
    content: str,
    complaint: str,
    leading: Leading,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await leading.decide(gang("fits", 6))
    await leading.keep()
    async with leading.database.transaction() as tx:
        await tx.execute(text(f"UPDATE kept_turns SET content = {content}"))

    assert await asyncio.to_thread(replayed, monkeypatch, leading, "--at", AT) == 2
    printed = capsys.readouterr()
    assert complaint in printed.err
    assert len(printed.err.splitlines()) == 1


async def test_a_database_without_turns_says_so(
    leading: Leading, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asyncio.to_thread(replayed, monkeypatch, leading, "--at", AT) == 1
    assert "no turn is kept in this database" in capsys.readouterr().err


async def test_the_first_turn_of_a_minute_that_changes_the_ledger_is_kept_and_later_the_last_one(
    leading: Leading,
) -> None:
    turns = []
    for name, pods in (("large", 9), ("one", 1), ("two", 1), ("larger", 10)):
        await leading.decide(gang(name, pods))
        turns.append(leading.cycle.last)
    assert [each is not None and each.plan.changes_ledger() for each in turns] == [False, True, True, False]
    nothing, first, second, quiet = turns
    keeper = leading.keeper()

    for each in (None, nothing, first, first, second, quiet):
        keeper.offer(each)
    assert [keeper.take(), keeper.take(), keeper.take()] == [first, second, None]

    for each in (first, quiet):
        keeper.offer(each)
    assert [keeper.take(), keeper.take(), keeper.take()] == [first, quiet, None]


async def test_turns_that_are_offered_are_kept_beside_the_turns(leading: Leading) -> None:
    keeper = leading.keeper(TurnBounds(every=0.001))
    running = asyncio.create_task(keeper.run())

    for name in ("first", "second"):
        await leading.decide(gang(name, 2))
        keeper.offer(leading.cycle.last)
    kept: list[int] = []

    async def count() -> int:
        async with leading.database.snapshot() as tx:
            return (await kept_span(tx)).count

    while len(kept) < 200 and (not kept or kept[-1] < 2):
        kept.append(await count())
    running.cancel()
    assert kept[-1] == 2


async def test_no_turn_is_kept_where_none_is_wanted(leading: Leading) -> None:
    await leading.decide(gang("fits", 6))
    none = leading.keeper(TurnBounds(most_bytes=0))
    none.offer(leading.cycle.last)
    assert none.take() is None


@pytest.mark.parametrize("what", ["too many rows", "too many bytes", "an engine that can not write it"])
async def test_a_turn_that_can_not_be_kept_is_left_out(
    what: str, leading: Leading, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await leading.decide(gang("fits", 6))
    last = leading.cycle.last
    assert last is not None
    bounds = TurnBounds()
    if what == "too many rows":
        monkeypatch.setattr(turn_keeper, "MOST_ROWS", 0)
    elif what == "too many bytes":
        bounds = TurnBounds(most_bytes=80)
    else:
        last = replace(last, snapshot=replace(last.snapshot, started=(object(),)))  # type: ignore[arg-type]

    assert not await leading.keeper(bounds).keep(last)

    assert "turn not kept" in caplog.text
    async with leading.database.snapshot() as tx:
        assert (await kept_span(tx)).count == 0


async def test_a_term_that_is_over_keeps_nothing(leading: Leading) -> None:
    await leading.decide(gang("fits", 6))
    leading.term = Term(holder="me", number=leading.term.number + 1)

    with pytest.raises(Fenced):
        await leading.keep()

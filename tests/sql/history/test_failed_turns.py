"""Turns that could not be decided, stored by any replica: the last few, and not for ever."""

import gzip
import logging
from pathlib import Path

import pytest

from admission.containment import failed_turns
from admission.containment.failed_turns import FailedTurns
from admission.replay.snapshot_file import load
from queues.errors import DatabaseUnavailable
from queues.sql.database import Database
from queues.sql.history.failed_turns import KEPT_FOR, MOST, content_of, drop_old, store, stored
from tests.builders.facts import NOW, job, node, queue, world
from tests.sql.ledger_harness import NOW as SECOND

DAYS = round(KEPT_FOR.total_seconds())


async def names(muster: Database) -> list[str]:
    async with muster.snapshot() as tx:
        return [turn.name for turn in await stored(tx)]


async def test_the_last_few_of_all_replicas_are_kept(muster: Database) -> None:
    async with muster.transaction() as tx:
        for number in range(MOST + 2):
            await store(tx, f"turn-{number}", f"replica-{number % 2}", b"%d" % number, SECOND + number)
        await store(tx, f"turn-{MOST}", "another", b"of the same name", SECOND + 99)
    assert await names(muster) == [f"turn-{number}" for number in range(MOST + 1, 1, -1)]
    async with muster.snapshot() as tx:
        assert await content_of(tx, f"turn-{MOST}") == b"%d" % MOST
        assert await content_of(tx, "turn-0") is None
        newest = (await stored(tx))[0]
    assert (newest.replica, newest.size) == (f"replica-{(MOST + 1) % 2}", 1)


async def test_old_ones_go(muster: Database) -> None:
    async with muster.transaction() as tx:
        await store(tx, "old", "replica", b"", SECOND)
        await store(tx, "young", "replica", b"", SECOND + 1)
        await drop_old(tx, SECOND + DAYS)
    assert await names(muster) == ["young", "old"]
    async with muster.transaction() as tx:
        await drop_old(tx, SECOND + DAYS + 1)
    assert await names(muster) == ["young"]


async def test_what_a_replica_keeps_is_stored_once_postgres_is_there(
    muster: Database, tmp_path: Path
) -> None:
    """Also what its disk did not take."""
    (tmp_path / "turns").write_text("no folder")
    turns = FailedTurns(tmp_path / "turns", "me")
    known = world([job(1), node("n1"), queue("root"), queue("team", parent="root")])
    assert turns.keep(known.freeze(NOW)) is None
    assert turns.keep(known.freeze(NOW + 1)) is None

    away = Database.open("postgresql://nobody@/nothing?host=/nowhere")
    with pytest.raises(DatabaseUnavailable):
        await turns.store_waiting(away, "me")
    await away.close()
    await turns.store_waiting(muster, "me")
    assert await names(muster) == [f"turn-{NOW + 1}-0.json.gz", f"turn-{NOW}-0.json.gz"]
    async with muster.snapshot() as tx:
        content = await content_of(tx, f"turn-{NOW}-0.json.gz")
    assert content is not None
    assert load(gzip.decompress(content)).snapshot.now == NOW


async def test_a_postgres_that_is_away_is_told_once(
    muster: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failed_turns, "_STORE_EVERY", 0)
    turns, answers = FailedTurns(tmp_path, "me"), [True, False, False, True, False]

    async def store_waiting(_: Database, __: str) -> None:
        if not answers:
            raise ZeroDivisionError
        if not answers.pop(0):
            raise DatabaseUnavailable(reason="away", sqlstate=None)

    monkeypatch.setattr(turns, "store_waiting", store_waiting)
    with caplog.at_level(logging.WARNING), pytest.raises(ZeroDivisionError):
        await turns.run(muster, "me")
    assert [record.message for record in caplog.records] == ["failed turn not stored yet"] * 2

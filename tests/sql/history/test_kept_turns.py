"""Turns of the last day that are kept: thinned out by age, bounded in number and bytes, found by their time."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from queues.errors import Fenced
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.history.kept_turns import KeptTurn, NewTurn, TurnBounds, store, superfluous
from queues.sql.leadership import Term
from queues.sql.read.look_back.kept_turns import decisions_after, decisions_of, kept_span, nearest_turn
from queues.workload import QueueName
from tests.sql.ledger_harness import NOW, LedgerHarness, key

AT = datetime.fromtimestamp(NOW, UTC)
FEW = TurnBounds(most_bytes=100, most=5)


def turn(decided_at: int, content: bytes = b"content", seq: int = 0) -> NewTurn:
    return NewTurn(decided_at=decided_at, ledger_seq=seq, configuration="abc", changed=True, content=content)


def kept(*minutes_ago: float, size: int = 1) -> list[KeptTurn]:
    """The newest first; the number of a turn is its age in minutes."""
    return [
        KeptTurn(number=round(minutes), decided_at=AT - timedelta(minutes=minutes), size=size)
        for minutes in sorted(minutes_ago)
    ]


def left(turns: list[KeptTurn], bounds: TurnBounds = TurnBounds()) -> list[int]:  # noqa: B008
    gone = superfluous(turns, AT, bounds)
    return [each.number for each in turns if each.number not in gone]


def test_the_last_hour_is_kept_as_it_came_and_the_day_thinned_out() -> None:
    found = left(kept(*range(3 * 24 * 60)))

    assert found[:61] == list(range(61))
    older = found[61:]
    assert {later - earlier for earlier, later in pairwise(older)} == {10}
    assert 24 * 60 - 10 < older[-1] <= 24 * 60
    assert len(found) < TurnBounds().most


def test_what_stays_of_ten_minutes_does_not_change_as_time_passes() -> None:
    turns = kept(*range(300))
    once = [each for each in turns if each.number not in superfluous(turns, AT, TurnBounds())]
    later = AT + timedelta(minutes=3)
    at_last = set(superfluous(turns, later + timedelta(hours=1), TurnBounds()))

    again = set(superfluous(once, later + timedelta(hours=1), TurnBounds()))

    survivors = {each.number for each in turns if each.number > 60} - at_last
    assert survivors == {each.number for each in once if each.number > 60} - again


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (TurnBounds(most_bytes=1000, most=3), [1, 2, 3]),
        (TurnBounds(most_bytes=25, most=100), [1, 2]),
        (TurnBounds(most_bytes=5, most=100), []),
    ],
)
def test_the_oldest_go_where_a_bound_is_reached(bounds: TurnBounds, expected: list[int]) -> None:
    assert left(kept(1, 2, 3, 4, size=10), bounds) == expected


async def test_the_nearest_turn_is_the_last_one_at_or_before_a_time(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    async with muster.transaction() as tx:
        for age, content in ((120, b"old"), (60, b"first"), (60, b"second")):
            await store(tx, harness.term, turn(NOW - age, content), TurnBounds(), NOW)

    async with muster.snapshot() as tx:
        found = [await nearest_turn(tx, AT - timedelta(seconds=age)) for age in (0, 60, 61, 120, 121)]
        span = await kept_span(tx)

    assert [None if each is None else each.content for each in found] == [
        *(b"second", b"second"),
        *(b"old", b"old"),
        None,
    ]
    assert (span.count, span.size, span.first) == (3, 14, AT - timedelta(seconds=120))


async def test_bounds_hold_in_the_database(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    for number in range(12):
        async with muster.transaction() as tx:
            await store(tx, harness.term, turn(NOW + 60 * number, b"x" * 30), FEW, NOW + 60 * number)

    async with muster.snapshot() as tx:
        span = await kept_span(tx)

    assert (span.count, span.size) == (3, 90)
    assert span.last == AT + timedelta(minutes=11)


async def test_another_leader_keeps_no_turn_of_an_older_term(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    older = Term(holder="another", number=harness.term.number + 1)

    with pytest.raises(Fenced):
        async with muster.transaction() as tx:
            await store(tx, older, turn(NOW), TurnBounds(), NOW)

    async with muster.snapshot() as tx:
        assert (await kept_span(tx)).count == 0


async def test_the_decision_log_is_read_by_turn(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    async with muster.transaction() as tx:
        await store(tx, harness.term, turn(NOW, seq=harness.seq), TurnBounds(), NOW)
    for number, name in enumerate(("j1", "j2", "j3")):
        async with muster.transaction() as tx:
            entry = await harness.enter(tx, NOW + number)
            line = ledger.Decision(
                kind="admit",
                workload=key(name),
                namespace="ns",
                name=name,
                queue=QueueName("a"),
                code="gang",
            )
            await ledger.record_decisions(tx, entry, [line])
        harness.seq = entry.seq

    async with muster.snapshot() as tx:
        found = await nearest_turn(tx, AT)
        assert found is not None
        assert [each.name for each in await decisions_of(tx, found)] == ["j1"]
        assert await decisions_after(tx, found, AT + timedelta(seconds=1)) == 1
        assert await decisions_after(tx, found, AT + timedelta(seconds=9)) == 2

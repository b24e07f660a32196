"""Use and waits over time: exact in each slot, as far as queues may be seen, and only what is known."""

import pytest
from sqlalchemy import insert, text, update

from admission.web.http import BadQuery
from admission.web.reader import EVERYTHING, PeriodTooLarge, Sight, UnknownName
from admission.web.sql_reader import SqlReader
from admission.web.time_series import time_series_request
from admission.web.usage_report import usage_request
from queues.errors import DatabaseTooSlow
from queues.read_api.usage import TimeSeriesList
from queues.sql.database import Database
from queues.sql.tables import history_starts, workloads
from queues.text_format import rfc3339
from tests.sql.ledger_harness import NOW, gang, queue
from tests.sql.read.test_usage import GPUS, HOUR, admit, stage, three_teams

NOTHING = [None] * 4


async def told(
    muster: Database, *, sight: Sight = EVERYTHING, now: int = NOW + 4 * HOUR, **given: str
) -> TimeSeriesList:
    reader = SqlReader(muster, clock=lambda: float(now))
    asked = time_series_request({"from": rfc3339(NOW), **given})
    return await reader.time_series(asked, sight=sight)


async def test_use_is_told_of_a_queue_and_those_directly_below_it(muster: Database) -> None:
    await three_teams(muster)

    body = await told(muster)
    assert (body.step, body.resource, body.to) == (3600, "nvidia.com/gpu", rfc3339(NOW + 4 * HOUR))
    assert body.slots == tuple(rfc3339(NOW + hour * HOUR) for hour in range(4))
    assert {each.queue: each.used for each in body.items} == {
        "root": (10.0, 6.0, 1.0, 1.0),
        "team-a": (9.0, 5.0, 0.0, 0.0),
        "team-b": (1.0, 1.0, 1.0, 1.0),
    }
    assert [each.queue for each in body.items] == ["root", "team-a", "team-b"]
    assert [each.queue for each in (await told(muster, limit="1")).items] == ["root", "team-a"]
    below = await told(muster, queue="team-a")
    assert {each.queue: each.used for each in below.items} == {
        "team-a": (9.0, 5.0, 0.0, 0.0),
        "train": (8.0, 5.0, 0.0, 0.0),
        "dev": (1.0, 0.0, 0.0, 0.0),
    }


@pytest.mark.parametrize(("step", "ends"), [(3600, 4), (1234, 4), (7, 1), (50_000, 4), (1000, 3)])
async def test_each_slot_has_what_use_in_its_time_adds_up_to(muster: Database, step: int, ends: int) -> None:
    await three_teams(muster)
    step = max(step, ends * HOUR // 400)

    until = NOW + ends * HOUR - 77
    body = await told(muster, step=str(step), to=rfc3339(until), now=NOW + 5 * HOUR)
    reader = SqlReader(muster, clock=lambda: float(NOW + 5 * HOUR))
    [root] = body.items[:1]
    assert sum(root.used) > 0
    for index in range(0, len(body.slots), max(1, len(body.slots) // 7)):
        begins = NOW + index * step
        end = min(until, begins + step)
        whole = await reader.usage(
            usage_request({"from": rfc3339(begins), "to": rfc3339(end), "limit": "0"}),
            user="root",
            sight=EVERYTHING,
        )
        seconds = sum(int(each.amount_seconds) for each in whole.totals)
        assert root.used[index] == pytest.approx(seconds / (end - begins), abs=0.001)


async def test_use_of_queues_out_of_sight_counts_in_the_queue_that_was_asked_for(muster: Database) -> None:
    await three_teams(muster)

    body = await told(muster, queue="team-a", sight=Sight(workloads={}, queues=frozenset({"team-a", "dev"})))
    assert {each.queue: each.used for each in body.items} == {
        "team-a": (9.0, 5.0, 0.0, 0.0),
        "dev": (1.0, 0.0, 0.0, 0.0),
    }
    assert body.total == 1
    with pytest.raises(UnknownName, match="no queue team-x"):
        await told(muster, queue="team-x")


async def test_waits_count_from_creation_to_the_first_seats(muster: Database) -> None:
    harness = await stage(muster)
    for number, wait in enumerate((10, 20, 600)):
        name = f"w{number}"
        await harness.arrive(name, queue="team-b")
        async with muster.transaction() as tx:
            await tx.execute(update(workloads).where(workloads.c.name == name).values(created=NOW - wait))
        first = await admit(
            harness, gang(name, "team-b", "n1", takes=GPUS, flavor="h100"), "ada", NOW + number
        )
        if number == 2:  # evicted and admitted again: it does not count twice
            await harness.free(first, 0, at=NOW + HOUR)
            await admit(harness, gang(name, "team-b", "n1", takes=GPUS, flavor="h100"), "ada", NOW + 2 * HOUR)
    await harness.arrive("unknown", queue="team-b")  # of an older version: no time of creation
    await admit(harness, gang("unknown", "team-b", "n1", takes=GPUS, flavor="h100"), "ada", NOW + 5)

    body = await told(muster)
    of_root, of_b = body.items[0], next(each for each in body.items if each.queue == "team-b")
    assert of_root.started == of_b.started == (3, 0, 0, 0)
    assert of_root.wait_median == of_b.wait_median == (21, None, None, None)
    assert of_b.wait_most == (602, None, None, None)
    of_a = next(each for each in body.items if each.queue == "team-a")
    assert (of_a.started, list(of_a.wait_median)) == ((0, 0, 0, 0), NOTHING)


async def test_slots_begin_where_history_does(muster: Database) -> None:
    await three_teams(muster)
    async with muster.transaction() as tx:
        begins = text(f"to_timestamp({NOW + HOUR // 2})")
        await tx.execute(insert(history_starts).values(history="postings", begins_at=begins))

    body = await told(muster)
    assert body.history_begins == rfc3339(NOW + HOUR // 2)
    assert (body.from_, body.items[0].used) == (rfc3339(NOW + HOUR), (6.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"from": ""}, "from is missing"),
        ({"from": "yesterday"}, "from is 'yesterday'"),
        ({"from": rfc3339(NOW + 9 * HOUR)}, "and now it is"),
        ({"to": rfc3339(NOW)}, "to is"),
        ({"step": "0"}, "step is 0"),
        ({"step": "1h"}, "step is '1h'"),
        ({"step": "10"}, "more than 400 slots"),
        ({"limit": "51"}, "limit is '51'"),
        ({"resource": "a\nb"}, "resource is"),
    ],
)
async def test_wrong_questions_are_refused(muster: Database, given: dict[str, str], error: str) -> None:
    with pytest.raises(BadQuery, match=error):
        await told(muster, **given)


async def test_what_takes_too_long_is_told_so(muster: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage(muster)

    async def slow(*_: object) -> None:
        raise DatabaseTooSlow(reason="statement timeout")

    monkeypatch.setattr("admission.web.sql_reader.use_over_time", slow)
    with pytest.raises(PeriodTooLarge):
        await told(muster)


async def test_the_mark_differs_when_the_ledger_or_a_queue_does(muster: Database) -> None:
    harness = await stage(muster)
    reader = SqlReader(muster)
    before = await reader.change_mark()
    assert await reader.change_mark() == before
    await admit(harness, gang("a1", "train", "n1", takes=GPUS, flavor="h100"), "ada", NOW)
    after = await reader.change_mark()
    assert after != before
    await harness.queues(queue("new"))
    assert await reader.change_mark() != after

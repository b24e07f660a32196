"""Recorded versions of queues on a real Postgres: who changed what and why, and quota at an earlier time."""

from typing import Any

import pytest
from sqlalchemy import text

from admission.web.reader import EVERYTHING, Sight, UnknownName
from admission.web.sql_reader import SqlReader
from queues.quota.queue import ROOT, Queue
from queues.read_api import bodies
from queues.sql.database import Database
from queues.sql.observed.queues import record_queues
from queues.sql.observed.rows import QueueVersion
from queues.workload import QueueName
from tests.sql.ledger_harness import GPU, LedgerHarness

LONG_AGO = 1_700_000_000


def version(
    name: str, generation: int, spec: dict[str, Any], *, by: str = "", reason: str = "", closed: bool = False
) -> QueueVersion:
    parent = None if name == ROOT else QueueName(spec.get("parent") or ROOT)
    return QueueVersion(
        queue=Queue(name=QueueName(name), parent=parent, generation=generation, closed=closed),
        uid=f"uid-{name}",
        changed_by=by,
        document={"spec": spec, **({"reason": reason} if reason else {})},
    )


async def record(harness: LedgerHarness, at: int, *changed: QueueVersion, removed: str = "") -> None:
    """Record changes as if it were that many seconds after LONG_AGO."""
    async with harness.muster.transaction() as tx:
        last = await tx.scalar(text("SELECT coalesce(max(version), 0) FROM queue_versions"))
        await record_queues(tx, harness.term, changed, [QueueName(removed)] if removed else [])
        await tx.execute(
            text("UPDATE queue_versions SET recorded_at = to_timestamp(:at) WHERE version > :last"),
            {"at": LONG_AGO + at, "last": last},
        )


@pytest.fixture
async def reader(muster: Database) -> SqlReader:
    """A queue that was made, changed twice, closed, deleted and made again."""
    harness = await LedgerHarness.begin(muster, [version(ROOT, 1, {})])
    first, more = {"deserved": {GPU: 8}}, {"deserved": {GPU: "16"}, "weight": 2}
    await record(harness, 10, version("a", 1, first, by="ann"), version("b", 1, {"parent": "a"}))
    await record(harness, 20, version("a", 2, more, by="bob", reason="more work"))
    await record(harness, 30, version("a", 2, more, by="bob", reason="more work", closed=True))
    await record(harness, 40, version("b", 2, {"parent": "a", "deserved": {GPU: 4}}, by="cyd"))
    await record(harness, 50, version("a", 3, first, by="ann"))
    await record(harness, 60, removed="b")
    await record(harness, 65, removed="a")
    await record(harness, 70, version("a", 1, {"deserved": {GPU: 1}}, by="eve"))
    return SqlReader(muster, clock=lambda: LONG_AGO + 100)


async def test_history_tells_who_changed_what_and_why_newest_first(reader: SqlReader) -> None:
    told = await reader.queue_versions("a", limit=100)

    deserved = f"deserved[{GPU}]"
    assert [
        (
            each.at[-3:-1],
            each.what,
            each.by,
            each.reason,
            [(c.field, c.before, c.after) for c in each.changes],
        )
        for each in told.items
    ] == [
        ("30", "created", "eve", "", [(deserved, None, "1")]),
        ("25", "removed", "", "", [(deserved, "8", None)]),
        ("10", "changed", "ann", "", [(deserved, "16", "8"), ("weight", "2", None)]),
        # A queue that is closed has another status, and no other author of its spec.
        ("50", "other", "", "", []),
        ("40", "changed", "bob", "more work", [(deserved, "8", "16"), ("weight", None, "2")]),
        ("30", "created", "ann", "", [(deserved, None, "8")]),
    ]
    assert told.continue_ == ""


async def test_pages_hold_what_the_whole_holds(reader: SqlReader) -> None:
    whole = (await reader.queue_versions("a", limit=100)).items

    pages, before = [], None
    for _ in range(9):
        page = await reader.queue_versions("a", limit=2, before=before)
        pages.append(page.items)
        if not page.continue_:
            break
        before = int(page.continue_)

    assert [len(page) for page in pages] == [2, 2, 2]
    assert tuple(each for page in pages for each in page) == whole
    assert (await reader.queue_versions("a", limit=0)).items == ()


async def test_a_history_with_the_queues_below_is_one_list_of_what_the_user_may_see(
    reader: SqlReader,
) -> None:
    async def pages(sight: Sight, limit: int) -> list[bodies.QueueVersionBody]:
        items: list[bodies.QueueVersionBody] = []
        before = None
        while True:
            page = await reader.queue_versions(ROOT, limit=limit, before=before, below=sight)
            items += page.items
            if not page.continue_:
                return items
            before = int(page.continue_)

    whole, own = await pages(EVERYTHING, 100), (await reader.queue_versions("a", limit=100)).items
    assert tuple(each for each in whole if each.queue == "a") == own
    assert [each.version for each in whole] == sorted((each.version for each in whole), reverse=True)
    assert await pages(EVERYTHING, 1) == whole
    assert {each.queue for each in whole} == {ROOT, "a"}, "b is gone"
    assert {each.queue for each in await pages(Sight(queues=frozenset({ROOT})), 100)} == {ROOT}


async def test_a_version_that_is_too_large_is_told_as_such_and_not_read(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [version(ROOT, 1, {})])
    huge = {"deserved": {GPU: 8}, "affinity": {str(number): "x" * 1000 for number in range(100)}}
    await record(harness, 10, version("a", 1, {"deserved": {GPU: 4}}))
    await record(harness, 20, version("a", 2, huge, by="mallory"))
    await record(harness, 30, version("a", 3, {"deserved": {GPU: 8}}))
    reader = SqlReader(muster, clock=lambda: LONG_AGO + 100)

    told = await reader.queue_versions("a", limit=100)

    changes = [[(c.field, c.before, c.after) for c in each.changes] for each in told.items]
    assert changes[:2] == [
        [("spec", "larger than 64 KiB", "smaller")],
        [("spec", "smaller", "larger than 64 KiB")],
    ]
    assert told.items[1].by == "mallory"


async def test_a_queue_that_never_was_is_unknown(reader: SqlReader) -> None:
    with pytest.raises(UnknownName, match="There is no queue nowhere"):
        await reader.queue_versions("nowhere", limit=1)


async def test_limits_of_users_gangs_and_run_times_are_told(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [version(ROOT, 1, {})])
    early = {"maxRunTime": "72h", "maxPerUser": {GPU: "16"}, "maxGang": 64}
    late = {"maxRunTime": "90m", "maxPending": 100, "maxPendingPerUser": 5, "maxGang": "many"}
    await record(harness, 10, version("a", 1, {"access": early}))
    await record(harness, 20, version("a", 2, {"access": late}))
    await record(harness, 30, version("a", 3, {"access": early}))
    reader = SqlReader(muster, clock=lambda: LONG_AGO + 100)
    stated = bodies.AccessLimitsBody(max_run_time_seconds=259_200, max_per_user={GPU: "16"}, max_gang=64)

    root, a = (await reader.queues()).items
    assert (root.access_limits, a.access_limits) == (None, stated)
    newest, *_ = (await reader.queue_versions("a", limit=1)).items
    assert {each.field for each in newest.changes} >= {"access.maxRunTime", f"access.maxPerUser[{GPU}]"}

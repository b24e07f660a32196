"""What a new leader loads, and what people are told."""

import re
from pathlib import Path

from sqlalchemy import text

from queues.admissions import AdmissionState, Setbacks
from queues.plan import Adopt, Reason
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.sql import ledger
from queues.sql.database import Database, Transaction
from queues.sql.observed import workloads
from queues.sql.observed.rows import Description, NodeLimit
from queues.sql.read import views
from queues.sql.read.pending import pending
from queues.sql.read.rows import Eviction
from queues.sql.world import load_world, read_admissions
from queues.text_format import rfc3339
from queues.workload import FlavorName, QueueName
from tests.sql.ledger_harness import GPU, GPUS, NOW, LedgerHarness, eviction, gang, gpus, key, queue, reason

PAGE = Path(__file__).parents[3] / "docs/reference/views.md"
DAY = 86_400
LAST_MONTH = text("SELECT extract(epoch FROM date_trunc('month', now()) - interval '1 month')::bigint")


async def test_the_world_is_loaded_as_it_was_written(muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster, [queue("a", guarantee=1)], {"n1": 9}, ["j1", "j2", "j3", "j4"]
    )
    wanted = gang("j1", "a", "n1 n1 n1", takes=2)
    (kept,) = (await harness.admit(wanted)).accepted.values()
    (closed,) = (await harness.admit(gang("j4", "a", "n1"))).accepted.values()
    await harness.free(kept, 1)
    await harness.free(closed, 0)
    running = gang("j2", "a", "n1 n1")
    (adopted,) = await harness.adopt(Adopt(admit=running, pods={"p0": 0, "p1": 1}))
    async with harness.entered() as (tx, entry):
        await ledger.start(tx, entry, [kept])
        await ledger.evict(tx, entry, [eviction(adopted, not_before=NOW + 60, beneficiary=key("j3"))])
        await ledger.record_reasons(
            tx, entry, {key("j3"): reason("NoFit", "no room", {"free": gpus(2)}), key("j4"): reason("Behind")}
        )
        await ledger.record_reasons(tx, entry, {}, [key("j4")])
        await ledger.record_job_states(tx, entry, {key("j1"): {"phase": "Running", "version": 3}})

    async with muster.snapshot() as tx:
        world = await load_world(tx)
        _, evictions = await read_admissions(tx)

    assert world.ledger_seq == harness.seq
    first, second = world.admissions
    assert (first.id, first.workload, first.seats, first.ended) == (kept, key("j1"), wanted.seats, {1})
    assert (first.started, first.state, first.opened_at, first.adopted) == (
        True,
        AdmissionState.OPEN,
        NOW,
        None,
    )
    assert (second.id, second.seats, second.state) == (adopted, running.seats, AdmissionState.EVICTING)
    assert (second.adopted, second.started) == ({"p0": 0, "p1": 1}, True)
    assert evictions == {adopted: Eviction(code="Preempted", message="for another workload", at=NOW)}
    assert world.setbacks == {
        key("j2"): Setbacks(not_before=NOW + 60, rollbacks=1, evictions=1, waiting_since=NOW)
    }
    assert world.reasons == {key("j3"): Reason(code="NoFit", message="no room", facts={"free": {GPU: 2}})}
    assert world.job_states == {key("j1"): {"phase": "Running", "version": 3}}
    assert sorted(world.arrivals, key=world.arrivals.__getitem__) == [key(f"j{n}") for n in (1, 2, 3, 4)]
    assert world.queues == {ROOT, "a"}
    assert world.nodes == {"n1"}
    assert await harness.balances() == {"a": (6, 6, 6), ROOT: (0, 6, 6)}


async def test_a_reason_is_as_old_as_its_code(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, workloads=["j1"])

    async def told(moment: int, code: str, message: str) -> str | None:
        async with harness.entered(moment) as (tx, entry):
            await ledger.record_reasons(tx, entry, {key("j1"): reason(code, message)})
            (line,) = (await pending(tx, {}, limit=9)).items
        assert line.reason is not None
        assert line.reason.message == message
        return line.reason.since

    assert await told(NOW, "NoFit", "1 free") == rfc3339(NOW)
    assert await told(NOW + 5, "NoFit", "2 free") == rfc3339(NOW)
    assert await told(NOW + 9, "QueueLimit", "full") == rfc3339(NOW + 9)


async def test_queues_are_shown_with_limits_and_use(muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster,
        [queue("team", capability=6), queue("a", "team", guarantee=2), queue("b", "nowhere")],
        {"n1": 9},
        ["j1", "j2"],
    )
    await harness.admit(gang("j1", "a", "n1"))
    async with muster.snapshot() as tx:
        lines = {line.name: line for line in await views.queue_overview(tx)}
    assert set(lines) == {"root", "team", "a", "b"}
    assert (lines["a"].pending, lines["a"].admitted) == (1, 1)
    assert lines["b"].broken
    (account,) = lines["team"].accounts
    assert (account.capability, account.used, account.counted) == (6, 1, 2)
    (account,) = lines["root"].accounts
    assert (account.capability, account.used, account.counted) == (9, 1, 2)
    async with muster.snapshot() as tx:
        rows = await tx.execute(text("SELECT queue, capability, used, counted FROM muster_queues"))
        told = {tuple(row) for row in rows}
    assert told >= {("team", 6, 1, 2), ("root", 9, 1, 2), ("a", None, 1, 1)}


async def waiting(tx: Transaction, *queues: QueueName) -> list[str]:
    page = await pending(tx, {}, queues=queues or None, limit=9)
    return [item.name for item in page.items]


async def test_a_queue_that_was_removed_is_shown_as_long_as_something_of_it_is_held(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("x"), queue("a", "x")], {"n1": 4}, ["j1"])
    (held,) = (await harness.admit(gang("j1", "a", "n1"))).accepted.values()
    await harness.queues(removed=["a"])

    async def shown() -> tuple[dict[str, bool], set[str]]:
        async with muster.transaction() as tx:
            lines = await views.queue_overview(tx)
            rows = await tx.execute(text("SELECT DISTINCT queue FROM muster_queues"))
            return {line.name: line.present for line in lines}, {row.queue for row in rows}

    assert await shown() == ({"a": False, "root": True, "x": True}, {"a", "root", "x"})
    async with muster.transaction() as tx:
        assert (await load_world(tx)).parents["a"] == "x"
    await harness.free(held, 0)
    assert await shown() == ({"root": True, "x": True}, {"root", "x"})


async def test_who_waits_is_listed_by_arrival_until_admitted_or_finished(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a"), queue("b")], {"n1": 9}, ["j1", "j2", "j3"])
    await harness.arrive("other", queue="b")
    await harness.admit(gang("j2", "a", "n1"))
    async with muster.transaction() as tx:
        assert await waiting(tx, QueueName("a")) == ["j1", "j3"]
        assert await waiting(tx) == ["j1", "j3", "other"]
        assert set(await tx.scalars(text("SELECT name FROM muster_pending"))) == {"j1", "j3", "other"}
        done = Description(key=key("j1"), namespace="ns", name="j1", queue=QueueName("a"), finished=True)
        await workloads.describe(tx, harness.term, [done])
        assert await waiting(tx, QueueName("a")) == ["j3"]


async def test_the_views_are_documented_column_by_column(muster: Database) -> None:
    sections = re.findall(r"^## (muster_\w+)\n(.*?)(?=^## )", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    told = {
        view: re.findall(r"`(\w+)`", " ".join(re.findall(r"^- ([^:]+):", text, re.M)))
        for view, text in sections
    }
    async with muster.snapshot() as tx:
        there: dict[str, list[str]] = {}
        for view, column in await tx.execute(
            text(
                "SELECT table_name, column_name FROM information_schema.columns"
                " WHERE table_name IN (SELECT viewname FROM pg_views WHERE viewname LIKE 'muster%')"
            )
        ):
            there.setdefault(view, []).append(column)
    assert {view: sorted(columns) for view, columns in told.items()} == {
        view: sorted(columns) for view, columns in there.items()
    }


async def test_who_asked_is_in_the_views_and_adds_up_as_documented(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 90_000}, ["j1", "j2"])
    first, second = gang("j1", "a", "n1 n1", takes=4000), gang("j2", "a", "n1", takes=1000)
    async with muster.transaction() as tx:
        await tx.execute(text("SET LOCAL TIME ZONE 'UTC'"))
        month = int(await tx.scalar(text("SELECT extract(epoch FROM date_trunc('month', now()))")) or 0)
    before, within = month - 40 * DAY, month - 5 * DAY
    async with harness.entered(before) as (tx, entry):
        verdict = await ledger.admit(tx, entry, [first], {first.workload: "ann"})
    await harness.admit(second, at=within)
    await harness.free(verdict.accepted[0], 0, at=within)
    async with muster.transaction() as tx:
        await tx.execute(text("SET LOCAL TIME ZONE 'UTC'"))
        days = (month - (await tx.scalar(LAST_MONTH) or 0)) // DAY
        answers = [list(await tx.execute(text(question))) for question in questions()]
    assert [tuple(row) for row in answers[0]] == [("a", "ann", 24 * (8 * days - 4 * 5)), ("a", "", 24 * 5)]
    assert {tuple(row) for row in answers[1]} == {("a", "ann", 1, 1), ("a", "", 1, 1)}


def questions() -> list[str]:
    """The documented ones."""
    _, _, useful = PAGE.read_text(encoding="utf-8").partition("## Useful questions")
    return re.findall(r"^```sql\n(.*?);\n```", useful, re.M | re.S)


async def test_postings_balance_by_double_entry(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a"), queue("b")], {}, ["j1", "j2"])
    await harness.nodes(n1=NodeLimit(limits=gpus(9), flavor=FlavorName("h100")))
    verdict = await harness.admit(gang("j1", "a", "n1 n1", flavor="h100"), gang("j2", "b", "n1"))
    await harness.free(verdict.accepted[0], 0)
    async with muster.transaction() as tx:
        rows = await tx.execute(
            text(
                "SELECT account, sum(amount)::bigint FROM ("
                "  SELECT debit AS account, amount FROM muster_postings"
                "  UNION ALL SELECT credit, -amount FROM muster_postings) entries GROUP BY account"
            )
        )
        assert {tuple(row) for row in rows} == {("queue/a", 1), ("queue/b", 1), ("pool", -2)}
        rows = await tx.execute(text("SELECT seats, seats_held, nodes FROM muster_admissions ORDER BY id"))
        assert [tuple(row) for row in rows] == [(2, 1, ["n1"]), (1, 1, ["n1"])]
    assert await harness.balances(Account(GPUS.flavor, GPU)) == {
        "a": (1, 1, 1),
        "b": (1, 1, 1),
        "root": (0, 2, 2),
    }

"""Use between two times as the read API tells it: to whom, by what, page by page, and as far as it is known."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from admission.web.http import BadQuery
from admission.web.reader import EVERYTHING, PeriodTooLarge, Sight, UnknownName
from admission.web.sql_reader import SqlReader
from admission.web.usage_report import usage_request
from queues.errors import DatabaseTooSlow
from queues.plan import Admit
from queues.read_api.usage import UsageBody, UsageList
from queues.reason_codes import ReasonCode
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.history.partitions import ensure_partitions
from queues.sql.observed.rows import NodeLimit
from queues.text_format import rfc3339
from queues.workload import AdmissionId, FlavorName
from tests.builders.explained_statements import LOOKED, explained
from tests.sql.ledger_harness import GPU, NOW, LedgerHarness, eviction, gang, gpus, key, queue
from tests.tables import with_rows

HOUR = 3_600
GPUS = 1000
#: eve may see team-a and what is below it, and the workloads of no namespace.
EVE = Sight(workloads={}, queues=frozenset({"team-a", "train"}))
#: tim may see the queue train, and the workloads of its namespace.
TIM = Sight(workloads={"job": frozenset({"ns"})}, queues=frozenset({"train"}))
#: nora may see nothing.
NORA = Sight(workloads={}, queues=frozenset())


async def stage(muster: Database) -> LedgerHarness:
    queues = [queue("team-a"), queue("train", "team-a"), queue("dev", "team-a"), queue("team-b")]
    harness = await LedgerHarness.begin(muster, queues)
    flavors = {"n1": "h100", "n2": "l4", "n3": ""}
    await harness.nodes(
        **{
            name: NodeLimit(limits=gpus(90 * GPUS), flavor=FlavorName(flavor))
            for name, flavor in flavors.items()
        }
    )
    return harness


async def admit(harness: LedgerHarness, wanted: Admit, user: str, at: int) -> AdmissionId:
    await harness.arrive(wanted.name, queue=wanted.queue)
    async with harness.entered(at) as (tx, entry):
        verdict = await ledger.admit(tx, entry, [wanted], {key(wanted.name): user})
    assert not verdict.rejected
    (id_,) = verdict.accepted.values()
    return id_


async def three_teams(muster: Database) -> LedgerHarness:
    """ada and tim in train, nora in dev, bert in team-b; all but bert's ended."""
    harness = await stage(muster)
    of_ada = await admit(harness, gang("a1", "train", "n1 n1", takes=4 * GPUS, flavor="h100"), "ada", NOW)
    of_tim = await admit(harness, gang("t1", "train", "n2", takes=GPUS, flavor="l4"), "tim", NOW + HOUR)
    of_nora = await admit(harness, gang("n1", "dev", "n2", takes=2 * GPUS, flavor="l4"), "nora", NOW)
    await admit(harness, gang("b1", "team-b", "n3", takes=GPUS), "bert", NOW)
    await harness.free(of_ada, 0, at=NOW + HOUR)
    await harness.free(of_ada, 1, at=NOW + 2 * HOUR)
    await harness.free(of_tim, 0, at=NOW + 2 * HOUR)
    await harness.free(of_nora, 0, at=NOW + HOUR // 2)
    return harness


async def told(
    muster: Database,
    *,
    user: str = "root",
    sight: Sight = EVERYTHING,
    now: int = NOW + 4 * HOUR,
    **given: str,
) -> UsageList:
    reader = SqlReader(muster, clock=lambda: float(now))
    asked = usage_request({"from": rfc3339(NOW), **{name.rstrip("_"): said for name, said in given.items()}})
    return await reader.usage(asked, user=user, sight=sight)


def lines(body: UsageList) -> dict[tuple[str | None, ...], float]:
    """Hours by the columns that were asked for; the name of a workload; "others" in place of users not named."""
    found = {}
    for line in body.items:
        columns = {
            "tenant": line.tenant,
            "queue": line.queue,
            "user": "others" if line.others else line.user,
            "workload": line.workload.name if line.workload else None,
            "flavor": line.flavor,
        }
        found[tuple(columns[name] for name in body.by)] = line.hours
    return found


async def test_use_is_told_by_queue_user_flavor_tenant_and_workload(muster: Database) -> None:
    await three_teams(muster)

    assert lines(await told(muster)) == {("train",): 13.0, ("dev",): 1.0, ("team-b",): 4.0}
    assert lines(await told(muster, by="tenant")) == {("team-a",): 14.0, ("team-b",): 4.0}
    assert lines(await told(muster, by="user,tenant")) == {
        ("team-a", "ada"): 12.0,
        ("team-a", "tim"): 1.0,
        ("team-a", "nora"): 1.0,
        ("team-b", "bert"): 4.0,
    }
    assert lines(await told(muster, by="flavor")) == {("h100",): 12.0, ("l4",): 2.0, ("",): 4.0}
    assert lines(await told(muster, by="workload", queue="team-a")) == {
        ("a1",): 12.0,
        ("t1",): 1.0,
        ("n1",): 1.0,
    }
    (total,) = (await told(muster, by="flavor", queue="team-a")).totals
    assert (total.resource, total.amount_seconds, total.hours) == (GPU, "50400", 14.0)


async def test_a_period_is_clipped_at_both_ends_and_at_now(muster: Database) -> None:
    await three_teams(muster)

    async def hours(begins: int, ends: int, now: int) -> dict[tuple[str | None, ...], float]:
        given = {"from": rfc3339(NOW + begins), "to": rfc3339(NOW + ends)}
        reader = SqlReader(muster, clock=lambda: float(NOW + now))
        return lines(await reader.usage(usage_request(given), user="root", sight=EVERYTHING))

    assert await hours(HOUR // 2, HOUR, 9 * HOUR) == {("train",): 4.0, ("team-b",): 0.5}
    assert await hours(3 * HOUR, 90 * HOUR, 5 * HOUR) == {("team-b",): 2.0}
    assert await hours(-9 * HOUR, -HOUR, 5 * HOUR) == {}
    body = await told(muster, to=rfc3339(NOW + 90 * HOUR))
    assert (body.from_, body.to) == (rfc3339(NOW), rfc3339(NOW + 4 * HOUR))
    with pytest.raises(BadQuery, match="and now it is"):
        await told(muster, now=NOW - 1)


async def test_who_sees_what(muster: Database) -> None:
    await three_teams(muster)

    async def seen(user: str, sight: Sight, by: str = "queue,user") -> dict[tuple[str | None, ...], float]:
        body = await told(muster, user=user, sight=sight, by=by)
        assert body.totals == () or body.totals[0].hours == sum(line.hours for line in body.items)
        return lines(body)

    # What is below a queue counts in it, also where it may not be named.
    assert await seen("eve", EVE) == {("team-a", "others"): 1.0, ("train", "others"): 13.0}
    assert await seen("eve", EVE, "queue,workload") == {("team-a", None): 1.0, ("train", None): 13.0}
    assert await seen("tim", TIM) == {("train", "ada"): 12.0, ("train", "tim"): 1.0}
    assert await seen("tim", TIM, "tenant,workload") == {("", "a1"): 12.0, ("", "t1"): 1.0}
    assert await seen("tim", Sight(workloads={}, queues=frozenset({"train"}))) == {
        ("train", "others"): 12.0,
        ("train", "tim"): 1.0,
    }
    # One's own, wherever it was.
    assert await seen("nora", NORA) == {("dev", "nora"): 1.0}
    assert await seen("nora", NORA, "tenant,workload") == {("", "n1"): 1.0}
    assert await seen("nobody", NORA) == {}
    assert await seen("", NORA) == {}
    assert len(await seen("root", EVERYTHING)) == 4


async def test_kinds_that_may_not_be_listed_are_not_named(muster: Database) -> None:
    await three_teams(muster)
    pods_only = Sight(workloads={"pod": None, "job": frozenset({"other"})}, queues=None)
    jobs = Sight(workloads={"job": None}, queues=None)

    assert {user for _, user in lines(await told(muster, sight=pods_only, by="queue,user"))} == {"others"}
    assert len(lines(await told(muster, sight=jobs, by="queue,user"))) == 4


async def test_evicted_use_is_told_by_cause(muster: Database) -> None:
    harness = await stage(muster)
    for name, code in (
        ("j1", ReasonCode.PREEMPTED),
        ("j2", ReasonCode.GPU_UNHEALTHY),
        ("j3", ReasonCode.REFUSED),
        ("j4", None),
        ("j5", ReasonCode.NODES_RESERVED),
        ("j6", ReasonCode.MAINTENANCE),
    ):
        id_ = await admit(harness, gang(name, "train", "n3", takes=GPUS), "ada", NOW)
        if code is not None:
            await harness.evict(eviction(id_, code=code))
        if name != "j1":
            await harness.free(id_, 0, at=NOW + HOUR)

    (line,) = (await told(muster, to=rfc3339(NOW + 2 * HOUR))).items
    assert (line.amount_seconds, line.preempted_seconds, line.faulted_seconds) == ("25200", "7200", "3600")
    assert line.maintenance_seconds == "7200"


async def test_pages_have_each_line_once_and_the_end_of_the_first_page(muster: Database) -> None:
    await three_teams(muster)
    whole = await told(muster, by="queue,user,workload,flavor")
    found, page, now = list[UsageBody](), "", NOW + 4 * HOUR
    for _ in range(4):
        body = await told(muster, by="queue,user,workload,flavor", limit="1", continue_=page, now=now)
        found += body.items
        page, now = body.continue_, now + HOUR
        assert (body.to, body.totals) == (whole.to, whole.totals)
    assert tuple(found) == whole.items
    assert (await told(muster, limit="1", by="queue,user,workload,flavor", continue_=page)).continue_ == ""
    only_totals = await told(muster, limit="0")
    assert (only_totals.items, only_totals.totals, only_totals.continue_) == ((), whole.totals, "")


@pytest.mark.parametrize(
    "page", ["x", "bm8=", "WzEsWyJhIl1d", "WzEsWyJhIiwxXV0=", "WzEsWyJhIiwiXHUwMDAwIl1d", "é"]
)
async def test_a_made_up_page_is_refused(page: str) -> None:
    with pytest.raises(BadQuery, match="continue is"):
        usage_request({"from": "2026-11-01", "continue": page})


@with_rows("given", "told")
def test_a_wrong_question_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(BadQuery, match=told):
        usage_request(given)


async def test_an_unknown_queue_is_named_with_visible_ones_that_look_alike(muster: Database) -> None:
    await three_teams(muster)
    with pytest.raises(UnknownName) as caught:
        await told(muster, queue="trian")
    assert caught.value.near == ("train",)
    with pytest.raises(UnknownName) as caught:
        await told(muster, queue="trian", sight=NORA)
    assert caught.value.near == ()


async def test_a_queue_that_was_removed_keeps_its_use_and_its_tenant(muster: Database) -> None:
    harness = await three_teams(muster)
    await harness.queues(removed=["train", "dev"])
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM queues WHERE name = 'train'")) == 0
        await tx.execute(
            text(
                'UPDATE queue_versions SET document = \'{"spec": {"parent": "team-a"}}\' WHERE queue = \'train\''
            )
        )
    assert lines(await told(muster, by="tenant,queue", queue="team-a")) == {("team-a", "train"): 13.0}


async def test_what_was_dropped_is_not_counted_and_the_answer_says_so(muster: Database) -> None:
    await three_teams(muster)
    async with muster.transaction() as tx:
        for history, at in (("postings", NOW + HOUR), ("closed_admissions", NOW + 2 * HOUR)):
            await tx.execute(
                text("INSERT INTO history_starts VALUES (:history, :at)"),
                {"history": history, "at": datetime.fromtimestamp(at, UTC)},
            )
    body = await told(muster)
    assert (body.history_begins, body.workloads_begin) == (rfc3339(NOW + HOUR), rfc3339(NOW + 2 * HOUR))
    assert lines(body) == {("train",): 5.0, ("team-b",): 3.0}
    reader = SqlReader(muster, clock=lambda: NOW + 4.0 * HOUR)
    later = await reader.usage(usage_request({"from": rfc3339(NOW + 3 * HOUR)}), user="root")
    assert (later.history_begins, later.workloads_begin) == (None, None)
    before = usage_request({"from": rfc3339(NOW - 9 * HOUR), "to": rfc3339(NOW)})
    assert (await reader.usage(before, user="root")).items == ()


async def test_namespaces_of_the_past_are_found(muster: Database) -> None:
    await three_teams(muster)
    reader = SqlReader(muster)
    assert await reader.used_kinds_in_namespaces(NOW, 500) == (("job", "ns"),)
    assert await reader.used_kinds_in_namespaces(NOW, 0) == ()


async def test_a_period_that_takes_too_long_is_told_as_such(
    muster: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(*_: object) -> None:
        raise DatabaseTooSlow(reason="canceling statement due to statement timeout", sqlstate="57014")

    monkeypatch.setattr("admission.web.sql_reader.usage", late)
    with pytest.raises(PeriodTooLarge):
        await told(muster)


async def test_what_was_posted_before_the_period_is_not_read(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    muster = await explained(database, monkeypatch)
    harness = await stage(muster)
    first = datetime.fromtimestamp(NOW, UTC).date()
    for table in ("postings", "closed_admissions"):
        async with muster.transaction() as tx:
            await ensure_partitions(tx, harness.term, table, first, weeks=4)
    for number in range(40):
        id_ = await admit(harness, gang(f"old{number}", "train", "n3", takes=GPUS), "ada", NOW + number)
        await harness.free(id_, 0, at=NOW + 50 + number)
    later = NOW + 14 * 24 * HOUR
    await admit(harness, gang("new", "train", "n3", takes=GPUS), "ada", later)
    LOOKED.clear()
    reader = SqlReader(muster, clock=lambda: later + 2.0 * HOUR)

    async def looked(since: int) -> int:
        LOOKED.clear()
        body = await reader.usage(usage_request({"from": rfc3339(since)}), user="root")
        assert body.items[0].hours >= 2.0
        return max(rows for statement, rows in LOOKED.items() if "jsonb_each_text" in statement)

    # Each step of the plan counts its rows.
    assert await looked(later - HOUR) < 60
    assert await looked(NOW - HOUR) > 300
    await muster.close()

"""The read API on a real Postgres: what people are told agrees with the ledger."""

from dataclasses import replace

import pytest
from sqlalchemy import insert

from admission.web.reader import Sight, UnknownName
from admission.web.sql_reader import SqlReader
from queues.api.validation.tenant_rules import Requester
from queues.quota.queue import ROOT
from queues.read_api.bodies import OwnerBody
from queues.resources import amount
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.leadership import beat
from queues.sql.observed import workloads
from queues.sql.observed.rows import Description
from queues.sql.tables import backoffs
from queues.text_format import rfc3339
from queues.workload import QueueName
from tests.sql.ledger_harness import GPU, NOW, LedgerHarness, documented, gang, gpus, key, queue, reason


async def describe(harness: LedgerHarness, **priorities: int) -> None:
    async with harness.muster.transaction() as tx:
        await workloads.describe(
            tx,
            harness.term,
            [
                Description(
                    key=key(name),
                    namespace="ns",
                    name=name,
                    queue=QueueName("a"),
                    priority=priority,
                    created=NOW,
                    pods=2,
                    minimum=2,
                    asks=gpus(2000),
                    owner="deployment/web" if name == "small" else "",
                    ignored_values="one\ntwo" if name == "small" else "",
                )
                for name, priority in priorities.items()
            ],
        )


async def test_who_is_named_in_a_queue_administers_those_below_it(muster: Database) -> None:
    admins = {"spec": {"parent": ROOT, "access": {"admins": [{"user": "lea"}, {"group": "leads"}]}}}
    below = documented(queue("team", "tenant"), {"spec": {"parent": "tenant"}})
    queues = [queue(ROOT, None), documented(queue("tenant"), admins), below]
    await LedgerHarness.begin(muster, queues, {"n1": 9}, [])
    reader = SqlReader(muster, clock=lambda: NOW)
    lea, lead, ann = Requester("lea"), Requester("bo", frozenset({"leads"})), Requester("ann")
    assert [await reader.administers("team", by) for by in (lea, lead, ann)] == [True, True, False]
    assert [await reader.administers(name, lea) for name in ("tenant", "nowhere")] == [False, False]


async def staged(muster: Database) -> LedgerHarness:
    harness = await LedgerHarness.begin(
        muster,
        [queue(ROOT, None), queue("a", capability=8000), queue("b", guarantee=2000)],
        {"n1": 16000},
        ["runs", "small", "big"],
    )
    await describe(harness, runs=0, small=0, big=100)
    await harness.admit(gang("runs", "a", "n1 n1", takes=3000))
    async with harness.entered() as (tx, entry):
        facts = {"queue": "a", "resource": GPU, "limit": 8000, "used": 6000, "asked": 4000, "over": 2000}
        why = reason("QueueLimit", "queue a may use 8 nvidia.com/gpu", facts)
        admitted = ledger.Decision(
            kind="admit",
            workload=key("runs"),
            namespace="ns",
            name="runs",
            queue=QueueName("a"),
            code="gang",
            numbers={"seats": 2},
        )
        await ledger.record_decisions(tx, entry, [admitted])
        await ledger.record_reasons(tx, entry, {key("small"): why, key("big"): why})
    return harness


def reader(muster: Database) -> SqlReader:
    return SqlReader(muster, clock=lambda: NOW)


async def test_queues_show_use_limits_and_who_waits(muster: Database) -> None:
    await staged(muster)

    told = await reader(muster).queues()

    root, a, b = told.items
    assert [(queue.name, queue.parent, queue.pending, queue.admitted) for queue in (root, a, b)] == [
        ("root", None, 2, 1),
        ("a", "root", 2, 1),
        ("b", "root", 0, 0),
    ]
    assert [(line.resource, line.used, line.capability) for line in a.accounts] == [(GPU, "6", "8")]
    (gpus_of_root,) = root.accounts
    assert (gpus_of_root.used, gpus_of_root.counted, gpus_of_root.capability) == ("6", "8", "16")


DAY = 86_400


async def test_past_use_is_told_where_it_counts_and_fades(muster: Database) -> None:
    fading = {"spec": {"policy": {"usageHalfLife": "24h"}}}
    harness = await LedgerHarness.begin(
        muster,
        [
            queue(ROOT, None),
            documented(queue("team", deserved=8000), fading),
            documented(queue("leaf", "team"), {"spec": {"parent": "team"}}),
            queue("other", deserved=8000),
        ],
        {"n1": 16000},
        ["ran", "runs", "later"],
    )
    away = SqlReader(muster, clock=lambda: NOW + DAY)
    verdict = await harness.admit(
        gang("ran", "leaf", "n1", takes=4000), gang("runs", "other", "n1", takes=4000)
    )
    before = {line.name: line for line in (await away.queues()).items}
    await harness.free(verdict.accepted[0], 0, at=NOW + DAY)

    told = {line.name: line for line in (await away.queues()).items}

    assert {name: line.usage_half_life_seconds for name, line in told.items()} == {
        "root": None,
        "team": DAY,
        "leaf": DAY,
        "other": None,
    }
    (team,), (leaf,), (other,) = (told[name].accounts for name in ("team", "leaf", "other"))
    # What is held for one half-life since nothing was makes half of it, give or take the slot that now lies in.
    assert [line.used for line in (team, leaf)] == ["0", "0"]
    assert 1900 <= amount(GPU, team.past_use or "") <= 2100
    assert leaf.past_use == team.past_use
    assert team.share_with_past == round(amount(GPU, team.past_use or "") / 16_000, 4)
    assert (told["team"].share, told["team"].share_with_past) == (0.0, team.share_with_past)
    assert (other.used, other.past_use, other.share_with_past) == ("4", None, None)
    (still,) = before["team"].accounts
    assert still.share_with_past == pytest.approx(0.375, abs=0.01)

    await harness.admit(gang("later", "leaf", "n1", takes=8000), at=NOW + 2 * DAY)
    months_later = SqlReader(muster, clock=lambda: NOW + 40 * DAY)
    (team,) = {line.name: line for line in (await months_later.queues()).items}["team"].accounts
    assert (team.used, team.past_use, team.share_with_past) == ("8", "8", 1.0)


async def test_postings_that_are_not_summed_up_leave_the_past_untold(
    muster: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fading = {"spec": {"policy": {"usageHalfLife": "24h"}}}
    harness = await LedgerHarness.begin(
        muster, [queue(ROOT, None), documented(queue("a"), fading)], {"n1": 16000}, ["runs"]
    )
    await harness.admit(gang("runs", "a", "n1", takes=4000))
    monkeypatch.setattr("admission.web.sql_reader._MOST_POSTINGS", 0)

    (_, a) = (await reader(muster).queues()).items

    assert a.usage_half_life_seconds == DAY
    assert [(line.used, line.past_use, line.share_with_past) for line in a.accounts] == [("4", None, None)]


async def test_the_place_in_the_list_is_the_place_that_is_explained(muster: Database) -> None:
    await staged(muster)

    told = await reader(muster).pending(queue="root", namespace=None, limit=10)
    explained = {
        name: (await reader(muster).explain(namespace="ns", name=name, kind=None))[0]
        for name in ("big", "small")
    }

    assert [(one.name, one.position) for one in told.items] == [("big", 1), ("small", 2)]
    assert [one.owner for one in told.items] == [None, OwnerBody(kind="deployment", name="web")]
    assert [one.ignored_values for one in told.items] == [(), ("one", "two")]
    assert {name: story.position for name, story in explained.items()} == {"big": 1, "small": 2}
    assert [one.name for one in explained["small"].ahead] == ["big"]
    assert explained["small"].position_by == "priority, then small before large"


async def test_the_place_is_that_of_the_engine_small_before_large(muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster, [queue(ROOT, None), queue("a")], {"n1": 16000}, ["large", "small", "back"]
    )
    plain = Description(key=key("large"), namespace="ns", name="large", queue=QueueName("a"), created=NOW)
    async with muster.transaction() as tx:
        await workloads.describe(
            tx,
            harness.term,
            [
                replace(plain, devices=2**70, run_time=2**70),
                replace(plain, key=key("small"), name="small", devices=1, run_time=60),
                replace(plain, key=key("back"), name="back", devices=1),
            ],
        )
        await tx.execute(
            insert(backoffs).values(
                kind="job",
                uid=key("back").uid,
                not_before=0,
                rollbacks=0,
                evictions=1,
                waiting_since=NOW + 60,
            )
        )

    told = await reader(muster).pending(queue="a", namespace=None, limit=10)
    (story,) = await reader(muster).explain(namespace="ns", name="large", kind=None)

    assert [one.name for one in told.items] == ["small", "back", "large"]
    assert (story.position, [one.name for one in story.ahead]) == (3, ["small", "back"])


async def test_a_waiting_workload_is_told_with_its_reason_and_the_queues_above(muster: Database) -> None:
    await staged(muster)

    (story,) = await reader(muster).explain(namespace="ns", name="small", kind="job")

    assert (story.state, story.asks) == ("pending", {GPU: "2"})
    assert story.reason is not None
    assert story.reason.facts == {
        "queue": "a",
        "resource": GPU,
        "limit": "8",
        "used": "6",
        "asked": "4",
        "over": "2",
    }
    assert [queue.name for queue in story.path] == ["a", "root"]


async def test_an_admitted_workload_is_told_with_its_seats_and_history(muster: Database) -> None:
    await staged(muster)

    (story,) = await reader(muster).explain(namespace="ns", name="runs", kind=None)

    assert (story.state, story.position, story.reason) == ("admitted", None, None)
    ((seats,),) = [admission.seats for admission in story.admissions]
    assert (seats.node, seats.ordinals, seats.takes) == ("n1", "0-1", {GPU: "6"})
    (event,) = story.history
    assert (event.at, event.what, event.code, event.numbers) == (rfc3339(NOW), "admit", "gang", {"seats": 2})


async def test_a_name_that_is_not_there_brings_up_those_that_look_alike(muster: Database) -> None:
    await staged(muster)

    with pytest.raises(UnknownName) as caught:
        await reader(muster).explain(namespace="ns", name="smal", kind=None)
    assert caught.value.near == ("small",)

    with pytest.raises(UnknownName, match="There is no vcjob small"):
        await reader(muster).explain(namespace="ns", name="small", kind="vcjob")

    with pytest.raises(UnknownName) as elsewhere:
        await reader(muster).explain(namespace="other", name="small", kind=None)
    assert elsewhere.value.near == ("small in namespace ns",)

    with pytest.raises(UnknownName, match="There is no queue c"):
        await reader(muster).pending(queue="c", namespace=None, limit=10)


async def test_a_new_muster_has_a_root_and_nobody_waits(muster: Database) -> None:
    told = await reader(muster).queues()
    waiting = await reader(muster).pending(queue=None, namespace=None, limit=10)

    assert [queue.name for queue in told.items] == ["root"]
    assert (waiting.items, waiting.total) == ((), 0)


async def test_every_answer_tells_how_old_it_is(muster: Database) -> None:
    harness = await staged(muster)
    silent = await reader(muster).queues()
    async with muster.transaction() as tx:
        await beat(tx, harness.term, seconds=50.0, behind="the watch of pods is interrupted", address="")

    answers = (
        await reader(muster).queues(),
        await reader(muster).pending(queue=None, namespace=None, limit=1),
        *(await reader(muster).explain(namespace="ns", name="small", kind=None)),
    )

    assert (silent.as_of, silent.behind) == (None, "no replica has led yet")
    for answer in answers:
        assert answer.as_of is not None
        assert rfc3339(NOW - 60) < answer.as_of <= rfc3339(NOW - 50)
        assert answer.behind == "the watch of pods is interrupted"


async def test_what_may_not_be_seen_is_not_answered(muster: Database) -> None:
    await staged(muster)
    elsewhere = Sight(workloads={"job": {"alice"}}, queues=frozenset({"b"}))
    here = Sight(workloads={"job": {"ns"}}, queues=frozenset({"a"}))

    queues = await reader(muster).queues(elsewhere)
    pending = await reader(muster).pending(queue="a", namespace=None, limit=10, sight=elsewhere)
    with pytest.raises(UnknownName) as unknown:
        await reader(muster).explain(namespace="ns", name="small", kind=None, sight=elsewhere)
    (story,) = await reader(muster).explain(namespace="ns", name="small", kind=None, sight=here)

    assert [queue.name for queue in queues.items] == ["b"]
    assert (pending.items, pending.total, pending.total_everywhere) == ((), 0, 0)
    assert unknown.value.near == ()
    assert [queue.name for queue in story.path] == ["a"]

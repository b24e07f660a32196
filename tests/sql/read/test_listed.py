"""Lists of workloads and of users are what the ledger has, in a stable order, and of what may be seen."""

from dataclasses import replace
from typing import Any

import pytest

from admission.web.http import place_in
from admission.web.reader import Sight, UnknownName
from admission.web.sql_reader import SqlReader
from queues.admissions import PodOutcome
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.observed.rows import Description
from queues.sql.observed.workloads import arrive, depart, describe, record_outcomes
from queues.sql.read.listed import STATES, Listing, ListPage, ListPlace, listed
from queues.sql.read.names import kinds_in_namespaces, names_like
from queues.sql.read.rows import Chosen, Seen
from queues.sql.read.users import UserQuestion, hidden_work, users
from queues.text_format import rfc3339
from queues.workload import AdmissionId, QueueName, Result
from tests.builders.explained_statements import LOOKED, explained
from tests.sql.ledger_harness import GPU, NOW, LedgerHarness, eviction, gang, key, queue, reason

EVERYTHING = Listing(states=STATES)
LIVE = Listing(states=STATES[:3])


def described(name: str, *, namespace: str = "ns", user: str = "", **more: object) -> Description:
    description = Description(key=key(name), namespace=namespace, name=name, queue=QueueName("a"), user=user)
    return replace(description, **more)  # type: ignore[arg-type]


async def describe_all(harness: LedgerHarness, *descriptions: Description) -> None:
    async with harness.muster.transaction() as tx:
        await describe(tx, harness.term, descriptions)


async def leave(harness: LedgerHarness, *names: str, at: int = NOW) -> None:
    async with harness.muster.transaction() as tx:
        await depart(tx, harness.term, dict.fromkeys([key(name) for name in names], Result.UNKNOWN), at)


async def page(
    muster: Database, wanted: Listing, *, after: ListPlace | None = None, limit: int = 100
) -> ListPage:
    async with muster.snapshot() as tx:
        return await listed(tx, wanted, after=after, limit=limit)


def names(found: ListPage) -> list[str]:
    return [item.name for item in found.items]


async def staged(muster: Database) -> LedgerHarness:
    """Of one namespace: one that waits, runs, is evicted, has ended with its object, and without it."""
    listed_names = ["waits", "runs", "leaves", "done", "gone"]
    harness = await LedgerHarness.begin(
        muster, [queue("a"), queue("b")], {"n1": 99_000, "n2": 99_000}, listed_names
    )
    await describe_all(
        harness, *(described(name, user="ann" if name == "runs" else "bob") for name in listed_names)
    )
    outcome = await harness.admit(
        gang("runs", "a", "n2 n1 n1", takes=2000),
        gang("leaves", "a", "n1", takes=1000),
        gang("done", "a", "n1", takes=4000),
        gang("gone", "a", "n2 n1", takes=8000),
        at=NOW - 3600,
    )
    await harness.free(outcome.accepted[0], 1)
    await harness.evict(eviction(outcome.accepted[1]))
    await harness.free(outcome.accepted[2], 0)
    await harness.free(outcome.accepted[3], 0, 1)
    await describe_all(
        harness,
        described("done", user="bob", finished=True, result=Result.FAILED),
        described("gone", user="bob", finished=True, result=Result.SUCCEEDED),
    )
    await leave(harness, "gone")
    return harness


async def test_each_workload_is_in_one_state_with_what_it_holds_or_held_last(muster: Database) -> None:
    await staged(muster)

    found = await page(muster, EVERYTHING)

    told = {item.name: (item.state, item.result, item.user, item.gone) for item in found.items}
    assert told == {
        "waits": ("pending", Result.UNKNOWN, "bob", False),
        "runs": ("admitted", Result.UNKNOWN, "ann", False),
        "leaves": ("evicting", Result.UNKNOWN, "bob", False),
        "done": ("finished", Result.FAILED, "bob", False),
        "gone": ("finished", Result.SUCCEEDED, "bob", True),
    }
    assert {item.name: (dict(item.held), item.nodes) for item in found.items} == {
        "waits": ({}, ()),
        "runs": ({GPU: "4"}, ("n1", "n2")),
        "leaves": ({GPU: "1"}, ("n1",)),
        "done": ({GPU: "4"}, ("n1",)),
        "gone": ({GPU: "16"}, ("n1", "n2")),
    }
    assert {item.name: item.pods for item in found.items if item.state == "finished"} == {
        "done": 1,
        "gone": 2,
    }
    assert {item.admitted for item in found.items if item.name != "waits"} == {rfc3339(NOW - 3600)}


async def test_a_job_that_was_stopped_and_may_go_on_is_listed_as_suspended_until_it_ends(
    muster: Database,
) -> None:
    harness = await staged(muster)
    await harness.arrive("stopped", queue="a")
    await describe_all(harness, described("stopped", user="bob", finished=True, result=Result.UNKNOWN))

    async def listed_names(*states: str) -> list[str]:
        return names(await page(muster, replace(EVERYTHING, states=states)))

    assert "stopped" in await listed_names("pending", "admitted", "evicting", "suspended")
    assert await listed_names("suspended") == ["stopped"]
    assert await listed_names("finished") == ["done", "gone"]
    (line,) = (await page(muster, replace(EVERYTHING, states=("suspended",)))).items
    assert line.state == "suspended"
    way_out = reason("OnHold", "its owner has suspended it; `kubectl muster resume job/waits` has it wait")
    async with harness.entered() as (tx, entry):
        await ledger.record_reasons(tx, entry, {key("waits"): way_out})
    assert await listed_names("suspended") == ["stopped", "waits"]
    assert await listed_names("pending") == []
    async with harness.entered() as (tx, entry):
        await ledger.record_reasons(tx, entry, {}, [key("waits")])
    await describe_all(harness, described("stopped", user="bob", finished=True, result=Result.FAILED))
    assert await listed_names("suspended") == []
    assert await listed_names("finished") == ["done", "gone", "stopped"]


async def test_a_gang_that_has_ended_is_told_with_its_elastic_parts(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 99_000, "n2": 99_000}, ["train"])
    await describe_all(harness, described("train"))
    part = replace(gang("train", "a", "n2", first=2), elastic=True)
    more = replace(gang("train", "a", "n2", first=3), elastic=True)
    ids = list((await harness.admit(gang("train", "a", "n1 n1"), part, more, at=NOW - 60)).accepted.values())
    await harness.evict(eviction(ids[2]))
    await harness.free(ids[2], 0)
    for id_, count in ((ids[1], 1), (ids[0], 2)):
        await harness.free(id_, *range(count))
    await describe_all(harness, described("train", finished=True, result=Result.SUCCEEDED))
    (line,) = (await page(muster, EVERYTHING)).items
    assert (line.pods, line.nodes) == (4, ("n1", "n2")), "the most that it held"


async def test_lists_are_narrowed_by_state_user_queue_namespace_and_time(muster: Database) -> None:
    harness = await staged(muster)
    await harness.arrive("other", queue="b")
    await describe_all(harness, described("other", namespace="elsewhere", queue=QueueName("b")))

    async def found(wanted: Listing) -> tuple[list[str], int, int]:
        answer = await page(muster, wanted)
        return names(answer), answer.total, answer.total_everywhere

    assert await found(LIVE) == (["other", "leaves", "runs", "waits"], 4, 4)
    assert await found(replace(LIVE, namespace="ns")) == (["leaves", "runs", "waits"], 3, 4)
    assert await found(replace(LIVE, chosen=Chosen(user="ann"))) == (["runs"], 1, 1)
    assert await found(replace(LIVE, chosen=Chosen(search="ANN"))) == (["runs"], 1, 1)
    assert await found(replace(EVERYTHING, chosen=Chosen(search="gon"))) == (["gone"], 1, 1)
    assert await found(replace(LIVE, queues=["b"])) == (["other"], 1, 1)
    assert await found(replace(LIVE, states=("evicting",))) == (["leaves"], 1, 1)
    ended = replace(EVERYTHING, states=("finished",))
    assert await found(ended) == (["done", "gone"], 2, 2)
    assert await found(replace(ended, since=2**33)) == ([], 0, 0)
    assert (await page(muster, LIVE, limit=0)).total == 4


async def test_only_what_may_be_seen_is_listed_and_counted(muster: Database) -> None:
    harness = await staged(muster)
    await describe_all(harness, described("waits", namespace="secret"))
    mine: Seen = {"job": {"ns"}, "pod": None}

    found = await page(muster, replace(EVERYTHING, seen=mine))

    assert (names(found), found.total_everywhere) == (["done", "gone", "leaves", "runs"], 4)
    assert names(await page(muster, replace(EVERYTHING, seen={"job": {"secret"}}))) == ["waits"]
    assert names(await page(muster, replace(EVERYTHING, seen={}))) == []


async def test_pages_follow_one_another_whatever_comes_and_goes_between_them(
    golden: Any, muster: Database
) -> None:
    harness = await staged(muster)
    first = await page(muster, EVERYTHING, limit=2)
    await harness.arrive("aaa", "zzz")
    await leave(harness, "done")

    second = await page(muster, EVERYTHING, after=first.end, limit=2)
    third = await page(muster, EVERYTHING, after=second.end, limit=2)

    assert [names(each) for each in (first, second, third)] == golden
    assert (first.end is None, third.end) == (False, None)


async def test_a_workload_that_is_deleted_before_it_ends_is_told_as_deleted(muster: Database) -> None:
    harness = await staged(muster)
    await leave(harness, "waits")
    await describe_all(harness, described("done", finished=True, result=Result.FAILED))
    await leave(harness, "done")

    found = await page(muster, replace(EVERYTHING, states=("finished",)))

    assert {item.name: item.result for item in found.items} == {
        "waits": Result.DELETED,
        "done": Result.FAILED,
        "gone": Result.SUCCEEDED,
    }


async def test_when_a_workload_ended_stays_as_it_was_seen_first(muster: Database) -> None:
    harness = await staged(muster)
    [before] = [item.ended for item in (await page(muster, EVERYTHING)).items if item.name == "done"]
    await describe_all(harness, described("done", priority=7, finished=True, result=Result.FAILED))
    await leave(harness, "done", at=2**33)
    [after] = [item.ended for item in (await page(muster, EVERYTHING)).items if item.name == "done"]

    assert before is not None
    assert before == after < rfc3339(2**33)
    await harness.arrive("again")
    await describe_all(harness, described("again", finished=True))
    await describe_all(harness, described("again"))
    [again] = (await page(muster, replace(LIVE, states=("pending",), chosen=Chosen(user="")))).items
    assert (again.name, again.ended) == ("again", None)


async def test_a_group_without_pods_is_in_no_list(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 1}, ["idle"])
    await describe_all(harness, described("idle", finished=True, result=Result.IDLE))
    assert names(await page(muster, EVERYTHING)) == []
    await leave(harness, "idle")
    assert names(await page(muster, EVERYTHING)) == []


async def test_users_are_told_with_what_they_hold_and_wait_for(muster: Database) -> None:
    await staged(muster)
    async with muster.snapshot() as tx:
        found = await users(tx, UserQuestion(queues=None, user="ann"))
        of_b = await users(tx, UserQuestion(queues=[QueueName("b")], user="ann"))

    assert {each.user: (dict(each.used), each.pending, each.admitted) for each in found} == {
        "": ({GPU: 5000}, 0, 2),
        "bob": ({}, 1, 0),
    }
    assert of_b == ()


async def test_of_other_users_only_work_that_may_be_seen_counts_and_of_ones_own_all(muster: Database) -> None:
    harness = await staged(muster)
    await describe_all(harness, described("waits", namespace="secret", user="bob"))

    async def pending_of(user: str, seen: Seen | None) -> dict[str, int]:
        async with muster.snapshot() as tx:
            lines = await users(tx, UserQuestion(queues=None, user=user, seen=seen))
        return {line.user: line.pending for line in lines if line.pending}

    assert await pending_of("bob", {}) == {"bob": 1}
    assert await pending_of("ann", {"job": {"ns"}}) == {}
    assert await pending_of("ann", None) == {"bob": 1}
    # Nobody is the user whose name is not known.
    assert await pending_of("", {}) == {}
    async with muster.snapshot() as tx:
        assert await hidden_work(tx, [QueueName("a")], {"job": {"ns"}})
        assert not await hidden_work(tx, [QueueName("a")], {"job": {"ns", "secret"}})
        assert not await hidden_work(tx, [QueueName("b")], {})


async def test_names_are_looked_for_among_all_that_ever_was(muster: Database) -> None:
    harness = await staged(muster)
    await describe_all(harness, described("waits", namespace="elsewhere"))

    async with muster.snapshot() as tx:
        assert await kinds_in_namespaces(tx, 10) == (("job", "elsewhere"), ("job", "ns"))
        assert await kinds_in_namespaces(tx, 1) == (("job", "elsewhere"),)
        assert (await names_like(tx, "ns", "gon", seen=None, limit=5))[0] == ("gone",)
        assert await names_like(tx, "ns", "waits", seen=None, limit=5) == ((), ("elsewhere",))
        assert await names_like(tx, "nowhere", "gone", seen={"job": {"ns"}}, limit=5) == ((), ("ns",))
        assert await names_like(tx, "nowhere", "gone", seen={}, limit=5) == ((), ())


# ── as users are told ───────────────────────────────────────────────────────────────────────────────────────


def reader(muster: Database) -> SqlReader:
    return SqlReader(muster, clock=lambda: NOW)


async def test_the_story_of_a_workload_is_told_after_its_object_is_gone(muster: Database) -> None:
    await staged(muster)

    (story,) = await reader(muster).explain(namespace="ns", name="gone", kind="job")

    assert (story.state, story.result, story.user, story.gone) == ("finished", "succeeded", "bob", True)
    assert story.ended is not None
    (admission,) = story.admissions
    assert (admission.opened, admission.closed) == (rfc3339(NOW - 3600), rfc3339(NOW))
    assert (admission.seat_count, admission.nodes, admission.node_count) == (2, ("n1", "n2"), 2)
    assert story.device_hours == {GPU: 16.0}


@pytest.mark.parametrize("is_gone", [False, True], ids=["there", "gone"])
async def test_a_story_tells_how_pods_ended(muster: Database, is_gone: bool) -> None:
    harness = await staged(muster)
    ends = [("p1", "Succeeded", 0), ("p2", "Succeeded", 0), ("p3", "Failed", 137), ("p4", "Failed", None)]
    rows = [
        PodOutcome(
            workload=key("done"), pod_set="w", ordinal=1, pod_uid=uid, phase=phase, exit_code=code, version=0
        )
        for uid, phase, code in ends
    ]
    async with muster.transaction() as tx:
        await record_outcomes(tx, harness.term, rows)
    if is_gone:
        await leave(harness, "done")

    (story,) = await reader(muster).explain(namespace="ns", name="done", kind=None)

    assert story.gone is is_gone
    assert [(each.phase, each.exit_code, each.pods) for each in story.outcomes] == [
        ("Succeeded", 0, 2),
        ("Failed", 137, 1),
        ("Failed", None, 1),
    ]


async def test_a_story_counts_device_hours_of_seats_that_are_held_on(muster: Database) -> None:
    await staged(muster)

    later = SqlReader(muster, clock=lambda: NOW + 1800)
    (story,) = await later.explain(namespace="ns", name="runs", kind=None)

    # One seat of 2 GPUs for an hour, two of them for an hour and a half.
    assert (story.state, story.user, story.device_hours) == ("admitted", "ann", {GPU: 2.0 + 6.0})


async def test_of_one_name_the_live_workload_is_told_and_else_the_last_that_was(muster: Database) -> None:
    harness = await staged(muster)
    twice = Description(key=key("later"), namespace="ns", name="gone", queue=QueueName("a"), user="eve")
    async with muster.transaction() as tx:
        await arrive(tx, harness.term, [twice])

    (live,) = await reader(muster).explain(namespace="ns", name="gone", kind=None)
    await leave(harness, "later", at=NOW + 1)
    (last,) = await reader(muster).explain(namespace="ns", name="gone", kind=None)

    assert (live.uid, live.gone) == ("later", False)
    assert (last.uid, last.result, last.user) == ("later", "deleted", "eve")


async def test_a_story_may_be_read_by_those_who_may_list_its_kind_there(muster: Database) -> None:
    await staged(muster)
    elsewhere = Sight(workloads={"job": {"other"}, "pod": None})

    with pytest.raises(UnknownName) as unknown:
        await reader(muster).explain(namespace="ns", name="gone", kind=None, sight=elsewhere)
    assert unknown.value.near == ()

    with pytest.raises(UnknownName) as near:
        await reader(muster).explain(namespace="other", name="gone", kind=None)
    assert near.value.near == ("gone in namespace ns",)
    with pytest.raises(UnknownName) as alike:
        await reader(muster).explain(namespace="ns", name="run", kind=None)
    assert alike.value.near == ("runs",)


async def test_workloads_of_a_queue_are_those_of_its_subtree(muster: Database) -> None:
    harness = await staged(muster)
    await harness.queues(queue("a1", "a"))
    await harness.arrive("below", queue="a1")

    told = await reader(muster).workloads(LIVE, queue="a", limit=2)
    rest = await reader(muster).workloads(LIVE, queue="a", after=place_in(told.continue_, ListPlace), limit=9)

    assert [one.name for one in (*told.items, *rest.items)] == ["below", "leaves", "runs", "waits"]
    assert (told.total, rest.continue_, rest.history_begins) == (4, "", None)
    runs = rest.items[0]
    assert (runs.state, runs.held, runs.nodes, runs.admitted) == (
        "admitted",
        {GPU: "4"},
        ("n1", "n2"),
        rfc3339(NOW - 3600),
    )
    with pytest.raises(UnknownName, match="There is no queue c"):
        await reader(muster).workloads(LIVE, queue="c", limit=9)


async def test_ranks_are_told_to_those_who_see_all_work_and_ones_own_line_to_everybody(
    muster: Database,
) -> None:
    harness = await LedgerHarness.begin(
        muster, [queue("a", deserved=8000), queue("b")], {"n1": 99_000}, ["j1", "j2", "j3"]
    )
    await describe_all(
        harness,
        described("j1", namespace="one", user="ann"),
        described("j2", namespace="two", user="bob"),
        described("j3", namespace="one", user="ann"),
    )
    async with muster.transaction() as tx:
        entry = await harness.enter(tx)
        gangs = [replace(gang(name, "a", "n1", takes=4000), namespace=at) for name, at in NAMESPACES]
        await ledger.admit(tx, entry, gangs, {key("j1"): "ann", key("j2"): "bob"})
    may_get_a = frozenset({"a"})

    async def told(user: str, sight: Sight, of: str | None = "a") -> dict[str, tuple[object, ...]]:
        found = await reader(muster).users(queue=of, user=user, limit=9, sight=sight)
        return {each.user: (each.used.get(GPU), each.pending, each.share, each.rank) for each in found.items}

    everything = {"ann": ("4", 1, 0.5, 1), "bob": ("4", 0, 0.5, 2)}
    assert await told("ann", Sight()) == everything
    assert await told("ann", Sight(workloads={"job": {"one", "two"}}, queues=may_get_a)) == everything
    # Work of others is hidden: no ranks. The queue is hidden: no shares either, nor whether anything is hidden.
    of_one = Sight(workloads={"job": {"one"}}, queues=may_get_a)
    assert await told("bob", of_one) == {"ann": ("4", 1, 0.5, None), "bob": ("4", 0, 0.5, None)}
    nothing = Sight(workloads={}, queues=frozenset())
    assert await told("bob", nothing) == {"bob": ("4", 0, None, None)}
    assert await told("eve", nothing, None) == {"eve": (None, 0, None, None)}
    assert not (await reader(muster).users(queue="b", user="bob", limit=9, sight=nothing)).complete
    # All there is, where no queue is named.
    assert (await told("ann", Sight(), None))["ann"] == ("4", 1, round(4 / 99, 4), 1)


NAMESPACES = (("j1", "one"), ("j2", "two"))


async def test_a_page_of_a_long_list_costs_no_more_than_of_a_short_one(
    muster: Database, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with muster.transaction() as tx:
        for statement in (_MANY, _MANY_GONE, "ANALYZE workloads, ended_workloads"):
            await tx.exec_driver_sql(statement)
    connected = await explained(database, monkeypatch)
    try:
        after = ListPlace("ns-7", "w-000407", "job", "x", 0)
        found = await page(connected, EVERYTHING, after=after, limit=5)
        assert len(found.items) == 5
        # Of each of the two tables six rows, through a few steps of the plan. Counting looks at all.
        [looked] = [rows for statement, rows in LOOKED.items() if "ORDER BY anon" in statement]
        assert looked < 200, LOOKED
    finally:
        await connected.close()


_MANY = """
INSERT INTO workloads (kind, uid, namespace, name, queue, arrival)
SELECT 'job', n::text, 'ns-' || n % 20, 'w-' || lpad(n::text, 6, '0'), 'a', n FROM generate_series(1, 20000) AS n
"""
_MANY_GONE = """
INSERT INTO ended_workloads (kind, uid, namespace, name, queue, arrival, priority, created, minimum, pods, ended_at,
                             username, image, result, finished_at, seen_at)
SELECT 'job', 'e' || n, 'ns-' || n % 20, 'w-' || lpad(n::text, 6, '0'), 'a', n, 0, 0, 1, 1, now(), '', '', '', 0, now()
FROM generate_series(1, 20000) AS n
"""


async def test_an_ended_elastic_gang_is_listed_with_the_most_that_it_held_in_its_last_run(
    muster: Database,
) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 99_000, "n2": 99_000}, ["gang"])

    async def run(nodes: str, at: int, first: int = 0) -> AdmissionId:
        one = gang("gang", "a", nodes, takes=1000, first=first)
        return (await harness.admit(one, at=NOW + at)).accepted[0]

    before = await run("n1 n1 n1 n1 n1 n1", 0)
    await harness.free(before, *range(6), at=NOW + 50)
    longest = await run("n1 n1", 100)
    joined = await run("n2 n2", 120, first=2)
    await harness.free(joined, 0, 1, at=NOW + 160)
    last = await run("n2", 180, first=4)
    await harness.free(last, 0, at=NOW + 190)
    await harness.free(longest, 0, 1, at=NOW + 200)
    await describe_all(harness, described("gang", finished=True, result=Result.SUCCEEDED))

    (line,) = (await page(muster, replace(EVERYTHING, states=("finished",)))).items
    assert (line.pods, dict(line.held), line.nodes, line.admitted) == (
        4,
        {GPU: "4"},
        ("n1", "n2"),
        rfc3339(NOW + 100),
    )


async def test_of_many_nodes_twenty_are_named_and_all_are_counted(muster: Database) -> None:
    nodes = [f"n{number:02}" for number in range(21)]
    harness = await LedgerHarness.begin(muster, [queue("a")], dict.fromkeys(nodes, 1000), ["wide"])
    await describe_all(harness, described("wide"))
    await harness.admit(gang("wide", "a", " ".join(nodes), takes=1000))

    (line,) = (await page(muster, EVERYTHING)).items
    (story,) = await reader(muster).explain(namespace="ns", name="wide", kind=None)

    (admission,) = story.admissions
    assert (line.nodes, line.node_count) == (admission.nodes, admission.node_count) == (tuple(nodes[:20]), 21)

"""Waiting workloads by page: in the order of the engine, with positions that count all, and only what may be seen."""

import random
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert

from admission.web.overview import policies, queue_orders
from queues.order.policies import LineEntry, devices, rank
from queues.plan import Reason
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.reason_codes import NEVER, ReasonCode
from queues.resources import Resources
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.observed import workloads
from queues.sql.observed.rows import Description
from queues.sql.read import views
from queues.sql.read.names import names_like
from queues.sql.read.pending import pending, place_in_queue
from queues.sql.read.rows import Chosen, PendingPage, PendingPlace, QueueOrder, Seen
from queues.sql.tables import backoffs
from queues.workload import PodSet, QueueName, Workload
from tests.sql.ledger_harness import GPU, NOW, LedgerHarness, documented, gang, key, queue
from tests.tables import with_rows

NO_TERMS: dict[QueueName, QueueOrder] = {}


async def described(harness: LedgerHarness, *descriptions: Description) -> None:
    async with harness.muster.transaction() as tx:
        await workloads.describe(tx, harness.term, descriptions)


def description(name: str, *, namespace: str = "ns", queue: str = "a", **more: Any) -> Description:
    return Description(
        key=key(name), namespace=namespace, name=name, queue=QueueName(queue), created=NOW, **more
    )


async def page(
    muster: Database,
    order: dict[QueueName, QueueOrder] | None = None,
    *,
    seen: Seen | None = None,
    namespace: str | None = None,
    after: PendingPlace | None = None,
    limit: int = 100,
) -> PendingPage:
    async with muster.snapshot() as tx:
        return await pending(tx, order or NO_TERMS, seen=seen, namespace=namespace, after=after, limit=limit)


def names(found: PendingPage) -> list[tuple[str, int | None]]:
    return [(item.name, item.position) for item in found.items]


@with_rows("policy", "access")
async def test_postgres_sorts_as_the_engine_tries(
    muster: Database, policy: dict[str, Any], access: dict[str, Any]
) -> None:
    """``policy``: of the queue above. ``access``: of the queue itself."""
    draw = random.Random(f"{policy} {access}")
    listed = [f"w{number:02}" for number in range(40)]
    harness = await LedgerHarness.begin(
        muster,
        [
            documented(queue(ROOT, None), {"spec": {"policy": policy}}),
            documented(queue("a"), {"spec": {"parent": ROOT, "access": access}}),
        ],
        {"n1": 16000},
        listed,
    )
    drawn = {
        name: Workload(
            key=key(name),
            namespace="ns",
            name=name,
            queue=QueueName("a"),
            arrival=number,
            priority=draw.choice((-1, 0, 0, 1, 10)),
            created=NOW - 3600 * draw.randrange(4),
            waiting_since=draw.choice((None, NOW + 60)),
            run_time=draw.choice((None, 3600, 7200)),
            minimum=1,
            pod_sets=(PodSet(name="w", count=4, minimum=draw.randrange(1, 4), takes=Resources({GPU: 1000})),),
        )
        for number, name in enumerate(listed)
    }
    await described(
        harness,
        *(
            replace(
                description(each.name),
                priority=each.priority,
                created=each.created,
                run_time=each.run_time,
                devices=devices(each),
            )
            for each in drawn.values()
        ),
    )
    async with muster.transaction() as tx:
        for each in drawn.values():
            if each.waiting_since is not None:
                await tx.execute(
                    insert(backoffs).values(kind="job", uid=each.key.uid, waiting_since=each.waiting_since)
                )
        tree = policies(await views.queue_overview(tx))

    found = await page(muster, queue_orders(tree))

    assert [name for name, _ in names(found)] == in_engine_order(tree, drawn)
    assert [position for _, position in names(found)] == list(range(1, 41))


def in_engine_order(tree: QueueTree, drawn: dict[str, Workload]) -> list[str]:
    entries = [
        LineEntry(workload=each, shape=None, devices=devices(each), joins=False, accounts=())
        for each in drawn.values()
    ]
    return [entry.workload.name for entry in sorted(entries, key=lambda entry: rank(tree, entry))]


async def test_pages_follow_one_another_without_a_gap(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a"), queue("b")], {"n1": 9}, ["j1", "j2", "j3"])
    await harness.arrive("k1", "k2", queue="b")

    first = await page(muster, limit=2)
    second = await page(muster, after=PendingPlace("a", 2), limit=2)
    third = await page(muster, after=PendingPlace("b", 1), limit=2)

    assert [names(each) for each in (first, second, third)] == [
        [("j1", 1), ("j2", 2)],
        [("j3", 3), ("k1", 1)],
        [("k2", 2)],
    ]
    assert {each.total for each in (first, second, third)} == {5}


async def test_positions_count_workloads_that_may_not_be_seen(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1", "j2", "j3", "j4"])
    await described(
        harness,
        description("j1", namespace="bob"),
        description("j2", namespace="alice"),
        description("j3", namespace="bob"),
        description("j4", namespace="alice"),
    )
    alice: Seen = {"job": {"alice"}, "pod": None}

    seen = await page(muster, seen=alice)
    of_bob = await page(muster, seen=alice, namespace="bob")
    async with muster.snapshot() as tx:
        place = await place_in_queue(tx, NO_TERMS, QueueName("a"), key("j4"), seen=alice, ahead=10)

    assert (names(seen), seen.total, seen.total_everywhere) == ([("j2", 2), ("j4", 4)], 2, 2)
    assert (of_bob.items, of_bob.total, of_bob.total_everywhere) == ((), 0, 2)
    assert place is not None
    assert (place.position, place.length) == (4, 4)
    assert [(item.name, item.position) for item in place.ahead] == [("j2", 2)]


@pytest.mark.parametrize("code", sorted(NEVER))
async def test_what_can_never_be_let_in_is_in_nobodys_way(muster: Database, code: ReasonCode) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1", "j2", "j3"])
    await described(harness, description("j1"), description("j2"), description("j3"))
    async with muster.transaction() as tx:
        entry = await harness.enter(tx)
        await ledger.record_reasons(tx, entry, {key("j1"): Reason(code=code, message="9 asked, 8 at most")})

    assert names(await page(muster)) == [("j2", 1), ("j3", 2), ("j1", None)]
    async with muster.snapshot() as tx:
        place = await place_in_queue(tx, NO_TERMS, QueueName("a"), key("j3"), ahead=10)
        assert await place_in_queue(tx, NO_TERMS, QueueName("a"), key("j1"), ahead=10) is None
    assert place is not None
    assert (place.position, place.length) == (2, 2)


async def test_what_can_never_be_let_in_comes_after_all_queues_on_every_page(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a"), queue("b")], {"n1": 9}, ["j1", "j2"])
    await harness.arrive("k1", "k2", queue="b")
    never = Reason(code=ReasonCode.NEVER_FITS, message="9 asked, 8 at most")
    async with muster.transaction() as tx:
        await ledger.record_reasons(tx, await harness.enter(tx), {key("j1"): never, key("k1"): never})

    found, place = list[str](), None
    while (part := await page(muster, after=place, limit=1)).items:
        found.append(part.items[0].name)
        place = part.end
    assert found == ["j2", "k2", "j1", "k1"]


async def test_the_waiting_of_one_user_and_those_that_are_searched_have_their_places_among_all(
    muster: Database,
) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1", "j2", "j3"])
    await described(harness, description("j1", user="ben"), description("j2", user="ada"), description("j3"))
    async with muster.snapshot() as tx:
        found = await pending(tx, NO_TERMS, chosen=Chosen(user="ada"), limit=9)
        search = [
            await pending(tx, NO_TERMS, chosen=Chosen(search=text), limit=9)
            for text in ("J2", "BE", "%", "ns")
        ]
    assert (names(found), found.total) == ([("j2", 2)], 1)
    assert [names(each) for each in search] == [
        [("j2", 2)],
        [("j1", 1)],
        [],
        [("j1", 1), ("j2", 2), ("j3", 3)],
    ]
    assert [item.user for item in search[-1].items] == ["ben", "ada", ""]


async def test_whoever_asks_may_see_any_number_of_namespaces(muster: Database) -> None:
    many = frozenset(f"ns-{number}" for number in range(40_000))
    found = await page(muster, seen={"job": many})
    assert found.items == ()


async def test_a_workload_that_does_not_wait_has_no_place(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1", "j2"])
    await harness.admit(gang("j1", "a", "n1"))

    async with muster.snapshot() as tx:
        assert await place_in_queue(tx, NO_TERMS, QueueName("a"), key("j1"), ahead=10) is None


async def test_numbers_beyond_any_machine_are_sorted_too(muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster,
        [queue(ROOT, None), documented(queue("a"), {"spec": {"policy": {"order": "shortest"}}})],
        {"n1": 9},
        ["huge", "small"],
    )
    await described(
        harness,
        description("huge", devices=2**62, run_time=2**62, priority=2**31 - 1),
        description("small", devices=1, run_time=1),
    )
    async with muster.transaction() as tx:
        terms = queue_orders(policies(await views.queue_overview(tx)))

    assert names(await page(muster, terms)) == [("small", 1), ("huge", 2)]


async def test_similar_names_are_looked_up_and_bounded(muster: Database) -> None:
    listed = [f"train-{number}" for number in range(9)]
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, [*listed, "other"])
    await described(harness, *(description(name) for name in listed), description("other", namespace="bob"))

    async with muster.snapshot() as tx:
        alike, elsewhere = await names_like(tx, "ns", "train-00", seen=None, limit=5)
        _, places = await names_like(tx, "ns", "other", seen=None, limit=5)
        _, hidden = await names_like(tx, "ns", "other", seen={"job": {"ns"}}, limit=5)
        percent, _ = await names_like(tx, "ns", "%%", seen=None, limit=5)

    assert len(alike) == 5
    assert set(alike) <= set(listed)
    assert (elsewhere, places, hidden, percent) == ((), ("bob",), (), ())

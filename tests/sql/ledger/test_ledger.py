"""What the ledger promises about quota and nodes."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from queues.admissions import Claim, Setbacks, Unready
from queues.errors import Fenced
from queues.plan import Admit, Adopt, Plan
from queues.quota.accounts import Account
from queues.reason_codes import ReasonCode
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.observed import workloads
from queues.sql.observed.rows import NodeLimit
from queues.sql.seat_columns import held_seats
from queues.sql.tables import admissions
from queues.sql.world import load_world, read_admissions
from queues.workload import AdmissionId, FlavorName, Result, WorkloadKey
from tests.sql.ledger_harness import GPU, NOW, LedgerHarness, eviction, gang, gpus, key, queue


async def test_a_gang_above_its_queue_is_dropped_whole_and_the_others_stand(muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster, [queue("a", capability=3), queue("b")], {"n1": 8}, ["j1", "j2", "j3"]
    )

    verdict = await harness.admit(
        gang("j1", "a", "n1 n1"), gang("j2", "a", "n1 n1"), gang("j3", "b", "n1 n1")
    )

    assert set(verdict.accepted) == {0, 2}
    rejection = verdict.rejected[1]
    assert (rejection.code, rejection.queue, rejection.resource) == ("QueueLimit", "a", GPU)
    assert (rejection.limit, rejection.used, rejection.asked) == (3, 2, 2)
    assert await harness.balances() == {"a": (2, 2, 2), "b": (2, 2, 2), "root": (0, 4, 4)}
    assert await harness.on_nodes() == {"n1": 4}


async def test_elastic_parts_are_dropped_with_their_gang_and_not_for_one_another(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a", capability=4)], {"n1": 8}, ["j1", "j2"])

    def part(name: str, first: int, count: int) -> Admit:
        return replace(gang(name, "a", ["n1"] * count, first=first), elastic=True)

    verdict = await harness.admit(
        gang("j1", "a", ["n1"] * 5),
        part("j1", 5, 1),
        gang("j2", "a", "n1 n1"),
        part("j2", 2, 3),
        part("j2", 5, 2),
    )

    assert set(verdict.accepted) == {2, 4}, "the second gang goes without the part that is too large"
    assert verdict.rejected[1] == verdict.rejected[0]
    assert await harness.balances() == {"a": (4, 4, 4), "root": (0, 4, 4)}
    assert await harness.on_nodes() == {"n1": 4}


async def test_the_size_of_a_gang_as_it_was_admitted_is_kept(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 8}, ["j1"])
    first = replace(gang("j1", "a", "n1 n1"), minimum=2)
    await harness.admit(first, replace(gang("j1", "a", "n1", first=2), elastic=True, minimum=2))

    async with muster.snapshot() as tx:
        held, _ = await read_admissions(tx)
    assert [each.minimum for each in held] == [2, 2]


async def test_ids_grow_in_the_order_of_the_plan(muster: Database) -> None:
    names = [f"j{index:02}" for index in range(40)]
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 100}, names)
    verdict = await harness.admit(*(gang(name, "a", "n1") for name in reversed(names)))
    ids = [verdict.accepted[index] for index in range(40)]
    assert ids == sorted(ids)
    async with muster.transaction() as tx:
        rows = await held_seats(tx, ids)
    assert [row[0] for row in rows] == ids


async def test_nobody_gets_what_another_queue_is_guaranteed(muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster, [queue("a", guarantee=6), queue("b")], {"n1": 8}, ["j1", "j2", "j3", "j4"]
    )
    verdict = await harness.admit(gang("j1", "b", "n1 n1 n1"), gang("j2", "b", "n1 n1"))
    assert verdict.rejected[0].queue == "root"
    assert 1 in verdict.accepted

    verdict = await harness.admit(gang("j3", "a", ["n1"] * 6), gang("j4", "a", "n1"))
    assert set(verdict.accepted) == {0}
    assert await harness.balances() == {"a": (6, 6, 6), "b": (2, 2, 2), "root": (0, 8, 8)}


async def test_a_node_that_is_gone_or_cordoned_takes_nothing_new(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4, "n2": 4}, ["j1", "j2", "j3", "j4"])
    await harness.admit(gang("j1", "a", "n1 n1"))
    await harness.nodes(n1=NodeLimit(limits=gpus(4), usable=False))
    assert (await harness.admit(gang("j2", "a", "n1"))).rejected[0].code == "NodeFull"

    # What is held on it does not keep others from the nodes that are left.
    assert (await harness.admit(gang("j3", "a", ["n2"] * 3))).rejected == {}
    await harness.nodes(removed=["n1"])
    assert (await harness.admit(gang("j4", "a", "n1"))).rejected[0].code == "NodeFull"


async def test_seats_of_a_flavor_count_in_it_and_in_the_sum(muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster,
        [queue("a", capability=2, flavor="h100")],
        {},
        ["j1", "j2", "j3"],
    )
    await harness.nodes(
        n1=NodeLimit(limits=gpus(8), flavor=FlavorName("h100")),
        n2=NodeLimit(limits=gpus(8), flavor=FlavorName("a100")),
    )
    verdict = await harness.admit(
        gang("j1", "a", "n1 n1", flavor="h100"),
        gang("j2", "a", "n1", flavor="h100"),
        gang("j3", "a", "n2", flavor="a100"),
    )
    assert verdict.rejected[1].flavor == "h100"
    assert await harness.balances(Account(FlavorName("h100"), GPU)) == {"a": (2, 2, 2), "root": (0, 2, 2)}
    assert await harness.balances() == {"a": (3, 3, 3), "root": (0, 3, 3)}


async def test_freeing_twice_gives_back_once_and_books_return_to_zero(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 8}, ["j1"])
    (id_,) = (await harness.admit(gang("j1", "a", "n1 n1 n1"))).accepted.values()

    freed = await harness.free(id_, 0, 2)
    assert freed.seats == {id_: frozenset({0, 2})}
    assert freed.closed == frozenset()
    assert await harness.balances() == {"a": (1, 1, 1), "root": (0, 1, 1)}

    freed = await harness.free(id_, 0, 1, 2, 7)
    assert freed.seats == {id_: frozenset({1})}
    assert freed.closed == {id_}
    assert await harness.balances() == {}
    assert await harness.on_nodes() == {}

    assert (await harness.free(id_, 0, 1, 2)).seats == {}
    assert await harness.balances() == {}


async def test_running_pods_are_adopted_whatever_the_limits_say(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a", capability=1)], {"n1": 1}, ["j1", "j2"])
    running = Adopt(admit=gang("j1", "a", "n1 n1 n1"), pods={"p0": 0, "p1": 1, "p2": 2})
    (id_,) = await harness.adopt(running)
    assert await harness.balances() == {"a": (3, 3, 3), "root": (0, 3, 3)}
    assert (await harness.admit(gang("j2", "a", "n1"))).rejected[0].used == 3
    await harness.free(id_, 0, 1, 2)
    assert await harness.balances() == {}


async def test_an_adopted_admission_counts_from_when_its_pods_were_admitted(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1", "p1", "p2", "p3"])
    before = replace(gang("p1", "a", "n1"), since=NOW - 500)
    later = replace(gang("p2", "a", "n1"), since=NOW + 500)
    ids = await harness.adopt(
        *(Adopt(admit=each, pods={each.name: 0}) for each in (before, later, gang("p3", "a", "n1")))
    )
    async with muster.snapshot() as tx:
        found, _ = await read_admissions(tx)
        admitted = await tx.scalars(select(admissions.c.admitted_at).order_by(admissions.c.id))
        assert {each.tzinfo is not None for each in admitted} == {True}, (
            "when it was entered is known as well"
        )
    assert {each.id: each.opened_at for each in found} == dict(
        zip(ids, (NOW - 500, NOW, NOW), strict=True)
    ), "no admission begins after now"


async def test_a_workload_holds_seats_since_the_first_of_an_unbroken_line_of_admissions(
    muster: Database,
) -> None:
    """Also for a new leader, which knows of no admission that was closed before its term."""
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1", "j2"])

    async def admit(*rows: Admit, at: int) -> list[AdmissionId]:
        return list((await harness.admit(*rows, at=at)).accepted.values())

    async def starts() -> dict[AdmissionId, int]:
        async with muster.snapshot() as tx:
            return {each.id: each.start for each in (await load_world(tx)).admissions}

    (core,) = await admit(gang("j1", "a", "n1"), at=NOW)
    (other,) = await admit(gang("j2", "a", "n1"), at=NOW + 5)
    (second,) = await admit(gang("j1", "a", "n1", first=1), at=NOW + 10)
    await harness.free(core, 0, at=NOW + 20)
    (third,) = await admit(gang("j1", "a", "n1"), at=NOW + 30)
    await harness.free(second, 0, at=NOW + 40)
    assert await starts() == {other: NOW + 5, third: NOW}, "every member was replaced"

    await harness.free(third, 0, at=NOW + 50)
    (again,) = await admit(gang("j1", "a", "n1"), at=NOW + 60)
    assert await starts() == {other: NOW + 5, again: NOW + 60}, "it starts anew after a break"

    await harness.free(again, 0, at=NOW + 70)
    left = replace(gang("j1", "a", "n1"), since=NOW + 65)
    adopted, joined = await harness.adopt(
        *(Adopt(admit=each, pods={}) for each in (left, gang("j1", "a", "n1", first=1)))
    )
    assert await starts() == {other: NOW + 5, adopted: NOW, joined: NOW}, "harness adopts at NOW"


async def test_what_the_world_keeps_of_an_admission_is_what_the_ledger_stores(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1"])
    core, part = gang("j1", "a", "n1"), replace(gang("j1", "a", "n1", first=1), elastic=True)
    (first,) = (await harness.admit(core, at=NOW)).accepted.values()
    outcome = await harness.admit(part, at=NOW + 10)
    plan = Plan(now=NOW + 10, ledger_seq=0, admits=(part,))
    kept = plan.changed_admissions({}, outcome.accepted.values(), starts=outcome.starts)
    async with muster.snapshot() as tx:
        stored, _ = await read_admissions(tx)
    assert [kept[each.id] for each in stored if each.id != first] == [stored[1]]


async def test_pods_of_an_unknown_queue_count_in_root(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1", "j2"])
    (id_,) = await harness.adopt(Adopt(admit=gang("j1", "nowhere", "n1 n1 n1"), pods={}))
    assert await harness.balances() == {"nowhere": (3, 3, 3), "root": (0, 3, 3)}
    assert (await harness.admit(gang("j2", "a", "n1 n1"))).rejected[0].queue == "root"

    await harness.queues(queue("team"), queue("nowhere", "team"))
    assert await harness.balances() == {"nowhere": (3, 3, 3), "team": (0, 3, 3), "root": (0, 3, 3)}
    await harness.free(id_, 0, 1, 2)
    assert await harness.balances() == {}


async def test_a_seat_is_not_given_twice(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1"])
    twice = await harness.admit(gang("j1", "a", "n1 n1"), gang("j1", "a", "n1 n1", first=1))
    assert twice.rejected[1].code == "AlreadySeated"
    again = await harness.admit(gang("j1", "a", "n1 n1", first=1), gang("j1", "a", "n1 n1", first=2))
    assert again.rejected[0].code == "AlreadySeated"
    assert set(again.accepted) == {1}

    await harness.free(twice.accepted[0], 1)
    assert (await harness.admit(gang("j1", "a", "n1", first=1))).rejected == {}


async def test_what_has_left_is_not_admitted(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, [])
    assert (await harness.admit(gang("j1", "a", "n1"))).rejected[0].code == "Departed"


async def test_a_queue_that_is_unknown_broken_or_removed_takes_nothing(golden: Any, muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster,
        [queue("a"), queue("orphan", "nowhere"), queue("x", "y"), queue("y", "x"), queue("w", broken="bad")],
        {"n1": 9},
        ["j1", "j2", "j3", "j4", "j5"],
    )
    await harness.queues(removed=["a"])
    verdict = await harness.admit(
        *(gang(f"j{index}", name, "n1") for index, name in enumerate(["a", "orphan", "x", "z", "w"], start=1))
    )
    assert [verdict.rejected[index].code for index in range(5)] == golden


@pytest.mark.parametrize("takes", [-1, 0])
async def test_a_seat_cannot_take_less_than_nothing(muster: Database, takes: int) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1"])
    verdict = await harness.admit(gang("j1", "a", "n1", takes=takes))
    assert [rejection.code for rejection in verdict.rejected.values()] == (
        ["InvalidSeat"] if takes < 0 else []
    )


async def test_eviction_is_stored_once_and_holds_its_seats_until_freed(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 8}, ["j1"])
    (id_,) = (await harness.admit(gang("j1", "a", "n1 n1"))).accepted.values()
    away = eviction(id_, not_before=NOW + 60, beneficiary=WorkloadKey(key("j9").kind, "j9"))
    assert await harness.evict(away) == {id_}
    assert await harness.evict(away) == frozenset()
    assert await harness.balances() == {"a": (2, 2, 2), "root": (0, 2, 2)}
    assert (await harness.free(id_, 0, 1)).closed == {id_}
    assert await harness.evict(away) == frozenset()


async def test_who_does_not_know_the_last_write_is_fenced(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 8}, ["j1", "j2"])
    await harness.admit(gang("j1", "a", "n1"))
    harness.seq -= 1
    with pytest.raises(Fenced, match="the ledger is at 1, this was decided at 0"):
        await harness.admit(gang("j2", "a", "n1"))
    assert await harness.balances() == {"a": (1, 1, 1), "root": (0, 1, 1)}


async def test_a_node_that_offers_less_than_is_held_there_takes_from_no_other_node(muster: Database) -> None:
    """Pods of others have come to it, and its seats are still to be given back."""
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4, "n2": 4}, ["j1", "j2"])
    assert not (await harness.admit(gang("j1", "a", "n1 n1 n1 n1"))).rejected
    await harness.nodes(n1=0)
    assert (await harness.admit(gang("j2", "a", "n2 n2 n2 n2 n2"))).rejected
    assert not (await harness.admit(gang("j2", "a", "n2 n2 n2 n2"))).rejected


# ── promised space ──────────────────────────────────────────────────────────────────────────────────────────


def promise(name: str, *victims: int, until: int = NOW + 600) -> Claim:
    wanted = gang(name, "a", "n1 n2", takes=2)
    return Claim(
        workload=key(name),
        queue=wanted.queue,
        generation="7",
        seats=wanted.seats,
        victims=tuple(AdmissionId(victim) for victim in victims),
        until=until,
    )


async def claims(muster: Database) -> dict[str, Claim]:
    async with muster.snapshot() as tx:
        rows = (await load_world(tx)).claims
    return {row.workload.uid: row for row in rows}


async def test_a_claim_is_loaded_as_it_was_made_and_the_later_one_counts(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9, "n2": 9}, ["j1", "j2"])
    async with harness.entered() as (tx, entry):
        await ledger.claim(tx, entry, [promise("j1", 1, 2), promise("j2")])
        await ledger.claim(tx, entry, [promise("j1", 3, until=NOW + 60)])
    assert await claims(muster) == {"j1": promise("j1", 3, until=NOW + 60), "j2": promise("j2")}

    async with harness.entered() as (tx, entry):
        await ledger.drop_claims(tx, entry, [key("j1")])
    assert list(await claims(muster)) == ["j2"]
    async with muster.transaction() as tx:
        await workloads.depart(tx, harness.term, {key("j2"): Result.UNKNOWN}, NOW)
    assert await claims(muster) == {}


async def test_who_goes_for_others_is_counted_once_however_much_it_loses(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1", "j2"])
    first = (await harness.admit(gang("j1", "a", "n1"))).accepted.values()
    second = (await harness.admit(gang("j2", "a", "n1"))).accepted.values()
    async with muster.transaction() as tx:
        entry = await harness.enter(tx)
        away = [eviction(id_, beneficiary=key("j9")) for id_ in first]
        await ledger.evict(tx, entry, [*away, *(eviction(id_) for id_ in second)])
    async with muster.snapshot() as tx:
        world = await load_world(tx)
    assert world.setbacks == {key("j1"): Setbacks(not_before=0, rollbacks=0, evictions=1, waiting_since=NOW)}


# ── gangs that do not get ready ─────────────────────────────────────────────────────────────────────────────


async def goes_back(
    harness: LedgerHarness, database: Database, revision: str | None, message: str = ""
) -> None:
    """The workload is admitted, and goes back: for pods that are not ready, or (no revision) for another cause."""
    (id_,) = (await harness.admit(gang("j", "a", "n1"))).accepted.values()
    plain = eviction(id_, code=ReasonCode.NOT_READY, not_before=NOW + 10)
    async with harness.entered() as (tx, entry):
        await ledger.evict(tx, entry, [replace(plain, revision=revision, message=message)])
    await harness.free(id_, 0)


async def setbacks(database: Database) -> Setbacks:
    async with database.snapshot() as tx:
        return (await load_world(tx)).setbacks[key("j")]


async def got_ready(harness: LedgerHarness, database: Database, *ids: AdmissionId) -> None:
    async with harness.entered() as (tx, entry):
        await ledger.note_ready(tx, entry, ids)


async def test_failures_are_counted_for_one_revision_of_the_object(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j"])
    await goes_back(harness, muster, "r1", "first")
    await goes_back(harness, muster, "r1", "second")
    assert (await setbacks(muster)).unready == Unready(revision="r1", times=2, message="second")
    await goes_back(harness, muster, None, "refused")
    assert (await setbacks(muster)).unready == Unready(revision="r1", times=2, message="second")
    await goes_back(harness, muster, "r2", "third")
    counted = await setbacks(muster)
    assert counted == Setbacks(
        not_before=NOW + 10, rollbacks=4, unready=Unready(revision="r2", message="third")
    )


async def test_a_gang_that_got_ready_begins_anew(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j", "k"])
    await goes_back(harness, muster, "r1")
    (id_,) = (await harness.admit(gang("j", "a", "n1"))).accepted.values()
    (other,) = (await harness.admit(gang("k", "a", "n1"))).accepted.values()
    await got_ready(harness, muster, id_)
    assert await setbacks(muster) == Setbacks(not_before=NOW + 10)
    async with muster.snapshot() as tx:
        world = await load_world(tx)
    assert {each.id: each.ready for each in world.admissions} == {id_: True, other: False}

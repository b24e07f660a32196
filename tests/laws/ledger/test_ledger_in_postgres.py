"""The same laws where they count: random plans through the real ledger leave exactly what is open."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from queues.plan import Admit, Adopt
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.ledger.verification import verify
from queues.sql.world import load_world
from queues.workload import AdmissionId
from tests.builders.empty_ledger import empty_ledger
from tests.sql.ledger_harness import GPUS, LedgerHarness, freeing, gang, queue

QUEUES = ("team", "a", "b", "other")
#: (queue, nodes, GPUs per seat), or which admission to free and which of its seats.
ASK = st.tuples(
    st.sampled_from(QUEUES),
    st.lists(st.sampled_from(["n1", "n2"]), min_size=1, max_size=3),
    st.integers(0, 3),
)
STEP = st.one_of(
    st.tuples(st.just("admit"), st.lists(ASK, min_size=1, max_size=4)),
    st.tuples(st.just("adopt"), st.lists(ASK, min_size=1, max_size=1)),
    st.tuples(st.just("free"), st.tuples(st.integers(0, 20), st.frozensets(st.integers(0, 3), min_size=1))),
    st.tuples(st.just("reshape"), st.tuples(st.sampled_from(["root", "team", "other"]), st.integers(0, 5))),
)


async def fresh(muster: Database) -> LedgerHarness:
    async with muster.transaction() as tx:
        await empty_ledger(tx)
    return await LedgerHarness.begin(
        muster,
        [
            queue("team", capability=9),
            queue("a", "team", guarantee=3),
            queue("b", "team", capability=5),
            queue("other", guarantee=2),
        ],
        {"n1": 8, "n2": 6},
    )


async def check(harness: LedgerHarness) -> None:
    """Balances are the sums over open seats, by queue and by node; postings agree; limits hold for what was given."""
    async with harness.muster.snapshot() as tx:
        world = await load_world(tx)
        assert await verify(tx) == (), "as they count up the tree, with what is guaranteed"
        posted = await tx.execute(
            text(
                "SELECT debit, credit, sum(amount)::bigint AS amount FROM muster_postings GROUP BY debit, credit"
            )
        )
        journal: dict[str, int] = {}
        for debit, credit, amount in posted:
            journal[debit] = journal.get(debit, 0) + amount
            journal[credit] = journal.get(credit, 0) - amount
    own: dict[str, int] = {}
    nodes: dict[str, int] = {}
    for admission in world.admissions:
        for seat in admission.holding():
            units = seat.takes.get(GPUS.resource)
            own[admission.queue] = own.get(admission.queue, 0) + units
            nodes[seat.node] = nodes.get(seat.node, 0) + units
    stored = await harness.balances()
    assert {name: units for name, units in own.items() if units} == {
        name: balance[0] for name, balance in stored.items() if balance[0]
    }
    assert {name: units for name, units in nodes.items() if units} == await harness.on_nodes()
    assert sum(own.values()) == stored.get("root", (0, 0, 0))[1]
    assert sum(journal.values()) == 0
    assert {f"queue/{name}": units for name, units in own.items() if units} == {
        account: units for account, units in journal.items() if units and account != "pool"
    }


async def test_random_plans_leave_exactly_what_is_open_and_zero_at_the_end(muster: Database) -> None:
    loop = asyncio.get_running_loop()

    @settings(max_examples=12, suppress_health_check=list(HealthCheck), database=None)
    @given(steps=st.lists(STEP, min_size=1, max_size=8))
    def run(steps: list[tuple[str, object]]) -> None:
        asyncio.run_coroutine_threadsafe(play(muster, steps), loop).result(60)

    await asyncio.to_thread(run)


async def play(muster: Database, steps: list[tuple[str, object]]) -> None:
    harness = await fresh(muster)
    opened: list[tuple[AdmissionId, int]] = []
    names = (f"j{index}" for index in range(1000))
    for verb, what in steps:
        if verb == "free":
            which, seats = what  # type: ignore[misc]
            if opened:
                id_, _ = opened[which % len(opened)]
                await harness.free(id_, *seats)
        elif verb == "reshape":
            parent, guarantee = what  # type: ignore[misc]
            await harness.queues(queue("a", parent, guarantee=guarantee))
        else:
            gangs: list[Admit] = [
                gang(next(names), into, nodes, takes=takes)
                for into, nodes, takes in what  # type: ignore[attr-defined]
            ]
            await harness.arrive(*(each.name for each in gangs))
            if verb == "admit":
                before = await harness.balances(), await harness.on_nodes()
                verdict = await harness.admit(*gangs)
                opened += [(id_, len(gangs[index].seats)) for index, id_ in verdict.accepted.items()]
                await within_limits(harness, *before)
            else:
                ids = await harness.adopt(*(Adopt(admit=each, pods={}) for each in gangs))
                opened += [(id_, len(each.seats)) for id_, each in zip(ids, gangs, strict=True)]
        await check(harness)
    async with harness.entered() as (tx, entry):
        backs = [freeing(id_, frozenset(range(count))) for id_, count in opened]
        await ledger.free(tx, entry, [*backs, *backs])
    await harness.queues(removed=QUEUES)
    assert await harness.balances() == {}
    assert await harness.on_nodes() == {}


async def within_limits(
    harness: LedgerHarness, queues: dict[str, tuple[int, int, int]], nodes: dict[str, int]
) -> None:
    """What grew is within its limit now. A node on which more is held than it offers takes from no other node."""
    offered = {"n1": 8, "n2": 6}
    beyond = sum(max(0, used - offered[node]) for node, used in nodes.items())
    ceilings = {"team": 9, "b": 5, "root": sum(offered.values()) + beyond}
    for name, (_, _, counted) in (await harness.balances()).items():
        grew = counted > queues.get(name, (0, 0, 0))[2]
        assert not grew or counted <= ceilings.get(name, counted)
    for node, used in (await harness.on_nodes()).items():
        assert used <= offered[node] or used == nodes.get(node, 0)

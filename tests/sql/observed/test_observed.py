"""What intake stores."""

from dataclasses import replace

from sqlalchemy import text

from queues.admissions import PodOutcome
from queues.quota.accounts import Account
from queues.resources import MOST_ON_NODE, Resources
from queues.sql.database import Database
from queues.sql.observed import workloads
from queues.sql.observed.nodes import record_node_limits
from queues.sql.observed.queues import record_queues
from queues.sql.observed.rows import Description, NodeLimit
from queues.sql.world import load_world
from queues.workload import FlavorName, QueueName, Result
from tests.sql.ledger_harness import GPU, GPUS, NOW, LedgerHarness, gang, gpus, key, queue


async def capacity(muster: Database) -> dict[tuple[str, str], int]:
    async with muster.transaction() as tx:
        rows = await tx.execute(text("SELECT flavor, resource, amount FROM capacity WHERE amount <> 0"))
        return {(row.flavor, row.resource): row.amount for row in rows}


async def test_who_comes_first_has_the_smaller_number_and_keeps_it(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    first = await harness.arrive("c", "a", "b", "a")
    assert sorted(first, key=first.__getitem__) == [key("c"), key("a"), key("b")]
    second = await harness.arrive("d", "a", "c")
    assert second[key("a")] == first[key("a")]
    assert second[key("c")] == first[key("c")]
    assert second[key("d")] > max(first.values())


async def test_a_hundred_arrivals_in_one_batch_keep_their_order(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    names = [f"{index * 7919 % 100}" for index in range(100)]
    numbers = await harness.arrive(*names)
    assert [numbers[key(name)] for name in names] == sorted(numbers.values())


async def test_rows_share_the_keys_that_are_in_memory_already(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1", "j2"])
    await harness.admit(gang("j1", "a", "n1"))
    mine = key("j1")
    async with muster.snapshot() as tx:
        rows = await load_world(tx, shared={mine: mine})
    assert [each.workload is mine for each in rows.admissions] == [True]
    assert [each for each in rows.arrivals if each is mine] == [mine]
    assert rows.arrivals.keys() == {mine, key("j2")}


async def test_outcomes_are_stored_once_per_pod(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, workloads=["j1"])
    succeeded = PodOutcome(workload=key("j1"), pod_set="worker", ordinal=3, pod_uid="p1", phase="Succeeded")
    failed = PodOutcome(
        workload=key("j1"),
        pod_set="worker",
        ordinal=4,
        pod_uid="p2",
        phase="Failed",
        exit_code=137,
        version=2,
    )
    for rows in ([succeeded], [succeeded, failed]):
        async with muster.transaction() as tx:
            await workloads.record_outcomes(tx, harness.term, rows)
    async with muster.snapshot() as tx:
        assert (await load_world(tx)).outcomes == (succeeded, failed)


async def test_what_left_goes_into_the_history_once_it_holds_nothing(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1", "j2"])
    (id_,) = (await harness.admit(gang("j1", "a", "n1 n1"))).accepted.values()
    outcome = PodOutcome(workload=key("j1"), pod_set="worker", ordinal=0, pod_uid="p1", phase="Succeeded")

    async def depart() -> frozenset[object]:
        async with muster.transaction() as tx:
            await workloads.record_outcomes(tx, harness.term, [outcome])
            return await workloads.depart(
                tx,
                harness.term,
                dict.fromkeys([key("j1"), key("j2"), key("never-seen")], Result.UNKNOWN),
                NOW,
            )

    assert await depart() == {key("j2"), key("never-seen")}
    await harness.free(id_, 0, 1)
    assert await depart() == {key("j1"), key("j2"), key("never-seen")}

    async with muster.transaction() as tx:
        rows = (
            await tx.execute(
                text(
                    "SELECT uid, a.id, jsonb_array_length(outcomes) AS outcomes "
                    "FROM ended_workloads LEFT JOIN closed_admissions a USING (kind, uid) ORDER BY uid"
                )
            )
        ).all()
    assert [tuple(row) for row in rows] == [("j1", id_, 1), ("j2", None, 0)]
    async with muster.snapshot() as tx:
        world = await load_world(tx)
    assert (world.arrivals, world.outcomes, world.admissions) == ({}, (), ())


async def test_what_left_ended_as_it_was_seen_to_else_as_it_is_stored_and_else_was_deleted(
    muster: Database,
) -> None:
    unknown, succeeded, failed, deleted = Result.UNKNOWN, Result.SUCCEEDED, Result.FAILED, Result.DELETED
    #: Described to have ended so (None: it runs), then so after its object went (None: it is there), seen to end so.
    lives = {
        "not-described": (None, None, succeeded, succeeded),
        "runs": (None, None, unknown, deleted),
        "described": (failed, None, unknown, failed),
        "both": (failed, None, failed, failed),
        "group-without-pods": (Result.IDLE, None, succeeded, succeeded),
        "stopped": (unknown, None, unknown, unknown),
        "went-while-it-ran": (None, deleted, unknown, deleted),
        "went-after-it-ended": (succeeded, deleted, unknown, succeeded),
        "went-after-it-failed": (failed, deleted, unknown, failed),
    }
    harness = await LedgerHarness.begin(muster, workloads=list(lives))
    for gone in (False, True):
        told = [
            Description(
                key=key(name),
                namespace="ns",
                name=name,
                queue=QueueName("a"),
                finished=True,
                result=result,
                gone=gone,
            )
            for name, life in lives.items()
            if (result := life[gone]) is not None
        ]
        async with muster.transaction() as tx:
            await workloads.describe(tx, harness.term, told)
    async with muster.transaction() as tx:
        await workloads.depart(tx, harness.term, {key(name): life[2] for name, life in lives.items()}, NOW)
        rows = [tuple(row) for row in await tx.execute(text("SELECT uid, result FROM ended_workloads"))]
    assert dict(rows) == {name: life[3] for name, life in lives.items()}


async def test_what_comes_back_and_leaves_again_in_the_same_second_has_one_row_with_all_of_it(
    muster: Database,
) -> None:
    harness = await LedgerHarness.begin(muster)
    for queue_name, pod in (("a", "p1"), ("b", "p2")):
        ended = PodOutcome(workload=key("j1"), pod_set="w", ordinal=0, pod_uid=pod, phase="Failed")
        await harness.arrive("j1", queue=queue_name)
        async with muster.transaction() as tx:
            await workloads.record_outcomes(tx, harness.term, [ended])
            assert await workloads.depart(tx, harness.term, {key("j1"): Result.UNKNOWN}, NOW) == {key("j1")}
    async with muster.transaction() as tx:
        told = text("SELECT queue, jsonb_path_query_array(outcomes, '$[*].pod_uid') FROM ended_workloads")
        rows = [tuple(row) for row in await tx.execute(told)]
    assert rows == [("b", ["p1", "p2"])]


async def test_of_many_that_leave_together_each_keeps_its_own_history(muster: Database) -> None:
    names = ["j1", "j2", "j3"]
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, names)
    held: dict[str, list[str]] = {name: [] for name in names}
    for _ in range(2):
        verdict = await harness.admit(*(gang(name, "a", "n1") for name in names[:2]))
        for name, id_ in zip(names, verdict.accepted.values(), strict=False):
            held[name].append(str(id_))
            await harness.free(id_, 0)
    outcomes = [
        PodOutcome(workload=key(name), pod_set="w", ordinal=0, pod_uid=f"pod-of-{name}", phase="Failed")
        for name in ("j2", "j3")
    ]
    async with muster.transaction() as tx:
        await workloads.record_outcomes(tx, harness.term, outcomes)
        await workloads.depart(
            tx, harness.term, dict.fromkeys([key(name) for name in names], Result.UNKNOWN), NOW
        )
        rows = await tx.execute(
            text(
                "SELECT uid, (SELECT coalesce(jsonb_agg(a.id ORDER BY a.id), '[]') FROM closed_admissions a"
                " WHERE (a.kind, a.uid) = (w.kind, w.uid))::text AS ids,"
                " jsonb_path_query_array(outcomes, '$[*].pod_uid')::text AS pods"
                " FROM ended_workloads w ORDER BY uid"
            )
        )
        found = [tuple(row) for row in rows]
    assert found == [
        ("j1", f"[{', '.join(held['j1'])}]", "[]"),
        ("j2", f"[{', '.join(held['j2'])}]", '["pod-of-j2"]'),
        ("j3", "[]", '["pod-of-j3"]'),
    ]


async def test_queue_versions_say_who_changed_what(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    first = queue("a", capability=1)
    async with muster.transaction() as tx:
        await record_queues(tx, harness.term, [first])
        await record_queues(tx, harness.term, [first])
        of_ann = replace(first, changed_by="ann", document={"spec": {"weight": 2}})
        changed = replace(of_ann, queue=replace(first.queue, generation=2))
        await record_queues(tx, harness.term, [changed])
        await record_queues(tx, harness.term, [], [first.queue.name])
        rows = await tx.execute(
            text(
                "SELECT generation, changed_by, document, removed FROM queue_versions "
                "WHERE queue = 'a' ORDER BY version"
            )
        )
        assert [tuple(row) for row in rows] == [
            (1, "", {}, False),
            (2, "ann", {"spec": {"weight": 2}}, False),
            (2, "", {"spec": {"weight": 2}}, True),
        ]


async def test_a_removed_queue_counts_where_it_did_until_it_holds_nothing(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("x"), queue("a", "x")], {"n1": 4}, ["j1", "j2"])
    (id_,) = (await harness.admit(gang("j1", "a", "n1 n1"))).accepted.values()
    await harness.queues(removed=["a", "x"])
    assert await harness.balances() == {"a": (2, 2, 2), "x": (0, 2, 2), "root": (0, 2, 2)}
    assert (await harness.admit(gang("j2", "a", "n1"))).rejected[0].code == "QueueBroken"
    await harness.queues(queue("x"), queue("a", "x"))
    assert (await harness.admit(gang("j2", "a", "n1"))).rejected == {}
    await harness.free(id_, 0, 1)


async def test_children_guaranteed_more_than_their_parent_has_keep_nothing(muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster,
        [queue("x", guarantee=2), queue("a", "x", guarantee=2), queue("b", "x", guarantee=2), queue("c")],
        {"n1": 4},
        ["j1", "j2"],
    )
    verdict = await harness.admit(gang("j1", "a", "n1"), gang("j2", "c", "n1 n1"))
    assert verdict.rejected[0].code == "QueueBroken"
    assert set(verdict.accepted) == {1}


async def test_limits_too_large_for_any_cluster_limit_nothing(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a", capability=10**30)], {"n1": 4}, ["j1"])
    assert (await harness.admit(gang("j1", "a", "n1"))).rejected == {}


async def test_guarantees_that_add_up_beyond_all_reason_stop_nobody(muster: Database) -> None:
    huge = [queue(f"q{number}", guarantee=2**60, capability=2**60) for number in range(20)]
    harness = await LedgerHarness.begin(
        muster, huge, {f"n{number}": MOST_ON_NODE for number in range(20)}, ["j1", "j2"]
    )

    assert await capacity(muster) == {("", GPU): 20 * MOST_ON_NODE}
    assert (await harness.admit(gang("j1", "q1", "n1"))).rejected == {}
    await harness.queues(queue("q2"))
    assert (await harness.admit(gang("j2", "q3", "n2 n3"))).rejected == {}


async def test_capacity_follows_the_nodes(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    h100 = FlavorName("h100")
    await harness.nodes(n1=NodeLimit(limits=gpus(8), flavor=h100), n2=8)
    assert await capacity(muster) == {("", GPU): 16, ("h100", GPU): 8}
    # Somebody else's pod took two; n2 was labelled.
    await harness.nodes(n1=NodeLimit(limits=gpus(6), flavor=h100), n2=NodeLimit(limits=gpus(8), flavor=h100))
    assert await capacity(muster) == {("", GPU): 14, ("h100", GPU): 14}
    await harness.nodes(n1=NodeLimit(limits=gpus(6), flavor=h100, usable=False))
    assert await capacity(muster) == {("", GPU): 8, ("h100", GPU): 8}
    await harness.nodes(removed=["n1", "n2", "never-seen"])
    assert await capacity(muster) == {}


async def test_a_resource_that_a_node_loses_is_gone(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {}, ["j1"])
    await harness.nodes(n1=NodeLimit(limits=Resources({GPU: 8, "cpu": 4000})))
    await harness.nodes(n1=NodeLimit(limits=Resources({"cpu": 4000})))
    assert await capacity(muster) == {("", "cpu"): 4000}
    async with muster.snapshot() as tx:
        limits = (await tx.execute(text("SELECT node, resource, amount FROM node_limits"))).all()
    assert [tuple(row) for row in limits] == [("n1", "cpu", 4000)]


async def test_descriptions_change_what_is_told_and_not_who_came_first(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a"), queue("b")], workloads=["j1"])
    async with muster.transaction() as tx:
        await workloads.describe(
            tx,
            harness.term,
            [
                Description(
                    key=key(name),
                    namespace="ns",
                    name=name,
                    queue=QueueName("b"),
                    priority=5,
                    asks=gpus(8),
                    ignored_values="x: found 'y'",
                )
                for name in ("j1", "never-seen")
            ],
        )
        rows = (
            await tx.execute(text("SELECT uid, queue, priority, asks, ignored_values FROM workloads"))
        ).all()
    assert [tuple(row) for row in rows] == [("j1", "b", 5, {GPU: 8}, "x: found 'y'")]
    again = [Description(key=key("j1"), namespace="ns", name="j1", queue=QueueName("a"))]
    async with muster.transaction() as tx:
        await workloads.arrive(tx, harness.term, again)
        assert await tx.scalar(text("SELECT queue FROM workloads")) == "b"


async def test_nothing_is_forgotten_by_giving_nothing(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    async with muster.transaction() as tx:
        await record_queues(tx, harness.term, [])
        await record_node_limits(tx, harness.term, {})
        await workloads.record_outcomes(tx, harness.term, [])
        await workloads.describe(tx, harness.term, [])
        assert await workloads.arrive(tx, harness.term, []) == {}
        assert await workloads.depart(tx, harness.term, {}, NOW) == frozenset()
    assert await harness.balances(Account(GPUS.flavor, GPUS.resource)) == {}

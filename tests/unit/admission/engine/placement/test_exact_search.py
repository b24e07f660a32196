"""Gangs of several pod sets on small clusters, held to an exhaustive search."""

from random import Random

import pytest

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import NodeTable
from admission.engine.placement import exact_search, gangs
from queues import kind_names
from queues.plan import Plan
from queues.quota.queue import Queue
from queues.resources import GPU, Resources
from queues.workload import PodSet
from tests.builders.decided_work import a_node, a_snapshot, a_workload, plan_of
from tests.tables import with_rows

#: GPUs and CPUs.
Amount = tuple[int, int]
#: So many pods of that amount each.
Sets = list[tuple[int, Amount]]


def decided(free: list[Amount], sets: Sets) -> Plan:
    nodes = [
        a_node(f"n{number}", {GPU: gpus * 1000, "cpu": cpus * 1000, "pods": 110})
        for number, (gpus, cpus) in enumerate(free)
    ]
    pod_sets = (
        PodSet(
            name=f"s{number}",
            count=count,
            minimum=count,
            takes=Resources({GPU: gpus * 1000, "cpu": cpus * 1000, "pods": 1}),
        )
        for number, (count, (gpus, cpus)) in enumerate(sets)
    )
    gang = a_workload("g", *pod_sets, kind=kind_names.VOLCANO_JOB)
    table = NodeTable.build(nodes, [(HOST,)])
    return plan_of(a_snapshot(gang, queues=[Queue(name=gang.queue)], nodes=table, now=1))


def has_place(free: list[Amount], pods: list[Amount]) -> bool:
    """By trying every node for every pod."""
    if not pods:
        return True
    (gpus, cpus), *rest = pods
    return any(
        has_place([*free[:at], (node[0] - gpus, node[1] - cpus), *free[at + 1 :]], rest)
        for at, node in enumerate(free)
        if node not in free[:at] and node[0] >= gpus and node[1] >= cpus
    )


def a_world(chance: Random) -> tuple[list[Amount], Sets]:
    free = [
        (chance.choice([8, 8, 4, 6, 2]), chance.choice([32, 64, 48, 16])) for _ in range(chance.randint(2, 4))
    ]
    sets = [
        (chance.randint(1, 3), (chance.choice([0, 1, 2, 3, 4, 8]), chance.choice([1, 4, 8, 12, 16])))
        for _ in range(chance.randint(2, 3))
    ]
    return free, sets


def test_a_gang_that_fits_is_not_refused() -> None:
    chance, fitting = Random(3), 0
    for _ in range(300):
        free, sets = a_world(chance)
        pods = sorted((amount for count, amount in sets for _ in range(count)), reverse=True)
        fits = has_place(free, pods)
        fitting += fits
        assert bool(decided(free, sets).admits) == fits, (free, sets)
    assert fitting > 100


@with_rows("free", "sets")
def test_sets_that_find_no_place_one_after_another_are_placed_together(
    free: list[Amount], sets: Sets
) -> None:
    assert decided(free, sets).admits


def test_no_search_is_made_where_one_set_after_another_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "exact_seats", None)
    assert decided([(8, 32)], [(1, (4, 8)), (2, (2, 8))]).admits


def test_a_search_ends_within_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_search, "_STEPS", 0)
    chance = Random(3)
    for _ in range(50):
        decided(*a_world(chance))

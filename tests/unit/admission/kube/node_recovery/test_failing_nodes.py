"""Nodes that kill pods are closed to gangs, as the world shows how pods with devices fare there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import Conduct, PodPhase, PodShape
from admission.node_recovery.early_failures import CLOSED_FOR
from queues import kind_names
from queues.resources import Resources
from queues.workload import (
    DeviceShare,
    NodeFilter,
    NodeName,
    QueueName,
    Requirement,
    WorkloadKey,
)
from tests.builders.facts import NOW, VOLCANO, admission, gpus, queue, seen, volcano_job
from tests.unit.admission.kube.node_recovery.rounds import REPORT, TAINT, Rounds, root, runs


def key_of(number: int) -> WorkloadKey:
    return WorkloadKey(kind_names.VOLCANO_JOB, f"{VOLCANO.uid[:-2]}{number + 30}")


def kill(rounds: Rounds, *numbers: int, where: str = "n1", of: str = "", **facts: Any) -> None:
    """A pod of each of these gangs runs on the node and fails. ``of``: their tenant and user; "": each has its own."""
    for number in numbers:
        key = key_of(number)
        tenant, user = (of or f"tenant-{number}/user-{number}").split("/")
        leaf = QueueName(f"{tenant}-leaf")
        fact = replace(gang_of(f"{tenant}/{user}"), key=key, name=f"train-{number}")
        pod = replace(runs(f"p{number}", key, fact.name, by=number + 10), node=NodeName(where), **facts)
        held = admission(key, where, number=number + 10, name=fact.name, queue=leaf, user=user, started=True)
        rounds.world.observe([seen(queue(tenant)), seen(queue(leaf, parent=tenant))])
        rounds.world.put_admissions([held])
        rounds.world.observe([seen(fact), seen(pod), seen(replace(pod, phase=PodPhase.FAILED))])


def gang_of(tenant_and_user: str) -> Any:
    """A gang that waits in a queue of a tenant."""
    tenant, user = tenant_and_user.split("/")
    key = WorkloadKey(kind_names.VOLCANO_JOB, "other")
    return replace(
        volcano_job(1), key=key, name="other", queue=QueueName(f"{tenant}-leaf"), conduct=Conduct(user=user)
    )


def closed(rounds: Rounds) -> list[str]:
    """Nodes that get no gangs."""
    table = rounds.world.node_inventory.table().layout
    return [name for name, usable in zip(table.names, table.usable, strict=True) if not usable]


async def test_a_node_on_which_gangs_fail_early_takes_no_more_for_a_time_and_that_is_told() -> None:
    rounds = Rounds(root(REPORT, "report"))
    kill(rounds, 0, 1, 2)
    await rounds.look(3)
    assert closed(rounds) == ["n1"]
    why = rounds.world.node_inventory.table().layout.why_not[0]
    assert why == "closed to gangs: pods of 3 different gangs failed soon after their start"
    assert rounds.events() == ["NodeKillsPods"]
    assert "n1" in rounds.world.unsaved.nodes, "it is stored, so that people see it"
    rounds.now += CLOSED_FOR
    await rounds.look(1)
    assert closed(rounds) == []


async def test_where_nodes_are_recovered_such_a_node_is_repaired_and_then_begins_anew() -> None:
    rounds = Rounds(root())
    kill(rounds, 0, 1, 2)
    for number in range(3):
        [held] = rounds.world.admission_index.of(key_of(number))
        rounds.world.put_admissions([replace(held, ended=frozenset({0}))])
    await rounds.look(5)
    assert (rounds.phase(), rounds.taints()) == ("recovering", [TAINT])
    rounds.end(rounds.made()[0], "Complete")
    await rounds.look(5)
    assert closed(rounds) == []
    assert rounds.taints() == []


@pytest.mark.parametrize(
    ("other", "closes"),
    [
        (gang_of("other/other"), False),
        (gang_of("only/other"), False),
        (gang_of("other/only"), False),
        (replace(gang_of("other/other"), finished=True), True),
        (gang_of("only/only"), True),
    ],
    ids=["of others", "of another user", "of another tenant", "that has ended", "of the same"],
)
async def test_the_programs_of_one_tenant_or_user_close_no_node_while_others_have_gangs(
    other: Any, closes: bool
) -> None:
    rounds = Rounds(root(REPORT, "report"), other)
    kill(rounds, *range(6), of="only/only")
    await rounds.look(1)
    assert bool(closed(rounds)) is closes
    kill(rounds, 6)
    await rounds.look(1)
    assert closed(rounds) == ["n1"]


BY_NAMES = (Requirement("metadata.name", "In", ("n1", "n2"), field=True),)


@pytest.mark.parametrize(
    ("shape", "closes"),
    [
        (PodShape(takes=gpus(1)), True),
        (PodShape(takes=gpus(1), nodes=NodeFilter(selector=(("kubernetes.io/hostname", "n1"),))), False),
        (PodShape(takes=gpus(1), nodes=NodeFilter(affinity=(BY_NAMES,))), False),
        (PodShape(takes=Resources({"cpu": 100, "pods": 1})), False),
        (PodShape(takes=Resources({"pods": 1}), share=DeviceShare(devices=1, milli=100)), True),
    ],
    ids=["any node", "named its node", "named several", "without devices", "with a part of a device"],
)
async def test_pods_with_devices_that_did_not_choose_their_node_count(shape: PodShape, closes: bool) -> None:
    rounds = Rounds(root(REPORT, "report"))
    kill(rounds, 0, 1, 2, shape=shape)
    await rounds.look(1)
    assert bool(closed(rounds)) is closes


@pytest.mark.parametrize(
    ("takes", "seconds", "closes"), [(gpus(), 3600, False), (gpus(), 60, True), ({"pods": 1}, 3600, True)]
)
async def test_a_pod_with_devices_that_runs_there_well_shows_that_the_node_is_not_to_blame(
    takes: Mapping[str, int], seconds: int, closes: bool
) -> None:
    held = admission(VOLCANO, "n1", started=True)
    pod = replace(runs("a"), bound_at=NOW - seconds, shape=PodShape(takes=Resources(takes)))
    rounds = Rounds(root(REPORT, "report"), volcano_job(1), pod, admissions=[held])
    kill(rounds, *range(6))
    await rounds.look(2)
    assert bool(closed(rounds)) is closes


@pytest.mark.parametrize(("most", "expected"), [(1, ["n1"]), (2, ["n1", "n2"]), (0, [])])
async def test_no_more_nodes_are_closed_than_the_circuit_breaker_allows(
    most: int, expected: list[str]
) -> None:
    rounds = Rounds(root(replace(REPORT, max_nodes_out=most), "report"))
    kill(rounds, 0, 1, 2, where="n1")
    kill(rounds, 3, 4, 5, where="n2")
    await rounds.look(3)
    assert closed(rounds) == expected

"""Volumes that nodes attach: what counts against the limits of CSINodes, kept up to date change by change."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.snapshot import Snapshot
from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodFact
from admission.facts.volumes import PodVolume
from admission.world.volumes import KNOWN, UNWATCHED
from admission.world.world import World
from queues.plan import Plan
from queues.workload import ATTACHED, HostPort, NodeName
from tests.builders.facts import GROUP, NOW, TEAM, gated, gone, group, node, queue, see, seen, world
from tests.laws.worlds.attach_limits import DRIVERS, LOCAL, Case, claimed, drawn, made

BLOCK, FILE = DRIVERS
OWN = (HostPort(1, ATTACHED, BLOCK),)


def begun(case: Case, *changes: Change) -> World:
    """A world that knows the volumes of a case."""
    arrivals = {case.key(number): number + 2 for number in range(-1, len(case.gangs)) if case.tasks(number)}
    known = world(case.facts(), case.admissions(), arrivals)
    see(known, *case.changes(), *changes)
    return known


def decided(known: World) -> Plan:
    known.refresh(NOW)
    return decide(known.freeze(NOW), Memo())[0]


def noted(
    known: World,
) -> tuple[dict[NodeName, tuple[HostPort, ...]], Mapping[NodeName, object], list[object]]:
    known.refresh(NOW)
    snapshot: Snapshot = known.freeze(NOW)
    workloads = [
        workload for rows in (snapshot.pending, snapshot.holders) for _, workload in sorted(rows.items())
    ]
    sets = [(each.name, pods.name, pods.attached) for each in workloads for pods in each.pod_sets]
    return dict(snapshot.nodes.ports), snapshot.nodes.attach_limits, sets


def reason(known: World, case: Case) -> str:
    return decided(known).reasons[case.key(0)].message


@pytest.mark.parametrize("seed", range(60))
def test_the_order_in_which_objects_come_does_not_matter(seed: int) -> None:
    case, draw = drawn(seed), Random(seed)
    late = world(
        [], case.admissions(), {case.key(number): number + 2 for number in range(-1, len(case.gangs))}
    )
    moving = [*map(seen, case.facts()), *case.volumes()]
    draw.shuffle(moving)
    known_at = draw.randrange(len(moving))
    for number, change in enumerate(moving):
        if number == known_at:
            late.observe([KNOWN])
        if draw.random() < 0.3:
            late.observe([change, replace(change, fact=None)])
            noted(late)
        late.observe([change])
        noted(late)
    assert noted(late) == noted(begun(case))


ONE = Case({"n0": 8, "n1": 8}, {"n0": {BLOCK: 2}, "n1": {BLOCK: 2}}, gangs=[[(4, made(BLOCK))]])


def test_nothing_is_noted_without_limits_or_before_volumes_are_known_or_once_they_are_not_watched() -> None:
    assert noted(begun(replace(ONE, limits={})))[:2] == ({}, {})
    known = world(ONE.facts(), (), {ONE.key(0): 1})
    known.observe(ONE.volumes())
    assert noted(known)[:2] == ({}, {})
    known.observe([KNOWN])
    assert noted(known)[2] == [("g0", "t0", OWN)]
    assert noted(known)[1] == {"n0": {BLOCK: 2}, "n1": {BLOCK: 2}}
    known.observe([UNWATCHED])
    assert noted(known)[:2] == ({}, {})
    assert not known.snapshot_rows.attached_volumes._workloads_with.keys()


def test_a_limit_that_is_raised_lets_a_gang_in() -> None:
    case = replace(ONE, nodes={"n0": 8})
    known = begun(case)
    assert reason(known, case).startswith(
        "4 pods of 1 nvidia.com/gpu asked at once, all nodes together hold 2"
    )
    known.observe([replace(case, limits={"n0": {BLOCK: 4}}).csi_node("n0")])
    assert [admit.workload for admit in decided(known).admits] == [case.key(0)]
    known.observe([case.csi_node("n0")])
    assert not decided(known).admits
    known.observe([replace(case.csi_node("n0"), fact=None)])
    assert decided(known).admits, "a node without a CSINode has no limit, as the scheduler sees it"


def test_a_volume_that_a_pod_brings_later_counts_and_is_free_again_when_the_pod_is_gone() -> None:
    case = replace(ONE, nodes={"n0": 8}, bound={"a": (BLOCK, "h")}, gangs=[[(2, made(BLOCK))]])
    known = begun(case)
    assert decided(known).admits
    (pod,) = [
        fact for fact in replace(case, running=[(claimed("a"), "n0")]).facts() if isinstance(fact, PodFact)
    ]
    known.observe([seen(pod)])
    assert reason(known, case) == ("1 of 2 pods of 1 nvidia.com/gpu fit on 1 nodes")
    known.observe([gone(pod)])
    assert decided(known).admits


def test_a_node_that_can_attach_no_more_is_named() -> None:
    case = Case(
        {"n0": 8, "n1": 0},
        {"n0": {BLOCK: 1}},
        bound={"a": (BLOCK, "h")},
        running=[(claimed("a"), "n0")],
        gangs=[[(1, made(BLOCK))]],
    )
    assert reason(begun(case), case) == (
        "0 of 1 pod of 1 nvidia.com/gpu fit on 2 nodes (1 that can attach no more such volumes, 1 without room)"
    )


def test_a_pod_with_more_volumes_than_any_node_attaches_never_fits() -> None:
    case = replace(ONE, gangs=[[(1, made(BLOCK, BLOCK, BLOCK))]])
    answer = decided(begun(case)).reasons[case.key(0)]
    assert (answer.code, answer.message) == (
        "NeverFits",
        f"3 volumes of {BLOCK} asked in one pod, the largest node can attach 2",
    )


LOCALS = Case({"n0": 8, "n1": 8}, {}, {"n0": [True, True], "n1": [False]}, gangs=[[(2, made(LOCAL))]])


def test_what_others_have_now_makes_nothing_never_fit() -> None:
    three = replace(LOCALS, gangs=[[(3, made(LOCAL))]])
    answer = decided(begun(three)).reasons[three.key(0)]
    assert (answer.code, answer.message) == (
        "NoFit",
        "2 of 3 pods of 1 nvidia.com/gpu fit on 2 nodes (1 where their volumes cannot be used)",
    )
    four = replace(LOCALS, gangs=[[(4, made(LOCAL))]])
    answer = decided(begun(four)).reasons[four.key(0)]
    assert (answer.code, answer.message) == (
        "NeverFits",
        "4 pods of 1 nvidia.com/gpu asked at once, all nodes together hold 3 even if empty",
    )


def test_a_local_volume_counts_on_the_node_that_has_its_host_label() -> None:
    known = begun(LOCALS)
    driver = f"StorageClass {LOCAL}"
    assert noted(known)[:2] == (
        {"n1": (HostPort(1, ATTACHED, driver),)},
        {"n0": {driver: 2}, "n1": {driver: 1}},
    )
    assert decided(known).admits
    known.observe([LOCALS.local_volume("n0", 1, False)])
    assert not decided(known).admits
    known.observe([LOCALS.local_volume("n0", 1, True)])
    assert decided(known).admits
    known.observe([seen(replace(LOCALS.node("n0"), labels={HOST: "another"}))])
    assert noted(known)[1] == {"n1": {driver: 1}}
    known.observe([Change(FactKind.STORAGE_CLASS, LOCAL, None)])
    assert noted(known)[:2] == ({}, {})


def test_members_of_a_group_count_with_claims_of_their_own_and_keep_one_shape() -> None:
    members = [gated(name, group="gang", owner=GROUP, volumes=(PodVolume(claim=name),)) for name in "abcd"]
    case = replace(ONE, unbound=dict.fromkeys("abcd", BLOCK), gangs=[])
    known = world([queue(TEAM), *(node(name) for name in case.nodes), group(4), *members], (), {GROUP: 1})
    see(known, *case.changes())
    (admit,) = decided(known).admits
    assert sorted(seat.node for seat in admit.seats) == ["n0", "n0", "n1", "n1"]
    assert {seat.pod_set for seat in admit.seats} == {admit.seats[0].pod_set}


def test_a_claim_is_the_same_volume_before_and_after_it_is_bound() -> None:
    before = replace(ONE, unbound={"a": BLOCK}, running=[(claimed("a"), "n0")], gangs=[[(1, claimed("a"))]])
    known = begun(before)
    assert noted(known)[0] == {"n0": (HostPort(0, ATTACHED, f"{BLOCK}/claim ns/a"),)}
    after = replace(before, unbound={}, bound={"a": (BLOCK, "h")})
    known.observe(after.volumes())
    named = (HostPort(0, ATTACHED, f"{BLOCK}/h"),)
    assert noted(known)[0] == {"n0": named}
    assert noted(known)[2] == [("g0", "t0", named)]


def test_other_changes_of_volumes_do_not_touch_workloads_without_them() -> None:
    case = replace(ONE, gangs=[[(1, [])]], unbound={"a": BLOCK})
    known = begun(case)
    noted(known)
    assert not known.snapshot_rows.attached_volumes._of_workloads
    known.observe([Change(FactKind.VOLUME_CLAIM, "a", None)])
    assert not known.snapshot_rows.attached_volumes.is_stale

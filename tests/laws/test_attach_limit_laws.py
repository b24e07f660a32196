"""The law of attach limits: gangs with volumes go where the scheduler lets nodes attach all of them; and bugs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from admission.engine import reasons
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.host_ports import HostPorts, driver_of, own_volumes
from admission.engine.nodes.table import NodeTable
from admission.engine.placement import gangs
from admission.engine.trial import Trial
from admission.world.attached_volumes import AttachedVolumes
from admission.world.volumes import VolumeFacts
from queues.plan import Plan
from tests.builders.facts import NOW, world
from tests.laws.worlds.attach_limits import DRIVERS, LOCAL, Case, claimed, drawn, made

#: The first of them are run always.
ALWAYS, EVERY = range(300), range(300, 4000)
BLOCK = DRIVERS[0]
#: Cases that are seldom drawn.
EXAMPLES = {
    "four pods with a claim of their own on nodes that attach two": Case(
        {"n0": 8, "n1": 8}, {"n0": {BLOCK: 2}, "n1": {BLOCK: 2}}, gangs=[[(4, made(BLOCK))]]
    ),
    "two claims with one volume": Case(
        {"n0": 2},
        {"n0": {BLOCK: 1}},
        bound={"a": (BLOCK, "h"), "b": (BLOCK, "h")},
        running=[(claimed("a"), "n0")],
        gangs=[[(1, claimed("b"))]],
    ),
    "the only volume of a node is promised to the pod that runs there": Case(
        {"n0": 8, "n1": 8},
        {},
        local={"n0": [True], "n1": [False, True]},
        seated=(["n0"], made(LOCAL)),
        gangs=[[(1, made(LOCAL))]],
    ),
    "the second gang of the turn gets another volume": Case(
        {"n0": 8, "n1": 8},
        {},
        local={"n0": [True], "n1": [False]},
        gangs=[[(1, made(LOCAL))], [(1, made(LOCAL))]],
    ),
    "two tasks that have to be mixed": Case(
        {"n0": 5, "n1": 5},
        {"n0": {BLOCK: 5}, "n1": {BLOCK: 7}},
        gangs=[[(3, made(BLOCK, BLOCK)), (2, made(BLOCK, BLOCK, BLOCK))]],
    ),
}


def planned(case: Case) -> Plan:
    """What Muster decides."""
    arrivals = {case.key(number): number + 2 for number in range(-1, len(case.gangs)) if case.tasks(number)}
    known = world(case.facts(), case.admissions(), arrivals)
    known.observe(case.changes())
    known.refresh(NOW)
    return decide(known.freeze(NOW), Memo())[0]


def nodes_attach_what_is_placed(case: Case) -> int:
    """All that is admitted in one turn can be bound; the first gang is refused only if it has no place. Returns how
    many are admitted."""
    plan = planned(case)
    placed = []
    for admit in plan.admits:
        (number,) = [number for number in range(len(case.gangs)) if case.key(number) == admit.workload]
        ordinals = [
            (f"t{at}", each) for at, (count, _) in enumerate(case.tasks(number)) for each in range(count)
        ]
        pods = dict(zip(ordinals, case.pods(number), strict=True))
        placed += [(str(seat.node), pods[seat.pod_set, seat.ordinal]) for seat in admit.seats]
    assert case.is_allowed(placed), placed
    if not plan.admits:
        least = case.pods(0)
        assert not any(map(case.has_place, ([pod] for pod in least) if case.grows else [least])), plan.reasons
        assert plan.reasons[case.key(0)].code in ("NoFit", "NeverFits")
    return len(plan.admits)


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_place_is_found(example: str) -> None:
    assert nodes_attach_what_is_placed(EXAMPLES[example]) == 1


def test_a_gang_is_admitted_exactly_if_nodes_can_attach_its_volumes() -> None:
    admitted = [nodes_attach_what_is_placed(drawn(seed)) for seed in ALWAYS]
    assert 80 < admitted.count(0) < 220, "cases of both kinds"
    assert admitted.count(2) > 20


def test_parts_of_a_gang_join_it_where_nodes_can_attach_their_volumes() -> None:
    admitted = [nodes_attach_what_is_placed(replace(drawn(seed), grows=True)) for seed in range(150)]
    assert admitted.count(0) < 75


@pytest.mark.long
def test_the_same_in_many_more_clusters() -> None:
    for seed in EVERY:
        nodes_attach_what_is_placed(drawn(seed))


def _once_for_each_node(self: Trial, columns: Any, counts: Any, *more: Any, **given: Any) -> None:
    before = len(self.steps)
    _take(self, columns, counts, *more, **given)
    (step,) = self.steps[before:]
    self.ports.vacate(step.ports)
    step.ports = [place._replace(ports=tuple(dict.fromkeys(place.ports))) for place in step.ports]
    self.ports.occupy(step.ports)


def _each_time(self: HostPorts, port: Any, column: int, change: int) -> None:
    _attach(self, replace(port, port=port.port or 1, ip=driver_of(port)), column, change)


def _by_class(self: VolumeFacts, namespace: str, volume: Any) -> Any:
    found = _attached_as(self, namespace, volume)
    return found and (found[0], f"claim {namespace}/{volume.claim}" if volume.claim else "")


def _free_ones(self: AttachedVolumes) -> Any:
    return ((at, volume._replace(is_free=True)) for at, volume in _on_nodes(self))


_on_nodes = AttachedVolumes._on_nodes
_take, _attach, _attached_as = Trial.take, HostPorts._attach, VolumeFacts.attached_as
_unlimited: Any = lambda self, limits: self  # noqa: E731

BUGS = {
    "limits are not read": (NodeTable, "with_attach_limits", _unlimited),
    "pods of one gang on a node count as one": (Trial, "take", _once_for_each_node),
    "a volume of several pods counts for each": (HostPorts, "_attach", _each_time),
    "local volumes that others have are free": (AttachedVolumes, "_on_nodes", _free_ones),
    "a volume is named by its claim": (VolumeFacts, "attached_as", _by_class),
    "pods without a seat have no volumes": (AttachedVolumes, "noted_pods", lambda self: ()),
    "tasks are placed one after the other only": (gangs, "related_seats", lambda *_: reasons.nothing_missing()),
    "a node with too many volumes takes no pod": (
        HostPorts,
        "attachable",
        lambda self, attached: np.where(
            np.logical_or.reduce([self.volumes_left(driver) <= 0 for driver in own_volumes(attached)] or [False]),
            0,
            1 << 31,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_breaks_the_law(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[bug])
    for case in (*EXAMPLES.values(), *map(drawn, ALWAYS)):
        try:
            nodes_attach_what_is_placed(case)
        except AssertionError:
            return
    pytest.fail("no case shows it")

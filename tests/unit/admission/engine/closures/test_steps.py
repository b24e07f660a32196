"""What reservations and drains cost a turn, without a clock: what changed, however much runs and is kept besides."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine.closures import closing
from admission.engine.closures.closing import TurnClosures
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission
from queues.node_closures import NodeClosure
from queues.quota.queue import ROOT, Limits, Queue
from queues.versioned_map import VersionedMap
from queues.workload import AdmissionId, NodeName, QueueName, Workload, WorkloadKey
from tests.builders.closures.closed_nodes import GPU, OTHERS, START, TEAM, gpus, reservation, workload, world
from tests.function_calls import calls_of

NODES, BESIDE = 100, 30
FEW, MANY = 10, 40
QUEUES = {
    name: Queue(name=name, parent=ROOT, limits=Limits(deserved={GPU: NODES * 4000}))
    for name in (TEAM, OTHERS)
}


class Life:
    """Turns of one world with reservations of tenants, in their lead time."""

    def __init__(self, reservations: int, beside: int, asks: int) -> None:
        """``beside``: pods on each node; a third of them were evicted before. ``asks``: GPUs of each reservation."""
        running: dict[str, tuple[Workload, ...]] = {
            f"n{node}": tuple(
                workload(
                    f"w{node}-{number}",
                    each=0,
                    queue=(TEAM, OTHERS)[number % 2],
                    evictions=int(number % 3 == 0),
                )
                for number in range(beside)
            )
            for node in range(NODES)
        }
        closures = [
            reservation(
                name=f"r{number}",
                queue=TEAM,
                of_tenant=True,
                amounts=gpus(asks),
                clear_at=START - 120 + number,
            )
            for number in range(reservations)
        ]
        self._snapshot = world(START - 3000, *closures, running=running, nodes=NODES, queues=QUEUES)
        self._admissions = VersionedMap[AdmissionId, Admission](self._snapshot.admissions)
        holders = VersionedMap[WorkloadKey, Workload](self._snapshot.holders)
        queues = VersionedMap[QueueName, Queue](QUEUES)
        self._snapshot = replace(self._snapshot, holders=holders.freeze(), queues=queues.freeze())
        self._memo = Memo()
        for number in range(60):
            self.turn(number % 7 + 1)

    def turn(self, changed: int | None = None) -> None:
        """A turn, in which this admission is another one than before."""
        if changed is not None:
            admission = self._admissions.get(AdmissionId(changed))
            self._admissions.put(admission.id, replace(admission, ready=not admission.ready))
        self._snapshot = replace(
            self._snapshot, now=self._snapshot.now + 1, admissions=self._admissions.freeze()
        )
        plan, self._memo = decide(self._snapshot, self._memo)
        if plan.chosen_nodes:
            closures = tuple(
                replace(each, nodes=plan.chosen_nodes.get(each.id, each.nodes))
                for each in self._snapshot.closures
            )
            self._snapshot = replace(self._snapshot, closures=closures)


def costs(life: Life, changed: int | None) -> int:
    return calls_of(lambda: life.turn(changed))


@pytest.mark.parametrize("changed", [None, 3], ids=["nothing changed", "one admission changed"])
@pytest.mark.parametrize("asks", [8, 9000], ids=["they have their nodes", "they lack nodes"])
def test_a_turn_with_reservations_costs_the_same_whatever_runs(asks: int, changed: int | None) -> None:
    few, many = (costs(Life(FEW, beside, asks), changed) for beside in (BESIDE // 3, BESIDE))
    assert many < 1.2 * few + 200


def test_a_turn_in_which_nothing_changed_costs_the_same_however_many_reservations_there_are() -> None:
    few, many = (costs(Life(reservations, 3, 8), None) for reservations in (FEW, MANY))
    assert many < 1.2 * few + 200


def test_no_more_than_a_few_reservations_choose_nodes_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    life, chosen = Life(MANY, 3, 9000), list[str]()
    choose = closing.nodes_within_right

    def count(closure: NodeClosure, *given: Any) -> tuple[NodeName, ...]:
        chosen.append(closure.id)
        return choose(closure, *given)

    monkeypatch.setattr(closing, "nodes_within_right", count)
    life.turn(3)
    assert len(chosen) == 8


def test_every_reservation_that_lacks_nodes_gets_its_turn_to_choose() -> None:
    closures = [
        reservation(name=f"r{number:02}", amounts=gpus(9000 if number < 20 else 8)) for number in range(21)
    ]
    snapshot: Snapshot = world(START - 3000, *closures, nodes=3)
    # The first ones have asked for all nodes, and never have enough.
    late = replace(closures[-1], start=START + 90_000, clear_at=START + 90_000, end=None)
    snapshot = replace(snapshot, closures=(*closures[:-1], late))
    times = [snapshot.now + 5 * number for number in range(6)]
    chosen = [
        TurnClosures().follow(replace(snapshot, now=now))[0].chosen.get("reservation/r20", ())
        for now in times
    ]
    assert any(chosen)
    assert all(
        until - now <= 5
        for now in times
        if (until := TurnClosures().follow(replace(snapshot, now=now))[0].until)
    )

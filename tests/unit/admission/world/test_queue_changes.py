"""What a change of one queue costs, without a clock: the queues that it changes, however many others there are."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from admission.facts.changes import Change
from admission.reconcile.world_status import QueueStatuses
from admission.world.world import World
from queues import kind_names
from queues.quota import effective_limits
from queues.quota.queue import ROOT, Limits, QueuePolicy
from queues.quota.tree import QueueTree
from queues.workload import QueueName, Requirement, WorkloadKey
from tests.builders.facts import NOW, admission, gone, node, queue, released, see, seen, volcano_job, world
from tests.function_calls import calls_of

FEW, MANY = 50, 400
#: Queues in which a Job runs.
HELD = 10
GPU = "nvidia.com/gpu"
TENANTS = ("t0", "t1")


def key(number: int) -> WorkloadKey:
    return WorkloadKey(kind_names.VOLCANO_JOB, f"j{number}")


def leaf(number: int, *, gpus: int = 8, **facts: Any) -> Change:
    """A queue of a tenant, guaranteed a device."""
    limits = Limits(guarantee={GPU: 1000}, deserved={GPU: 4000}, capability={GPU: gpus * 1000})
    parent = QueueName(TENANTS[number % len(TENANTS)])
    return seen(queue(f"q{number}", **{"parent": parent, "limits": limits, **facts}))


@dataclass
class Life:
    """Turns of a world with so many queues, each with a Job that runs or waits."""

    world: World
    statuses: QueueStatuses
    memo: Memo

    @classmethod
    def of(cls, count: int) -> "Life":
        begun = world(
            [queue(ROOT), *(queue(name, parent=QueueName(ROOT)) for name in TENANTS), node("n0")],
            [admission(key(each), "n0", number=each + 1, started=True) for each in range(HELD)],
            {key(number): number + 1 for number in range(count)},
        )
        begun.observe([leaf(number) for number in range(count)])
        for each in range(count):
            job = replace(volcano_job(1), key=key(each), name=f"train-{each}", queue=QueueName(f"q{each}"))
            begun.observe([seen(job)])
        for each in range(HELD):
            of = {"owner": key(each), "index": 0, "task": "worker", "by": each + 1}
            begun.observe([seen(released(f"p{each}", "worker/0", "n0", **of))])
        life = cls(begun, QueueStatuses(begun), Memo())
        life.turn()
        life.turn()
        return life

    def turn(self, *changes: Change) -> Snapshot:
        """What the loop does of a turn and of the statuses of queues, but for transactions."""
        see(self.world, *changes, now=NOW + 1)
        frozen = self.world.freeze(NOW + 1)
        list(self.statuses.changed())
        return frozen


CHANGES = {
    "limits": (leaf(3, gpus=9),),
    "a guarantee": (leaf(3, limits=Limits(guarantee={GPU: 2000})),),
    "a policy": (leaf(3, policy=QueuePolicy(max_evictions=1)),),
    "who may use it": (leaf(3, namespace_selector=(Requirement("x", "Exists"),)),),
    "how long work may run": (leaf(3, max_run_time=60),),
    "it is closed": (leaf(3, closed=True),),
    "it is broken": (leaf(3, broken="it says so"),),
    "another parent": (leaf(3, parent=QueueName(TENANTS[0])),),
    "a new queue": (leaf(MANY + 1),),
    "a removed queue": (gone(queue("q3")),),
    "a removed queue that is not held": (gone(queue("q40")),),
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_change_of_one_queue_costs_the_same_however_many_there_are(changes: tuple[Change, ...]) -> None:
    few, many = Life.of(FEW), Life.of(MANY)
    small, large = (calls_of(lambda life=life: life.turn(*changes)) for life in (few, many))  # type: ignore[misc]
    assert large < 1.2 * small + 100


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_the_tree_is_built_once_for_a_change(
    changes: tuple[Change, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    life, built = Life.of(FEW), list[object]()
    _, memo = decide(life.turn(), Memo())
    step = effective_limits._Step

    def count(*given: Any) -> Any:
        built.append(given)
        return step(*given)

    monkeypatch.setattr(effective_limits, "_Step", count)
    decide(life.turn(*changes), memo)
    life.turn()
    assert len(built) == 1


def test_while_the_tree_is_built_questions_are_answered_from_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = Life.of(FEW).world
    known.observe([leaf(3, namespace_selector=(Requirement("x", "Exists"),))])
    answers = [known.queue_facts.must_be_built]
    build = QueueTree.build.__func__  # type: ignore[attr-defined]

    def slowly(*given: Any, **options: Any) -> QueueTree:
        answers.append(known.queue_permissions.may_use("ns", QueueName("q3")))
        tree: QueueTree = build(QueueTree, *given, **options)
        return tree

    monkeypatch.setattr(QueueTree, "build", slowly)
    known.queue_facts.build_tree()
    monkeypatch.undo()
    assert [*answers, known.queue_permissions.may_use("ns", QueueName("q3"))] == [True, True, False]
    assert not known.queue_facts.must_be_built

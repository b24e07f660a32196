"""Whose changes a turn takes in: a tenant with few does not wait for one with many."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from admission.facts.changes import Change, Fact, FactKind
from admission.facts.pods import PodFact, PodPhase
from admission.kube.watch.change_queue import ASKED_WITHIN, HELD_FOR, MOST, MOST_BESIDE_OTHERS, ChangeQueue
from queues import kind_names
from queues.workload import QueueName, WorkloadKey
from tests.builders.facts import pod, queue, seen, volcano_job

TENANTS = {"flood": "flood", "flood-2": "flood", "quiet": "quiet"}


class Waiting:
    """Changes that wait, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.changes = ChangeQueue(lambda: self.now)
        self.changes.tenant_of = lambda name: QueueName(TENANTS[name])
        self._number = 0

    def come(self, queue_name: str, count: int = 1, *, asks: bool = False) -> None:
        """Jobs appear or change in the queue's namespace."""
        for _ in range(count):
            self._number += 1
            key = WorkloadKey(kind_names.VOLCANO_JOB, f"{queue_name}-{self._number}")
            job = replace(volcano_job(1), key=key, queue=QueueName(queue_name), namespace=queue_name)
            self.changes.put(seen(job), queue_name, is_asking=asks)

    def take(self) -> dict[str, int]:
        """How many changes of each queue the next turn takes in."""
        taken = [change.key.rpartition("-")[0] for change in self.changes.take()]
        return {name: taken.count(name) for name in sorted(set(taken))}


def test_a_tenant_that_is_alone_is_not_slowed() -> None:
    waiting = Waiting()
    waiting.come("flood", 800, asks=True)
    assert waiting.take() == {"flood": 800}
    waiting.come("flood", MOST + 5)
    assert [waiting.take(), waiting.take()] == [{"flood": MOST}, {"flood": 5}]


def test_who_asks_and_has_few_changes_gets_a_turn_without_those_that_have_many() -> None:
    waiting = Waiting()
    waiting.come("flood", 500, asks=True)
    waiting.come("quiet", asks=True)
    assert waiting.take() == {"quiet": 1}


def test_who_has_many_waits_for_no_more_than_one_turn_of_the_others() -> None:
    waiting = Waiting()
    takes = []
    for _ in range(3):
        waiting.come("flood", 500, asks=True)
        waiting.come("quiet", asks=True)
        takes.append(waiting.take())
        waiting.now += HELD_FOR
    both = {"flood": MOST_BESIDE_OTHERS, "quiet": 1}
    assert takes == [{"quiet": 1}, both, {"quiet": 1}]


def test_while_others_ask_now_and_then_who_has_many_has_a_part_a_few_times_a_second() -> None:
    waiting = Waiting()
    waiting.come("quiet", asks=True)
    assert waiting.take() == {"quiet": 1}
    waiting.come("flood", 300)
    assert waiting.take() == {"flood": MOST_BESIDE_OTHERS}
    assert waiting.changes.wait() == HELD_FOR
    assert waiting.take() == {}, "its time has not come"
    waiting.come("quiet")
    assert (waiting.changes.wait(), waiting.take()) == (0.0, {"quiet": 1})
    waiting.now += HELD_FOR
    assert waiting.take() == {"flood": MOST_BESIDE_OTHERS}
    waiting.now += ASKED_WITHIN
    assert waiting.take() == {"flood": 300 - 2 * MOST_BESIDE_OTHERS}
    assert waiting.changes.wait() is None


def test_changes_that_wait_for_their_time_ask_for_no_turn() -> None:
    waiting = Waiting()
    waiting.come("quiet", asks=True)
    waiting.take()
    waiting.come("flood", 300)
    waiting.take()
    job = seen(replace(volcano_job(1), namespace="flood"))
    assert not waiting.changes.put(job, "flood", is_asking=True)
    assert waiting.changes.put(job, "quiet")


def test_a_tenant_gets_no_more_by_having_more_namespaces() -> None:
    waiting = Waiting()
    waiting.come("quiet", asks=True)
    waiting.take()
    waiting.come("flood", 200)
    waiting.come("flood-2", 200)
    assert sum(waiting.take().values()) == MOST_BESIDE_OTHERS


def test_very_many_changes_are_taken_in_faster_than_they_pile_up() -> None:
    waiting = Waiting()
    waiting.come("quiet", asks=True)
    waiting.take()
    waiting.come("flood", 16 * MOST)
    assert waiting.take() == {"flood": MOST}


def test_tenants_with_many_each_are_taken_in_together() -> None:
    waiting = Waiting()
    waiting.come("flood", 400, asks=True)
    waiting.come("quiet", 300, asks=True)
    assert waiting.take() == {"flood": 400, "quiet": 300}


def test_objects_without_a_namespace_come_with_the_next_turn() -> None:
    waiting = Waiting()
    waiting.come("flood", 500)
    waiting.come("quiet", asks=True)
    change = seen(queue("new"))
    waiting.changes.put(change)
    assert waiting.changes.take()[0] == change


@pytest.mark.parametrize("seed", range(6))
def test_of_each_object_its_last_states_come_in_their_order_and_each_step_with_what_was_before(
    seed: int,
) -> None:
    rng, waiting, put = random.Random(seed), Waiting(), dict[str, list[Change]]()
    taken: list[Change] = []
    for _ in range(60):
        for change in some_changes(rng):
            namespace = change.key.rpartition("-")[0]
            waiting.changes.put(change, namespace, is_asking=rng.random() < 0.1)
            put.setdefault(change.key, []).append(change)
        waiting.now += rng.choice([0.1, 1.0, ASKED_WITHIN])
        taken += waiting.changes.take()
    while (seconds := waiting.changes.wait()) is not None:
        waiting.now += seconds
        taken += waiting.changes.take()
    found: dict[str, list[Change]] = {}
    for change in taken:
        found.setdefault(change.key, []).append(change)
    assert {key: steps(changes) for key, changes in found.items()} == {
        key: steps(changes) for key, changes in put.items()
    }
    assert all(is_part(found[key], put[key]) for key in put)
    assert not waiting.changes.take_all()


def steps(changes: list[Change]) -> list[Change]:
    """The last state of each step in the life of a pod: the pod runs, is being deleted, has ended, is gone."""
    following = [*changes[1:], None]
    return [
        one
        for one, after in zip(changes, following, strict=True)
        if after is None or step(one.fact) is None or step(one.fact) != step(after.fact)
    ]


def step(fact: Fact | None) -> tuple[PodPhase, bool] | None:
    """How far a pod is in its life; None: it is gone."""
    return (fact.phase, fact.deleting) if isinstance(fact, PodFact) else None


def is_part(some: list[Change], of_all: list[Change]) -> bool:
    """Whether some changes are among all, in their order."""
    left = iter(of_all)
    return all(any(change is each for each in left) for change in some)


def some_changes(rng: random.Random) -> Iterator[Change]:
    """Pods appear, change and vanish, in namespaces with more and fewer of them."""
    for name, most in (("flood", 300), ("flood-2", 40), ("quiet", 4)):
        for _ in range(rng.randrange(most)):
            key = f"{name}-{rng.randrange(50)}"
            fact = replace(pod(key), queue=QueueName(name), version=rng.randrange(1_000_000))
            fact = replace(fact, phase=rng.choice(list(PodPhase)), deleting=rng.random() < 0.3)
            yield Change(FactKind.POD, key, None if rng.random() < 0.2 else fact)

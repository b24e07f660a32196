"""What counts for queues after changes is what counts for them if they are read for the first time."""

import random
from dataclasses import replace

import pytest

from queues.quota.queue import ROOT, Limits, Queue
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import FlavorName, QueueName

GPU = "nvidia.com/gpu"
NAMES = [*(QueueName(f"q{number}") for number in range(14)), QueueName(ROOT)]


def amounts(rng: random.Random, times: int) -> dict[str, int]:
    return {name: rng.randrange(9) * 1000 * times for name in (GPU, "cpu") if rng.random() < 0.4}


def limits(rng: random.Random) -> Limits:
    guarantee = Resources(amounts(rng, 1) if rng.random() < 0.6 else {})
    return Limits(guarantee=guarantee, deserved=amounts(rng, 2), capability=amounts(rng, 3))


def queue(rng: random.Random, name: QueueName) -> Queue:
    """Of any place: in circles, below queues that are not there, or guaranteed more than its parent."""
    parent = rng.choice([*NAMES, None, QueueName("nowhere")]) if rng.random() < 0.5 else QueueName(ROOT)
    return Queue(
        name=name,
        parent=parent,
        limits=limits(rng),
        flavors={FlavorName("h100"): limits(rng)} if rng.random() < 0.3 else {},
        broken="it says so" if rng.random() < 0.05 else None,
    )


def changed(rng: random.Random, queues: dict[QueueName, Queue]) -> dict[QueueName, Queue]:
    after = dict(queues)
    for _ in range(rng.choice([1, 1, 2, 6])):
        name = rng.choice(NAMES)
        if rng.random() < 0.25:
            after.pop(name, None)
        elif name in after and rng.random() < 0.4:
            after[name] = replace(after[name], limits=limits(rng))
        else:
            after[name] = queue(rng, name)
    shuffled = list(after.items())
    rng.shuffle(shuffled)
    return dict(shuffled)


def shown(tree: QueueTree) -> dict[str, object]:
    rows = {part: list(getattr(tree, part).items()) for part in ("queues", "paths", "children", "guarantees")}
    limits = {part: dict(getattr(tree, part)) for part in ("capabilities", "own_deserved", "idle")}
    problems = [(name, [str(error) for error in errors]) for name, errors in tree.problems.items()]
    return {**rows, **limits, "problems": problems}


@pytest.mark.parametrize("seed", range(60))
def test_a_tree_that_is_carried_on_is_the_tree_that_is_built_anew(seed: int) -> None:
    rng, queues, tree = random.Random(seed), dict[QueueName, Queue](), None
    for _ in range(12):
        queues = changed(rng, queues)
        tree = QueueTree.build(queues, Resources({GPU: 50_000}), before=tree)
        assert shown(tree) == shown(QueueTree.build(queues, Resources({GPU: 50_000})))


def test_queues_that_nothing_changes_for_keep_what_was_found() -> None:
    team, other = (Queue(name=QueueName(name), parent=QueueName(ROOT)) for name in ("team", "other"))
    before = QueueTree.build({team.name: team, other.name: other}, None)
    edited = replace(team, limits=Limits(capability={GPU: 8000}))
    after = QueueTree.build({team.name: edited, other.name: other}, None, before=before)
    assert after.differing(before) == {team.name}
    assert after.paths[other.name] is before.paths[other.name]
    assert QueueTree.build(after.given, None, before=after).queues is after.queues

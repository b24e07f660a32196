"""What protects running work from eviction: administrators' rules, and the wishes of users within their bounds."""

from typing import Any

import pytest

from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.quota.tree import QueueTree
from queues.resources import GPU
from queues.workload import QueueName
from tests.builders.running_work import NOW, candidates_in, running, snapshot_of, tree_of
from tests.tables import named_rows

Q = QueueName("q")


def queues(deserved: int, **policy: Any) -> QueueTree:
    """Queue q deserves so many of eight GPUs."""
    limits = Limits(deserved={GPU: deserved * 1000})
    return tree_of({"q": Queue(name=Q, limits=limits, policy=QueuePolicy(**policy))}, gpus=8)


def candidates(tree: QueueTree, **works: dict[str, Any]) -> dict[str, str]:
    """For which queues each of these may be evicted: any, others only, or those with work that waited before it came.

    Absent: for none.
    """
    found = candidates_in(snapshot_of([running(name, "q", **about) for name, about in works.items()]), tree)
    return {
        each.workload.name: "owners that waited"
        if each.rests
        else "others"
        if each.protected_in_queue
        else "any"
        for each in found.of_queue.get(Q, ())
    }


STAYS = {"preemptable": False}


@named_rows(
    ("deserved", "works", "expected"),
    {
        "within what the queue deserves": (4, {"a": STAYS, "b": STAYS}, {}),
        "the oldest that fit": (1, {"a": STAYS, "b": STAYS}, {"b": "others"}),
        "nothing deserved": (0, {"a": STAYS, "b": STAYS}, {"a": "others", "b": "others"}),
        "work without a wish takes nothing of it": (1, {"a": {}, "b": STAYS}, {"a": "any"}),
        "one that does not fit leaves room for younger ones": (
            2,
            {"a": STAYS | {"gpus": 3}, "b": STAYS, "c": STAYS, "d": STAYS},
            {"a": "others", "d": "others"},
        ),
        "every wish counts alike": (
            1,
            {"a": {"cooldown": 10**6}, "b": {"min_run_time": 10**6}},
            {"b": "others"},
        ),
        "evicted before stays whatever it holds": (1, {"a": STAYS, "b": STAYS | {"evictions": 3}}, {}),
    },
)
def test_a_wish_counts_against_other_queues_within_what_the_queue_deserves(
    deserved: int, works: dict[str, dict[str, Any]], expected: dict[str, str]
) -> None:
    assert candidates(queues(deserved), **works) == expected


@named_rows(
    ("policy", "wish", "since", "expected"),
    {
        "without a bound a wish has no end": ({}, STAYS, 10**6, {}),
        "not over yet": ({"max_protection": 100}, STAYS, 99, {}),
        "over": ({"max_protection": 100}, STAYS, 100, {"a": "any"}),
        "of a run time too": ({"max_protection": 100}, {"min_run_time": 500}, 100, {"a": "any"}),
        "a shorter wish ends by itself": ({"max_protection": 100}, {"cooldown": 50}, 50, {"a": "any"}),
        "0: no wish counts": ({"max_protection": 0}, STAYS, 0, {"a": "any"}),
        "what administrators grant has no such bound": (
            {"max_protection": 100, "min_run_time": 500},
            {},
            100,
            {"a": "owners that waited"},
        ),
    },
)
def test_a_wish_counts_for_max_protection_at_most(
    policy: dict[str, Any], wish: dict[str, Any], since: int, expected: dict[str, str]
) -> None:
    assert candidates(queues(8, **policy), a={"since": since, **wish}) == expected


@pytest.mark.parametrize(
    ("policy", "works", "until"),
    [
        ({}, {"a": STAYS}, None),
        ({"max_protection": 1100}, {"a": STAYS, "b": STAYS | {"since": 900}}, NOW + 100),
        ({"min_run_time": 1200}, {"a": STAYS}, NOW + 200),
        ({}, {"a": {"cooldown": 1300}, "b": {"min_run_time": 1250}}, NOW + 250),
    ],
)
def test_the_next_end_of_a_protection_is_known(
    policy: dict[str, Any], works: dict[str, dict[str, Any]], until: int | None
) -> None:
    snapshot = snapshot_of([running(name, "q", **about) for name, about in works.items()])
    assert candidates_in(snapshot, queues(8, **policy)).until == until

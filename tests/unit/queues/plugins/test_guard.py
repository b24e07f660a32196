"""What a policy of others may answer, and what follows if it answers otherwise."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest

from queues.plugins.guard import AskedPolicy, PluginFault, RunningCopy, guarded, read_only
from queues.plugins.interface import (
    FlavorPolicy,
    OrderPolicy,
    PlacementNodes,
    PlacementPolicy,
    PodsRequest,
    QueueRules,
    VictimCostPolicy,
)
from queues.resources import Resources
from queues.workload import NO_LOAD, FlavorName, NodeName, PodSet, QueueName, Workload
from tests.builders.decided_work import a_workload

Q = QueueName("q")
ASKED = AskedPolicy(queue=Q, plugin="tried", digest="d1")
PODS = PodSet(name="main", count=1, takes=Resources({"cpu": 1000}))
REQUEST = PodsRequest(queue=Q, priority=0, pods=PODS)
FLAVORS = (FlavorName("a"), FlavorName("b"))
numbers = count()


def workload() -> Workload:
    return a_workload("u", PODS, namespace="n", name="w", minimum=1)


def nodes() -> PlacementNodes:
    free = np.zeros((1, 2), np.int64)
    free.flags.writeable = False
    return PlacementNodes(
        [NodeName("n1"), NodeName("n2")], [{}, {}], FLAVORS, ["cpu"], free, free, [NO_LOAD, NO_LOAD]
    )


def urgency(answer: Callable[..., Any]) -> int:
    class Tried(OrderPolicy):
        name = "tried"

        def urgency(self, workload: Workload) -> Any:
            return answer(workload)

    return guarded(Tried(QueueRules(queue=Q)), ASKED).urgency(workload())


def score(answer: Callable[..., Any]) -> Any:
    class Tried(PlacementPolicy):
        name = "tried"

        def score(self, request: PodsRequest, nodes: PlacementNodes) -> Any:
            return answer(nodes)

    return guarded(Tried(), ASKED).score(REQUEST, nodes())


def costs(answer: Callable[..., Any]) -> Any:
    class Tried(VictimCostPolicy):
        name = "tried"

        def costs(self, running: Sequence[Any], now: int) -> Any:
            return answer(running)

    more = {"priority": 0, "whole": True, "started": 0, "size": 1, "lost_work": 5, "disturbance": 2}
    return guarded(Tried(), ASKED).costs([RunningCopy(workload=workload(), pods=1, **more)], 10)


def flavors(answer: Callable[..., Any]) -> Any:
    class Tried(FlavorPolicy):
        name = "tried"

        def order(self, request: PodsRequest, flavors: Any, described: Any) -> Any:
            return answer(flavors)

    return guarded(Tried(), ASKED).order(REQUEST, FLAVORS, ())


def raises(_: object) -> int:
    raise ValueError("no such thing")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


def raises_unspeakably(_: object) -> int:
    raise Unspeakable


def mutates(seen: Any) -> Any:
    seen.free[0, 0] = 7


def renames(seen: Any) -> int:
    seen.name = "other"
    return 1


@pytest.mark.parametrize(
    ("asked", "answer", "told"),
    [
        (urgency, raises, "raised ValueError: no such thing"),
        (urgency, raises_unspeakably, "raised Unspeakable: an error that cannot be shown"),
        (urgency, lambda _: 1.5, r"answered 1.5 \(float\), expected a whole number"),
        (urgency, lambda _: True, r"answered True \(bool\)"),
        (urgency, lambda _: np.int64(3), "int64"),
        (urgency, lambda _: 2**63, "beyond"),
        (urgency, lambda _: next(numbers), "answered the same question differently"),
        (urgency, renames, "FrozenInstanceError"),
        (score, lambda _: [1, 2], "answered a list, expected an array"),
        (score, lambda _: np.array([0.5, 1.0]), "answered float64"),
        (score, lambda _: np.array([1]), r"of shape \(1,\)"),
        (score, lambda _: np.array([1, 101]), "scores from 1 to 101, expected 0 to 100"),
        (score, lambda _: np.array([next(numbers) % 2, 0]), "differently"),
        (score, mutates, "read-only"),
        (costs, lambda _: [-1], "below 0"),
        (costs, lambda _: [], "expected a list of 1"),
        (costs, lambda _: [0.5], "float"),
        (costs, lambda running: setattr(running[0], "pods", 3), "immutable"),
        (flavors, lambda _: ("c",), "expected some of"),
        (flavors, lambda _: ("a", "a"), "each once"),
        (flavors, lambda _: ["a"], "expected some of"),
    ],
)
def test_another_answer_than_the_interface_allows_is_a_fault_with_its_reason(
    asked: Callable[..., Any], answer: Callable[..., Any], told: str
) -> None:
    with pytest.raises(PluginFault, match=told) as raised:
        asked(answer)
    assert raised.value.asked == ASKED


def test_what_the_interface_allows_is_the_answer() -> None:
    assert urgency(lambda workload: workload.created - 3) == -3
    assert score(lambda nodes: np.array([0, 100])).tolist() == [0, 100]
    assert costs(lambda running: [each.lost_work + each.disturbance for each in running]) == [7]
    assert flavors(lambda every: every[::-1]) == ("b", "a")
    assert flavors(lambda _: ()) == ()


def test_what_a_plug_in_is_given_cannot_be_made_changeable() -> None:
    own = np.arange(6, dtype=np.int64).reshape(2, 3)
    given = read_only(own)
    with pytest.raises(ValueError, match="WRITEABLE"):
        given.setflags(write=True)
    own[0, 0] = 7
    assert given[0, 0] == 7, "no copy"

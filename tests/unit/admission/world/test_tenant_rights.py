"""Which reservations of a tenant's administrators are within their right, where the webhook saw none of the others."""

from dataclasses import replace

import pytest

from admission.facts.cluster import ClosureFact, QueueFact
from admission.reconcile.closure_status import BEYOND_DESERVED
from admission.world.closures.node_closures import NodeClosures
from admission.world.closures.tenant_rights import beyond_right
from queues.closures.node_closures import ClosureKind, ClosurePhase, NodeClosure
from queues.quota.queue import ROOT, Limits, Queue
from queues.resources import GPU, Resources
from queues.workload import QueueName

NOW = 1_800_000_000
HOUR = 3600


def queue(name: str, parent: str, deserved: int | None) -> QueueFact:
    limits = Limits(deserved={} if deserved is None else {GPU: deserved * 1000})
    return QueueFact(queue=Queue(name=QueueName(name), parent=QueueName(parent), limits=limits), uid=name)


QUEUES = {
    each.queue.name: each
    for each in (
        queue("lab", ROOT, 64),
        queue("train", "lab", 48),
        queue("eval", "lab", 48),
        queue("play", "lab", None),
        queue("others", ROOT, 16),
    )
}


def reserved(
    name: str, of: str, gpus: int, created: int = 0, *, begins: int = HOUR, of_tenant: bool = True
) -> ClosureFact:
    start = NOW + begins
    closure = NodeClosure(
        kind=ClosureKind.RESERVATION,
        name=name,
        lead_from=start - 600,
        clear_at=start - 60,
        start=start,
        end=start + HOUR,
        queue=QueueName(of),
        amounts=Resources({GPU: gpus * 1000}),
        of_tenant=of_tenant,
    )
    return ClosureFact(
        kind=ClosureKind.RESERVATION, name=name, uid=name, closure=closure, created=NOW + created
    )


@pytest.mark.parametrize(
    ("facts", "beyond"),
    [
        pytest.param(
            [reserved("b", "train", 32), reserved("a", "train", 32)], ["b"], id="of one second: by name"
        ),
        pytest.param(
            [reserved("a", "train", 32, 1), reserved("b", "train", 32, 0)], ["a"], id="the earlier one counts"
        ),
        pytest.param(
            [reserved("a", "train", 40), reserved("b", "eval", 40)], ["b"], id="the tenant is a limit too"
        ),
        pytest.param(
            [reserved("a", "train", 40), reserved("b", "play", 24)], [], id="as much as it deserves"
        ),
        pytest.param(
            [reserved("a", "train", 48), reserved("b", "train", 48, begins=3 * HOUR)],
            [],
            id="not at one time",
        ),
        pytest.param([reserved("a", "train", 48), reserved("b", "others", 16)], [], id="of two tenants"),
        pytest.param(
            [reserved("a", "train", 99, of_tenant=False), reserved("b", "train", 1, 1)],
            ["b"],
            id="earlier ones of the platform count",
        ),
        pytest.param(
            [reserved("a", "train", 48), reserved("b", "train", 99, 1, of_tenant=False)],
            [],
            id="later ones of the platform take nothing away",
        ),
        pytest.param(
            [reserved("a", "train", 32), reserved("b", "train", 32, 1), reserved("c", "train", 16, 2)],
            ["b"],
            id="one beyond its right is in nobody's way",
        ),
    ],
)
def test_which_are_beyond_their_right(facts: list[ClosureFact], beyond: list[str]) -> None:
    assert list(beyond_right(facts, QUEUES, NOW)) == [f"reservation/{name}" for name in beyond]
    assert list(beyond_right(reversed(facts), QUEUES, NOW)) == [f"reservation/{name}" for name in beyond]


def test_one_beyond_its_right_says_so_closes_nothing_and_counts_once_the_other_is_gone() -> None:
    closures = NodeClosures()
    first, second = reserved("first", "train", 32), reserved("second", "train", 32, 1)
    for fact in (second, first):
        closures.put(ClosureKind.RESERVATION, fact.name, fact)

    assert [each.name for each in closures.freeze(NOW, QUEUES)] == ["first"]
    of_first, of_second = closures.states(NOW, QUEUES)
    assert (of_first.phase, of_second.phase) == (ClosurePhase.PLANNED, ClosurePhase.REFUSED)
    assert of_second.is_beyond_right
    assert BEYOND_DESERVED == "BeyondDeserved"
    assert of_second.problem == (
        f"found 64 {GPU} reserved for queue train at the same time (first came first), expected at most 48, what it "
        "deserves. Delete one of them, ask for less, or ask a platform administrator"
    )
    closures.put(ClosureKind.RESERVATION, "first", None)
    assert [each.name for each in closures.freeze(NOW, QUEUES)] == ["second"]


def test_one_that_was_taken_for_more_counts_again_once_its_queue_deserves_more() -> None:
    facts = [reserved("a", "train", 48)]
    less = {**QUEUES, QueueName("train"): queue("train", "lab", 16)}
    assert beyond_right(facts, less, NOW)
    assert not beyond_right(facts, QUEUES, NOW)
    assert not beyond_right([replace(facts[0], closure=None)], less, NOW)

"""The end of reservations and drains, told to who waits for nodes that they keep."""

from dataclasses import replace
from typing import Any

from admission.explain.suggestions import SuggestionKind
from queues.node_closures import ClosureKind, NodeClosure
from queues.quota.queue import Queue, QueuePolicy
from queues.resources import GPU, Resources
from queues.text_format import rfc3339
from queues.workload import NodeName, QueueName
from tests.unit.admission.explain.test_explain import NOW, explained, full, job, queue, told, world


def drained(name: str, *nodes: str, until: int, **more: Any) -> NodeClosure:
    return NodeClosure(
        kind=more.pop("kind", ClosureKind.DRAIN),
        name=name,
        lead_from=NOW - 60,
        clear_at=NOW - 30,
        start=NOW - 30,
        end=NOW + until,
        nodes=tuple(NodeName(each) for each in nodes),
        **more,
    )


def test_the_end_of_a_drain_is_told_where_it_lets_the_workload_in() -> None:
    policy = QueuePolicy(clear_after=2400)
    root = Queue(name=QueueName("root"), parent=None, policy=policy)
    snapshot = world([root, queue("a", 16), queue("b", 16)], full()[:2], [job("it", "a", count=2)])
    closed = replace(snapshot, closures=(drained("d1", "n3", until=90), drained("d0", "n2", until=60)))

    (first,) = [
        each
        for each in explained(closed).changes
        if each.kind in (SuggestionKind.CLOSURE, SuggestionKind.TIME)
    ]
    assert first.message == f"at {rfc3339(NOW + 90)}, when nodedrain d1 ends"
    assert first.facts == {"seconds": 90, "victims": 0}
    alone = replace(snapshot, closures=(drained("d0", "n2", "n3", until=60),))
    assert told(alone)[SuggestionKind.CLOSURE] == f"at {rfc3339(NOW + 60)}, when nodedrain d0 ends"


def test_of_a_reservation_of_others_only_the_end_is_told() -> None:
    kept = {"kind": ClosureKind.RESERVATION, "queue": QueueName("b"), "amounts": Resources({GPU: 16_000})}
    snapshot = world([queue("a", 16), queue("b", 16)], full()[:2], [job("it", "a", count=2)])
    closed = replace(snapshot, closures=(drained("secret", "n2", "n3", until=90, **kept),))

    assert told(closed)[SuggestionKind.CLOSURE] == f"at {rfc3339(NOW + 90)}, when a reservation ends"

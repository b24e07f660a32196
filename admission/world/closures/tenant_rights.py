"""Reservations that administrators of tenants made, in the order of creation: which of them are within their right.

The webhook compares a new Reservation with those that are stored. Two that are made at the same moment do not see each
other there, so that both are stored. Here the earlier one counts first: by its creation, then by its name. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

from admission.facts.cluster import ClosureFact, QueueFact
from queues.closures.node_closures import NodeClosure
from queues.resources import show
from queues.text_format import listed
from queues.workload import QueueName

Queues = Mapping[QueueName, QueueFact]


def beyond_right(facts: Iterable[ClosureFact], queues: Queues, now: int) -> dict[str, str]:
    """Reservations by administrators of tenants that are together more than a queue deserves, by id, each with why.

    They are compared with earlier ones of the same time, those of platform administrators included, by what each asks
    for. Ended ones, and those that are beyond the right themselves, count nothing.
    """
    reservations = [
        (fact, closure)
        for fact in sorted(facts, key=attrgetter("created", "name"))
        if (closure := fact.closure) is not None and closure.queue is not None and not closure.has_ended(now)
    ]
    if not any(closure.of_tenant for _, closure in reservations):
        return {}
    counted: list[_Counted] = []
    beyond: dict[str, str] = {}
    for fact, closure in reservations:
        path = _path(closure.queue, queues)
        problem = next(_excesses(closure, path, counted, queues), "") if closure.of_tenant else ""
        if problem:
            beyond[fact.id] = problem
        else:
            counted.append(_Counted(closure, frozenset(path)))
    return beyond


class _Counted(NamedTuple):
    closure: NodeClosure
    #: Its queue and those above it.
    queues: frozenset[QueueName]


def _excesses(
    closure: NodeClosure, path: Iterable[QueueName], earlier: Iterable[_Counted], queues: Queues
) -> Iterator[str]:
    beside = [each for each in earlier if closure.closes_beside(each.closure)]
    for name in path:
        deserved = queues[name].queue.limits.deserved
        same = [each.closure for each in beside if name in each.queues]
        sums = Counter[str]()
        for each in same:
            sums.update(dict(each.amounts))
        for resource, units in sorted(closure.amounts.items()):
            limit, asked = deserved.get(resource), units + sums[resource]
            if limit is not None and asked > limit:
                others = f" ({listed([each.name for each in same])} came first)" if same else ""
                yield (
                    f"found {show(resource, asked)} {resource} reserved for queue {name} at the same time{others}, "
                    f"expected at most {show(resource, limit)}, what it deserves. Delete one of them, ask for less, or "
                    "ask a platform administrator"
                )


def _path(name: QueueName | None, queues: Queues) -> list[QueueName]:
    """A queue and those above it, nearest first."""
    path: list[QueueName] = []
    while name is not None and name in queues and name not in path:
        path.append(name)
        name = queues[name].queue.parent
    return path

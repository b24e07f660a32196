"""Reservations that administrators of tenants made, in the order of creation: which of them are within their right.

The webhook compares a new Reservation with those that are stored. Two that are made at the same moment do not see each
other there, so that both are stored; and a queue may come to deserve less. Here the earlier one counts first: by its
creation, then by its name. Whole nodes count, and loans, as in ``queues.api.validation.closures``. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from admission.facts.cluster import ClosureFact
from admission.world.closures.node_devices import NodeDevices
from queues.api.resource_names import is_extended
from queues.api.validation.closures.reservation_rights import what_limits
from queues.node_closures import NodeClosure
from queues.quota.loans import DeservedOverTime
from queues.quota.queue import ROOT
from queues.resources import show
from queues.text_format import listed
from queues.workload import QueueName


def beyond_right(
    facts: Iterable[ClosureFact], deserved: DeservedOverTime, devices: NodeDevices, now: int
) -> dict[str, str]:
    """Reservations by administrators of tenants that are together more than a queue deserves, by id, each with why.

    They are compared with earlier ones of the same time, those of platform administrators included, by the whole nodes
    of each (``NodeDevices.kept``). Ended ones, and those that are beyond the right themselves, count nothing.
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
        path = _path(closure.queue, deserved)
        this = _Counted(closure, path, devices.kept(closure))
        problem = next(_excesses(this, counted, deserved, now), "") if closure.of_tenant else ""
        if problem:
            beyond[fact.id] = problem
        else:
            counted.append(this)
    return beyond


class _Counted(NamedTuple):
    closure: NodeClosure
    #: Its queue and those above it.
    queues: Sequence[QueueName]
    #: What its whole nodes have.
    kept: Mapping[str, int]


def _excesses(
    this: _Counted, earlier: Iterable[_Counted], deserved: DeservedOverTime, now: int
) -> Iterator[str]:
    closure = this.closure
    beside = [each for each in earlier if closure.closes_beside(each.closure)]
    start = max(now, closure.lead_from)
    limits = {name: deserved.least(name, start, closure.end) for name in this.queues}
    unstated = [
        each
        for each in sorted(this.kept)
        if is_extended(each) and not any(each in limits[name] for name in this.queues)
    ]
    if unstated and this.queues:
        yield (
            f"found whole nodes with {', '.join(unstated)}, of which neither queue {closure.queue} nor one above it "
            "states what it deserves. Ask a platform administrator to reserve them"
        )
    for name in this.queues:
        same = [each for each in beside if name in each.queues]
        sums = Counter[str]()
        for each in same:
            sums.update(each.kept)
        for resource, units in sorted(this.kept.items()):
            limit, asked = limits[name].get(resource), units + sums[resource]
            if limit is not None and asked > limit:
                others = f" ({listed([each.closure.name for each in same])} came first)" if same else ""
                yield (
                    f"found {show(resource, asked)} {resource} on whole nodes reserved for queue {name} at the same "
                    f"time{others}, expected at most {show(resource, limit)}, "
                    f"{what_limits(resource, limit, deserved, name)}. Delete one of them, ask for less, or ask a "
                    "platform administrator"
                )


def _path(name: QueueName | None, deserved: DeservedOverTime) -> list[QueueName]:
    """A queue and those above it below root, nearest first."""
    path: list[QueueName] = []
    while name is not None and name != ROOT and name in deserved.queues and name not in path:
        path.append(name)
        name = deserved.queues[name].parent
    return path

"""Rules of Reservations and NodeDrains. Pure: the cluster and the time are arguments."""

from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from queues.api.model import excerpt
from queues.api.reading.user_values import is_dns_name
from queues.api.types.node_closures import NodeDrain, Reservation, duration_of
from queues.api.validation.violations import Violation, label_violations, limit_violations
from queues.errors import InvalidDocument, InvalidQuantity
from queues.node_closures import NodeClosure
from queues.quota.queue import ROOT, Queue
from queues.resources import Resources, show
from queues.text_format import go_duration, rfc3339
from queues.workload import QueueName

#: Objects of each of the two kinds in a cluster that have not ended. Ended ones cost a turn nothing.
MOST_CLOSURES: Final = 200
#: Flavors that a refusal names.
_NAMED_FLAVORS: Final = 10
#: Seconds that a window may begin before its object is made.
_LATE: Final = 300
#: Seconds: the longest window, the longest lead time, and how far ahead a window may be.
_LONGEST: Final = 92 * 86_400
_LONGEST_LEAD: Final = 7 * 86_400
_FARTHEST: Final = 366 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureSurroundings:
    """The cluster, as far as it is known. None for what is not known, and not checked."""

    now: int | None = None
    queues: Mapping[str, Queue] | None = None
    levels: frozenset[str] | None = None
    #: Names of ResourceFlavors.
    flavors: Collection[str] | None = None
    #: Those that there are.
    closures: Sequence[NodeClosure] | None = None
    #: Names of nodes.
    nodes: Container[str] | None = None
    #: What all nodes have together.
    capacity: Resources | None = None


def reservation_violations(
    reservation: Reservation, around: ClosureSurroundings, *, is_new: bool, is_moved: bool
) -> Iterator[Violation]:
    """Violations of a Reservation. ``is_new``: it is being created. ``is_moved``: it begins at another time."""
    spec = reservation.spec
    wrong = [*limit_violations(spec.resources, "spec.resources")]
    try:
        closure = reservation.to_closure()
    except InvalidDocument as error:
        yield Violation(str(error.facts["where"]), str(error.facts["found"]), str(error.facts["expected"]))
        return
    except InvalidQuantity:
        yield from wrong
        return
    wrong += [
        Violation(f"spec.resources[{name}]", excerpt(amount), "more than 0")
        for name, amount in spec.resources.items()
        if closure.amounts.get(name) <= 0
    ]
    if any(not each.tolerable for each in wrong):
        yield from wrong
        return
    yield from _queue_violations(spec.queue, around)
    if spec.flavor and around.flavors is not None and spec.flavor not in around.flavors:
        yield Violation("spec.flavor", excerpt(spec.flavor), _one_of(around.flavors))
    if spec.topology and around.levels is not None and spec.topology not in around.levels:
        yield Violation("spec.topology", excerpt(spec.topology), "a level of a Topology")
    if duration_of(spec.clear_before, "") > duration_of(spec.lead_time, ""):
        yield Violation("spec.clearBefore", excerpt(spec.clear_before), "at most spec.leadTime")
    yield from _no_time(spec.for_)
    said = {"spec.leadTime": spec.lead_time, "spec.clearBefore": spec.clear_before, "spec.for": spec.for_}
    yield from _time_violations(closure, "spec.from", around, said, is_moved=is_new or is_moved)
    yield from [*_beyond_capability(closure, around)] or _beyond_cluster(closure, around)
    yield from _count_violations(closure, around, is_new=is_new)


def drain_violations(
    drain: NodeDrain, around: ClosureSurroundings, *, is_new: bool, is_moved: bool
) -> Iterator[Violation]:
    """Violations of a NodeDrain. ``is_new``: it is being created. ``is_moved``: it begins at another time."""
    spec = drain.spec
    try:
        closure = drain.to_closure()
    except InvalidDocument as error:
        yield Violation(str(error.facts["where"]), str(error.facts["found"]), str(error.facts["expected"]))
        return
    if not spec.nodes and not spec.node_selector:
        yield Violation("spec.nodes", "nothing", "names of nodes, or labels in spec.nodeSelector")
    for index, name in enumerate(spec.nodes):
        if not is_dns_name(name) or (around.nodes is not None and is_new and name not in around.nodes):
            yield Violation(f"spec.nodes[{index}]", excerpt(name), "the name of a node of the cluster")
    yield from label_violations(spec.node_selector, "spec.nodeSelector", "a node label key")
    yield from _no_time(spec.for_)
    said = {"spec.leadTime": spec.lead_time, "spec.for": spec.for_}
    yield from _time_violations(closure, "spec.at", around, said, is_moved=is_new or is_moved)
    yield from _count_violations(closure, around, is_new=is_new)


def _queue_violations(name: str, around: ClosureSurroundings) -> Iterator[Violation]:
    if name == ROOT:
        yield Violation("spec.queue", excerpt(name), "a queue below root: all work is root's")
    elif around.queues is not None and name not in around.queues:
        yield Violation("spec.queue", excerpt(name), "the name of a Queue", missing=name)


def _one_of(flavors: Collection[str]) -> str:
    if not flavors:
        return "the name of a ResourceFlavor, of which there is none"
    more = f" and {len(flavors) - _NAMED_FLAVORS} more" if len(flavors) > _NAMED_FLAVORS else ""
    return f"the name of a ResourceFlavor: {', '.join(sorted(flavors)[:_NAMED_FLAVORS])}{more}"


def _no_time(lasts: str | None) -> Iterator[Violation]:
    if lasts is not None and duration_of(lasts, "") <= 0:
        yield Violation("spec.for", excerpt(lasts), "more than 0s")


def _time_violations(
    closure: NodeClosure,
    path: str,
    around: ClosureSurroundings,
    said: Mapping[str, str | None],
    *,
    is_moved: bool,
) -> Iterator[Violation]:
    """``said``: durations as they are written, by their paths."""
    lead, clear = closure.start - closure.lead_from, closure.start - closure.clear_at

    def beyond(where: str, most: int) -> Violation:
        # As it was written: times beyond ten years are counted as ten years.
        return Violation(where, excerpt(said[where] or ""), f"at most {go_duration(most)}")

    if clear > _LONGEST_LEAD:
        yield beyond("spec.clearBefore", _LONGEST_LEAD)
    elif lead > _LONGEST_LEAD:
        yield beyond("spec.leadTime", _LONGEST_LEAD)
    if closure.end is not None and closure.end - closure.start > _LONGEST:
        yield beyond("spec.for", _LONGEST)
    if around.now is None or not is_moved:
        return
    found = rfc3339(closure.start)
    if closure.start < around.now - _LATE:
        yield Violation(path, found, f"a time to come; now it is {rfc3339(around.now)}")
    elif closure.start > around.now + _FARTHEST:
        yield Violation(path, found, "a time within a year")


def _beyond_capability(closure: NodeClosure, around: ClosureSurroundings) -> Iterator[Violation]:
    """More than the queue may use."""
    for queue in _path(closure.queue, around.queues or {}):
        for name, units in sorted(closure.amounts.items()):
            limit = queue.limits.capability.get(name)
            if limit is not None and units > limit:
                yield Violation(
                    f"spec.resources[{name}]",
                    show(name, units),
                    f"at most {show(name, limit)}, the capability of queue {queue.name}",
                )


def _beyond_cluster(closure: NodeClosure, around: ClosureSurroundings) -> Iterator[Violation]:
    """More than there is, or than is left besides other reservations."""
    if around.capacity is None:
        return
    others = Counter[str]()
    names: list[str] = []
    for other in around.closures or ():
        if other.id != closure.id and other.queue is not None and closure.closes_beside(other):
            others.update(dict(other.amounts))
            names.append(other.name)
    capacity = around.capacity
    for name, units in sorted(closure.amounts.items()):
        has, taken = capacity.get(name), others[name]
        if units > has:
            yield Violation(
                f"spec.resources[{name}]",
                show(name, units),
                f"at most {show(name, has)}, what all nodes have",
            )
        elif units > has - taken:
            yield Violation(
                f"spec.resources[{name}]",
                show(name, units),
                f"at most {show(name, max(0, has - taken))}: of {show(name, has)} in the cluster "
                f"{show(name, taken)} are reserved in that time ({_some(names)})",
            )


def _count_violations(
    closure: NodeClosure, around: ClosureSurroundings, *, is_new: bool
) -> Iterator[Violation]:
    def lasts(other: NodeClosure) -> bool:
        return around.now is None or not other.has_ended(around.now)

    same = [each for each in around.closures or () if each.kind is closure.kind and lasts(each)]
    # One that has ended counts again when it is made longer.
    is_more = is_new or not any(each.id == closure.id for each in same)
    if is_more and sum(each.id != closure.id for each in same) >= MOST_CLOSURES:
        yield Violation(
            "metadata.name",
            f"{len(same)} {closure.kind}s already",
            f"fewer than {MOST_CLOSURES} that have not ended",
        )


def _path(name: QueueName | None, queues: Mapping[str, Queue]) -> Iterator[Queue]:
    seen: set[str] = set()
    while name is not None and name in queues and name not in seen:
        seen.add(name)
        yield queues[name]
        name = queues[name].parent


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")

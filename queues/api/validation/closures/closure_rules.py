"""Rules of Reservations and NodeDrains. Pure: the cluster and the time are arguments."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from queues.api.reading.user_values import is_dns_name
from queues.api.types.node_closures import NodeDrain, Reservation, duration_of
from queues.api.validation.known import Known
from queues.api.validation.violations import Violation, label_violations, limit_violations
from queues.errors import InvalidDocument, InvalidQuantity
from queues.node_closures import NodeClosure
from queues.quota.queue import ROOT, path_upwards
from queues.resources import show
from queues.text_format import excerpt, go_duration, rfc3339

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


def reservation_violations(
    reservation: Reservation, known: Known, *, is_new: bool, is_moved: bool
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
    yield from _queue_violations(spec.queue, known)
    if spec.flavor and known.flavors is not None and spec.flavor not in known.flavors:
        yield Violation("spec.flavor", excerpt(spec.flavor), _one_of(known.flavors))
    if spec.topology and known.levels is not None and spec.topology not in known.levels:
        yield Violation("spec.topology", excerpt(spec.topology), "a level of a Topology")
    if duration_of(spec.clear_before, "") > duration_of(spec.lead_time, ""):
        yield Violation("spec.clearBefore", excerpt(spec.clear_before), "at most spec.leadTime")
    yield from _no_time(spec.for_)
    said = {"spec.leadTime": spec.lead_time, "spec.clearBefore": spec.clear_before, "spec.for": spec.for_}
    yield from _time_violations(closure, "spec.from", known, said, is_moved=is_new or is_moved)
    yield from [*_beyond_capability(closure, known)] or _beyond_cluster(closure, known)
    yield from _count_violations(closure, known, is_new=is_new)


def drain_violations(drain: NodeDrain, known: Known, *, is_new: bool, is_moved: bool) -> Iterator[Violation]:
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
        if not is_dns_name(name) or (known.nodes is not None and is_new and name not in known.nodes):
            yield Violation(f"spec.nodes[{index}]", excerpt(name), "the name of a node of the cluster")
    yield from label_violations(spec.node_selector, "spec.nodeSelector", "a node label key")
    yield from _no_time(spec.for_)
    said = {"spec.leadTime": spec.lead_time, "spec.for": spec.for_}
    yield from _time_violations(closure, "spec.at", known, said, is_moved=is_new or is_moved)
    yield from _count_violations(closure, known, is_new=is_new)


def _queue_violations(name: str, known: Known) -> Iterator[Violation]:
    if name == ROOT:
        yield Violation("spec.queue", excerpt(name), "a queue below root: all work is root's")
    elif known.queues is not None and name not in known.queues:
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
    known: Known,
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
    if known.now is None or not is_moved:
        return
    found = rfc3339(closure.start)
    if closure.start < known.now - _LATE:
        yield Violation(path, found, f"a time to come; now it is {rfc3339(known.now)}")
    elif closure.start > known.now + _FARTHEST:
        yield Violation(path, found, "a time within a year")


def _beyond_capability(closure: NodeClosure, known: Known) -> Iterator[Violation]:
    """More than the queue may use."""
    queues = known.queues or {}
    for queue in path_upwards(closure.queue, queues.get) if closure.queue is not None else ():
        for name, units in sorted(closure.amounts.items()):
            limit = queue.limits.capability.get(name)
            if limit is not None and units > limit:
                yield Violation(
                    f"spec.resources[{name}]",
                    show(name, units),
                    f"at most {show(name, limit)}, the capability of queue {queue.name}",
                )


def _beyond_cluster(closure: NodeClosure, known: Known) -> Iterator[Violation]:
    """More than there is, or than is left besides other reservations."""
    if known.amounts is None:
        return
    others = Counter[str]()
    names: list[str] = []
    for other in known.closures or ():
        if other.id != closure.id and other.queue is not None and closure.closes_beside(other):
            others.update(dict(other.amounts))
            names.append(other.name)
    capacity = known.amounts().together
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


def _count_violations(closure: NodeClosure, known: Known, *, is_new: bool) -> Iterator[Violation]:
    def lasts(other: NodeClosure) -> bool:
        return known.now is None or not other.has_ended(known.now)

    same = [each for each in known.closures or () if each.kind is closure.kind and lasts(each)]
    # One that has ended counts again when it is made longer.
    is_more = is_new or not any(each.id == closure.id for each in same)
    if is_more and sum(each.id != closure.id for each in same) >= MOST_CLOSURES:
        yield Violation(
            "metadata.name",
            f"{len(same)} {closure.kind}s already",
            f"fewer than {MOST_CLOSURES} that have not ended",
        )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")

"""What is said at once about work that comes after other work, as far as objects show it.

What cannot be read is refused, and a cycle if the others in it exist and wait. It is a warning if the other one does
not say yet what it waits for: the ledger may know an earlier workload of that name. A name that nothing has is a
warning: it may come, or the ledger may know its end. All of it stands on the object as well, as its reason.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from admission.workloads.kinds import known_kinds
from queues import kind_names
from queues.api import names
from queues.api.api_resources import ApiResource, Document
from queues.api.reading.dependencies import AFTER_PATH, read_dependencies, unusable_dependency
from queues.api.validation.violations import Violation
from queues.dependencies import Dependency
from queues.json_values import list_at, mapping_at, text_at, value_at
from queues.reason_codes import OF_DEPENDENCIES, ReasonCode
from queues.text_format import listed

#: The object of a kind with this namespace and name; None if there is none.
FindObject = Callable[[ApiResource, str, str], Awaitable[Document | None]]
#: Objects that are read for one review: more than one may name, and a few of those that these come after.
_MOST_READ: Final = 24
_ALWAYS_QUEUED: Final = (kind_names.VOLCANO_JOB, kind_names.POD_GROUP)


async def dependency_violations(
    document: Document, old: Document | None, namespace: str, find: FindObject
) -> list[Violation]:
    """Violations of the annotation ``muster.dev/after``, and warnings. ``old``: before a change; None of a new object.

    Raises ApiError.
    """
    support = known_kinds().by_resource.get((text_at(document, "apiVersion"), text_at(document, "kind")))
    text = mapping_at(document, "metadata", "annotations").get(names.AFTER)
    if support is None or not isinstance(text, str):
        return []
    named, problem = read_dependencies(text)
    if problem is not None:
        return [Violation(AFTER_PATH, *problem)]
    own, kinds = Dependency(support.kind, text_at(document, "metadata", "name")), known_kinds().by_kind
    if (problem := unusable_dependency(named, own.kind, own.name, kinds)) is not None:
        # A kind may be added while it waits.
        may_wait = str(own) not in map(str, named)
        return [Violation(AFTER_PATH, *problem, tolerable=may_wait)]
    return await _among_objects(own, named, old, namespace, find)


async def _among_objects(
    own: Dependency, named: Collection[Dependency], old: Document | None, namespace: str, find: FindObject
) -> list[Violation]:
    """The violation of a cycle; else a warning for each of these names that has no end that will be known."""
    found: list[Violation] = []
    kinds, seen = known_kinds().by_kind, set[str]()
    rows: deque[tuple[Dependency, ...]] = deque((each,) for each in named)
    while rows and len(seen) < _MOST_READ:
        row = rows.popleft()
        last = row[-1]
        if str(last) in seen or last.kind not in kinds:
            continue
        seen.add(str(last))
        other = await find(kinds[last.kind].resource, namespace, last.name)
        if len(row) == 1 and (doubt := _doubt_about(row[0], other)) is not None:
            found.append(doubt)
        if other is None:
            continue
        if len(row) == 1 and _is_undecided(other, kinds[last.kind].suspend) and own in _named_by(other):
            if old is not None and _came_later(other, old):
                return [_cycle(own, row)]
            found.append(_possible_cycle(own, last))
        for each in _waited_for(other):
            if each == own and _means(other, old):
                return [_cycle(own, row)]
            rows.append((*row, each))
    return found


def _cycle(own: Dependency, row: Sequence[Dependency]) -> Violation:
    cycle = listed([str(one) for one in (own, *row)], len(row) + 1)
    return Violation(AFTER_PATH, f"{cycle}, each after the next and the last after the first", "no cycle")


def _possible_cycle(own: Dependency, other: Dependency) -> Violation:
    expected = f"that it means an earlier {own}, which has ended; else both wait without end"
    return Violation(AFTER_PATH, f"{other}, which comes after {own}", expected, tolerable=True)


def _doubt_about(named: Dependency, other: Document | None) -> Violation | None:
    if other is None:
        expected = "one that exists, or has ended in a queue; else this waits until there is one"
        return Violation(AFTER_PATH, f"{named}, which does not exist", expected, tolerable=True)
    if named.kind in _ALWAYS_QUEUED or _names_queue(other):
        return None
    expected = "work in a queue, whose end is known; else this waits without end"
    return Violation(AFTER_PATH, f"{named}, which is in no queue", expected, tolerable=True)


def _names_queue(other: Document) -> bool:
    labels, annotations = (mapping_at(other, "metadata", field) for field in ("labels", "annotations"))
    return names.QUEUE_LABEL in labels or names.QUEUE_ANNOTATION in (*labels, *annotations)


def _reasons(other: Document) -> set[str]:
    """Reasons that the status of an object states, by the code."""
    conditions = (text_at(each, "reason") for each in list_at(other, "status", "conditions"))
    return {text_at(other, "status", "state", "reason"), *conditions}


def _is_undecided(other: Document, suspend: Sequence[str]) -> bool:
    """Whether an object waits and states no reason yet, as in its first seconds. ``suspend``: path of the field."""
    gates = (text_at(each, "name") for each in list_at(other, "spec", "schedulingGates"))
    is_held = value_at(other, *suspend) is True or names.GATE in gates
    return is_held and _reasons(other).isdisjoint(ReasonCode)


def _named_by(other: Document) -> Collection[Dependency]:
    """What an object comes after, in whatever way that ends."""
    text = mapping_at(other, "metadata", "annotations").get(names.AFTER)
    named = read_dependencies(text).named if isinstance(text, str) else ()
    return [each._replace(any_end=False) for each in named]


def _waited_for(other: Document) -> Collection[Dependency]:
    """The same, if it says that it waits for that."""
    return () if OF_DEPENDENCIES.isdisjoint(_reasons(other)) else _named_by(other)


def _means(other: Document, old: Document | None) -> bool:
    """Whether one that waits for a name means the object in the request, and none that had the name before.

    One that is about to be made is meant if nothing had its name; one that is there by all that came later.
    """
    if old is None:
        return ReasonCode.DEPENDENCY_MISSING in _reasons(other)
    return _came_later(other, old)


def _came_later(other: Document, old: Document) -> bool:
    at = ("metadata", "creationTimestamp")
    return text_at(other, *at) >= text_at(old, *at)

"""Volcano's Queues: read unmodified, but for the hierarchy annotations of its plugin drf, which become ``parent``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from pydantic import ValidationError

from queues.api.check.finding import Subject
from queues.api.convert.difference import ConversionDifference, difference
from queues.api.convert.quotas import HIGHEST_WEIGHT
from queues.api.model import excerpt
from queues.api.names import DEFAULT_QUEUE, HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE, SCHEDULING_VOLCANO
from queues.api.types.queue import QueueDocument
from queues.api.validation.unsupported import unsupported_in_queue
from queues.api.validation.validation import violations_of

_HIERARCHY_PATH: Final = f"metadata.annotations[{HIERARCHY}]"
_WEIGHTS_PATH: Final = f"metadata.annotations[{HIERARCHY_WEIGHTS}]"
#: Metadata that the API server writes.
_OF_THE_SERVER: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class QueueHierarchy:
    """Where the annotations put a queue: the names above it, below ``root``, and a weight for each and for itself."""

    above: tuple[str, ...]
    weights: tuple[float, ...]


@dataclass(slots=True)
class VolcanoConversion:
    """Queues as documents, parents first, and what differs."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    differences: list[ConversionDifference] = field(default_factory=list)


def convert_volcano_queues(subjects: list[Subject], taken: Iterable[str] = ()) -> VolcanoConversion:
    """Volcano's Queues, with an inner queue for each step of a hierarchy annotation.

    ``taken``: names of other Queues, which no inner queue gets.
    """
    done = VolcanoConversion()
    read: dict[str, tuple[Subject, QueueHierarchy | None]] = {}
    for subject in subjects:
        try:
            queue = QueueDocument.parse(subject.value)
        except ValidationError:
            queue = None
        wrong = [each for each in violations_of(subject.value) if not each.tolerable]
        for violation in wrong:
            instead = f"expected {violation.expected}"
            done.differences.append(difference(subject, "error", violation.path, violation.found, instead))
        name = subject.metadata.get("name")
        if queue is None or wrong or not isinstance(name, str):
            continue
        if name in read:
            done.differences.append(
                difference(subject, "error", "metadata.name", excerpt(name), "give each Queue once")
            )
        read[name] = (subject, _hierarchy(queue))
        done.differences += _told(subject, queue)
    inner = _inner_queues(read, {*taken, *read, ROOT_QUEUE, DEFAULT_QUEUE}, done)
    for path in sorted(inner, key=lambda path: (len(path), path)):
        name, weight = inner[path]
        spec: dict[str, Any] = {"weight": weight}
        if len(path) > 1:
            spec["parent"] = inner[path[:-1]][0]
        done.documents.append(_queue(name, spec))
    for subject, hierarchy in read.values():
        done.documents.append(_with_parent(subject, hierarchy, inner))
    return done


def _queue(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": SCHEDULING_VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _hierarchy(queue: QueueDocument) -> QueueHierarchy | None:
    """The place that valid annotations give a queue; None if they give it none."""
    annotations = queue.metadata.annotations
    steps = [step for step in annotations.get(HIERARCHY, "").split("/") if step]
    weights = [float(weight) for weight in annotations.get(HIERARCHY_WEIGHTS, "").split("/") if weight]
    if steps[:1] == [ROOT_QUEUE]:
        steps, weights = steps[1:], weights[1:]
    if not steps or len(steps) != len(weights):
        return None
    return QueueHierarchy(tuple(steps[:-1]), tuple(weights))


def _inner_queues(
    read: Mapping[str, tuple[Subject, QueueHierarchy | None]], taken: set[str], done: VolcanoConversion
) -> dict[tuple[str, ...], tuple[str, int]]:
    """Name and weight of the inner queue for each path above a queue."""
    weights: dict[tuple[str, ...], float] = {}
    for subject, hierarchy in read.values():
        if hierarchy is None:
            continue
        for depth, weight in enumerate(hierarchy.weights[:-1], 1):
            path = hierarchy.above[:depth]
            if weights.setdefault(path, weight) != weight:
                instead = f"the first weight counts, {weights[path]:g}"
                found = f"weight {weight:g} for {'/'.join(path)}, which another Queue gives another weight"
                done.differences.append(difference(subject, "warning", _WEIGHTS_PATH, found, instead))
    inner: dict[tuple[str, ...], tuple[str, int]] = {}
    for path in sorted(weights):
        name = "-".join(path)
        while name in taken:
            name += "-group"
        taken.add(name)
        inner[path] = (name, _whole(weights[path]))
    return inner


def _whole(weight: float) -> int:
    return max(1, ceil(min(weight, HIGHEST_WEIGHT)))


def _with_parent(
    subject: Subject, hierarchy: QueueHierarchy | None, inner: Mapping[tuple[str, ...], tuple[str, int]]
) -> dict[str, Any]:
    """The document as users wrote it, in its place."""
    document = {key: value for key, value in subject.value.items() if key != "status"}
    metadata = {key: value for key, value in subject.metadata.items() if key not in _OF_THE_SERVER}
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key not in (HIERARCHY, HIERARCHY_WEIGHTS, _LAST_APPLIED)
    }
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    spec = dict(document.get("spec") or {})
    if hierarchy is not None:
        spec["weight"] = _whole(hierarchy.weights[-1])
        if hierarchy.above and not spec.get("parent"):
            spec["parent"] = inner[hierarchy.above][0]
    return {**document, "metadata": metadata, "spec": spec}


def _told(subject: Subject, queue: QueueDocument) -> list[ConversionDifference]:
    found: list[ConversionDifference] = []
    annotations = queue.metadata.annotations
    hierarchy = _hierarchy(queue)
    if hierarchy is not None:
        where = "/".join((ROOT_QUEUE, *hierarchy.above))
        instead = f"parent and weight say so: below {where}"
        found.append(difference(subject, "note", _HIERARCHY_PATH, annotations[HIERARCHY], instead))
        if any(not weight.is_integer() or weight > HIGHEST_WEIGHT for weight in hierarchy.weights):
            instead = f"rounded up to whole numbers, at most {HIGHEST_WEIGHT}"
            found.append(
                difference(subject, "warning", _WEIGHTS_PATH, annotations[HIERARCHY_WEIGHTS], instead)
            )
        if queue.spec.parent not in ("", ROOT_QUEUE):
            instead = f"spec.parent counts, {queue.spec.parent}"
            found.append(difference(subject, "warning", _HIERARCHY_PATH, annotations[HIERARCHY], instead))
    for path in unsupported_in_queue(queue):
        if HIERARCHY not in path:
            found.append(
                difference(subject, "warning", path, "a value", "kept, and without effect in Muster")
            )
    state = queue.status.state
    if state is not None and state.value != "Open":
        instead = "the state is not part of the spec: close the queue again once it is in Muster"
        found.append(difference(subject, "warning", "status.state", state.value, instead))
    return found

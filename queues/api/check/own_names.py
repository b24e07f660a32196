"""Checks of labels and annotations: those that only Muster may write, that have no effect, or that are misspelt."""

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

from queues.api import names
from queues.api.api_resources import (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from queues.api.check.finding import Finding, Subject
from queues.api.kueue_names import KUEUE_QUEUE
from queues.api.metadata_keys import (
    ANNOTATION,
    JOB,
    KNOWN_KEYS,
    LABEL,
    OPERATOR_JOB,
    POD,
    POD_GROUP,
    POD_OWNER,
    QUEUE,
    TEMPLATE,
    VOLCANO_JOB,
    KeyUse,
    KnownKey,
    known_key,
)
from queues.api.validation.queued_work import ONLY_MUSTER
from queues.api.workload_kinds import OPERATOR_KINDS, PASSING_KINDS
from queues.json_values import mapping_at

#: Names that only Muster and Volcano use: an unknown one is misspelt, or has no effect.
_PREFIXES: Final = ("muster.dev/", "volcano.sh/", "scheduling.volcano.sh/")
_MUSTER: Final = "muster.dev/"

#: Kinds of other projects that make pods, and may name their queue.
POD_OWNERS: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, *(each.resource for each in PASSING_KINDS))
#: Places of the metadata of objects, by API version and kind. Others are called by their kind.
_PLACES: Final = {
    (names.BATCH, "Job"): JOB,
    (names.BATCH_VOLCANO, "Job"): VOLCANO_JOB,
    (names.CORE, "Pod"): POD,
    (names.SCHEDULING_VOLCANO, "PodGroup"): POD_GROUP,
    (names.SCHEDULING_VOLCANO, "Queue"): QUEUE,
    **{(each.api_version, each.kind): POD_OWNER for each in POD_OWNERS},
}
#: Kinds whose templates are judged as the Volcano Jobs that Muster makes of them.
_JUDGED_AS_JOBS: Final = ((names.BATCH_VOLCANO, "CronJob"), (names.FLOW_VOLCANO, "JobTemplate"))
#: API groups whose jobs wait.
_GROUPS_OF_OPERATORS: Final = frozenset(
    each.group for kind in OPERATOR_KINDS for each in (kind.resource, *kind.suspended_with)
)

#: Fields that hold a template, or (as in a Workflow) an entry of a list of templates.
_TEMPLATE_PATH: Final = re.compile(r"emplate$|emplates\[\d+\]$")

#: Keys of metadata that put work into a queue.
_QUEUE_KEYS: Final = frozenset(
    (
        names.QUEUE_LABEL,
        names.QUEUE_ANNOTATION,
        names.VOLCANO_QUEUE,
        names.GROUP_ANNOTATION,
        names.GROUP_ANNOTATION_VOLCANO,
    )
)


@dataclass(frozen=True, slots=True)
class MetadataPlace:
    """Metadata of an object, or of a template in it."""

    #: What paths begin with: ``spec.template.``; "": of the object itself.
    above: str
    #: Where this is, in the words of the tables of names; "": a template of an object that is no pod.
    name: str
    metadata: Any


def own_names(
    subject: Subject, understood: Container[KeyUse], *, waits: bool, is_of_added_kind: bool
) -> Iterator[Finding]:
    """Findings for names on an object and on the templates in it.

    ``understood``: uses that count in its namespace; ``waits``: whether it is in a queue; ``is_of_added_kind``: whether
    a WorkloadKind describes it.
    """
    for place in metadata_of(subject.value):
        if is_of_added_kind and not place.above:
            place = replace(place, name=OPERATOR_JOB)  # noqa: PLW2901 - the documents know more of it
        for field in (LABEL, ANNOTATION):
            for key in mapping_at(place.metadata, field):
                if isinstance(key, str):
                    yield from _of_key(subject, place, field, key, understood, waits=waits)


def _of_key(
    subject: Subject,
    place: MetadataPlace,
    field: str,
    key: str,
    understood: Container[KeyUse],
    *,
    waits: bool,
) -> Iterator[Finding]:
    where = f"{place.above}metadata.{field}[{key}]"
    row = known_key(key)
    if row is not None and "/" not in key and row.places and place.name not in row.all_places():
        return  # a name without a prefix may belong to another tool on other objects
    if row is None:
        if key.startswith(_PREFIXES):
            yield subject.finding("warning", where, "a name that Muster does not know", _similar(key))
    elif row.use is KeyUse.OWN:
        if _is_refused(subject, place, field, key, waits=waits):
            yield subject.finding("error", where, key, ONLY_MUSTER)
        else:
            expected = f"{ONLY_MUSTER}, and what others write counts for nothing here"
            yield subject.finding("warning", where, key, expected)
    elif row.use is KeyUse.TRANSLATED and row.use not in understood:
        found = f"a name that Muster does not read ({row.meaning})"
        expected = f'{row.instead}; or the label {names.KUEUE_NAMES}: "true" on its Namespace'
        yield subject.finding("warning", where, found, expected)
    elif row.use is KeyUse.WITHOUT_EFFECT:
        found = f"a name that Muster does not read ({row.meaning})"
        expected = row.instead or "nothing: Muster has nothing that does the same"
        yield subject.finding("warning", where, found, expected)
    elif row.use in understood and place.name and field not in row.all_places().get(place.name, ()):
        article = "an" if place.name[0] in "AEIOUaeiou" else "a"
        found = f"a name that Muster does not read in {field} of {article} {place.name}"
        yield subject.finding("warning", where, found, _right_place(row, place.name))


def _is_refused(subject: Subject, place: MetadataPlace, field: str, key: str, *, waits: bool) -> bool:
    """Whether the API server refuses a name that only Muster writes, or the pods with it: where it would count."""
    counts = key in names.OWN_OF_PODS and field == (LABEL if key == names.RELEASED else ANNOTATION)
    if not place.above:
        # Who asks for what waits is written over it.
        return counts and place.name in (JOB, POD) and not (waits and key == names.USER)
    kind = (subject.value.get("apiVersion"), subject.value.get("kind"))
    if kind in _JUDGED_AS_JOBS:
        return True
    if _place_of_object(subject.value) == OPERATOR_JOB:
        return waits and counts and place.name == TEMPLATE and key != names.USER
    return counts and not (waits and key == names.USER and _place_of_object(subject.value) == JOB)


def _right_place(row: KnownKey, place: str) -> str:
    if row.instead:
        return row.instead
    fields = row.all_places().get(place)
    if fields:
        return f"it in {' or '.join(fields)}"
    return f"it on one of {', '.join(row.all_places())}"


def _similar(key: str) -> str:
    """The names that were probably meant."""
    candidates = [name for name, row in KNOWN_KEYS.items() if row.use is KeyUse.READ]
    close = get_close_matches(key, candidates, n=1, cutoff=0.8)
    if close:
        return f"{close[0]} (misspelt?)"
    if not key.startswith(_MUSTER):
        return "nothing: it has no effect"
    own = sorted(name for name in candidates if name.startswith(_MUSTER))
    return f"one of {', '.join(own)} (misspelt?)"


def names_queue(metadata: Mapping[str, Any], *, kueue: bool = True) -> bool:
    """Whether metadata has a queue's name, or that of a PodGroup. ``kueue``: a LocalQueue's counts too."""
    keys = {key for field in (LABEL, ANNOTATION) for key in mapping_at(metadata, field)}
    return not keys.isdisjoint(_QUEUE_KEYS) or (kueue and KUEUE_QUEUE in keys)


def metadata_of(value: Mapping[str, Any]) -> Iterator[MetadataPlace]:
    """The metadata of an object and of all templates below its spec, however deep."""
    yield MetadataPlace("", _place_of_object(value), value.get("metadata"))
    parts: list[tuple[str, Any]] = [("spec", value.get("spec"))]
    while parts:
        path, part = parts.pop()
        if isinstance(part, list):
            parts += [(f"{path}[{index}]", entry) for index, entry in enumerate(part)]
        elif isinstance(part, Mapping):
            spec = part.get("spec")
            if _TEMPLATE_PATH.search(path) and isinstance(part.get("metadata"), Mapping):
                yield MetadataPlace(f"{path}.", _place_of_template(spec), part["metadata"])
            if not (isinstance(spec, Mapping) and "containers" in spec):
                parts += [(f"{path}.{name}", entry) for name, entry in part.items()]


def _place_of_object(value: Mapping[str, Any]) -> str:
    kind, version = str(value.get("kind")), value.get("apiVersion")
    if not isinstance(version, str):
        return kind
    if version.partition("/")[0] in _GROUPS_OF_OPERATORS:
        return OPERATOR_JOB
    return _PLACES.get((version, kind), kind)


def _place_of_template(spec: Any) -> str:
    """A template of a pod, of a Job, or of something else."""
    if not isinstance(spec, Mapping):
        return ""
    return TEMPLATE if "containers" in spec else JOB if "template" in spec and "tasks" not in spec else ""

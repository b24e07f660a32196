"""Documents of a user as Muster would read them, if the API server had stored them now. Pure.

They are what the API server answers when they are created in a dry run: suspended or gated, in their queue, with their
priority, as its admission policies and plugins leave them. One that is asked about as a user wrote it is read as if it
waited, if it names a queue itself.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import structs

from admission.decode.fields import explained
from admission.facts.pods import PodFact
from admission.facts.volumes import PodVolume, unseen_volumes
from admission.facts.workloads import WorkloadFact
from admission.wire import WirePod
from admission.workloads.context import Context, in_context
from admission.workloads.kinds import SUSPENDED, KindSupport, known_kinds, read_pod
from queues import kind_names
from queues.api import names
from queues.api.reading.user_values import LONGEST_NAME, is_dns_name
from queues.errors import MusterError
from queues.read_api.trials import SkippedBody, TrialBody, TrialRequestBody
from queues.text_format import excerpt, rfc3339
from queues.workload import WorkloadKey

Document = Mapping[str, Any]

#: Documents of one trial.
MOST_DOCUMENTS: Final = 64
#: Refusals and warnings that are shown of one document.
_MOST_TOLD: Final = 10
#: Uids of objects that are not stored: those of the API server are random.
_UID: Final = "00000000-0000-0000-0000-{:012d}"
#: Stands for what the API server adds to ``generateName``.
_GENERATED: Final = "xxxxx"


class NothingToTry(MusterError):
    """None of the documents is of a kind that waits in a queue: found {found}, expected {expected}."""


class UnusableDocument(MusterError):
    """Document {number}: found {found}, expected {expected}."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A document of a kind that waits: where it would be."""

    #: Its number among the documents, from 1.
    number: int
    support: KindSupport
    namespace: str
    name: str
    document: dict[str, Any]


class TrialState(StrEnum):
    """What would become of an object."""

    #: It would have its seats in the next turn.
    ADMITTED = "admitted"
    #: Other workloads would be evicted for it, and it would have their place.
    PREEMPTS = "preempts"
    WAITS = "waits"
    #: The API server would not store it.
    REFUSED = "refused"
    #: It names no queue: it would start at once.
    UNMANAGED = "unmanaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """An object that would wait, or why it would not."""

    #: Of the workload.
    key: WorkloadKey
    #: What is known before it is decided on: ``refused`` or ``unmanaged`` if it would not wait.
    item: TrialBody
    #: None for a pod without a group, or an object that is refused.
    fact: WorkloadFact | None = None
    #: The pod, or the members of a group.
    pods: tuple[PodFact, ...] = ()

    @property
    def has_pod_rules(self) -> bool:
        """Whether its pods have rules about other pods."""
        sets = () if self.fact is None else self.fact.pod_sets
        return any(pods.rules for pods in sets) or any(pod.shape.rules for pod in self.pods)

    def with_item(self, **fields: Any) -> "Submitted":
        """With more known of it."""
        return replace(self, item=structs.replace(self.item, **fields))

    def refused(self, *refusals: str) -> "Submitted":
        """Not tried, for these reasons."""
        return replace(self.with_item(refusals=_first(refusals)), fact=None, pods=())


# ── what is asked ───────────────────────────────────────────────────────────────────────────────────────────


def asked_of(question: TrialRequestBody) -> tuple[list[Asked], list[SkippedBody]]:
    """The documents that wait, each with its place, and the others. Raises NothingToTry and UnusableDocument."""
    known = known_kinds().by_resource
    asked: list[Asked] = []
    skipped: list[SkippedBody] = []
    for number, document in enumerate(question.documents, 1):
        version, kind = (_text(document, number, each) for each in ("apiVersion", "kind"))
        metadata = document.get("metadata")
        if not isinstance(metadata, Mapping):
            raise UnusableDocument(
                number=number, found="no metadata", expected="a mapping with a name in metadata"
            )
        name = metadata.get("name") or f"{metadata.get('generateName') or ''}{_GENERATED}"
        support = known.get((version, kind))
        if support is None:
            skipped.append(SkippedBody(api_version=version, kind=kind, name=str(name)[:LONGEST_NAME]))
            continue
        namespace = metadata.get("namespace") or question.namespace
        for what, value in (("metadata.name", name), ("metadata.namespace", namespace)):
            if not isinstance(value, str) or not is_dns_name(value):
                raise UnusableDocument(
                    number=number, found=f"{what} {excerpt(value)}", expected="a name that an object can have"
                )
        asked.append(Asked(number, support, namespace, name, dict(document)))
    if not asked:
        found = ", ".join(dict.fromkeys(f"{each.api_version} {each.kind}" for each in skipped)) or "nothing"
        raise NothingToTry(found=found, expected=f"one of {', '.join(sorted({k for _, k in known}))}")
    return asked, skipped


def _text(document: Document, number: int, field: str) -> str:
    value = document.get(field)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise UnusableDocument(
            number=number, found=f"{field} {excerpt(value)}", expected="apiVersion and kind of an object"
        )
    return value


# ── what is stored ──────────────────────────────────────────────────────────────────────────────────────────


def submitted(
    question: TrialRequestBody, asked: Sequence[Asked], context: Context, now: int
) -> list[Submitted]:
    """What becomes of each document that waits; members of a group are shown with their PodGroup.

    ``now``: seconds since the epoch.
    """
    read = [_read(each, _as_stored(each, question, now), context) for each in asked]
    groups = {_place_of(each) for each in read if each.key.kind == kind_names.POD_GROUP}
    members: dict[tuple[str, str], list[PodFact]] = {}
    for each in read:
        if (group := _group_of(each)) in groups and group is not None:
            members.setdefault(group, []).extend(each.pods)
    found = []
    for each in read:
        group = _group_of(each)
        if group in groups:
            continue
        if group is not None:
            text = (
                f"PodGroup {group[1]} is not among the documents, and a pod alone tells nothing of its gang: "
                "try both together"
            )
            found.append(each.refused(text))
        elif each.key.kind == kind_names.POD_GROUP:
            pods = sorted(members.get(_place_of(each), ()), key=lambda pod: pod.name)
            volumes = (volume for pod in pods for volume in pod.volumes)
            found.append(_with_warning(replace(each, pods=tuple(pods)), volumes))
        else:
            found.append(each)
    return found


def _place_of(each: Submitted) -> tuple[str, str]:
    return each.item.namespace, each.item.name


def _group_of(each: Submitted) -> tuple[str, str] | None:
    """Namespace and name of the group that a pod names. None if it is no pod, or names no group."""
    if each.key.kind != kind_names.POD or not each.pods or each.pods[0].group is None:
        return None
    return each.item.namespace, each.pods[0].group


def _read(asked: Asked, document: dict[str, Any], context: Context) -> Submitted:
    """One document by itself."""
    support = asked.support
    item = TrialBody(
        kind=str(support.kind),
        namespace=asked.namespace,
        name=asked.name,
        state=TrialState.REFUSED,
    )
    found = Submitted(key=WorkloadKey(support.kind, document["metadata"]["uid"]), item=item)
    raw = json.dumps(document).encode()
    try:
        if support.reader is None:
            return _of_pod(found, read_pod(msgspec.json.decode(raw, type=WirePod)), context)
        fact = support.reader.fact(msgspec.json.decode(raw, type=support.reader.wire), msgspec.Raw(raw))
    except msgspec.DecodeError as error:
        return found.refused(explained(error))
    if not isinstance(fact, WorkloadFact) or fact.stands_for is not None:
        return found.refused("another object, which owns this one, waits for it")
    return _of_object(found, fact, support, context)


def _of_object(found: Submitted, fact: WorkloadFact, support: KindSupport, context: Context) -> Submitted:
    read = in_context(fact, context)
    assert isinstance(read, WorkloadFact)
    if read.queue is None and support.needs_queue:
        return found.with_item(state=TrialState.UNMANAGED)
    if read.conduct.ignored:
        return found.refused(*read.conduct.ignored)
    if support.holding in SUSPENDED:
        read = replace(read, suspended=True)
    return _with_warning(
        replace(found, fact=read), (volume for each in read.volumes.values() for volume in each)
    )


def _of_pod(found: Submitted, pod: PodFact, context: Context) -> Submitted:
    if pod.queue is None and pod.group is None and not pod.gated:
        return found.with_item(state=TrialState.UNMANAGED)
    read = in_context(replace(pod, gated=True), context)
    assert isinstance(read, PodFact)
    if read.conduct.ignored:
        return found.refused(*read.conduct.ignored)
    return _with_warning(replace(found, pods=(read,)), read.volumes)


def _with_warning(found: Submitted, volumes: Iterable[PodVolume]) -> Submitted:
    """With a warning of volumes that trials do not look at."""
    unseen = unseen_volumes(volumes)
    return found.with_item(warnings=_first([*found.item.warnings, unseen])) if unseen else found


def _as_stored(asked: Asked, question: TrialRequestBody, now: int) -> dict[str, Any]:
    """The document as an object that was just created by the user, in the queue that they ask for."""
    metadata = dict(asked.document["metadata"])
    own = {"annotations": {names.USER: question.user}, "labels": {}}
    is_member = asked.support.reader is None and _names_group(metadata)
    if question.queue and not is_member:  # a member is in the queue of its group
        own["labels"] = {names.QUEUE_LABEL: question.queue}
    for field_name, values in own.items():
        said = metadata.get(field_name) or {}
        if isinstance(said, Mapping):  # else it is refused for it
            kept = {key: value for key, value in said.items() if key not in names.OWN_NAMES}
            metadata[field_name] = {**kept, **values}
    metadata |= {
        "name": asked.name,
        "namespace": asked.namespace,
        "uid": _UID.format(asked.number),
        "generation": 1,
        "creationTimestamp": rfc3339(now),
    }
    document = {key: each for key, each in asked.document.items() if key != "status"}
    return {**document, "metadata": metadata}


def _names_group(metadata: Document) -> bool:
    annotations = metadata.get("annotations") or {}
    return names.GROUP_ANNOTATION in annotations or names.GROUP_ANNOTATION_VOLCANO in annotations


def _first(sentences: Sequence[str]) -> tuple[str, ...]:
    more = len(sentences) - _MOST_TOLD
    return tuple(sentences) if more <= 0 else (*sentences[:_MOST_TOLD], f"and {more} more")


def resources_of(asked: Sequence[Asked]) -> Iterator[tuple[KindSupport, str]]:
    """Kinds and namespaces that a trial is about, each once."""
    yield from {
        (str(each.support.kind), each.namespace): (each.support, each.namespace) for each in asked
    }.values()

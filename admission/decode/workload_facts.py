"""What facts of all kinds of workloads have in common. Pure."""

from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import msgspec

from admission.decode.fields import defect, explained, one, seconds
from admission.facts.changes import Fact
from admission.facts.pods import SHAPE_DETAILS, PodFact, TemplateFact
from admission.facts.workloads import NO_GROUP_REQUEST, GroupRequest, WorkloadFact
from admission.wire import Bare, WireMetadata
from queues import kind_names
from queues.api import names
from queues.api.reading.user_values import MOST_PODS, UserValues
from queues.api.validation.defaults import queue_named
from queues.command import Command
from queues.kind_names import KindName
from queues.reason_codes import ReasonCode
from queues.workload import Obstacle, PodSet, QueueName, WorkloadKey

#: The only pod set of a batch/v1 Job.
MAIN: Final = "main"


def of_possible_size(fact: WorkloadFact, where: str) -> WorkloadFact:
    """The fact, without its pods if they are too many to be considered at all."""
    pods = sum(each.count for each in fact.pod_sets)
    if pods <= MOST_PODS:
        return fact
    message = f"{where}: found {pods} pods, expected at most {MOST_PODS}"
    none = tuple(replace(each, count=0, minimum=0, done=frozenset()) for each in fact.pod_sets)
    obstacle = fact.obstacle or Obstacle(ReasonCode.INVALID_SPEC, message)
    return replace(fact, minimum=0, pod_sets=none, counts=None, obstacle=obstacle)


def unreadable_fact(kind: KindName, bare: Bare, error: Exception) -> WorkloadFact:
    """The fact of a workload if only its metadata can be read: its document does not have the form of its kind
    (DecodeError), or Muster cannot handle it."""
    meta, values = bare.metadata, UserValues()
    if isinstance(error, msgspec.DecodeError):
        values.note(explained(error))
    else:
        values.note(defect(error), ReasonCode.DEFECT)
    return WorkloadFact(
        key=WorkloadKey(kind, meta.uid),
        namespace=meta.namespace,
        name=meta.name,
        queue=queue_said(None, meta, values),
        created=seconds(meta.creation_timestamp),
        minimum=0,
        generation=str(meta.generation),
        deleting=meta.deletion_timestamp is not None,
        kept=_is_kept(kind, meta),
        obstacle=values.obstacle,
    )


def said_by_metadata(kind: KindName, meta: WireMetadata) -> dict[str, Any]:
    """What the metadata of an object says of the workload that it is: fields of its fact."""
    return {
        "key": WorkloadKey(kind, meta.uid),
        "namespace": one(meta.namespace),
        "name": meta.name,
        "created": seconds(meta.creation_timestamp),
        "deleting": meta.deletion_timestamp is not None,
        "kept": _is_kept(kind, meta),
    }


def _is_kept(kind: KindName, meta: WireMetadata) -> bool:
    return kind == kind_names.JOB and names.FINALIZER in (meta.finalizers or ())


def queue_said(written: str | None, meta: WireMetadata, values: UserValues) -> QueueName | None:
    """The queue that an object names in its spec, by label or by annotation; None if it names none."""
    named = queue_named(written, labels=meta.labels or {}, annotations=meta.annotations or {}, inherited="")
    said = named != names.DEFAULT_QUEUE or (meta.labels or {}).get(names.QUEUE_LABEL)
    return values.queue("queue", named) if said else None


#: Fields of pod sets that came later than the first digests that Postgres has.
_ADDED_LATER: Final = ("share", "in_one_island", "rules")


def digest(*asked: object) -> str:
    """The generation of what is asked: other than before only if that is."""
    text = repr([_plain(part) for part in asked])
    return blake2b(text.encode(), digest_size=8).hexdigest()


def counted_generation(pods: str, counts: str) -> str:
    """A generation of two digests: of what each pod asks, and of how many there are."""
    return f"{pods}.{counts}"


def pods_generation(generation: str) -> str:
    """The digest of what each pod asks; "": the generation does not separate it from the number of pods."""
    pods, dot, _ = generation.partition(".")
    return pods if dot else ""


def _plain(part: object) -> object:
    if not isinstance(part, PodSet):
        return part
    shape = (part.name, part.minimum, part.required_topology, part.preferred_topology)
    details = tuple(getattr(part, name) for name in SHAPE_DETAILS if name not in _ADDED_LATER)
    more: tuple[object, ...] = ((details,) if any(details) else ()) + ((part.share,) if part.share else ())
    more += ("in one island",) if part.in_one_island else ()
    more += (part.rules,) if part.rules else ()
    return (*shape, part.count if part.name != MAIN else 0, sorted(part.takes.items()), part.nodes, *more)


def shared_request(request: GroupRequest) -> GroupRequest:
    """The same; ``NO_GROUP_REQUEST`` itself if it asks nothing."""
    return NO_GROUP_REQUEST if request == NO_GROUP_REQUEST else request


def asks(before: Fact | None, after: Fact | None) -> bool:
    """True for a change that a turn should answer at once: a workload or its template, new or changed; a gated pod; a
    Command."""
    match before, after:
        case WorkloadFact(), WorkloadFact():
            return before.generation != after.generation
        case None, WorkloadFact() | TemplateFact() | Command():
            return True
        case None, PodFact():
            return after.gated
    return False

"""Objects that have a field which suspends them → facts, by the description of their kind. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from sys import intern
from typing import Any, Final, NamedTuple

import msgspec

from admission.decode.fields import is_true, one
from admission.decode.interruption import conduct_of
from admission.decode.pod_templates import TemplatePods, by_pod_set, pod_set_of
from admission.decode.workload_facts import (
    counted_generation,
    digest,
    of_possible_size,
    queue_said,
    said_by_metadata,
)
from admission.facts.workloads import NOTHING_BY_NAME, ChildCluster, JobRevision, WorkloadFact
from admission.wire import WireCondition, WireMetadata
from admission.workloads.kinds.batch_job import interchangeable_pod_sets, told_by_condition
from admission.workloads.kinds.operators.json_parts import (
    UnexpectedPart,
    WireOperatorJob,
    elements,
    flag,
    members,
    number,
    part,
    text,
)
from admission.workloads.kinds.operators.spark import pod_template
from admission.workloads.kinds.support import Holding, KindSupport, ObjectReader, StatusForm, is_made_by
from queues.api import names
from queues.api.api_resources import ApiResource, ObjectRef
from queues.api.json_patch import escaped
from queues.api.reading.user_values import MOST_POD_SETS, MOST_PODS, UserValues, is_uid, shortened
from queues.api.types.workload_kind import (
    KindDemand,
    KindProgress,
    Path,
    PodCount,
    Templates,
    WorkloadKindSpec,
)
from queues.kind_names import KindName
from queues.reason_codes import ReasonCode
from queues.text_format import excerpt
from queues.workload import Obstacle, PodSet, PodSetProgress, WorkloadKey

#: What is worked out of the pods of a kind that has no templates.
_COMPUTED: Final = {"spark": pod_template}


#: What all these kinds have in common.
_OF_OPERATORS: Final[Mapping[str, Any]] = {
    "holding": Holding.SUSPENDED_AND_GATED,
    "status": StatusForm.CUSTOM_CONDITION,
    "needs_queue": True,
    "pod_sets": interchangeable_pod_sets,
    "pod_set_name": lambda pod, fact: pod.task,
}
_LEAVING: Final = "its kind is being taken out of use: what runs goes on, and nothing more of it is admitted"


def support_of(description: WorkloadKindSpec, *, is_leaving: bool = False) -> KindSupport:
    """The kind as every other part of Muster asks for it. ``is_leaving``: nothing more of it is admitted."""
    resource = description.resource

    def fact(job: WireOperatorJob, raw: msgspec.Raw) -> WorkloadFact | ChildCluster | None:
        found = fact_of(description, job)
        if is_leaving and isinstance(found, WorkloadFact) and found.obstacle is None:
            return replace(found, obstacle=Obstacle(ReasonCode.KIND_LEAVING, _LEAVING))
        return found

    return KindSupport(
        kind=description.kind,
        resource=resource,
        reader=ObjectReader(informer=resource.plural, wire=WireOperatorJob, fact=fact, may_be_absent=True),
        suspend=description.suspend,
        name_labels=description.name_labels,
        **_OF_OPERATORS,
    )


def out_of_use(kind: KindName) -> KindSupport:
    """A kind that no document describes any more. No object of it is seen; pods that run keep their seats."""
    gone = ApiResource("gone.muster.dev/v1", kind, kind)
    return KindSupport(kind=kind, resource=gone, reader=None, **_OF_OPERATORS)


class HeldTemplate(NamedTuple):
    """One template of an object, as it is written."""

    name: str
    #: Its JSON; None if there is none, where one is needed.
    content: bytes | None
    #: Its place, for messages.
    where: str
    #: The place of what holds it.
    holder: Path
    #: Number of its pods.
    pods: int
    #: Fields from the object to what has the labels and annotations of the pods.
    written: Path
    #: Fields from the object to those of them, and of what contains them, that are there.
    existing: tuple[Path, ...] = ()
    #: It says that Muster resumed the object.
    is_marked: bool = False


def fact_of(description: WorkloadKindSpec, job: WireOperatorJob) -> WorkloadFact | ChildCluster | None:
    """The object as a workload, or as a part of another one; None if it is a part that cannot be read."""
    meta, values = job.metadata, UserValues()
    if is_made_by(meta, description.made_by):
        return _part_of_another(description, job)
    fact = _object_fact(description, job, values)
    held, said = list[HeldTemplate](), list[TemplatePods]()
    filled_in = [default.at for default in description.defaults]
    try:
        fact = replace(fact, suspended=flag(job.part(description.suspend), description.suspend))
        for demand in description.demands:
            # What is left out is filled in by a policy.
            if job.part(demand.at) is not None or demand.at not in filled_in:
                _ask(demand, job, values)
        _refuse_other_controller(description, job, values)
        for each in _named(description, job, values):
            held.append(each)
            said.append(_read(each, meta.namespace, values))
        priority_class = values.name("priorityClass", _text_of(job, description.priority_class))
        progress = _progress(description, job, suspended=fact.suspended)
        minimums = dict(_minimums(description, job, values))
    except UnexpectedPart as error:
        values.note(str(error))
        return replace(fact, obstacle=values.obstacle)
    for key in sorted(description.places_itself.keys() & (meta.annotations or {}).keys()):
        where = f"metadata.annotations[{key}]"
        values.refuse(where, shortened((meta.annotations or {})[key]), description.places_itself[key])
    if fact.suspended and not fact.finished and not any(each.pods.count for each in said):
        values.note("spec: found pod sets of 0 pods, expected at least one pod", ReasonCode.NOT_ENOUGH_PODS)
    fact = replace(
        _with_templates(fact, said, progress, minimums, meta),
        priority_class=priority_class
        or next((each.priority_class for each in said if each.priority_class), ""),
        revision=_revision(description, job, held),
        obstacle=values.obstacle,
    )
    return of_possible_size(fact, "spec")


def _object_fact(description: WorkloadKindSpec, job: WireOperatorJob, values: UserValues) -> WorkloadFact:
    """What the object says next to its templates."""
    meta, conditions = job.metadata, _conditions(job)
    ended = [kind for kind in description.ended.conditions if is_true(conditions, kind)]
    ended += [said for each in description.ended.fields if (said := _text_of(job, each.at)) in each.values]
    return WorkloadFact(
        **said_by_metadata(description.kind, meta),
        queue=one(queue_said(None, meta, values)),
        minimum=0,
        generation=str(meta.generation),
        finished=bool(ended),
        failed=any(said.lower() == "failed" for said in ended),
        told=told_by_condition(conditions),
        conduct=conduct_of(meta.annotations, meta.labels),
        maker=_maker(description, meta),
    )


def _with_templates(
    fact: WorkloadFact,
    said: Sequence[TemplatePods],
    progress: Mapping[str, PodSetProgress],
    minimums: Mapping[str, int],
    meta: WireMetadata,
) -> WorkloadFact:
    """The same with what its templates ask: a pod set of each. ``minimums``: pods of a set that start together, unless
    all of them do."""
    left = tuple(_left(each.pods, progress.get(each.pods.name)) for each in said)
    total = sum(pods.count for pods in left)
    least = {pods.name: min(pods.count, minimums.get(pods.name, pods.count)) for pods in left}
    if (minimum := sum(least.values())) != total:
        left = tuple(replace(pods, minimum=least[pods.name]) for pods in left)
    claims = {each.pods.name: each.claims for each in said if each.claims}
    return replace(
        fact,
        minimum=minimum,
        pod_sets=left,
        progress=progress or NOTHING_BY_NAME,
        **by_pod_set(said),
        generation=counted_generation(
            digest(*(replace(each.pods, count=0) for each in said), sorted(claims.items())),
            digest([each.pods.count for each in said]),
        ),
        parallelism=total,
        conduct=conduct_of(
            meta.annotations,
            meta.labels,
            image=next((each.image for each in said if each.image), ""),
            ignored=[sentence for each in said for sentence in each.ignored],
        ),
    )


def _minimums(
    description: WorkloadKindSpec, job: WireOperatorJob, values: UserValues
) -> Iterator[tuple[str, int]]:
    """How many pods of a set start together where it is fewer than all, by pod set. Raises UnexpectedPart."""
    for field in description.fewer_pods:
        least = number(job.part(field.at), field.at) if field.counts else None
        if least is None:
            continue
        if 0 < least <= MOST_PODS:
            yield field.pod_set, least
        else:
            values.refuse(".".join(field.at), str(least), f"1 to {MOST_PODS}")


def _part_of_another(description: WorkloadKindSpec, job: WireOperatorJob) -> ChildCluster | None:
    meta = job.metadata
    owner = next(reference for reference in meta.owner_references or () if reference.controller)
    if not is_uid(owner.uid):
        return None
    try:
        pods = {each.name: each.pods for each in _held(description.templates, job, UserValues())}
    except UnexpectedPart:
        return None
    return ChildCluster(
        uid=meta.uid,
        namespace=one(meta.namespace),
        name=meta.name,
        workload=WorkloadKey(KindName(intern(owner.kind.lower())), owner.uid),
        workload_name=owner.name,
        pods=pods,
        is_lost=meta.deletion_timestamp is not None,
    )


def _ask(demand: KindDemand, job: WireOperatorJob, values: UserValues) -> None:
    """Note an object that does not say what it has to. Raises UnexpectedPart."""
    said = job.part(demand.at)
    if demand.must == "absent":
        is_kept = said is None or not msgspec.json.decode(said)
    else:
        is_kept = flag(said, demand.at) is (demand.must == "true")
    if not is_kept:
        values.refuse(".".join(demand.at), demand.found, demand.expected)


def _refuse_other_controller(description: WorkloadKindSpec, job: WireOperatorJob, values: UserValues) -> None:
    """An operator leaves objects alone that name another controller: pods of them would never come."""
    named = _text_of(job, description.managed_by_at) if description.managed_by else ""
    if named and named not in description.managed_by:
        expected = (
            f"none or {' or '.join(description.managed_by)}: Muster waits for pods that this operator makes."
            " Leave it out, or leave out the queue"
        )
        values.refuse(".".join(description.managed_by_at), excerpt(named), expected)


def _maker(description: WorkloadKindSpec, meta: WireMetadata) -> ObjectRef | None:
    for reference in meta.owner_references or ():
        for kind in description.suspended_with:
            named = reference.kind == kind.kind and reference.api_version.partition("/")[0] == kind.group
            if named and reference.controller and is_uid(reference.uid):
                return ObjectRef(
                    resource=kind, namespace=meta.namespace, name=reference.name, uid=reference.uid
                )
    return None


def _conditions(job: WireOperatorJob) -> tuple[WireCondition, ...] | None:
    try:
        found = job.part(("status", "conditions"))
        return None if found is None else msgspec.json.decode(found, type=tuple[WireCondition, ...])
    except (UnexpectedPart, msgspec.DecodeError):
        return None  # their operator writes them otherwise


def _text_of(job: WireOperatorJob, path: Path) -> str:
    """The text at a place; "": none is there."""
    if not path:
        return ""
    try:
        return text(job.part(path), path)
    except UnexpectedPart:
        if path[0] == "spec":
            raise
        return ""


def _read(held: HeldTemplate, namespace: str, values: UserValues) -> TemplatePods:
    """What a template says; what is wrong with it is noted."""
    count = min(held.pods, MOST_PODS + 1)
    said = pod_set_of(held.name, count, held.content or b"", held.where, namespace)
    values.adopt(said.obstacle)
    return said


def _named(description: WorkloadKindSpec, job: WireOperatorJob, values: UserValues) -> Iterator[HeldTemplate]:
    """All templates of an object that have different names. Raises UnexpectedPart."""
    seen: set[str] = set()
    for each in _held(description.templates, job, values):
        if each.content is None:
            values.refuse(each.where, "none", "a pod template")
            continue
        if len(seen) >= MOST_POD_SETS:
            values.refuse(each.where, "more", f"at most {MOST_POD_SETS} pod templates")
            return
        values.task(f"{'.'.join(each.holder)} as a name of pods", each.name)
        if each.name in seen:
            values.refuse(".".join(each.holder), f"{each.name} a second time", "different names")
        seen.add(each.name)
        yield each
    if not seen and values.obstacle is None:
        where = description.templates[0].at if description.templates else ("spec",)
        values.refuse(".".join(where), "no pod template", "at least one")


def problem_of_form(description: WorkloadKindSpec, job: WireOperatorJob) -> Obstacle | None:
    """Why an object is none of its kind, whether it waits or not; None if it is one."""
    values = UserValues()
    try:
        flag(job.part(description.suspend), description.suspend)
        for _ in _named(description, job, values):
            pass
    except UnexpectedPart as error:
        values.note(str(error))
    return values.obstacle


def written_templates(description: WorkloadKindSpec, job: WireOperatorJob) -> list[HeldTemplate]:
    """The pod templates that users wrote, up to the first part that cannot be read."""
    found: list[HeldTemplate] = []
    with suppress(UnexpectedPart):  # the object says so itself
        found.extend(_held([each for each in description.templates if not each.computed], job, UserValues()))
    return [each for each in found if each.content is not None]


def _held(places: Iterable[Templates], job: WireOperatorJob, values: UserValues) -> Iterator[HeldTemplate]:
    """What these places of an object hold, in their order. Raises UnexpectedPart."""
    for templates in places:
        made_if = templates.made_if
        if made_if is None or _text_of(job, made_if.at) in made_if.values:
            yield from _held_at(templates, job, values)


def _held_at(templates: Templates, job: WireOperatorJob, values: UserValues) -> Iterator[HeldTemplate]:
    for name, raw, path in _holders(templates, job):
        template = part(raw, templates.template, path)
        where = ".".join((*path, *templates.template))
        inner = (*path, *templates.metadata_at)
        if template is None:
            if templates.needed:
                yield HeldTemplate(name, None, where, path, 0, inner)
            continue
        count = prod(_factors(templates.counts, raw, path, values))
        computed = _COMPUTED.get(templates.computed)
        content = bytes(template) if computed is None else computed(job, raw, path)
        existing = tuple(_existing(raw, path, templates.metadata_at))
        metadata, said = part(raw, templates.metadata_at, path), ("annotations", names.MEMBER_OF)
        # Its pods are members of the object.
        is_marked = f"/{job.metadata.uid}/" in text(part(metadata, said, inner), (*inner, *said))
        yield HeldTemplate(name, content, where, path, count, inner, existing, is_marked)


def _existing(raw: msgspec.Raw | None, path: Path, inner: Path) -> Iterator[Path]:
    """Places on the way to labels and annotations that are there. ``raw``: what is at the path."""
    yield from (path[:depth] for depth in range(1, len(path) + 1))
    for depth in range(1, len(inner) + 1):
        raw = part(raw, inner[depth - 1 : depth], (*path, *inner[: depth - 1]))
        if raw is None:
            return
        yield (*path, *inner[:depth])
    for name in ("labels", "annotations"):
        if part(raw, (name,), (*path, *inner)) is not None:
            yield (*path, *inner, name)


def _holders(
    templates: Templates | KindProgress, job: WireOperatorJob
) -> Iterator[tuple[str, msgspec.Raw | None, Path]]:
    """What has a template, or counts, at a place: its name, its JSON, and the fields to it. Raises UnexpectedPart."""
    found = job.part(templates.at)
    match templates.each:
        case "one":
            if found is not None or templates.needed:
                yield templates.name, found, templates.at
        case "element":
            for index, element in enumerate(elements(found, templates.at)):
                path = (*templates.at, str(index))
                yield text(part(element, (templates.named_by,), path), path), element, path
        case "entry":
            for key, entry in members(found, templates.at).items():
                yield key.lower(), entry, (*templates.at, key)


def _factors(
    counts: Sequence[PodCount], raw: msgspec.Raw | None, path: Path, values: UserValues
) -> Iterator[int]:
    for each in counts:
        at = (*path, *each.at)
        found = number(part(raw, each.at, path), at)
        count = each.default if found is None else found
        if not 0 <= count <= MOST_PODS:
            values.refuse(".".join(at), str(count), f"0 to {MOST_PODS}")
            count = 0
        if each.most and (most := number(part(raw, each.most, path), (*path, *each.most))) is not None:
            count = min(count, most)
        if each.least and (least := number(part(raw, each.least, path), (*path, *each.least))) is not None:
            count = max(count, least)
        is_off = each.unless and flag(part(raw, each.unless, path), (*path, *each.unless))
        yield 0 if is_off else max(0, min(count, MOST_PODS))


def _progress(
    description: WorkloadKindSpec, job: WireOperatorJob, *, suspended: bool
) -> dict[str, PodSetProgress]:
    """What the status says of each pod set; {}: nothing is read of it. Raises UnexpectedPart for the spec."""
    told = description.progress
    if told is None:
        return {}
    counts = {} if suspended and told.stale_while_suspended else _told_counts(told, job)
    units: dict[str, int] = {}
    found: dict[str, PodSetProgress] = {}
    for templates in description.templates:
        for name, raw, path in _holders(templates, job):
            units[name] = next(_factors(templates.counts, raw, path, UserValues()), 1)
            needed = elements(part(raw, templates.depends_on, path), path) if templates.depends_on else ()
            is_due = all(_is_met(before, units, counts) for before in needed)
            if told.of_jobs:
                found[name] = PodSetProgress(jobs=units[name], is_due=is_due)
            else:
                succeeded = counts.get(name, _ToldCounts()).succeeded
                found[name] = PodSetProgress(units[name], succeeded, is_due=is_due)
    return found


class _ToldCounts(NamedTuple):
    """What a status counts of one pod set."""

    succeeded: int = 0
    ready: int = 0


def _told_counts(told: KindProgress, job: WireOperatorJob) -> Mapping[str, _ToldCounts]:
    """By pod set. A status that cannot be read keeps no work waiting."""
    fields = (told.succeeded, told.ready)
    try:
        return {
            name: _ToldCounts(*(max(0, number(part(raw, (field,), path), path) or 0) for field in fields))
            for name, raw, path in _holders(told, job)
        }
    except UnexpectedPart:
        return {}


def _is_met(before: msgspec.Raw, units: Mapping[str, int], counts: Mapping[str, _ToldCounts]) -> bool:
    """Whether a pod set has come as far as another one waits for. One that is not there holds up nothing."""
    where = ("dependsOn",)
    name = text(part(before, ("name",), where), where)
    told = counts.get(name, _ToldCounts())
    is_complete = text(part(before, ("status",), where), where) == "Complete"
    return (told.succeeded if is_complete else told.succeeded + told.ready) >= units.get(name, 0)


def _left(pods: PodSet, progress: PodSetProgress | None) -> PodSet:
    """A pod set without pods that have succeeded."""
    if progress is None or not progress.succeeded:
        return pods
    return replace(pods, count=max(0, min(pods.count, progress.wanted - progress.succeeded)))


def _revision(
    description: WorkloadKindSpec, job: WireOperatorJob, held: Sequence[HeldTemplate]
) -> JobRevision:
    suspend = description.suspend
    parents = (suspend[:depth] for depth in range(1, len(suspend)))
    existing = {pointer(parent) for parent in parents if job.part(parent) is not None}
    for each in held:
        existing.update(map(pointer, each.existing))
    written = tuple(each.written for each in held)
    resumed = any(each.is_marked for each in held)
    return one(JobRevision(job.metadata.generation, frozenset(existing), written, resumed))


def pointer(path: Path) -> str:
    """A place as a JSON pointer (RFC 6901)."""
    return "".join(f"/{escaped(field)}" for field in path)

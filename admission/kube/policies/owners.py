"""Policies for owners of pods that are no Jobs: their pod templates name the queue that the owner names. Pure.

Deployments, ReplicaSets, StatefulSets, LeaderWorkerSets and CronJobs make pods, or Jobs, from a template. What waits is
what they make, and it waits by its own label. So the label of the owner is copied into its template, as soon as the
owner has it. An owner that says how many of its pods start together (``scheduling.volcano.sh/group-min-member``, 2 or
more) gets the name of a PodGroup in its template as well, by the owner's name: pods of all revisions of a Deployment
are one gang, so that a rollout replaces its pods one by one (Volcano has a gang per ReplicaSet, which never gets whole
while old pods leave only as new ones come). Muster makes that PodGroup (``admission.kube.writers.automatic_groups``).
An owner whose pods run already becomes no gang, unless it makes all its pods at the same time: the rollout would wait
for ever for the first new pods, which wait for the others, which come when these run.

Owners that another one controls are left out: their template is that one's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from admission.kube.policies.cel import add, annotation, join, label, only_if, text
from admission.kube.policies.policy_forms import binding, local_queue_of, policy
from queues.api.api_resources import (
    CRON_JOBS,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiResource,
    Document,
)
from queues.api.json_patch import escaped
from queues.api.kueue_names import KUEUE_QUEUE
from queues.api.names import (
    AUTOMATIC_GROUP,
    GROUP_ANNOTATION,
    GROUP_ANNOTATION_VOLCANO,
    GROUP_MIN_MEMBER,
    QUEUE_ANNOTATION,
    QUEUE_LABEL,
)

#: Kinds whose pods may be one gang, and the place of their template.
GANG_OWNERS: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)
TEMPLATE: Final = "spec.template"
#: Two or more.
_SEVERAL: Final = "^([2-9]|[1-9][0-9]{1,5})$"
#: Uids are given out after policies have acted.
_OWN_GROUP: Final = (
    f"({text(AUTOMATIC_GROUP)} + object.kind.lowerAscii() + '-' + object.metadata.?name.orValue(''))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owners:
    """Kinds with their templates in the same places."""

    name: str
    kinds: tuple[ApiResource, ...]
    #: Fields from the object to each template; a template may be absent.
    templates: tuple[tuple[str, ...], ...]
    #: The template's pods may be one gang.
    is_group: bool = False


_OWNERS: Final = (
    _Owners(
        name="muster-owners",
        kinds=GANG_OWNERS,
        templates=(tuple(TEMPLATE.split(".")),),
        is_group=True,
    ),
    _Owners(name="muster-cron-jobs", kinds=(CRON_JOBS,), templates=(("spec", "jobTemplate"),)),
    _Owners(
        name="muster-leader-worker-sets",
        kinds=(LEADER_WORKER_SETS,),
        templates=(
            ("spec", "leaderWorkerTemplate", "leaderTemplate"),
            ("spec", "leaderWorkerTemplate", "workerTemplate"),
        ),
    ),
)


def owner_policies() -> list[Document]:
    """The policies with their bindings."""
    return [document for owners in _OWNERS for document in _documents(owners)]


def _documents(owners: _Owners) -> Iterator[Document]:
    patches = join(*(patch for template in owners.templates for patch in _patches(owners, template)))
    conditions = [
        {"name": "names-a-queue-or-a-gang", "expression": _concerns(owners)},
        {"name": "not-controlled", "expression": is_uncontrolled()},
    ]
    rules = [kind.rule(["CREATE", "UPDATE"]) for kind in owners.kinds]
    yield policy(owners.name, rules, patches, conditions=conditions)
    yield binding(owners.name, owners.name, {})


def _concerns(owners: _Owners) -> str:
    named = f"{_queue('object')} != '' || {label(KUEUE_QUEUE)} != ''"
    if not owners.is_group:
        return named
    template = _path("object", owners.templates[0])
    gangs = f"{_minimum('object')} != '' || {annotation(GROUP_MIN_MEMBER, template)} != ''"
    return f"{named} || {gangs}"


def is_uncontrolled() -> str:
    """Whether no other object controls the owner."""
    return "!object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))"


def _patches(owners: _Owners, template: Sequence[str]) -> Iterator[str]:
    of, at = _path("object", template), "/" + "/".join(template)
    there = " && ".join(f"has({_path('object', template[:depth])})" for depth in range(1, len(template) + 1))
    named, before = _queue("object"), f"(oldObject == null ? '' : {_queue('oldObject')})"
    own, own_before = _own_queue(of), _own_queue("oldObject." + ".".join(f"?{field}" for field in template))
    # Kueue's label counts from the creation on: what was there before it counted is not rolled out again for it.
    counts = f"(oldObject == null || {own_before} != '')"
    queue = f"({named} != '' || !{counts} ? {named} : {local_queue_of('object')}.orValue(''))"
    # A template with a queue of its own keeps it, unless that is what was copied from the owner before.
    copies = f"({there}) && {queue} != '' && {own} != {queue} && ({own} == '' || {own} == {before})"
    yield only_if(
        copies,
        join(_exists(of, at, "labels"), add(f"{at}/metadata/labels/{escaped(QUEUE_LABEL)}", queue)),
    )
    if owners.is_group:
        yield from _group_patches(of, at)


def _group_patches(of: str, at: str) -> Iterator[str]:
    """The template names the gang and its size, or, if the owner is no gang any more, neither."""
    minimum, group = minimum_of("object", of), annotation(GROUP_ANNOTATION, of)
    free = f"({group} == '' && {annotation(GROUP_ANNOTATION_VOLCANO, of)} == '')"
    annotations = f"{at}/metadata/annotations/"
    yield only_if(
        f"{is_gang(minimum)} && object.metadata.?name.orValue('') != ''"
        f" && ({free} || {group} == {_OWN_GROUP})"
        f" && ({free} || {annotation(GROUP_MIN_MEMBER, of)} != {minimum})"
        f" && ({group} == {_OWN_GROUP} || {makes_all_pods_at_once(of.replace('object', 'oldObject', 1))})",
        join(
            _exists(of, at, "annotations"),
            add(f"{annotations}{escaped(GROUP_ANNOTATION)}", _OWN_GROUP),
            add(f"{annotations}{escaped(GROUP_MIN_MEMBER)}", minimum),
        ),
    )
    was_one = f"oldObject != null && {_minimum('oldObject')} != '' && {_minimum('object')} == ''"
    is_none = f"{group} == {_OWN_GROUP} && ({was_one} || ({minimum} != '' && !{is_gang(minimum)}))"
    for key in (GROUP_ANNOTATION, GROUP_MIN_MEMBER):
        yield only_if(
            f"{is_none} && {annotation(key, of)} != ''",
            f"[JSONPatch{{op: 'remove', path: {text(annotations + escaped(key))}}}]",
        )
    # A StatefulSet makes its next pod when the one before is ready: no gang would ever be whole.
    yield only_if(
        f"request.operation == 'CREATE' && object.kind == 'StatefulSet' && {is_gang(minimum)}"
        " && object.spec.?podManagementPolicy.orValue('') != 'Parallel'",
        add("/spec/podManagementPolicy", "'Parallel'"),
    )


def makes_all_pods_at_once(template_before: str) -> str:
    """Whether all pods of an owner's gang can come up together: they are new, or the gang is there already.

    ``template_before``: the template in the object before.
    """
    parallel = "(object.kind != 'StatefulSet' || object.spec.?podManagementPolicy.orValue('') == 'Parallel')"
    empty = f"(object.spec.?replicas.orValue(1) == 0 && {parallel})"
    recreated = "object.spec.?strategy.?type.orValue('') == 'Recreate'"
    was_one = f"{annotation(GROUP_ANNOTATION, template_before)} == {_OWN_GROUP}"
    return f"(request.operation == 'CREATE' || {empty} || {recreated} || {was_one})"


def is_gang(minimum: str) -> str:
    """Whether so many pods, an expression for text, start together: two or more."""
    return f"{minimum}.matches({text(_SEVERAL)})"


def minimum_of(owner: str, template: str) -> str:
    """What is said of how many pods start together, by the owner or else by its template."""
    return f"({_minimum(owner)} != '' ? {_minimum(owner)} : {annotation(GROUP_MIN_MEMBER, template)})"


def _exists(of: str, at: str, name: str) -> str:
    """Make metadata, and labels or annotations in it, which are left out when empty."""
    return join(
        only_if(f"!has({of}.metadata)", add(f"{at}/metadata", "{}")),
        only_if(f"!has({of}.metadata) || !has({of}.metadata.{name})", add(f"{at}/metadata/{name}", "{}")),
    )


def _path(of: str, fields: Sequence[str]) -> str:
    return ".".join([of, *fields])


def _own_queue(template: str) -> str:
    """The queue that a template names. Templates in custom resources may have no metadata."""
    return f"{template}.?metadata.?labels[?{text(QUEUE_LABEL)}].orValue('')"


def _queue(of: str) -> str:
    """The queue that an owner names; "": none."""
    annotated = annotation(QUEUE_ANNOTATION, of)
    volcano = f"({annotated} != '' ? {annotated} : {label(QUEUE_ANNOTATION, of)})"
    return f"({label(QUEUE_LABEL, of)} != '' ? {label(QUEUE_LABEL, of)} : {volcano})"


def _minimum(of: str) -> str:
    return annotation(GROUP_MIN_MEMBER, of)

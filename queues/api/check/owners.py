"""Kinds that Muster does not read, but whose pods wait if they, or the template of their pods, name a queue."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError

from queues.api import names
from queues.api.api_resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    ApiResource,
    resource_of,
)
from queues.api.check.cross_checks import Definitions
from queues.api.check.finding import Finding, Subject
from queues.api.check.own_names import POD_OWNERS
from queues.api.reading.user_values import number
from queues.api.types.batch_job import BatchJob, Pod
from queues.api.validation.job_rules import queue_reference_violations
from queues.api.validation.known import Known
from queues.api.validation.pod_fields import template_problems
from queues.api.validation.pod_rules import template_violations
from queues.api.validation.queued_work import ONLY_MUSTER, template_violations_in_queue
from queues.api.validation.scheduler_fields import reported_violations
from queues.api.validation.size_rules import EqualPods, job_pods, pods_of
from queues.api.validation.validation import waiting_violations
from queues.api.workload_kinds import PASSING_KINDS
from queues.json_values import list_at, mapping_at, text_at, value_at
from queues.quota.queue import Queue, path_upwards
from queues.resources import Resources
from queues.text_format import counted, excerpt
from queues.workload import QueueName

_JOB_TEMPLATE: Final = "spec.jobTemplate"
#: Where the pod templates of each kind are.
_TEMPLATES: Final = {
    **dict.fromkeys(
        (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, REPLICATION_CONTROLLERS), ("spec.template",)
    ),
    **{
        kind.resource: tuple(".".join((*each.at, *each.template)) for each in kind.templates)
        for kind in PASSING_KINDS
        if kind.templates
    },
}
#: Where a kind has the claims of volumes that it gives each of its pods, if not as a StatefulSet.
_CLAIMS: Final = {LEADER_WORKER_SETS: "spec.leaderWorkerTemplate.volumeClaimTemplates"}


def owner_kind(document: Mapping[str, Any]) -> ApiResource | None:
    """The kind of a document, if it is such a kind; None else."""
    kind = resource_of(document["apiVersion"], document["kind"])
    return kind if kind in _TEMPLATES else None


def owner_findings(subject: Subject, kind: ApiResource, definitions: Definitions) -> Iterator[Finding]:
    """Findings in the pod templates, and which of the pods wait."""
    document = subject.value
    claims = list_at(document, *_CLAIMS.get(kind, "spec.volumeClaimTemplates").split("."))
    volumes = [name for claim in claims if (name := text_at(claim, "metadata", "name"))]
    paths = [path for path in _TEMPLATES[kind] if isinstance(_at(document, path), Mapping)]
    problems = [
        subject.finding_of(problem)
        for path in paths
        for problem in template_problems(_at(document, path), path, volumes)
    ]
    yield from problems
    told = {problem.path for problem in problems}
    for finding in _waiting(subject, definitions, kind, (paths or _TEMPLATES[kind])[0]):
        if finding.path not in told:
            yield finding


def _waiting(subject: Subject, definitions: Definitions, kind: ApiResource, path: str) -> Iterator[Finding]:
    """Which pods wait, and in which queue. ``path``: of the template that says it."""
    document = subject.value
    template = _at(document, path)
    place, queue = named_queue(template, path)
    if kind == CRON_JOBS and not queue:
        place, queue = named_queue(_at(document, _JOB_TEMPLATE), _JOB_TEMPLATE)
    if kind in POD_OWNERS and not queue:  # a policy writes it into the template
        place, queue = named_queue(document, "")
    if not queue:
        place, queue = "metadata.namespace", definitions.queue_of_namespace(subject.namespace)
    annotations = mapping_at(template, "metadata", "annotations")
    group = annotations.get(names.GROUP_ANNOTATION) or annotations.get(names.GROUP_ANNOTATION_VOLCANO)
    if group:
        found = f"PodGroup {excerpt(group)}: the pods wait with it"
        yield subject.finding("note", f"{path}.metadata.annotations", found, "")
    elif queue:
        above = list(path_upwards(QueueName(queue), definitions.queues.get))
        sets = _pods_of_owner(document, kind, above)
        yield from _in_queue(subject, definitions, place, queue, _start(document, kind, place, sets))
        if kind == LEADER_WORKER_SETS and _at(template, "spec.schedulerName") == names.VOLCANO_SCHEDULER:
            yield from _group_of_provider(subject, queue)
        together = sum(pods.minimum for pods in sets)
        known = definitions.known_to(document)
        for each in waiting_violations(queue, subject.namespace, sets, together, known):
            yield subject.finding_of(each)
        yield from _against_rules(document, kind, subject, known)
        if kind == DEPLOYMENTS:
            yield from _stuck_update(subject)
        yield from _unreadable_size(subject, kind)
    elif _at(template, "spec.schedulerName") == names.VOLCANO_SCHEDULER:
        start = _start(document, kind, place, _pods_of_owner(document, kind, ()))
        found = f"'volcano' and no queue: {start}, in the namespace's queue or in default"
        yield subject.finding("note", f"{path}.spec.schedulerName", found, "")
    else:
        expected = "a queue in the labels of the pod template, if they shall wait"
        yield subject.finding("note", f"{path}.metadata", "pods that name no queue", expected)


def _pods_of_owner(document: Mapping[str, Any], kind: ApiResource, path: Sequence[Queue]) -> list[EqualPods]:
    """The pods that start together of an owner: of a CronJob those of one Job. ``path``: its queue and those above."""
    with suppress(ValidationError):
        if kind == CRON_JOBS:
            metadata, spec = (_at(document, f"{_JOB_TEMPLATE}.{part}") or {} for part in ("metadata", "spec"))
            pods, _ = job_pods(BatchJob.parse({"metadata": metadata, "spec": spec}), path)
            at, template = (f"{_JOB_TEMPLATE}.{field}" for field in (pods.path, pods.template))
            return [pods._replace(path=at, template=template)]
        if kind == LEADER_WORKER_SETS:
            worker, leader = _TEMPLATES[kind]
            size = _at(document, "spec.leaderWorkerTemplate.size")
            workers = size - 1 if isinstance(size, int) and size > 0 else 0
            leads = leader if _at(document, leader) else worker
            pairs = [(leads, 1), (worker, workers)]
        else:
            pairs = [(_TEMPLATES[kind][0], _min_member(document, kind) or 1)]
        return [
            EqualPods(path, path, count, count, _takes_of(document, path)) for path, count in pairs if count
        ]
    return []


def _takes_of(document: Mapping[str, Any], path: str) -> Resources:
    [pod], _ = pods_of(Pod.parse({"spec": _at(document, f"{path}.spec") or {}}))
    return pod.takes


def _group_of_provider(subject: Subject, queue: str) -> Iterator[Finding]:
    """A LeaderWorkerSet for Volcano: its own controller may make the PodGroups, and writes one name for their queue."""
    named = (_at(subject.value, "metadata.annotations") or {}).get(names.QUEUE_ANNOTATION)
    if named != queue:
        place = f"metadata.annotations[{names.QUEUE_ANNOTATION}]"
        expected = (
            f"{queue}, if its controller makes PodGroups itself (gang scheduling with Volcano): it gives them this"
            " queue, and theirs counts"
        )
        yield subject.finding("note", place, excerpt(named) if named else "nothing", expected)


def _stuck_update(subject: Subject) -> Iterator[Finding]:
    """A Deployment whose updates need room for a pod more, since it may have none less."""
    replicas, strategy = (
        value_at(subject.value, "spec", "replicas"),
        mapping_at(subject.value, "spec", "strategy"),
    )
    replicas = 1 if replicas is None else replicas
    if (
        strategy.get("type", "RollingUpdate") != "RollingUpdate"
        or not isinstance(replicas, int)
        or replicas < 1
    ):
        return
    rolling = mapping_at(strategy, "rollingUpdate")
    less = _pods_of(rolling.get("maxUnavailable", "25%"), replicas)
    more = _pods_of(rolling.get("maxSurge", "25%"), replicas, rounded_up=True)
    if less == 0 and more:
        found = f"no pod less while it is updated: {replicas} replicas, and {counted(more, 'pod')} more"
        expected = (
            "maxUnavailable of 1 or more, or maxSurge 0: where the queue has no room for more, the new pods wait for"
            " the old ones, and these for the new ones"
        )
        yield subject.finding("note", "spec.strategy", found, expected)


def _pods_of(value: Any, replicas: int, *, rounded_up: bool = False) -> int | None:
    """A number of pods, or a percentage of replicas, as Kubernetes rounds it; None if it is neither."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    percent = number(value.removesuffix("%")) if isinstance(value, str) and value.endswith("%") else None
    if percent is None:
        return None
    return -(-replicas * percent // 100) if rounded_up else replicas * percent // 100


def _against_rules(
    document: Mapping[str, Any], kind: ApiResource, subject: Subject, known: Known
) -> Iterator[Finding]:
    """What the API server, and the rules for work in queues, refuse of the templates: their pods would be refused."""
    for path in _TEMPLATES[kind]:
        template = _at(document, path)
        if not isinstance(template, Mapping):
            continue
        for found in (
            *template_violations(template, path, subject.namespace, known.levels),
            *template_violations_in_queue(template, path),
            *reported_violations(template.get("spec"), f"{path}.spec"),
        ):
            if found.expected != ONLY_MUSTER:  # own_names reports these
                yield subject.finding_of(found)


def _start(document: Mapping[str, Any], kind: ApiResource, place: str, sets: Sequence[EqualPods]) -> str:
    """What starts together. ``sets``: as of ``_pods_of_owner``."""
    if kind == LEADER_WORKER_SETS:
        if (_at(document, "metadata.annotations") or {}).get(names.LWS_EXCLUSIVE_TOPOLOGY):
            return (
                f"each of its pods waits alone, not as a gang: with {names.LWS_EXCLUSIVE_TOPOLOGY} workers come"
                " when their leader has a node"
            )
        return "each leader waits together with its workers"
    if kind == CRON_JOBS and not place.startswith("spec.jobTemplate.spec"):
        return _start_of_jobs(sets)
    size = _min_member(document, kind)
    if size is not None and size > 1:
        return f"{size} of its pods wait as a gang"
    return "each of its pods waits alone, not as a gang"


def _start_of_jobs(sets: Sequence[EqualPods]) -> str:
    """What starts together of each Job of a CronJob. Empty: its pods cannot be read."""
    pods, least = (sets[0].pods, sets[0].minimum) if sets else (1, 1)
    if pods <= 1:
        return "each of its Jobs waits"
    if least <= 1:
        return "each pod of its Jobs waits alone, not as a gang"
    return (
        "each of its Jobs waits as a gang"
        if least == pods
        else f"{least} pods of each of its Jobs wait as a gang"
    )


def _unreadable_size(subject: Subject, kind: ApiResource) -> Iterator[Finding]:
    least = value_at(*_stated_size(subject.value, kind))
    if least is not None and _min_member(subject.value, kind) is None:
        place = f"{f'{_JOB_TEMPLATE}.' if kind == CRON_JOBS else ''}metadata.annotations[{names.GROUP_MIN_MEMBER}]"
        yield subject.finding("warning", place, excerpt(least), 'a number, such as "4"')


def _min_member(document: Mapping[str, Any], kind: ApiResource) -> int | None:
    """How many pods are a gang, by annotation; None if there is no annotation, or it is no number."""
    size = number(text_at(*_stated_size(document, kind)))
    return size if size is not None and size >= 1 else None


def _stated_size(document: Mapping[str, Any], kind: ApiResource) -> tuple[Any, str, str, str]:
    """What has the annotation, with the way to it: of a CronJob the template of its Jobs."""
    holder = _at(document, _JOB_TEMPLATE) if kind == CRON_JOBS else document
    return holder, "metadata", "annotations", names.GROUP_MIN_MEMBER


def _in_queue(
    subject: Subject, definitions: Definitions, place: str, queue: str, how: str
) -> Iterator[Finding]:
    yield subject.finding("note", place, f"queue {excerpt(queue)}: {how}", "")
    if not definitions.has_queues:
        return
    for violation in queue_reference_violations(queue, Known(queues=definitions.queues), place):
        expected = violation.expected
        if violation.missing:
            expected = f"{expected}: it is not among these documents"
        yield subject.finding("warning", place, violation.found, expected)


def named_queue(template: Any, path: str = "") -> tuple[str, str]:
    """The field of a template that names the queue, and the queue; "": none does."""
    for field, key in (
        ("labels", names.QUEUE_LABEL),
        ("annotations", names.QUEUE_ANNOTATION),
        ("labels", names.QUEUE_ANNOTATION),
    ):
        if queue := text_at(template, "metadata", field, key):
            return f"{path}.metadata.{field}[{key}]".removeprefix("."), queue
    return "", ""


def _at(value: Any, path: str) -> Any:
    """The value at a path of keys, joined by dots; None if there is none."""
    return value_at(value, *path.split("."))

"""Kinds of Kubernetes that Muster does not read, but whose pods wait if their template names a queue."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from queues.api import names
from queues.api.check.cross_checks import Definitions
from queues.api.check.finding import Finding, Subject
from queues.api.check.pod_templates import TemplateProblem, template_problems
from queues.api.model import excerpt
from queues.api.validation.job_rules import queue_reference_violations

#: Where the pod template of each kind is.
_TEMPLATES: Final = {
    ("apps/v1", "Deployment"): "spec.template",
    ("apps/v1", "ReplicaSet"): "spec.template",
    ("apps/v1", "StatefulSet"): "spec.template",
    ("apps/v1", "DaemonSet"): "spec.template",
    ("v1", "ReplicationController"): "spec.template",
    ("batch/v1", "CronJob"): "spec.jobTemplate.spec.template",
}
_CRON_JOB: Final = ("batch/v1", "CronJob")
_JOB_TEMPLATE: Final = "spec.jobTemplate"


def is_owner(document: Mapping[str, Any]) -> bool:
    """Whether a document is of such a kind."""
    return (document.get("apiVersion"), document.get("kind")) in _TEMPLATES


def owner_findings(subject: Subject, definitions: Definitions) -> Iterator[Finding]:
    """Findings in the pod template, and which of its pods wait."""
    document = subject.value
    kind = (document["apiVersion"], document["kind"])
    path = _TEMPLATES[kind]
    template = _at(document, path)
    claims = _at(document, "spec.volumeClaimTemplates")
    volumes = (
        [_at(claim, "metadata.name") for claim in claims if isinstance(claim, Mapping)]
        if isinstance(claims, list)
        else []
    )
    for problem in template_problems(template, path, [name for name in volumes if isinstance(name, str)]):
        yield template_finding(subject, problem)
    if kind == _CRON_JOB:
        place, queue = _queue_of(_at(document, _JOB_TEMPLATE), _JOB_TEMPLATE)
        if queue:
            yield from _waits(subject, definitions, place, queue, "each of its Jobs waits as a gang")
            return
    annotations = _at(template, "metadata.annotations")
    group = None
    if isinstance(annotations, Mapping):
        group = annotations.get(names.GROUP_ANNOTATION) or annotations.get(names.GROUP_ANNOTATION_VOLCANO)
    place, queue = _queue_of(template, path)
    if group:
        found = f"PodGroup {excerpt(group)}: the pods wait with it"
        yield subject.finding("note", f"{path}.metadata.annotations", found, "")
    elif queue:
        yield from _waits(subject, definitions, place, queue, "each of its pods waits alone, not as a gang")
    elif _at(template, "spec.schedulerName") == names.VOLCANO_SCHEDULER:
        found = "'volcano' and no queue: each pod waits alone, in the namespace's queue or in default"
        yield subject.finding("note", f"{path}.spec.schedulerName", found, "")
    else:
        expected = "a queue in the labels of the pod template, if they shall wait"
        yield subject.finding("note", f"{path}.metadata", "pods that name no queue", expected)


def template_finding(subject: Subject, problem: TemplateProblem) -> Finding:
    """An unknown field is dropped by the API server; all else makes it refuse the pods."""
    severity: Any = "warning" if problem.is_unknown else "error"
    return subject.finding(severity, problem.path, problem.found, problem.expected)


def _waits(subject: Subject, definitions: Definitions, place: str, queue: str, how: str) -> Iterator[Finding]:
    yield subject.finding("note", place, f"queue {excerpt(queue)}: {how}", "")
    if not definitions.has_queues:
        return
    for violation in queue_reference_violations(queue, definitions.queues, place, what="workload"):
        expected = violation.expected
        if violation.missing:
            expected = f"{expected}: it is not among these documents"
        yield subject.finding("warning", place, violation.found, expected)


def _queue_of(template: Any, path: str) -> tuple[str, str]:
    """The field of a template that names the queue, and the queue; "": none does."""
    for field, key in (
        ("labels", names.QUEUE_LABEL),
        ("annotations", names.QUEUE_ANNOTATION),
        ("labels", names.QUEUE_ANNOTATION),
    ):
        keys = _at(template, f"metadata.{field}")
        queue = keys.get(key) if isinstance(keys, Mapping) else None
        if isinstance(queue, str) and queue:
            return f"{path}.metadata.{field}[{key}]", queue
    return "", ""


def _at(value: Any, path: str) -> Any:
    """The value at a path of keys; None: there is none."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value

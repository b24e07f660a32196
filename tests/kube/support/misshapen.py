"""Objects of all kinds that policies look at, and each of them with one part left out or of another type."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from queues.api.api_resources import (
    CHECK_REQUESTS,
    COMMANDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOB_FLOWS,
    JOBS,
    NAMESPACES,
    NODE_DRAINS,
    POD_GROUPS,
    PODS,
    QUEUES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESERVATIONS,
    STATEFUL_SETS,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    ApiResource,
    Document,
)
from queues.api.types.workload_kind import PassedOn, Templates, WorkloadKindSpec
from queues.api.workload_kinds import OPERATOR_KINDS, PASSING_KINDS
from tests.kube.support.cluster_objects import batch_job, pod
from tests.kube.support.evasion_attempts import owner
from tests.kube.support.guarded_namespace import QUEUED

Path = tuple[str | int, ...]
#: Kinds of other projects, which a test brings.
FOREIGN = (*OPERATOR_KINDS, *(each for each in PASSING_KINDS if each.resource.group != "batch"))
_CONTROLLER = [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u", "controller": True}]
#: What any object may say.
_SAID = {
    "muster.dev/hold": "maybe",
    "muster.dev/user": "bob",
    "muster.dev/may-grow": "7",
    "scheduling.volcano.sh/queue-name": "a b",
    "scheduling.volcano.sh/group-min-member": "-1",
    "scheduling.k8s.io/group-name": "",
    "kueue.x-k8s.io/podset-required-topology": "",
    "kueue.x-k8s.io/pod-group-total-count": "word",
}
_TEMPLATE: Document = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {"containers": [{"name": "main", "image": "x"}], "priorityClassName": "", "nodeName": ""},
}
_WRONG: tuple[Any, ...] = (7, [], {}, None)
_JOB = {"schedulerName": "volcano", "minAvailable": 1, "queue": "default", "priorityClassName": ""}
_TASKS = {"tasks": [{"name": "a", "replicas": 1, "template": _TEMPLATE}]}


def sound() -> Iterator[tuple[ApiResource, Document]]:
    """An object of each kind, in a queue."""
    yield PODS, pod("", schedulerName="volcano", tolerations=[], affinity={})
    yield JOBS, batch_job("", schedulerName="volcano") | {"metadata": {}}
    for kind in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, REPLICATION_CONTROLLERS):
        yield kind, owner(kind)
    yield NAMESPACES, {}
    yield VOLCANO_JOBS, {"spec": {**_JOB, **_TASKS}}
    schedule = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {**_JOB, **_TASKS}}}
    yield VOLCANO_CRON_JOBS, {"spec": schedule}
    yield JOB_FLOWS, {"spec": {"flows": [{"name": "a"}]}}
    yield POD_GROUPS, {"spec": {"minMember": 1, "queue": "default", "priorityClassName": ""}}
    yield QUEUES, {"spec": {"weight": 1, "deserved": {"cpu": 1}}}
    window = {"from": "2030-01-01T00:00:00Z", "for": "1h"}
    yield RESERVATIONS, {"spec": {"queue": "q", "resources": {"cpu": 1}, **window}}
    yield NODE_DRAINS, {"spec": {"nodes": ["n"], "at": "2030-01-01T00:00:00Z"}}
    target = {"apiVersion": VOLCANO_JOBS.api_version, "kind": "Job", "name": "a", "uid": "u"}
    yield COMMANDS, {"action": "AbortJob", "target": target}
    about = {"kind": "job", "name": "a", "uid": "u"}
    asked = {"check": "c", "answeredBy": "u", "workload": about, "queue": "q"}
    yield CHECK_REQUESTS, {"spec": {**asked, "askedAt": "2030-01-01T00:00:00Z"}}
    for description in FOREIGN:
        yield description.resource, _of_another_project(description)


def misshapen(document: Document, *, is_typed: bool) -> Iterator[tuple[str, Document]]:
    """The object with one part that is left out, or of another type where the API server's own types do not say what it
    is (``is_typed``); and with each label or annotation of Muster's that says nothing sensible."""
    for path in _paths(document):
        for value in (None,) if is_typed else _WRONG:
            changed = deepcopy(document)
            holder: Any = changed
            for field in path[:-1]:
                holder = holder[field]
            if value is None and isinstance(holder, dict):
                del holder[path[-1]]
            else:
                holder[path[-1]] = value
            yield f"{'.'.join(map(str, path))}: {value!r}", changed
    for key, text in _SAID.items():
        for field in ("annotations", "labels"):
            changed = deepcopy(document)
            changed["metadata"].setdefault(field, {})[key] = text
            yield f"{field} {key}: {text!r}", changed
    controlled = deepcopy(document)
    controlled["metadata"]["ownerReferences"] = _CONTROLLER
    yield "controlled", controlled


def _paths(document: Any, at: Path = ()) -> Iterator[Path]:
    """Of all parts but those that the API server reads before its policies do."""
    parts = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in parts:
        if at == () and key in ("apiVersion", "kind", "metadata"):
            continue
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from _paths(value, (*at, key))


def named(resource: ApiResource, document: Document, name: str) -> Document:
    """The object with a name, and the label of a queue."""
    meta = {**document.get("metadata", {}), "name": name}
    meta["labels"] = {**(meta.get("labels") or {}), **QUEUED}
    return {**deepcopy(document), "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}


def _of_another_project(description: WorkloadKindSpec) -> Document:
    document: Document = {"spec": {}}
    if not description.passes_on or any(place.own for place in description.passes_on):
        _put(document, description.suspend, True)
    for demand in description.demands:
        if demand.must in ("true", "false"):
            _put(document, demand.at, demand.must == "true")
    for templates in description.templates:
        inner: Document = {templates.named_by: "a"} if templates.each == "element" else {}
        _put(inner, templates.template or ("metadata",), deepcopy(_TEMPLATE))
        _put_at(document, templates, inner)
    for place in description.passes_on:
        inner = {}
        inner |= place.own
        _put(inner, (*place.holder, *place.labels), {"a": "b"})
        _put_at(document, place, inner)
    return document


def _put_at(document: Document, place: Templates | PassedOn, inner: Document) -> None:
    value: Any = {"one": inner, "element": [inner], "entry": {"A": inner}}[place.each]
    _put(document, place.at, value)


def _put(document: Document, path: tuple[str, ...], value: Any) -> None:
    for field in path[:-1]:
        document = document.setdefault(field, {})
    if path:
        document[path[-1]] = value


def is_raw(refusal: str) -> bool:
    """Whether a refusal has words of CEL instead of a sentence."""
    signs = ("no such key", "no such overload", "resulted in error", "evaluation error", "failed expression")
    return any(sign in refusal for sign in (*signs, "unsupported", "JSON Patch", "failed to apply"))

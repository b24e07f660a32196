"""Manifests, judged by ``muster check`` and by an API server with Muster's policies and webhook."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from admission.wire import WirePod
from admission.workloads.kinds import OPERATOR_KINDS, known_kinds, read_pod
from admission.workloads.kinds.document_checks import check_as_in_cluster
from admission.workloads.kinds.operators.json_parts import WireOperatorJob
from admission.workloads.kinds.operators.objects import written_templates
from deploy.local.client import LocalClient
from queues.api.api_resources import (
    COMMANDS,
    CRON_JOBS,
    DEPLOYMENTS,
    FLAVORS,
    HYPERNODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    LEADER_WORKER_SETS,
    NODE_DRAINS,
    PODS,
    QUEUES,
    REPLICA_SETS,
    RESERVATIONS,
    STATEFUL_SETS,
    TOPOLOGIES,
    VOLCANO_CRON_JOBS,
    ApiResource,
)
from queues.api.check.check import check_documents
from queues.api.check.finding import Finding
from queues.api.names import QUEUE_LABEL
from tests.builders.operator_resources import TRAIN_JOBS

Document = dict[str, Any]
#: Kinds that are tried: workloads, owners of pods, and administrators' objects.
TRIED: Final = {
    (each.api_version, each.kind): each
    for each in (
        *(support.resource for support in known_kinds().supports),
        *(
            COMMANDS,
            CRON_JOBS,
            DEPLOYMENTS,
            FLAVORS,
            HYPERNODES,
            JOB_FLOWS,
            JOB_TEMPLATES,
            LEADER_WORKER_SETS,
        ),
        *(NODE_DRAINS, QUEUES, REPLICA_SETS, RESERVATIONS, STATEFUL_SETS, TOPOLOGIES, TRAIN_JOBS),
        VOLCANO_CRON_JOBS,
    )
}
#: Kinds of other projects, which a cluster serves only with their operators.
FOREIGN: Final = (*(each.resource for each in OPERATOR_KINDS), TRAIN_JOBS, LEADER_WORKER_SETS)
#: Where kinds that Muster does not read as workloads have their pod templates.
_OWNED: Final = {
    CRON_JOBS.kind: (("spec", "jobTemplate", "spec", "template"),),
    DEPLOYMENTS.kind: (("spec", "template"),),
    REPLICA_SETS.kind: (("spec", "template"),),
    STATEFUL_SETS.kind: (("spec", "template"),),
    LEADER_WORKER_SETS.kind: (
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
    ),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an object at an API server with Muster."""

    #: What the API server says against it, or against its pods; "": nothing.
    refusal: str = ""
    #: For what it would wait without end; "": nothing.
    obstacle: str = ""
    #: What the API server warns of.
    warnings: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """``refused``, ``waits`` (without end), ``warned`` or ``taken``."""
        if self.refusal:
            return "refused"
        return "waits" if self.obstacle else "warned" if self.warnings else "taken"


def findings_of(documents: Sequence[Document]) -> list[Finding]:
    """What ``muster check`` says of the last of these documents."""
    text = yaml.safe_dump_all(documents)
    found = check_documents([("file.yaml", text)], check_as_in_cluster)
    return [each for each in found if each.document == len(documents)]


def disagreement(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """How ``muster check`` differs from the API server; "": it does not."""
    errors = [str(each) for each in findings if each.severity == "error"]
    others = [each for each in findings if each.severity == "warning"]
    if verdict.refusal and not errors:
        return f"check has no error, the API server says: {verdict.refusal}"
    if verdict.obstacle and not (errors or others):
        return f"check says nothing, the workload would wait: {verdict.obstacle}"
    if errors and not (verdict.refusal or verdict.obstacle):
        return f"the API server takes it, check says: {errors}"
    told = [f"{each.found}" for each in findings]
    for warning in verdict.warnings:
        if ": found " in warning and not any(each in warning for each in told):
            return f"check does not say what the API server warns of: {warning}"
    return ""


def verdict_of(api: LocalClient, document: Document) -> Verdict:
    """What the API server says, in dry runs."""
    kind = TRIED[document["apiVersion"], document["kind"]]
    namespace = document["metadata"].get("namespace", "default")
    path = (
        kind.path(namespace)
        if kind not in (QUEUES, FLAVORS, TOPOLOGIES, HYPERNODES, RESERVATIONS, NODE_DRAINS)
        else kind.path()
    )
    refusal, made, warnings = _dry_run(api, path, document)
    if refusal or made is None:
        return Verdict(refusal)
    obstacle = _obstacle(kind, made)
    for template in _templates(kind, made) if not obstacle else ():
        pod = {**template, "apiVersion": "v1", "kind": "Pod"}
        pod["metadata"] = {**(template.get("metadata") or {}), "generateName": "tried-"}
        refusal, _, _ = _dry_run(api, PODS.path(namespace), pod)
        if refusal:
            return Verdict(f"of a pod: {refusal}")
    return Verdict("", obstacle, warnings)


def _dry_run(api: LocalClient, path: str, document: Document) -> tuple[str, Document | None, tuple[str, ...]]:
    answer = api.send("POST", f"{path}?dryRun=All", json.dumps(document))
    body = json.loads(answer.read())
    warnings = tuple(answer.headers.get_all("Warning") or ())
    if answer.status >= 400:
        return str(body.get("message")), None, warnings
    return "", body, warnings


def _obstacle(kind: ApiResource, made: Document) -> str:
    """Why an object as it was stored would never be considered; "": it would, or it waits in no queue."""
    raw = json.dumps(made).encode()
    if kind is PODS:
        pod = read_pod(msgspec.json.decode(raw, type=WirePod))
        return pod.obstacle.message if pod.gated and pod.obstacle is not None else ""
    support = next((each for each in known_kinds().supports if each.resource is kind), None)
    if support is None or support.reader is None:
        return ""
    fact = support.reader.fact(msgspec.json.decode(raw, type=support.reader.wire), msgspec.Raw(raw))
    waits = fact is not None and (fact.queue or not support.needs_queue)
    return fact.obstacle.message if fact is not None and waits and fact.obstacle is not None else ""


def _templates(kind: ApiResource, made: Document) -> Iterator[Document]:
    """The pod templates of an object, with the queue that the pods get."""
    for place in _OWNED.get(kind.kind, ()):
        found: Any = made
        for field in place:
            found = (found or {}).get(field)
        if isinstance(found, Mapping):
            yield dict(found)
    description = next((each for each in OPERATOR_KINDS if each.resource is kind), None)
    queue = (made["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    if description is None or not queue:
        return
    job = msgspec.json.decode(json.dumps(made).encode(), type=WireOperatorJob)
    for each in written_templates(description, job):
        template = json.loads(each.content or b"{}")
        meta = template.get("metadata") or {}
        labels = {**(meta.get("labels") or {}), QUEUE_LABEL: queue}
        yield {**template, "metadata": {**meta, "labels": labels}}

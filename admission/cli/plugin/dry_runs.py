"""What the API server makes of objects that are tried: each is created in a dry run, as the user, with the strict
validation of fields that ``kubectl apply`` asks for. Nothing is stored. Its answers are what the leader is asked about.

Only the API server knows all of it: the schemas of the CRDs that are installed, its own version's fields of pods, the
policies and webhooks of Muster and of other projects, and what the user may create.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from msgspec import structs

from admission.cli.access.objects import Refused, send_with_warnings
from admission.cli.access.requests import Route
from admission.cli.access.workload_objects import added_kinds
from admission.cli.command_line import CommandFailed
from queues.api import names
from queues.api.api_resources import PODS, VOLCANO_JOBS, ApiResource, Document, resource_of
from queues.api.validation.queued_work import pod_templates
from queues.errors import UnusableName
from queues.read_api.trials import TrialBody, TrialRequestBody

#: Dry runs at a time: each is a connection of its own.
_AT_A_TIME: Final = 4
#: Seconds that the API server has for one of them at most.
_PATIENCE: Final = 10.0
#: Pod templates of one object that are asked about.
_MOST_TEMPLATES: Final = 8
#: Fields that only a stored object has.
_OF_STORED: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
_STRICT: Final = "strict decoding error: "
#: As the API server words it if RBAC does not let a user create a kind.
_MAY_NOT: Final = re.compile(r'cannot create resource "[^"]*"')
#: Answers that say nothing of the object: who asks is not known, too many requests, errors of the server.
_SAYS_NOTHING: Final = "the API server could not say what it makes of this object: "


class Created(NamedTuple):
    """An object as it would be stored, and what the API server warns of."""

    document: Document
    warnings: tuple[str, ...] = ()


#: Creates an object at a path, in a dry run; raises Refused and CommandFailed.
Create = Callable[[str, Document], Created]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What the API server makes of one document."""

    #: As it would be stored; as it is where the API server says nothing of it.
    document: Document
    #: Of the workload it belongs to, as the answer to a trial names it; kind "": of another kind, which does not wait.
    kind: str = ""
    namespace: str = ""
    name: str = ""
    #: Why it would not be stored; "": it would, or that is not known.
    refusal: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def workload(self) -> tuple[str, str, str]:
        """Kind, namespace and name of the workload."""
        return self.kind, self.namespace, self.name


def create_in_dry_run(route: Route) -> Create | None:
    """Creates as the user of the kubeconfig. None if a replica is asked directly, and no API server is known."""
    if route.server is not None:
        return None

    def create(path: str, document: Document) -> Created:
        query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "kubectl-muster"}
        return Created(
            *send_with_warnings(
                route.within(_PATIENCE), "POST", path, document, tried="Creating it in a dry run", **query
            )
        )

    return create


def workloads_among(documents: Sequence[Document], route: Route) -> Mapping[tuple[str, str], ApiResource]:
    """What waits in queues, by API version and kind. Those that administrators have added are asked for where a
    document is of an unknown kind; who may not see them tries such objects without a dry run."""
    from admission.workloads.kinds import known_kinds

    found = {key: support.resource for key, support in known_kinds().by_resource.items()}
    if any(_kind_of(each) not in found and resource_of(*_kind_of(each)) is None for each in documents):
        with suppress(CommandFailed):
            added = (each.resource for each in added_kinds(route))
            found |= {(each.api_version, each.kind): each for each in added}
    return found


def _kind_of(document: Document) -> tuple[str, str]:
    return str(document.get("apiVersion")), str(document.get("kind"))


def dry_runs(
    question: TrialRequestBody, workloads: Mapping[tuple[str, str], ApiResource], create: Create
) -> list[DryRun]:
    """What the API server makes of each document. ``workloads``: what waits in queues."""

    def run(document: Document) -> DryRun:
        resource, metadata = workloads.get(_kind_of(document)), document.get("metadata")
        if resource is None or not isinstance(metadata, dict):
            return DryRun(document=document)
        return _dry_run(document, resource, question, create)

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(run, question.documents))


def to_be_tried(runs: Sequence[DryRun]) -> tuple[Document, ...]:
    """The documents that the leader is asked about: none of a workload whose object or pod is refused.

    Empty if nothing is left that waits.
    """
    refused = {run.workload for run in runs if run.refusal}
    left = [run for run in runs if not run.kind or run.workload not in refused]
    return tuple(run.document for run in left) if not refused or any(run.kind for run in left) else ()


def with_dry_runs(items: Sequence[TrialBody], runs: Sequence[DryRun]) -> tuple[TrialBody, ...]:
    """The items of the leader's answer, and of what the API server refuses, in the order of the documents."""
    found = {(item.kind, item.namespace, item.name): item for item in items}
    ordered: dict[tuple[str, str, str], list[DryRun]] = {key: [] for key in found}
    for run in runs:
        if run.kind:
            ordered.setdefault(run.workload, []).append(run)
    places = {run.workload: place for place, run in reversed(list(enumerate(runs)))}
    return tuple(
        _with(found.get(key) or _refused(key), ordered[key])
        for key in sorted(ordered, key=lambda key: places.get(key, len(runs)))
    )


def _refused(key: tuple[str, str, str]) -> TrialBody:
    kind, namespace, name = key
    return TrialBody(kind=kind, namespace=namespace, name=name, state="refused", queue_length=None)


def _with(item: TrialBody, runs: Sequence[DryRun]) -> TrialBody:
    """An item with what the API server says of its documents."""
    refusals = [run.refusal for run in runs if run.refusal]
    warnings = [warning for run in runs for warning in run.warnings]
    return structs.replace(
        item,
        refusals=(*item.refusals, *dict.fromkeys(refusals)),
        warnings=(*item.warnings, *dict.fromkeys(warnings)),
    )


def _dry_run(document: Document, resource: ApiResource, question: TrialRequestBody, create: Create) -> DryRun:
    metadata = document["metadata"]
    kind, name = _workload_of(resource, metadata)
    place = str(metadata.get("namespace") or question.namespace)
    sent = {**document, "metadata": _metadata(resource, metadata, place, question.queue)}
    part = f"pod {metadata.get('name') or ''}: " if (kind, resource) == ("podgroup", PODS) else ""
    found = DryRun(document=sent, kind=kind, namespace=place, name=name)
    try:
        found = _created(found, resource, create)
    except UnusableName:
        return found
    except Refused as error:
        return _judged(found, error, resource, part)
    except CommandFailed as error:
        return replace(found, warnings=(f"{part}{_SAYS_NOTHING}{str(error).splitlines()[0]}",))
    return replace(found, warnings=(*found.warnings, *_of_pods(sent, place, create)))


def _created(found: DryRun, resource: ApiResource, create: Create) -> DryRun:
    """With the document as it would be stored, by the name that it has. Of a name that is taken, as by another one."""
    path, sent, warnings = resource.path(found.namespace), found.document, found.warnings
    try:
        answer = create(path, sent)
    except Refused as error:
        if error.status != 409 or "already exists" not in error.found:
            raise
        warnings = ("there is an object of this kind and name already",)
        own = {key: value for key, value in sent["metadata"].items() if key != "name"}
        answer = create(path, {**sent, "metadata": {**own, "generateName": "tried-"}})
    of_one_object = ("name", "generateName")
    metadata = {
        **{
            key: each
            for key, each in answer.document["metadata"].items()
            if key not in (*_OF_STORED, *of_one_object)
        },
        **{key: each for key, each in sent["metadata"].items() if key in of_one_object},
    }
    document = {**answer.document, "metadata": metadata}
    return replace(found, document=document, warnings=(*warnings, *answer.warnings))


def _of_pods(document: Document, namespace: str, create: Create) -> Iterator[str]:
    """What the API server says against pods of a Job or Volcano Job, one of each different template."""
    asked: list[object] = []
    for where, template in pod_templates(document):
        spec = template.get("spec") if isinstance(template, Mapping) else None
        if not isinstance(spec, Mapping) or template in asked or len(asked) == _MOST_TEMPLATES:
            continue
        asked.append(template)
        own = template.get("metadata")
        metadata = {
            **(own if isinstance(own, Mapping) else {}),
            "namespace": namespace,
            "generateName": "tried-",
        }
        pod = {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": metadata, "spec": spec}
        try:
            create(PODS.path(namespace), pod)
        except Refused as error:
            # Of fields only the object itself is asked.
            if _is_refusal(error) and _STRICT not in error.found:
                wording = "the API server would refuse them, and it would wait with TemplateRefused"
                yield f"pods of {where}: {wording}: {error.found}"
        except (CommandFailed, UnusableName):
            continue


def _workload_of(resource: ApiResource, metadata: Document) -> tuple[str, str]:
    """Kind and name of the workload that a document is of, as an answer names them; of a member: its PodGroup."""
    annotations = metadata.get("annotations")
    keys = (names.GROUP_ANNOTATION, names.GROUP_ANNOTATION_VOLCANO)
    if resource is PODS and isinstance(annotations, Mapping):
        for group in (annotations.get(each) for each in keys):
            if group:
                return "podgroup", str(group)
    name = metadata.get("name") or f"{metadata.get('generateName') or ''}xxxxx"
    return "vcjob" if resource is VOLCANO_JOBS else resource.kind.lower(), str(name)


def _metadata(resource: ApiResource, metadata: Document, namespace: str, queue: str) -> Document:
    """As it would be submitted, in the queue that it is tried in."""
    found = {key: each for key, each in metadata.items() if key not in _OF_STORED}
    found["namespace"] = namespace
    labels = metadata.get("labels") or {}
    is_member = _workload_of(resource, metadata)[0] == "podgroup" and resource is PODS
    if queue and not is_member and isinstance(labels, Mapping):
        found["labels"] = {**labels, names.QUEUE_LABEL: queue}
    return found


def _judged(found: DryRun, error: Refused, resource: ApiResource, part: str) -> DryRun:
    """With what an answer that is an error says of the object."""
    said = error.found
    if error.status == 403 and _MAY_NOT.search(said):
        kind = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        text = f"you may not create {kind} in namespace {found.namespace}: what the API server makes of it is unknown"
        return replace(found, warnings=(part + text,))
    if not _is_refusal(error):
        return replace(found, warnings=(f"{part}{_SAYS_NOTHING}{said}",))
    if _STRICT in said:
        fields = said.partition(_STRICT)[2]
        said = f"{fields}: kubectl apply and create refuse this, and without strict validation it would be dropped"
    return replace(found, refusal=part + said)


def _is_refusal(error: Refused) -> bool:
    """Whether it is about the object: not about who asks, too many requests, or the server itself."""
    says_nothing = error.status in (401, 409, 429) or error.status >= 500 or "dry run" in error.found
    return not says_nothing and not (error.status == 403 and _MAY_NOT.search(error.found))

"""What the API server itself says of objects that are tried: each is created in a dry run, as the user, with the strict
validation of fields that ``kubectl apply`` asks for. Nothing is stored.

Only the API server knows all of it: the schemas of the CRDs that are installed, its own version's fields of pods, the
policies and webhooks of other projects, and what the user may create.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from admission.cli.access.objects import Refused, send
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandFailed
from queues.api import names
from queues.api.api_resources import PODS, VOLCANO_JOBS, ApiResource, Document, resource_of
from queues.api.validation.queued_work import pod_templates
from queues.errors import UnusableName
from queues.read_api.trials import TrialBody, TrialList, TrialRequestBody

#: Dry runs at a time: each is a connection of its own.
_AT_A_TIME: Final = 4
#: Seconds that the API server has for one of them at most.
_PATIENCE: Final = 10.0
#: Pod templates of one object that are asked about.
_MOST_TEMPLATES: Final = 8
#: Fields that only a stored object has, as ``admission.trials.submitted`` leaves them out.
_OF_STORED: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
#: Kinds whose fields the API server knows best. Of Volcano's kinds it keeps all fields, for those who use more of them.
_OF_KUBERNETES: Final = ("job", "pod")
_STRICT: Final = "strict decoding error: "
#: As the API server words it if RBAC does not let a user create a kind.
_MAY_NOT: Final = re.compile(r'cannot create resource "[^"]*"')
#: Answers that say nothing of the object: who asks is not known, too many requests, errors of the server.
_SAYS_NOTHING: Final = "the API server could not say whether it takes this object: "

#: Creates an object at a path, in a dry run; raises Refused and CommandFailed.
Create = Callable[[str, Document], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What the API server says of one document that it does not simply take."""

    #: Of the workload it belongs to, as the answer to a trial names it.
    kind: str
    namespace: str
    name: str
    #: Why it would not be stored; "": it would, or that is not known.
    refusal: str = ""
    #: What matters besides that; "": nothing.
    warning: str = ""
    #: Whether only the API server finds this: fields that the kind does not have.
    is_of_fields: bool = False
    #: Whether it said nothing of the object's fields.
    is_undecided: bool = False


def create_in_dry_run(route: Route) -> Create | None:
    """Creates as the user of the kubeconfig. None if a replica is asked directly, and no API server is known."""
    if route.server is not None:
        return None

    def create(path: str, document: Document) -> object:
        query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "kubectl-muster"}
        return send(
            route.within(_PATIENCE), "POST", path, document, tried="Creating it in a dry run", **query
        )

    return create


def with_dry_runs(body: TrialList, question: TrialRequestBody, create: Create) -> TrialList:
    """The answer to a trial, with what the API server says of the documents that were tried."""
    skipped = {(each.api_version, each.kind) for each in body.skipped}
    tried = [
        document
        for document in question.documents
        if (document.get("apiVersion"), document.get("kind")) not in skipped
    ]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        asked = pool.map(lambda one: _dry_runs(one, question.namespace, question.queue, create), tried)
        found = [each for dry_runs in asked for each in dry_runs]
    return structs.replace(body, items=tuple(_with(item, _about(item, found)) for item in body.items))


def _dry_runs(document: Document, namespace: str, queue: str, create: Create) -> list[DryRun]:
    """What the API server says against the document, or against its pods. Empty if it takes them, or if it is none that
    can be created."""
    resource = resource_of(str(document.get("apiVersion")), str(document.get("kind")))
    metadata = document.get("metadata")
    if resource is None or not isinstance(metadata, dict):
        return []
    place = str(metadata.get("namespace") or namespace)
    kind, name = _workload_of(resource, metadata)
    sent = {**document, "metadata": _metadata(resource, metadata, place, queue)}
    about = DryRun(kind=kind, namespace=place, name=name)
    part = f"pod {metadata.get('name') or ''}: " if (kind, resource) == ("podgroup", PODS) else ""
    try:
        create(resource.path(place), sent)
    except UnusableName:
        return []
    except Refused as error:
        return [_judged(error, resource, place, part, about)]
    except CommandFailed as error:
        warning = f"{part}{_SAYS_NOTHING}{str(error).splitlines()[0]}"
        return [replace(about, warning=warning, is_undecided=True)]
    return list(_of_pods(sent, place, create, about))


def _of_pods(document: Document, namespace: str, create: Create, about: DryRun) -> Iterator[DryRun]:
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
            said = _judged(error, PODS, namespace, "", about)
            if said.refusal and not said.is_of_fields:
                wording = "the API server would refuse them, and it would wait with TemplateRefused"
                yield replace(about, warning=f"pods of {where}: {wording}: {error.found}")
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


def _judged(error: Refused, resource: ApiResource, namespace: str, part: str, about: DryRun) -> DryRun:
    """What an answer that is an error says of the object."""
    said = error.found
    if error.status == 403 and _MAY_NOT.search(said):
        kind = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        text = f"you may not create {kind} in namespace {namespace}: whether the API server takes this is not known"
        return replace(about, warning=part + text, is_undecided=True)
    if error.status == 409 and "already exists" in said:
        return replace(about, warning=f"{part}there is an object of this kind and name already")
    says_nothing = error.status in (401, 404, 409, 429) or error.status >= 500 or "dry run" in said
    if says_nothing:
        return replace(about, warning=f"{part}{_SAYS_NOTHING}{said}", is_undecided=True)
    if _STRICT in said:
        fields = said.partition(_STRICT)[2]
        text = f"{fields}: kubectl apply and create refuse this, and without strict validation it would be dropped"
        return replace(about, refusal=part + text, is_of_fields=True)
    return replace(about, refusal=part + said)


def _about(item: TrialBody, found: Iterable[DryRun]) -> list[DryRun]:
    name = (item.kind, item.namespace, item.name)
    return [each for each in found if (each.kind, each.namespace, each.name) == name]


def _with(item: TrialBody, found: Sequence[DryRun]) -> TrialBody:
    """An item of the answer, refused if the API server refuses it: then nothing of it would start."""
    was_refused = item.state == "refused"
    # What Muster's webhook and the policies say it has said already, in its own words.
    refusals = [each.refusal for each in found if each.refusal and (each.is_of_fields or not was_refused)]
    warnings = [] if was_refused else [each.warning for each in found if each.warning]
    item = structs.replace(item, warnings=(*item.warnings, *dict.fromkeys(warnings)))
    if item.kind in _OF_KUBERNETES and not any(each.is_undecided for each in found):
        item = structs.replace(item, unknown_fields=())
    if not refusals:
        return item
    # What would become of it is not said of an object that is refused.
    return TrialBody(
        kind=item.kind,
        namespace=item.namespace,
        name=item.name,
        state="refused",
        queue=item.queue,
        priority=item.priority,
        pods=item.pods,
        minimum=item.minimum,
        asks=item.asks,
        refusals=(*item.refusals, *dict.fromkeys(refusals)),
        warnings=item.warnings,
        unknown_fields=item.unknown_fields,
        queue_length=None,
        nearest_queues=item.nearest_queues,
    )

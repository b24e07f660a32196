"""The objects that users mean by KIND/NAME, by NAME or by labels, of all kinds whose objects wait: for every verb.

They are looked for at the API server: what was made a moment ago is there, and it answers while Muster does not.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from admission.cli.access.objects import ObjectForbidden, ObjectNotFound, all_objects, listed, path_of, send
from admission.cli.access.requests import Route, ask, pages
from admission.cli.command_line import CommandFailed
from admission.cli.names import kind_named, shipped_kinds
from queues.api.api_resources import (
    DEPLOYMENTS,
    JOBS,
    POD_GROUPS,
    PODS,
    STATEFUL_SETS,
    VOLCANO_JOBS,
    WORKLOAD_KINDS,
    ApiResource,
    Document,
)
from queues.api.names import GROUP_ANNOTATION, GROUP_ANNOTATION_VOLCANO, JOB_NAME
from queues.text_format import listed as names_listed

if TYPE_CHECKING:
    from admission.cli.access.object_forms import KindSpec

R = TypeVar("R")
#: Requests at a time: each is a connection of its own.
_AT_A_TIME: Final = 8
#: Kinds that do not make an object again that was deleted.
_MAKE_ONCE: Final = ("CronJob", "JobFlow", "RayCronJob", "ScheduledSparkApplication")
#: What cannot be done to pods and PodGroups, and what can.
_CANNOT: Final = {
    (
        "suspend",
        PODS,
    ): "`kubectl muster hold {it}` keeps it from being admitted, `kubectl muster cancel {it}` removes it",
    ("resume", PODS): "`kubectl muster unhold {it}` lets it be admitted again",
    ("suspend", POD_GROUPS): "`kubectl muster hold {it}` keeps it from being admitted",
    ("resume", POD_GROUPS): "`kubectl muster unhold {it}` lets it be admitted again",
    ("cancel", POD_GROUPS): "its pods would stay: remove what makes them",
    (
        "logs",
        POD_GROUPS,
    ): "`kubectl get pods -n {namespace}` lists pods, `kubectl muster logs pod/NAME` shows one's",
}


class KindOfObjects(NamedTuple):
    """A kind of objects that wait in queues."""

    name: str
    resource: ApiResource
    #: The label of its pods with the name of the object; "": there is none.
    label: str = ""


class WorkloadObject(NamedTuple):
    """An object that waits, runs or has ended."""

    kind: KindOfObjects
    namespace: str
    document: Document

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self.document["metadata"]["name"])

    @property
    def path(self) -> str:
        """Where the API server has it."""
        return path_of(self.kind.resource, self.namespace, self.name)

    @property
    def maker(self) -> str:
        """KIND/NAME of what would make it again; "": nothing would."""
        makers = [one for one in self._controllers() if one["kind"] not in _MAKE_ONCE]
        return f"{makers[0]['kind'].lower()}/{makers[0]['name']}" if makers else ""

    @property
    def whole(self) -> str:
        """The PodGroup or Job with which a pod waits; "": it is no pod, or waits by itself."""
        said = self.document["metadata"].get("annotations") or {}
        if self.kind.resource is not PODS:
            return ""
        if group := said.get(GROUP_ANNOTATION) or said.get(GROUP_ANNOTATION_VOLCANO):
            return f"podgroup/{group}"
        kinds = {(JOBS.api_version, JOBS.kind): "job", (VOLCANO_JOBS.api_version, VOLCANO_JOBS.kind): "vcjob"}
        owner = next((one for one in self._controllers() if (one["apiVersion"], one["kind"]) in kinds), None)
        return "" if owner is None else f"{kinds[owner['apiVersion'], owner['kind']]}/{owner['name']}"

    def _controllers(self) -> Iterator[Document]:
        references = self.document["metadata"].get("ownerReferences") or ()
        return (one for one in references if one.get("controller"))

    def __str__(self) -> str:
        return f"{self.kind.name}/{self.name}"


_BUILT_IN: Final = (
    KindOfObjects("vcjob", VOLCANO_JOBS, JOB_NAME),
    KindOfObjects("job", JOBS, "batch.kubernetes.io/job-name"),
    KindOfObjects("podgroup", POD_GROUPS),
    KindOfObjects("pod", PODS),
)


def find_workloads(route: Route, namespace: str, names: Iterable[str], verb: str) -> list[WorkloadObject]:
    """The objects of KIND/NAME or NAME, each once; ``verb`` can be done to all of them.

    Raises CommandFailed if one is not there or its name is that of several, and UsageError.
    """
    route = replace(route, access=route.to_cluster())
    found = {each.path: each for each in (_find(route, namespace, name, verb) for name in names)}
    for each in found.values():
        if (instead := _CANNOT.get((verb, each.kind.resource))) is not None:
            said = instead.format(it=f"{each} -n {namespace}", namespace=namespace)
            raise click.UsageError(f"{verb} is not for a {each.kind.name}: {said}.")
        if verb in ("hold", "unhold") and each.whole:
            raise click.UsageError(
                f"{each} waits as a part of {each.whole}, whose annotation counts: name that."
            )
        if verb in ("cancel", "suspend", "resume") and each.maker:
            raise CommandFailed(
                found=f"Nothing was changed: {each} is a part of {each.maker}, which would make it again",
                hint=f"`kubectl muster {verb} {each.maker} -n {namespace}` is about all of it.",
            )
    return list(found.values())


def labelled_workloads(route: Route, namespace: str, selector: str) -> list[WorkloadObject]:
    """The objects with these labels that nothing would make again. Raises CommandFailed."""
    route = replace(route, access=route.to_cluster())

    refused: list[ObjectForbidden] = []

    def with_labels(kind: KindOfObjects) -> list[WorkloadObject]:
        try:
            documents = all_objects(route, kind.resource, dict, namespace=namespace, labelSelector=selector)
        except ObjectNotFound:
            return []
        except ObjectForbidden as error:
            refused.append(error)
            return []
        return [WorkloadObject(kind, namespace, each) for each in documents]

    found = [each for some in _of_each_kind(route, with_labels) for each in some if not each.maker]
    if refused and not found:
        raise _not_in_sight(f"Looking for labels {selector}", refused)
    return [each for each in found if ("cancel", each.kind.resource) not in _CANNOT]


def workloads_of_user(route: Route, namespace: str) -> list[WorkloadObject]:
    """The objects that the user created, as Muster knows them, that have not ended and that nothing would make again.

    Raises CommandFailed.
    """
    from queues.read_api.bodies import WorkloadList

    items = pages(route, "workloads", WorkloadList, {"namespace": namespace, "mine": "true"}).items
    kinds = {name: kind_of(route, name) for name in {one.kind for one in items}}
    return [
        WorkloadObject(kinds[one.kind], namespace, {"metadata": {"name": one.name, "uid": one.uid}})
        for one in items
        if not one.gone and one.owner is None and ("cancel", kinds[one.kind].resource) not in _CANNOT
    ]


def _find(route: Route, namespace: str, text: str, verb: str) -> WorkloadObject:
    named, _, name = text.rpartition("/")
    if not name:
        raise click.UsageError(f"{text!r}: expected KIND/NAME or NAME, such as job/train.")

    def read(kind: KindOfObjects) -> WorkloadObject:
        path, tried = path_of(kind.resource, namespace, name), f"Looking for {kind.name}/{name}"
        return WorkloadObject(kind, namespace, send(route, "GET", path, tried=tried))

    refused: list[ObjectForbidden] = []

    def read_if_there(kind: KindOfObjects) -> WorkloadObject | None:
        with suppress(ObjectNotFound):
            try:
                return read(kind)
            except ObjectForbidden as error:
                refused.append(error)
        return None

    if named:
        kind = kind_of(route, kind_named(named, name, verb=verb, namespace=namespace))
        try:
            return read(kind)
        except ObjectNotFound as error:
            raise CommandFailed(found=str(error), hint=_hint(route, namespace, name)) from error
    found = [each for each in _of_each_kind(route, read_if_there) if each]
    if len(found) > 1:
        raise CommandFailed(
            found=f"Nothing was changed: {name} is the name of {', '.join(map(str, found))}",
            hint=f"Say which: `kubectl muster {verb} {found[0]} -n {namespace}`.",
        )
    if found:
        return found[0]
    if refused:
        raise _not_in_sight(f"Looking for {name}", refused)
    for owner in (DEPLOYMENTS, STATEFUL_SETS):
        if read_if_there(KindOfObjects(owner.kind, owner)) is not None:
            kind_named(owner.kind, name, verb=verb, namespace=namespace)
    there_is_none = f"There is no workload {name} in namespace {namespace}"
    raise CommandFailed(found=there_is_none, hint=_hint(route, namespace, name))


def _not_in_sight(tried: str, refused: Sequence[ObjectForbidden]) -> ObjectForbidden:
    """The error about what is not among the objects that the user may see, where kinds of them were refused."""
    first = refused[0]
    lacks = {each.lacks.resource: each.lacks for each in refused if each.lacks is not None}
    found = first.found
    if lacks:
        right = next(iter(lacks.values()))
        right = right._replace(resource=names_listed(list(lacks)), group="") if len(lacks) > 1 else right
        found = f"there is none that you may see: {right.sentence}"
    return ObjectForbidden(status=first.status, tried=tried, found=found, hint="", lacks=first.lacks)


def _hint(route: Route, namespace: str, name: str) -> str:
    """What Muster knows of a name without an object."""
    from admission.cli.plugin.explain import path_of_workload

    try:
        ask(route, path_of_workload(namespace, name), Any)
    except CommandFailed as error:
        alike = str(error).partition("\n")[2]
        return alike if "mean" in alike else f"`kubectl muster jobs -n {namespace}` lists what there is."
    return f"`kubectl muster explain {name} -n {namespace}` tells how it ended."


# -- kinds ---------------------------------------------------------------------------------------------------


def kind_of(route: Route, name: str) -> KindOfObjects:
    """The kind of that name, also one that administrators have added. Raises UsageError: there is none."""
    for kinds in (lambda: _BUILT_IN, _shipped, lambda: added_kinds(route)):
        if (kind := next((each for each in kinds() if each.name == name), None)) is not None:
            return kind
    known = sorted(each.name for each in (*_BUILT_IN, *_shipped()))
    if alike := get_close_matches(name, known, n=1):
        raise click.UsageError(f"{name!r} is no kind of workload. Did you mean {alike[0]}?")
    raise click.UsageError(f"{name!r} is no kind of workload. Expected one of {', '.join(known)}.")


def _of_each_kind(route: Route, function: Callable[[KindOfObjects], R]) -> list[R]:
    """What a function says of each kind that the cluster may have objects of."""
    from concurrent.futures import ThreadPoolExecutor

    groups = send(route, "GET", "/apis", tried="Asking for the kinds of the cluster").get("groups") or ()
    served = {each["name"] for each in groups}
    others = [each for each in (*_shipped(), *added_kinds(route)) if each.resource.group in served]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(function, (*_BUILT_IN, *others)))


def _shipped() -> Iterator[KindOfObjects]:
    return filter(None, map(_of, shipped_kinds()))


def added_kinds(route: Route) -> Iterator[KindOfObjects]:
    """Those that administrators have added, as far as the user may read them. Raises CommandFailed."""
    from admission.cli.access.object_forms import KindDocument

    documents = listed(route, WORKLOAD_KINDS, KindDocument) or ()
    return filter(None, (_of(document.spec) for document in documents))


def _of(kind: "KindSpec") -> KindOfObjects | None:
    """None of a kind whose objects do not wait themselves."""
    said = kind.resource
    resource = ApiResource(said.api_version, said.plural, said.kind)
    label = next(iter(kind.name_labels or ()), "")
    return None if kind.passes_on else KindOfObjects(said.kind.lower(), resource, label)

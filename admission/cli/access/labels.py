"""Labels of workloads, as the API server has them: it knows selectors, and which objects the user may list.

Muster keeps no labels. A list that is asked for by labels is read from Muster as a whole, and the objects with these
labels, without their content, from the API server; the uid matches the two.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import click
from msgspec import structs

from admission.cli.access.objects import ClusterRoute, Refused, path_of, send
from admission.cli.access.read_api import Route
from admission.cli.rendering.terminal.sentences import say
from admission.read_api.bodies import PendingList, WorkloadBody, WorkloadList
from queues.api import api_resources
from queues.api.api_resources import JOBS, VOLCANO_JOBS, ApiResource

#: Objects of one answer of the API server.
_PAGE: Final = 1000
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_BAD_REQUEST: Final = 400
_ONLY_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

Selectable = TypeVar("Selectable", PendingList, WorkloadList)


def resources() -> dict[str, ApiResource]:
    """Where the objects of each kind of workload are, by the kind's name in the read API."""
    found = {
        each.kind.lower(): each for each in vars(api_resources).values() if isinstance(each, ApiResource)
    }
    return {**found, "vcjob": VOLCANO_JOBS, "job": JOBS}


def with_labels(body: Selectable, wanted: str, limit: int, route: Route) -> Selectable:
    """The answer of a list, with only the workloads whose objects have these labels, at most ``limit``.

    Warns of those whose labels are not known. Raises UsageError: this is no selector.
    """
    cluster = ClusterRoute(kubeconfig=route.kubeconfig, context=route.context, timeout=route.timeout)
    gone = {item.uid for item in body.items if getattr(item, "gone", False)}
    there = [item for item in body.items if item.uid not in gone]
    uids = Labelled(cluster, wanted).uids(there)
    found = [item for item in there if item.uid in uids]
    unknown = len(body.items) - len(there)
    if unknown:
        say(f"{unknown} left out whose objects are gone: their labels are not known.", err=True)
    if len(body.items) < body.total:
        told = f"{len(body.items)} of {body.total} workloads were looked through for labels."
        say(f"{told} -n and -q make it fewer.", err=True)
    return structs.replace(body, items=tuple(found[:limit]), total=len(found), total_everywhere=len(found))


class Labelled:
    """Objects with some labels."""

    def __init__(self, cluster: ClusterRoute, wanted: str) -> None:
        self._cluster = cluster
        self._wanted = wanted

    def uids(self, items: Iterable[WorkloadBody]) -> set[str]:
        """Uids of objects with these labels, of the kinds and namespaces of these workloads."""
        known = resources()
        namespaces: dict[str, set[str]] = {}
        for item in items:
            namespaces.setdefault(item.kind, set()).add(item.namespace)
        return {uid for kind, names in namespaces.items() for uid in self._of_kind(known[kind], names)}

    def _of_kind(self, resource: ApiResource, namespaces: set[str]) -> Iterator[str]:
        if len(namespaces) > 1:
            try:
                yield from list(self._listed(resource, None))
                return
            except Refused as refused:
                if refused.status != _FORBIDDEN:
                    raise
        for namespace in sorted(namespaces):
            yield from self._listed(resource, namespace)

    def _listed(self, resource: ApiResource, namespace: str | None) -> Iterator[str]:
        place: str | None = None
        while place != "":
            query = {"labelSelector": self._wanted, "limit": str(_PAGE)} | (
                {"continue": place} if place else {}
            )
            body = self._sent(resource, namespace, query)
            # The API server writes null where a list of metadata is empty.
            yield from (each["metadata"]["uid"] for each in body["items"] or ())
            place = body["metadata"].get("continue") or ""

    def _sent(self, resource: ApiResource, namespace: str | None, query: Mapping[str, str]) -> Any:
        tried = f"Listing {resource.plural} by labels"
        try:
            return send(
                self._cluster,
                "GET",
                path_of(resource, namespace),
                tried=tried,
                accept=_ONLY_METADATA,
                **query,
            )
        except Refused as refused:
            if refused.status == _NOT_FOUND:
                return {"items": [], "metadata": {}}
            if refused.status == _BAD_REQUEST:
                expected = "a selector as of kubectl: team=a,env!=test,'tier in (x,y)'"
                raise click.UsageError(
                    f"-l: found {self._wanted!r}, expected {expected}. {refused}"
                ) from refused
            raise

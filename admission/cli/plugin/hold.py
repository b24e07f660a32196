"""``kubectl muster hold`` and ``unhold``: keep workloads of any kind from being admitted."""

from typing import Any

import click

from admission.cli.access.objects import added_resources, path_of, send
from admission.cli.access.requests import Route
from admission.cli.options import WORKLOAD, cluster, namespace
from admission.cli.plugin.explain import kind_named
from admission.cli.rendering.terminal import say
from queues.api.api_resources import JOBS, PODS, VOLCANO_JOBS, ApiResource, Document
from queues.api.names import GROUP_ANNOTATION, GROUP_ANNOTATION_VOLCANO, HOLD


@click.command(short_help="Keep workloads from being admitted; what runs goes on.")
@click.argument("workloads", metavar="KIND/NAME…", type=WORKLOAD, nargs=-1, required=True)
@namespace
@cluster
def hold(workloads: tuple[str, ...], namespace: str | None, route: Route) -> None:
    """Keep workloads from being admitted until `unhold`.

    One that runs goes on. Once it has lost its seats, because it was evicted or went back to its queue, it is not
    admitted again. KIND is vcjob, job, podgroup, pod, jobset or another kind of an operator.
    """
    for workload in workloads:
        _annotate(route, namespace, workload, "true")
        say(f"{workload} is on hold; what runs of it goes on")


@click.command(short_help="Let workloads be admitted again.")
@click.argument("workloads", metavar="KIND/NAME…", type=WORKLOAD, nargs=-1, required=True)
@namespace
@cluster
def unhold(workloads: tuple[str, ...], namespace: str | None, route: Route) -> None:
    """Let workloads be admitted again that are on hold, or that were suspended by their owner."""
    for workload in workloads:
        _annotate(route, namespace, workload, "false")
        say(f"{workload} is not on hold any more")


def _annotate(route: Route, namespace: str | None, workload: str, value: str) -> None:
    """Write whether a workload is on hold. Raises UsageError, and CommandFailed."""
    named, _, name = workload.rpartition("/")
    if not named or not name:
        raise click.UsageError(f"{workload!r}: expected KIND/NAME, such as job/train.")
    body: Any = {"metadata": {"annotations": {HOLD: value}}}
    resource = _resource(route, kind_named(named, name))
    path = path_of(resource, route.namespace(namespace), name)
    if resource == PODS and (whole := _whole_of(send(route, "GET", path, tried=f"Reading {workload}"))):
        raise click.UsageError(f"{workload} waits as a part of {whole}, whose annotation counts: name that.")
    send(route, "PATCH", path, body, tried=f"Change of {workload}")


def _whole_of(pod: Document) -> str:
    """The PodGroup or Job with which a pod waits; "": it waits by itself."""
    meta = pod["metadata"]
    said = meta.get("annotations") or {}
    if group := said.get(GROUP_ANNOTATION) or said.get(GROUP_ANNOTATION_VOLCANO):
        return f"podgroup/{group}"
    kinds = {(JOBS.api_version, JOBS.kind): "job", (VOLCANO_JOBS.api_version, VOLCANO_JOBS.kind): "vcjob"}
    owners = (each for each in meta.get("ownerReferences") or () if each.get("controller"))
    owner = next((each for each in owners if (each["apiVersion"], each["kind"]) in kinds), None)
    return "" if owner is None else f"{kinds[owner['apiVersion'], owner['kind']]}/{owner['name']}"


def _resource(route: Route, kind: str) -> ApiResource:
    """Where objects of a kind are, also of one that administrators have added. Raises UsageError: there is none."""
    from admission.workloads.kinds import known_kinds

    of_muster = {str(support.kind): support.resource for support in known_kinds().supports}
    if kind in of_muster:
        return of_muster[kind]
    for added in added_resources(route):
        if added.kind.lower() == kind:
            return added
    raise click.UsageError(
        f"{kind!r} is no kind of workload. Expected one of {', '.join(sorted(of_muster))}."
    )

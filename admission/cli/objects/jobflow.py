"""``kubectl muster jobflow``: list, look at and delete JobFlows."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click

from admission.cli.access.objects import ClusterRoute, Refused, path_of, send
from admission.cli.options import chosen_namespace, cluster, namespace, namespaces
from admission.cli.output import Output, list_output, output
from admission.cli.rendering.job_flow import flow_text, list_table
from admission.cli.rendering.terminal.sentences import say
from queues.api.api_resources import JOB_FLOWS, VOLCANO_JOBS
from queues.api.names import CREATED_BY_FLOW

#: Characters of a label's value; Jobs of a flow with a longer name have no label of it.
_LONGEST_LABEL: Final = 63
_FORBIDDEN: Final = 403


@click.group(short_help="List, look at and delete JobFlows.")
def jobflow() -> None:
    """List, look at and delete JobFlows: Jobs that start after one another."""


@jobflow.command("list", short_help="JobFlows: how far each is, and what it waits for.")
@namespaces
@list_output
@cluster
def list_(namespace: str | None, all_namespaces: bool, output: Output, cluster: ClusterRoute) -> None:
    """Show JobFlows: phase, completed Jobs, age, and what each waits for.

    `-o wide` shows everything that it waits for, and the Jobs that failed.
    """
    here = chosen_namespace(namespace, all_namespaces, kubeconfig=cluster.kubeconfig, context=cluster.context)
    body = send(cluster, "GET", path_of(JOB_FLOWS, here), tried="Listing JobFlows")
    flows = sorted(body["items"], key=lambda flow: (flow["metadata"]["namespace"], flow["metadata"]["name"]))
    flows = body["items"] = output.sorted(flows)
    text = output.document(body, name=_jobflow_name)
    if text is None and not flows:
        say("There is no JobFlow." if here is None else f"There is no JobFlow in namespace {here}.", err=True)
        return
    if text is None:
        text = list_table(flows, _now(), wide=output.is_wide, headers=output.headers, width=output.room)
    click.echo(output.fitted(text), nl=False)


def _jobflow_name(flow: Any) -> str:
    return f"jobflow/{flow['metadata']['name']}"


@jobflow.command(short_help="One JobFlow: its Jobs, their phases, and what each waits for.")
@click.argument("name")
@namespace
@output
@cluster
def get(name: str, namespace: str | None, output: Output, cluster: ClusterRoute) -> None:
    """Show the JobFlow NAME with its Jobs: their phases and pods, and what each waits for.

    A Job that exists waits in its queue: `kubectl muster explain vcjob/JOB` tells the rest. `-o json` and `-o yaml`
    have the JobFlow and its Jobs as one List.
    """
    here = cluster.namespace(namespace)
    flow = send(cluster, "GET", path_of(JOB_FLOWS, here, name), tried=f"Looking for jobflow {name}")
    jobs = _jobs_of(cluster, here, flow)
    text = output.document({"apiVersion": "v1", "kind": "List", "items": [flow, *jobs.values()]})
    if text is None:
        text = flow_text(flow, jobs, _now(), wide=output.is_wide, headers=output.headers, width=output.room)
    click.echo(text, nl=False)


@jobflow.command(short_help="Remove JobFlows and their Jobs.")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@namespace
@cluster
def delete(names: tuple[str, ...], namespace: str | None, cluster: ClusterRoute) -> None:
    """Remove JobFlows with their Jobs and pods, and give back what they hold. JobTemplates stay."""
    for name in names:
        path = path_of(JOB_FLOWS, cluster.namespace(namespace), name)
        send(cluster, "DELETE", path, tried=f"Deletion of jobflow {name}", propagationPolicy="Background")
        say(f"jobflow {name} deleted")


def _jobs_of(cluster: ClusterRoute, namespace: str, flow: Mapping[str, Any]) -> dict[str, Any]:
    """The Jobs that a JobFlow controls, by name. None, with a line for people, if the user may not list Jobs."""
    metadata = flow["metadata"]
    value = f"{namespace}.{metadata['name']}"
    query = {"labelSelector": f"{CREATED_BY_FLOW}={value}"} if len(value) <= _LONGEST_LABEL else {}
    tried = f"Listing the Jobs of jobflow {metadata['name']}"
    try:
        found = send(cluster, "GET", path_of(VOLCANO_JOBS, namespace), tried=tried, **query)["items"]
    except Refused as error:
        if error.status != _FORBIDDEN:
            raise
        say(f"{error}\nShown is what the JobFlow says of its Jobs.", err=True)
        return {}
    return {
        job["metadata"]["name"]: job
        for job in sorted(found, key=lambda job: job["metadata"]["name"])
        if any(
            owner.get("controller") and owner.get("uid") == metadata["uid"]
            for owner in job["metadata"].get("ownerReferences") or ()
        )
    }


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat()

"""``kubectl muster explain``: everything about one workload, from why it waits to its seats on nodes."""

from collections.abc import Iterable
from typing import Final

import click

from admission.cli.access.age import told_age
from admission.cli.access.read_api import ask
from admission.cli.access.route import Route
from admission.cli.failures import CommandFailed
from admission.cli.options import namespace, route
from admission.cli.output import Output, output
from admission.cli.rendering.explanation import workload_text
from admission.cli.rendering.sentences import say
from admission.read_api.bodies import ExplanationBody

#: Kinds that operators make pods of, by the names of their resources without the s.
_OF_OPERATORS: Final = (
    *("jobset", "mpijob", "pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob"),
    *("raycluster", "rayjob", "sparkapplication"),
)
#: Kinds of workloads, by the names that kubectl knows.
_KINDS: Final = {
    **dict.fromkeys(("vcjob", "jobs.batch.volcano.sh"), "vcjob"),
    **dict.fromkeys(("job", "jobs", "job.batch", "jobs.batch"), "job"),
    **dict.fromkeys(("podgroup", "podgroups", "pg"), "podgroup"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **{name: kind for kind in _OF_OPERATORS for name in (kind, f"{kind}s")},
}
#: Objects that wait as others do that are made of them.
_WAITS_AS: Final = {
    **dict.fromkeys(
        ("deployment", "replicaset", "statefulset"),
        "Its pods wait: `kubectl muster pending --pods` names them; together as podgroup/podgroup-{kind}-{name}",
    ),
    "leaderworkerset": "Its leaders wait with their workers, as podgroup/podgroup-{name}-0 and so on",
    "cronjob": "Its Jobs wait: `kubectl muster pending` names them",
    "trainjob": "It waits as jobset/{name}",
    "rayservice": "Its RayClusters wait: `kubectl muster pending` names them",
}


@click.command(short_help="Why a workload waits, or where it runs.")
@click.argument("job", metavar="[KIND/]NAME")
@namespace
@output
@route
def explain(job: str, namespace: str | None, output: Output, route: Route) -> int:
    """Show everything about one workload.

    Its state and position, what it waits behind, which limit stops it and by how much, its seats by node, and
    what was decided about it. KIND is vcjob, job, podgroup, pod, jobset or another kind of an operator; without it,
    all workloads of that name.

    If its object is gone: how it ended, when it waited and ran, on which nodes, its GPU-hours, and what was decided
    about it, of the last workload of that name. If there is no such name, similar names are shown, and namespaces
    that you may see with a workload of that name.
    """
    kind, _, name = job.rpartition("/")
    if kind and kind not in _KINDS:
        known = ", ".join(dict.fromkeys(_KINDS.values()))
        waits_as = _WAITS_AS.get(kind.removesuffix("s"), "").format(kind=kind.removesuffix("s"), name=name)
        hint = f" {waits_as}." if waits_as else ""
        raise click.UsageError(f"{kind!r} is no kind of workload. Expected one of {known}.{hint}")
    here = route.namespace(namespace)
    if not name or "/" in kind:
        raise click.UsageError(f"{job!r}: expected NAME or KIND/NAME.")
    body = ask(route, path_of_workload(here, name), tuple[ExplanationBody, ...], {"kind": _KINDS.get(kind)})
    if not body:
        raise CommandFailed(tried=f"Looking for {job} in namespace {here}", found="there is none")
    code = told_age(body[0])
    say_what_is_unknown(body)
    text = output.document(body)
    if text is None:
        text = "\n".join(workload_text(one, output) for one in body)
    click.echo(text, nl=False)
    return code


def say_what_is_unknown(workloads: Iterable[ExplanationBody]) -> None:
    """Print what the leader did not say of workloads that wait or run."""
    for workload in workloads:
        if workload.outlook_unknown:
            what = "What would let it in" if workload.state == "pending" else "Whether it goes on"
            say(f"{what} is not known: {workload.outlook_unknown}", err=True)


def path_of_workload(namespace: str, name: str) -> str:
    """Where the read API has the workloads of a name."""
    from urllib.parse import quote

    return f"namespaces/{quote(namespace, safe='')}/workloads/{quote(name, safe='')}"

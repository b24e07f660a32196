"""``kubectl muster hold``, ``unhold``, ``suspend`` and ``resume``: keep workloads from being admitted."""

import click

from admission.cli.access.objects import ask_for_action, send
from admission.cli.access.requests import Route
from admission.cli.access.workload_objects import WorkloadObject, find_workloads
from admission.cli.options import WORKLOAD, cluster, namespace
from admission.cli.rendering.terminal import say
from queues.api.api_resources import POD_GROUPS, PODS, VOLCANO_JOBS
from queues.api.names import HOLD

#: What the annotation says, what is said of it, and how a Volcano Job is asked.
_WISHES = {
    "hold": ("true", "is on hold; what runs of it goes on", ""),
    "unhold": ("false", "is not on hold any more", ""),
    "suspend": ("suspended", "is being suspended", "AbortJob"),
    "resume": ("false", "is being resumed", "ResumeJob"),
}
_names = click.argument("names", metavar="[KIND/]NAME…", type=WORKLOAD, nargs=-1, required=True)


@click.command(short_help="Keep workloads from being admitted; what runs goes on.")
@_names
@namespace
@cluster
def hold(names: tuple[str, ...], namespace: str | None, route: Route) -> int:
    """Keep workloads from being admitted until `unhold`.

    One that runs goes on. Once it has lost its seats, because it was evicted or went back to its queue, it is not
    admitted again. KIND is vcjob, job, podgroup, pod, jobset or another kind of an operator.
    """
    return _wish(route, namespace, names, "hold")


@click.command(short_help="Let workloads be admitted again.")
@_names
@namespace
@cluster
def unhold(names: tuple[str, ...], namespace: str | None, route: Route) -> int:
    """Let workloads be admitted again that are on hold. `resume` is for those that are suspended."""
    return _wish(route, namespace, names, "unhold")


@click.command(short_help="Take a workload's pods away; it can be resumed.")
@_names
@namespace
@cluster
def suspend(names: tuple[str, ...], namespace: str | None, route: Route) -> int:
    """Take the pods of workloads away, and give back what they hold. `resume` has them wait again, from the start."""
    return _wish(route, namespace, names, "suspend")


@click.command(short_help="Have a suspended workload wait again.")
@_names
@namespace
@cluster
def resume(names: tuple[str, ...], namespace: str | None, route: Route) -> int:
    """Have suspended workloads wait for their places again. Others are left as they are."""
    return _wish(route, namespace, names, "resume")


def _wish(route: Route, namespace: str | None, names: tuple[str, ...], verb: str) -> int:
    """Have Muster do it, as the kind of each workload wants to be asked, where it is not so already. Returns an exit
    code: 1 if another verb is needed for one. Raises CommandFailed, and UsageError."""
    here = route.namespace(namespace)
    found = find_workloads(route, here, names, verb)
    return max([_wish_of(route, here, each, verb) for each in found], default=0)


def _wish_of(route: Route, namespace: str, workload: WorkloadObject, verb: str) -> int:
    wish, done, action = _WISHES[verb]
    held, suspended = _is_on_hold(workload), _is_suspended(workload)
    word, is_so, other = ("on hold", held, suspended) if "hold" in verb else ("suspended", suspended, held)
    begins = verb in ("hold", "suspend")
    # The phase of a Volcano Job follows a command with a delay: it is asked in any case.
    by_command = bool(action) and workload.kind.resource is VOLCANO_JOBS
    other_word, ends_it = ("suspended", "resume") if word == "on hold" else ("on hold", "unhold")
    other_ends = f"`kubectl muster {ends_it} {workload} -n {namespace}` ends that"
    if other and not is_so and verb != "suspend":
        say(f"{workload} is {other_word}, not {word}; nothing was changed: {other_ends}")
        return 1
    if is_so is begins and not by_command:
        say(
            f"{workload} is {'' if begins else 'not '}{word}{' already' if begins else ''}; nothing was changed"
        )
        return 0
    if by_command:
        ask_for_action(
            route, action, VOLCANO_JOBS, namespace, workload.document, "asked for by kubectl muster"
        )
    else:
        body = {"metadata": {"annotations": {HOLD: wish}}}
        send(route, "PATCH", workload.path, body, tried=f"Change of {workload}")
    if verb == "resume" and not suspended:
        done = "is not suspended; if it is being suspended, it is resumed"
    say(f"{workload} {done}" + (f"; it is {other_word} still: {other_ends}" if other and not begins else ""))
    return 0


def _is_on_hold(workload: WorkloadObject) -> bool:
    """Whether the object says so. What cannot be suspended is on hold instead."""
    stated = _stated(workload)
    if stated == "suspended":
        return workload.kind.resource in (PODS, POD_GROUPS)
    return stated not in (None, "", "false")


def _is_suspended(workload: WorkloadObject) -> bool:
    if workload.kind.resource is VOLCANO_JOBS:
        state = (workload.document.get("status") or {}).get("state") or {}
        return state.get("phase") in ("Aborting", "Aborted")
    return _stated(workload) == "suspended" and not _is_on_hold(workload)


def _stated(workload: WorkloadObject) -> object:
    return (workload.document["metadata"].get("annotations") or {}).get(HOLD)

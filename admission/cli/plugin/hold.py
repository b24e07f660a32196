"""``kubectl muster hold``, ``unhold``, ``suspend`` and ``resume``: keep workloads from being admitted."""

from typing import Final, NamedTuple

import click

from admission.cli.access.objects import ask_for_action, send
from admission.cli.access.requests import Route
from admission.cli.access.workload_objects import WorkloadObject, find_workloads
from admission.cli.options import WORKLOAD, cluster, namespace
from admission.cli.rendering.terminal import say
from queues.api.api_resources import POD_GROUPS, PODS, VOLCANO_JOBS
from queues.api.names import HOLD


class _Wish(NamedTuple):
    """What a verb asks for."""

    #: The state that it begins, or ends.
    state: str
    begins: bool
    #: What the annotation says then.
    annotation: str
    #: What is said of it.
    done: str
    #: By which command a Volcano Job is asked; "": by the annotation.
    action: str = ""


_WISHES: Final = {
    "hold": _Wish("on hold", True, "true", "is on hold; what runs of it goes on"),
    "unhold": _Wish("on hold", False, "false", "is not on hold any more"),
    "suspend": _Wish("suspended", True, "suspended", "is being suspended", "AbortJob"),
    "resume": _Wish("suspended", False, "false", "is being resumed", "ResumeJob"),
}
#: The verb that ends each state.
_ENDED_BY: Final = {"on hold": "unhold", "suspended": "resume"}
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
    wish, states = _WISHES[verb], _states(workload)
    is_so, other = wish.state in states, next((each for each in states if each != wish.state), None)
    other_ends = f"`kubectl muster {_ENDED_BY[other]} {workload} -n {namespace}` ends that" if other else ""
    # The phase of a Volcano Job follows a command with a delay: it is asked in any case.
    by_command = bool(wish.action) and workload.kind.resource is VOLCANO_JOBS
    if other and not is_so and verb != "suspend":
        say(f"{workload} is {other}, not {wish.state}; nothing was changed: {other_ends}")
        return 1
    if is_so is wish.begins and not by_command:
        said = f"{wish.state} already" if is_so else f"not {wish.state}"
        say(f"{workload} is {said}; nothing was changed")
        return 0
    if by_command:
        ask_for_action(route, wish.action, VOLCANO_JOBS, namespace, workload.document)
    else:
        body = {"metadata": {"annotations": {HOLD: wish.annotation}}}
        send(route, "PATCH", workload.path, body, tried=f"Change of {workload}")
    done = wish.done
    if verb == "resume" and not is_so:
        done = "is not suspended; if it is being suspended, it is resumed"
    still = f"; it is {other} still: {other_ends}" if other and not wish.begins else ""
    say(f"{workload} {done}{still}")
    return 0


def _states(workload: WorkloadObject) -> list[str]:
    """The states that the object says it is in; a Volcano Job may be in both."""
    said = (("on hold", _is_on_hold), ("suspended", _is_suspended))
    return [state for state, is_so in said if is_so(workload)]


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

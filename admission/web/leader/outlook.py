"""What would let workloads in, or keeps them from going on, as the read API shows it, from the leader's memory."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from admission.engine.snapshot import Snapshot
from admission.explain.explain import Explained, explain
from admission.web import bodies
from admission.web.lists.expected import ExpectedStartBody
from admission.web.quantities import quantities
from queues.plan import Plan, Reason
from queues.resources import show
from queues.text_format import rfc3339
from queues.workload import Workload, WorkloadKey

#: A workload with seats that does not go on: what is known of it, and what is wrong.
Problem = tuple[Workload, Reason]

_NOT_PENDING: Final = Explained(position=None, queue_length=None, ahead=(), behind="", changes=())


def outlooks(
    snapshot: Snapshot,
    plan: Plan,
    namespace: str,
    name: str,
    kind: str | None,
    problems: Sequence[Problem] = (),
    *,
    expected: Callable[[WorkloadKey], ExpectedStartBody | None] = lambda key: None,
) -> tuple[bodies.OutlookBody, ...]:
    """Outlooks of the workloads of this name that are pending or have a problem, by kind; empty: there is none.
    ``problems``: of workloads of this name. ``expected``: when a pending workload should start."""
    wrong = {workload.key: reason for workload, reason in problems}
    known = {workload.key: workload for workload, _ in problems}
    known |= {
        workload.key: workload
        for workload in snapshot.pending.values()
        if workload.namespace == namespace and workload.name == name
    }
    found = []
    for key, workload in sorted(known.items()):
        explained = explain(snapshot, plan, key)
        if kind in (None, str(workload.kind)) and (explained is not None or key in wrong):
            outlook = _outlook(snapshot, workload, explained or _NOT_PENDING, wrong.get(key))
            found.append(structs.replace(outlook, expected=expected(key)))
    return tuple(found)


def _outlook(
    snapshot: Snapshot, workload: Workload, explained: Explained, problem: Reason | None
) -> bodies.OutlookBody:
    return bodies.OutlookBody(
        now=rfc3339(snapshot.now),
        kind=str(workload.kind),
        namespace=workload.namespace,
        name=workload.name,
        uid=workload.key.uid,
        position=explained.position,
        queue_length=explained.queue_length,
        ahead=tuple(str(key) for key in explained.ahead),
        behind=explained.behind,
        changes=tuple(
            bodies.ChangeBody(kind=str(each.kind), message=each.message, facts=_facts(each.facts))
            for each in explained.changes
        ),
        problem=None if problem is None else bodies.ReasonBody(code=problem.code, message=problem.message),
    )


def _facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    form = dict(facts)
    if "takes" in form:
        form["takes"] = quantities(form["takes"])
    if "more" in form:
        form["more"] = [{**each, "units": show(each["resource"], each["units"])} for each in form["more"]]
    return form

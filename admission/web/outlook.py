"""What would let waiting workloads in, as the read API tells it: worked out from the leader's last turn."""

from collections.abc import Mapping
from typing import Any

from admission.engine.snapshot import Snapshot
from admission.explain.explain import Explained, explain
from admission.explain.suggestions import Suggestion
from admission.web import bodies
from admission.web.quantities import quantities
from queues.plan import Plan
from queues.resources import show
from queues.wording import rfc3339
from queues.workload import Workload


def outlooks(
    snapshot: Snapshot, plan: Plan, namespace: str, name: str, kind: str | None
) -> tuple[bodies.OutlookBody, ...]:
    """Of all that wait under this name, by kind; () = nobody does."""
    found = [
        workload
        for workload in snapshot.pending.values()
        if workload.namespace == namespace and workload.name == name and kind in (None, str(workload.kind))
    ]
    told = [(workload, explain(snapshot, plan, workload.key)) for workload in found]
    ordered = sorted(told, key=lambda each: each[0].key)
    return tuple(_outlook(snapshot, workload, it) for workload, it in ordered if it is not None)


def _outlook(snapshot: Snapshot, workload: Workload, it: Explained) -> bodies.OutlookBody:
    return bodies.OutlookBody(
        now=rfc3339(snapshot.now),
        kind=str(workload.kind),
        namespace=workload.namespace,
        name=workload.name,
        uid=workload.key.uid,
        position=it.position,
        queue_length=it.queue_length,
        ahead=tuple(str(key) for key in it.ahead),
        behind=it.behind,
        changes=tuple(_change(each) for each in it.changes),
    )


def _change(change: Suggestion) -> bodies.ChangeBody:
    return bodies.ChangeBody(kind=str(change.kind), message=change.message, facts=_facts(change.facts))


def _facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    told = dict(facts)
    if "takes" in told:
        told["takes"] = quantities(told["takes"])
    if "more" in told:
        told["more"] = [{**each, "units": show(each["resource"], each["units"])} for each in told["more"]]
    return told

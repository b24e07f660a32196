"""What would let pending workloads in, as the read API shows it, from the leader's last turn."""

from collections.abc import Mapping
from typing import Any

from admission.engine.snapshot import Snapshot
from admission.explain.explain import Explained, explain
from admission.web import bodies
from admission.web.quantities import quantities
from queues.plan import Plan
from queues.resources import show
from queues.text_format import rfc3339
from queues.workload import Workload


def outlooks(
    snapshot: Snapshot, plan: Plan, namespace: str, name: str, kind: str | None
) -> tuple[bodies.OutlookBody, ...]:
    """Outlooks of the pending workloads of this name, by kind; empty: none is pending."""
    found = [
        workload
        for workload in snapshot.pending.values()
        if workload.namespace == namespace and workload.name == name and kind in (None, str(workload.kind))
    ]
    explained = [
        (each, explain(snapshot, plan, each.key)) for each in sorted(found, key=lambda each: each.key)
    ]
    return tuple(_outlook(snapshot, workload, one) for workload, one in explained if one is not None)


def _outlook(snapshot: Snapshot, workload: Workload, explained: Explained) -> bodies.OutlookBody:
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
    )


def _facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    form = dict(facts)
    if "takes" in form:
        form["takes"] = quantities(form["takes"])
    if "more" in form:
        form["more"] = [{**each, "units": show(each["resource"], each["units"])} for each in form["more"]]
    return form

"""``muster replay --at TIME --explain NAME``: why a workload was not admitted at a turn, in the words of explain."""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from admission.cli.failures import CommandFailed
from queues.text_format import counted, listed, rfc3339

if TYPE_CHECKING:
    from admission.engine.snapshot import Snapshot
    from admission.replay.look_back import DecidedAgain
    from queues.plan import Plan
    from queues.workload import Workload

#: Names that are told of where the one that is asked for is not there.
_NEAR: Final = 3


def explained_text(again: "DecidedAgain", name: str, namespace: str | None) -> str:
    """What became of the workloads of a name at the turn, a paragraph each. Raises CommandFailed: there is none.

    ``name``: ``NAME`` or ``KIND/NAME``. ``namespace``: None: any.
    """
    snapshot = again.saved.snapshot
    found = _found(snapshot, name, namespace)
    return "\n".join(_one(snapshot, again.plan, each) for each in found)


def _found(snapshot: "Snapshot", name: str, namespace: str | None) -> "list[Workload]":
    kind, slash, bare = name.rpartition("/")
    known = {**snapshot.holders, **snapshot.pending}
    there = [each for each in known.values() if namespace in (None, each.namespace)]
    found = [each for each in there if each.name == bare and (not slash or str(each.kind) == kind)]
    if found:
        return sorted(found, key=lambda each: (each.namespace, each.key))
    near = get_close_matches(bare, sorted({each.name for each in there}), n=_NEAR)
    where = "" if namespace is None else f" in namespace {namespace}"
    raise CommandFailed(
        tried="",
        found=f"no workload {name}{where} waited or ran at that turn ({counted(len(there), 'workload')} did)",
        hint=f"Near: {listed(near)}"
        if near
        else "It may have come later, or have ended before: try another --at.",
    )


def _one(snapshot: "Snapshot", plan: "Plan", workload: "Workload") -> str:
    from admission.cli.rendering.explanation import workload_text

    text = workload_text(_explanation(snapshot, plan, workload), wide=False)
    if workload.key in snapshot.pending:
        admitted = next((each for each in plan.admits if each.workload == workload.key), None)
        if admitted is not None:
            nodes = sorted({seat.node for seat in admitted.seats})
            text += (
                f"\nAdmitted in this turn\n  {counted(len(admitted.seats), 'pod')} on {listed(nodes, 8)}\n"
            )
    return text


def _explanation(snapshot: "Snapshot", plan: "Plan", workload: "Workload") -> dict[str, Any]:
    """As the read API would have answered, as far as a snapshot tells it (``ExplanationBody``, with ``outlook``)."""
    import msgspec

    from admission.web.leader.outlook import outlooks
    from admission.web.quantities import quantities
    from queues.resources import NOTHING

    key = workload.key
    waits = key in snapshot.pending
    reason = plan.reasons.get(key)
    found = outlooks(snapshot, plan, workload.namespace, workload.name, str(workload.kind))
    outlook = next((msgspec.to_builtins(each) for each in found if each.uid == key.uid), None)
    asks = sum((each.takes * each.count for each in workload.pod_sets), NOTHING)
    return {
        "kind": str(workload.kind),
        "namespace": workload.namespace,
        "name": workload.name,
        "uid": key.uid,
        "user": workload.user,
        "state": "pending" if waits else "admitted",
        "queue": workload.queue,
        "path": [
            {"name": name, "accounts": [], "state": "open", "message": ""}
            for name in _path(snapshot, workload)
        ],
        "minimum": workload.minimum,
        "pods": sum(each.count for each in workload.pod_sets),
        "asks": quantities(asks),
        "priority": workload.priority,
        "created": rfc3339(workload.created) if workload.created else None,
        "now": rfc3339(snapshot.now),
        "reason": None if reason is None else {"code": str(reason.code), "message": reason.message},
        "notBefore": rfc3339(workload.not_before) if workload.not_before else None,
        # How often is not in a snapshot.
        "rollbacks": 1,
        "position": None if outlook is None else outlook["position"],
        "positionBy": "",
        "queueLength": None if outlook is None else outlook["queueLength"],
        "outlook": outlook,
        "ahead": [],
        "admissions": [],
        "history": [],
    }


def _path(snapshot: "Snapshot", workload: "Workload") -> list[str]:
    """Its queue, and those above it."""
    found: list[str] = []
    name = workload.queue
    while name not in found:
        found.append(name)
        queue = snapshot.queues.get(name)
        if queue is None or queue.parent is None:
            break
        name = queue.parent
    return found

"""Check of a run at rest: what the ledger stores as the reason why a workload waits is so.

Reasons of room and limits are left to ``every_gang_that_fits_is_admitted``, which works out what fits. Here are those
that would excuse a workload from it. ``InvalidSpec`` is believed: it may be about anything in the document.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from queues.api import names
from queues.resources import amount
from tests.chaos.checker.breach import Breach
from tests.chaos.checker.objects import ENDED, Life, is_gated, phase_of
from tests.chaos.checker.recording import Recording, minimum_of, queue_of
from tests.chaos.history import Document


def stored_reasons_are_true_at_the_end(recording: Recording) -> Iterator[Breach]:
    """What is stored as the reason why a workload waits can be seen in the cluster."""
    if recording.history.unrest:
        return
    reasons = recording.end.of("reasons")
    for key, workload in waiting(recording).items():
        reason = reasons.get(key)
        holds = _TRUE_IF.get(reason["code"]) if reason else None
        if reason and holds is not None and not holds(recording, workload):
            yield Breach(
                what=f"{workload} is stored to wait ({reason['code']}: {reason['message']}), which is not so"
            )


def waiting(recording: Recording) -> Mapping[tuple[str, str], Life]:
    """Workloads that have something to run and are not admitted at the end."""
    admitted = {each.owner for each in recording.end.admissions() if each.state != "closed"}
    return {
        key: workload
        for key, workload in recording.workloads.items()
        if key not in admitted and not recording.is_over(workload)
    }


# ── queues ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _queues(recording: Recording) -> dict[str, Document]:
    return {
        life.document["metadata"]["name"]: life.document for life in recording.of("queues") if life.is_there
    }


def _parent(queue: Document) -> str | None:
    if queue["metadata"]["name"] == "root":
        return None
    return queue["spec"].get("parent") or "root"


def _path(recording: Recording, workload: Life) -> list[Document]:
    """The queue of a workload and those above it, as far as they are there, each once."""
    queues, found = _queues(recording), dict[str, Document]()
    here = queue_of(workload.document)
    while here is not None and here in queues and here not in found:
        found[here] = queues[here]
        here = _parent(queues[here])
    return list(found.values())


def _is_unknown(recording: Recording, workload: Life) -> bool:
    return queue_of(workload.document) not in _queues(recording)


def _has_queues_below(recording: Recording, workload: Life) -> bool:
    return queue_of(workload.document) in map(_parent, _queues(recording).values())


def _is_broken(recording: Recording, workload: Life) -> bool:
    """Whether the way to root ends elsewhere, or numbers on it may be wrong."""
    path = _path(recording, workload)
    if not path or path[-1]["metadata"]["name"] != "root":
        return True
    return any(queue["spec"].get("guarantee") or _is_out_of_order(queue["spec"]) for queue in path)


def _is_out_of_order(spec: Document) -> bool:
    deserved, capability = spec.get("deserved") or {}, spec.get("capability") or {}
    return any(
        amount(name, deserved[name]) > amount(name, capability[name])
        for name in deserved.keys() & capability.keys()
    )


def _states(*fields: str) -> Callable[[Recording, Life], bool]:
    """Whether a queue on the path states one of these fields, ``group.field`` below its spec."""

    def states(recording: Recording, workload: Life) -> bool:
        return any(
            ((queue["spec"].get(group) or {}).get(field)) not in (None, False)
            for queue in _path(recording, workload)
            for group, _, field in (each.partition(".") for each in fields)
        )

    return states


def _is_closed(recording: Recording, workload: Life) -> bool:
    path = _path(recording, workload)
    return any((queue.get("status") or {}).get("state") in ("Closed", "Closing") for queue in path)


# ── others ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _others(recording: Recording, workload: Life) -> list[Life]:
    return [other for other in waiting(recording).values() if other.uid != workload.uid]


def _others_of_its_queue(recording: Recording, workload: Life) -> list[Life]:
    queue = queue_of(workload.document)
    return [other for other in _others(recording, workload) if queue_of(other.document) == queue]


def _is_behind(recording: Recording, workload: Life) -> bool:
    """Whether the nearest queue that states an order is strict, and another workload waits in the same queue."""
    specs = [queue["spec"] for queue in _path(recording, workload)]
    stated = [order for spec in specs if (order := (spec.get("policy") or {}).get("order"))]
    strict = (
        stated[0] == "strict-fifo" if stated else any(spec.get("dequeueStrategy") == "fifo" for spec in specs)
    )
    return strict and bool(_others_of_its_queue(recording, workload))


def _is_above_pending_limit(recording: Recording, workload: Life) -> bool:
    stated = _states("access.maxPending", "access.maxPendingPerUser")(recording, workload)
    return stated and bool(_others(recording, workload))


# ── the workload itself ─────────────────────────────────────────────────────────────────────────────────────────


def _pods(recording: Recording, workload: Life) -> list[Document]:
    """Its pods that are there."""
    members = recording.members(workload)
    own = [workload] if workload.first.resource == "pods" else []
    return [
        pod.document
        for pod in [*own, *members]
        if pod.is_there and "deletionTimestamp" not in pod.document["metadata"]
    ]


def _templates(recording: Recording, workload: Life) -> list[Document]:
    """What its pods are made of, and those that are there."""
    spec = workload.document.get("spec") or {}
    tasks = [task["template"] for task in spec.get("tasks") or ()]
    return [*tasks, *([spec["template"]] if "template" in spec else ()), *_pods(recording, workload)]


def _has_too_few_pods(recording: Recording, workload: Life) -> bool:
    """Of a group and of a pod: whether fewer live. Of Jobs it is believed, for which pods that succeeded count."""
    if workload.first.resource not in ("podgroups", "pods"):
        return True
    live = [pod for pod in _pods(recording, workload) if phase_of(pod) not in ENDED]
    return len(live) < minimum_of(workload.document)


def _names_unknown_class(recording: Recording, workload: Life) -> bool:
    """Where the history has no classes, those that are named are taken for unknown."""
    classes = {life.document["metadata"]["name"] for life in recording.of("priorityclasses") if life.is_there}
    named = {workload.document["spec"].get("priorityClassName")}
    named |= {(each.get("spec") or {}).get("priorityClassName") for each in _templates(recording, workload)}
    missing = named - classes - {None, ""}
    return bool(missing)


def _asks_for_a_level(recording: Recording, workload: Life) -> bool:
    documents = [workload.document, *_templates(recording, workload)]
    annotations = (((each.get("metadata") or {}).get("annotations") or {}) for each in documents)
    return "networkTopology" in workload.document["spec"] or any(
        "topology" in key for each in annotations for key in each
    )


def _has_other_gates(recording: Recording, workload: Life) -> bool:
    templates = _templates(recording, workload)
    gates = (gate for each in templates for gate in (each.get("spec") or {}).get("schedulingGates") or ())
    return any(gate["name"] != names.GATE for gate in gates)


def _has_ungated_pods(recording: Recording, workload: Life) -> bool:
    return any(not is_gated(pod) for pod in _pods(recording, workload))


def _never(recording: Recording, workload: Life) -> bool:
    """Of pods with a group or an owner, which are no workloads of their own here."""
    return False


_Holds = Callable[[Recording, Life], bool]
_TRUE_IF: Final[Mapping[str, _Holds]] = {
    "Behind": _is_behind,
    "BudgetSpent": _states("budget.hours"),
    "GangTooLarge": _states("access.maxGang"),
    "MaxRunTime": _states("access.maxRunTime"),
    "NotAllowed": _states("access.namespaceSelector"),
    "NotEnoughPods": _has_too_few_pods,
    "NotGated": _has_ungated_pods,
    "NotItsPod": _never,
    "OtherGates": _has_other_gates,
    "PendingLimit": _is_above_pending_limit,
    "PluginNotUsable": _never,
    "PodGroupMissing": _never,
    "QueueBroken": _is_broken,
    "QueueClosed": _is_closed,
    "QueueNotLeaf": _has_queues_below,
    "QueueOnHold": _states("policy.hold"),
    "QueuePaused": _states("policy.paused"),
    "Reserved": lambda recording, workload: bool(_others(recording, workload)),
    "RunTimeTooLong": _states("access.maxRunTime"),
    "UnknownLevel": _asks_for_a_level,
    "UnknownPriorityClass": _names_unknown_class,
    "UnknownQueue": _is_unknown,
    "UserLimit": _states("access.maxPerUser"),
}
#: Reasons to wait that have nothing to do with room and limits.
NOT_OF_ROOM: Final = frozenset({*_TRUE_IF, "InvalidSpec"})

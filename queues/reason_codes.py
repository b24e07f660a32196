"""The closed vocabulary of reasons: every code that users, the ledger and metrics see, and what to do about each.

A code is stable, the sentence next to it may improve. What is said of a workload is why it waits, then what its owner
can do: the same on its object, in the plugin and on the page. What only administrators of its queue can do is shown to
them alone. docs/reference/reasons.md says more of each code.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from queues.text_format import rfc3339


class ReasonCode(StrEnum):
    """Why a workload waits, was evicted, makes no progress or ended; what is wrong with a queue or HyperNode."""

    # ── why a workload waits

    #: A limit on the way from the queue to root would be exceeded.
    QUEUE_LIMIT = "QueueLimit"
    #: The nodes that the pods may use have too little room.
    NO_FIT = "NoFit"
    #: No domain of the required topology level holds the pods, though the nodes together may.
    TOPOLOGY_NO_FIT = "TopologyNoFit"
    #: It would not fit if every node that exists were empty, healthy and open, or limits of its queue allow no such
    #: gang. It keeps its place by arrival, and is considered again when nodes or limits change.
    NEVER_FITS = "NeverFits"
    #: The requested topology level is in no Topology.
    UNKNOWN_LEVEL = "UnknownLevel"
    #: No node offers the requested resource.
    UNKNOWN_RESOURCE = "UnknownResource"
    #: As NoFit or UnknownResource, and a cluster autoscaler was asked for nodes.
    PROVISIONING = "Provisioning"
    #: The namespace of the workload may not use the queue.
    NOT_ALLOWED = "NotAllowed"
    #: The queue or one above it is paused.
    QUEUE_PAUSED = "QueuePaused"
    #: A budget of the queue or one above it is used up, and holds new work until the month is over.
    BUDGET_SPENT = "BudgetSpent"
    #: The queue is served by a plug-in that this Muster lacks, or that was set aside.
    PLUGIN_NOT_USABLE = "PluginNotUsable"
    #: The queue or one above it takes no new work, and the workload was never admitted.
    QUEUE_ON_HOLD = "QueueOnHold"
    #: The queue or one above it is closed.
    QUEUE_CLOSED = "QueueClosed"
    #: No queue has that name.
    UNKNOWN_QUEUE = "UnknownQueue"
    #: The queue tree is wrong at the queue or above it.
    QUEUE_BROKEN = "QueueBroken"
    #: The queue has queues below it, and only leaf queues hold workloads.
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    #: Fewer pods exist, or are wanted, than must start together.
    NOT_ENOUGH_PODS = "NotEnoughPods"
    #: The workload was evicted a short time ago and is not tried again before a given time.
    BACKOFF = "Backoff"
    #: Its pods did not get ready as often as its queue allows, or were refused too often; it is not tried again before
    #: its object, or the cause of a refusal, changes.
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    #: Its owner has suspended it.
    ON_HOLD = "OnHold"
    #: An AdmissionCheck of its queue has not said yes yet.
    WAITS_FOR_CHECK = "WaitsForCheck"
    #: An AdmissionCheck of its queue has said no.
    CHECK_REJECTED = "CheckRejected"
    #: Its queue lists an AdmissionCheck that does not exist.
    UNKNOWN_CHECK = "UnknownCheck"
    #: Another workload that it is to come after has not ended (``muster.dev/after``).
    WAITS_FOR_DEPENDENCY = "WaitsForDependency"
    #: Another workload that has to succeed before it has ended otherwise.
    DEPENDENCY_FAILED = "DependencyFailed"
    #: Another workload that it is to come after does not exist, or is in no queue, and the ledger knows none that was.
    DEPENDENCY_MISSING = "DependencyMissing"
    #: It closes a cycle of workloads that are to come after one another.
    DEPENDENCY_CYCLE = "DependencyCycle"
    #: The pods of an earlier admission are not gone yet.
    DRAINING = "Draining"
    #: As Draining, before the workload is considered again.
    EVICTING = "Evicting"
    #: A PodDisruptionBudget does not allow that pods of an earlier admission are evicted now.
    EVICTION_REFUSED = "EvictionRefused"
    #: The pod has no owner; it was evicted and is being created again.
    BEING_RECREATED = "BeingRecreated"
    #: The queue is strictly first in, first out, and an earlier workload waits.
    BEHIND = "Behind"
    #: The workload fits, but would delay the gang that has waited longest.
    RESERVED = "Reserved"
    #: The gang has more pods than the queue allows in one.
    GANG_TOO_LARGE = "GangTooLarge"
    #: The workload declares a longer run time than its queue allows.
    RUN_TIME_TOO_LONG = "RunTimeTooLong"
    #: As many workloads as the queue considers at a time came earlier.
    PENDING_LIMIT = "PendingLimit"
    #: One user's work would use more than a queue on the way to root lets one user use.
    USER_LIMIT = "UserLimit"
    #: Workloads of many pod sets wait in the queue, and others of them are tried now.
    TAKES_TURNS = "TakesTurns"
    #: Victims were evicted for the workload; it is admitted when their pods are gone.
    MAKING_ROOM = "MakingRoom"
    #: Every pod that needs a seat has one.
    NOTHING_MISSING = "NothingMissing"
    #: The object is invalid.
    INVALID_SPEC = "InvalidSpec"
    #: Its kind is being taken out of use.
    KIND_LEAVING = "KindLeaving"
    #: The API server would refuse its pods.
    TEMPLATE_REFUSED = "TemplateRefused"
    #: A ResourceQuota of the namespace has no room for the pods that have to start together.
    NAMESPACE_QUOTA = "NamespaceQuota"
    #: The workload names a priority class that does not exist.
    UNKNOWN_PRIORITY_CLASS = "UnknownPriorityClass"
    #: The pod names a PodGroup that does not exist, or that Muster has yet to move to the queue of its pods.
    POD_GROUP_MISSING = "PodGroupMissing"
    #: The pod names a Job as its controller and is none of its pods.
    NOT_ITS_POD = "NotItsPod"
    #: A claim, volume or storage class of its pods does not exist.
    VOLUME_MISSING = "VolumeMissing"
    #: A volume of its pods is not bound, is in use, or can be used on no node with the others.
    VOLUMES_NOT_READY = "VolumesNotReady"
    #: Its pods, or its pod templates, have scheduling gates of other controllers.
    OTHER_GATES = "OtherGates"
    #: A pod of it would keep pods of other namespaces off nodes, by its required anti-affinity.
    CROSS_NAMESPACE_ANTI_AFFINITY = "CrossNamespaceAntiAffinity"
    #: The pod was not gated when it was created.
    NOT_GATED = "NotGated"
    #: Muster failed on this object.
    DEFECT = "Defect"

    # ── why the ledger refused what a turn had planned

    #: A node of a seat has less room than the turn had seen.
    NODE_FULL = "NodeFull"
    #: The workload is gone from the ledger.
    DEPARTED = "Departed"
    #: The plan gave a workload no seat, one seat twice, or a seat of a negative amount.
    INVALID_SEAT = "InvalidSeat"
    #: A pod of the workload has that seat already.
    ALREADY_SEATED = "AlreadySeated"

    # ── why an admission was evicted

    #: The stock scheduler refused a pod for longer than the grace time. On a workload that waits: on all its nodes.
    REFUSED = "Refused"
    #: A node of a seat cannot take pods any more.
    NODE_LOST = "NodeLost"
    #: Pods without a queue have taken the room of a seat.
    SEAT_TAKEN = "SeatTaken"
    #: A pod asks more than its seat has, or is on another node.
    SEAT_MISMATCH = "SeatMismatch"
    #: What the workload asks is not what was admitted.
    REQUEST_CHANGED = "RequestChanged"
    #: A device of one of its pods is unhealthy (``policy.health.onFault``).
    GPU_UNHEALTHY = "GpuUnhealthy"
    #: Pods were not ready a given time after the last one was bound, or were missing for so long. On a gang that has
    #: its seats: they are not ready yet, or missing.
    NOT_READY = "NotReady"
    #: The gang lost members that its domain has no room for, and starts again whole somewhere else.
    TAKEN_BACK = "TakenBack"
    #: A workload of higher priority in the same queue needs the resources.
    PREEMPTED = "Preempted"
    #: The queue that owns the quota needs it back.
    RECLAIMED = "Reclaimed"
    #: Space was cleared for a gang that waited too long.
    CLEARED = "Cleared"
    #: The workload has held its seats for as long as its queue allows, and is not run again. Before that: it ends soon.
    MAX_RUN_TIME = "MaxRunTime"
    #: Its nodes are kept for a Reservation that begins.
    NODES_RESERVED = "NodesReserved"
    #: Its nodes are taken out of service by a NodeDrain.
    MAINTENANCE = "Maintenance"

    # ── why an admitted workload makes no progress

    #: The API server refuses a pod of a Volcano Job.
    POD_REFUSED = "PodRefused"
    #: The API server refuses an object that the pods of a Volcano Job need.
    OBJECT_REFUSED = "ObjectRefused"
    #: A pod or object of that name exists and does not belong to the Volcano Job. A gang that cannot start goes back.
    NAME_TAKEN = "NameTaken"
    #: The API server refuses to delete or to create again an evicted pod without an owner.
    RECREATION_REFUSED = "RecreationRefused"
    #: A pod is being deleted on a node that is not ready, so that it cannot be known whether it has ended.
    NODE_NOT_READY = "NodeNotReady"
    #: The API server refuses the write that releases a pod or starts a Job.
    RELEASE_REFUSED = "ReleaseRefused"

    # ── why a Volcano Job entered its phase

    #: As many pods succeeded as ``minSuccess`` asks for.
    MIN_SUCCESS = "MinSuccess"
    #: Every pod has ended.
    ALL_ENDED = "AllEnded"
    #: Every pod has ended, and fewer pods of a task succeeded than it needs.
    TASK_FAILED = "TaskFailed"
    #: Pods of a task are made once those of another one are ready (``dependsOn``).
    WAITS_FOR_TASK = "WaitsForTask"
    #: So many pods were lost that the rest is no gang any more.
    PODS_MISSING = "PodsMissing"
    #: The Job was restarted as often as ``maxRetry`` allows.
    MAX_RETRY = "MaxRetry"

    # ── what objects say besides that

    #: The object has fields that Muster accepts and does not act on.
    UNSUPPORTED_FIELD = "UnsupportedField"
    #: Turns or terms of leadership end with the same error again and again; nothing is decided.
    TURNS_FAIL = "TurnsFail"
    #: Postgres has not answered for longer than a lease, so that nobody leads.
    DATABASE_AWAY = "DatabaseAway"
    #: Pods of Jobs that are gone or evicted cannot be listed, so their seats are kept.
    LISTS_FAIL = "ListsFail"
    #: Members of a HyperNode cannot be used.
    INVALID_MEMBERS = "InvalidMembers"

    @classmethod
    def of_row(cls, text: str) -> Self:
        """The code in a stored row. A code that only another version of Muster knows is read as ``Defect``."""
        try:
            return cls(text)
        except ValueError:
            return cls.DEFECT


#: It waits for another workload, or for its owner: it counts with what never fits, and keeps nothing out that could
#: start.
OF_DEPENDENCIES: Final = frozenset(
    (
        ReasonCode.WAITS_FOR_DEPENDENCY,
        ReasonCode.DEPENDENCY_FAILED,
        ReasonCode.DEPENDENCY_MISSING,
        ReasonCode.DEPENDENCY_CYCLE,
    )
)

#: Nothing that ends lets in what waits with one of these: it is in nobody's way, has no position and no expected start,
#: and is for its owner to change.
NEVER: Final = frozenset(
    (
        ReasonCode.NEVER_FITS,
        ReasonCode.UNKNOWN_LEVEL,
        ReasonCode.UNKNOWN_RESOURCE,
        ReasonCode.UNKNOWN_QUEUE,
        ReasonCode.NOT_ALLOWED,
        ReasonCode.QUEUE_NOT_LEAF,
        ReasonCode.UNKNOWN_PRIORITY_CLASS,
        ReasonCode.ON_HOLD,
        ReasonCode.BACKOFF_LIMIT_EXCEEDED,
        *OF_DEPENDENCIES - {ReasonCode.WAITS_FOR_DEPENDENCY},
        ReasonCode.GANG_TOO_LARGE,
        ReasonCode.RUN_TIME_TOO_LONG,
        ReasonCode.INVALID_SPEC,
        ReasonCode.TEMPLATE_REFUSED,
        ReasonCode.NOT_ITS_POD,
        ReasonCode.CROSS_NAMESPACE_ANTI_AFFINITY,
        ReasonCode.NOT_GATED,
    )
)

#: What others have borrowed may be in the way of work that waits with one of these.
FOR_LACK: Final = (ReasonCode.QUEUE_LIMIT, ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT)

#: Nothing starts with one of these before its object, its queue or another object is changed: no forecast holds.
NEEDS_A_CHANGE: Final = frozenset(
    {
        *NEVER,
        ReasonCode.QUEUE_PAUSED,
        ReasonCode.BUDGET_SPENT,
        ReasonCode.QUEUE_ON_HOLD,
        ReasonCode.QUEUE_CLOSED,
        ReasonCode.PLUGIN_NOT_USABLE,
        ReasonCode.QUEUE_BROKEN,
        ReasonCode.WAITS_FOR_CHECK,
        ReasonCode.CHECK_REJECTED,
        ReasonCode.UNKNOWN_CHECK,
        ReasonCode.WAITS_FOR_DEPENDENCY,
        ReasonCode.KIND_LEAVING,
        ReasonCode.POD_GROUP_MISSING,
    }
)


class Advice(NamedTuple):
    """ "": nothing, or the reason itself says it."""

    #: A sentence without its full stop.
    owner: str = ""
    #: As a phrase: what these can do.
    administrator: str = ""
    #: The phrase is for administrators of the platform: those of a tenant have no rights over nodes and the like.
    of_platform: bool = False


_NOTHING: Final = "Nothing to do: it goes on by itself"
_OTHER_QUEUE: Final = "Name another queue, or wait until an administrator of the queue ends this"

_NO_ADVICE: Final = Advice()
_ALONE: Final = (
    "If each pod can work alone, let them start one by one "
    '(annotation scheduling.volcano.sh/group-min-member: "1")'
)
#: In units of ``queues.resources``.
_ONE_DEVICE: Final = 1000

#: By code; others are about no workload that waits.
ADVICE: Final[Mapping[ReasonCode, Advice]] = {
    ReasonCode.QUEUE_LIMIT: Advice(
        "Wait until other work of the queue ends, or ask for less",
        "raise the limit: kubectl muster quota set QUEUE",
    ),
    ReasonCode.NO_FIT: Advice(
        "Wait for room; fewer or smaller pods fit earlier", "add nodes", of_platform=True
    ),
    ReasonCode.TOPOLOGY_NO_FIT: Advice(
        "Wait for room, or prefer the level instead of requiring it", "add nodes", of_platform=True
    ),
    ReasonCode.NEVER_FITS: Advice(
        "Waiting does not help: ask for less, or for other nodes",
        "raise the limit, or add larger nodes",
        of_platform=True,
    ),
    ReasonCode.UNKNOWN_LEVEL: Advice(
        "Correct the level in its annotation", "create a Topology that has the level", of_platform=True
    ),
    ReasonCode.UNKNOWN_RESOURCE: Advice(
        "Correct the name of the resource", "check that the device plugin runs", of_platform=True
    ),
    ReasonCode.PROVISIONING: Advice(
        "Nothing to do: it waits for new nodes",
        "read the autoscaler's words: kubectl describe provisioningrequest NAME",
        of_platform=True,
    ),
    ReasonCode.NOT_ALLOWED: Advice(
        "Name another queue", "label the namespace, or change access.namespaceSelector of the queue"
    ),
    ReasonCode.QUEUE_PAUSED: Advice(_OTHER_QUEUE, "resume it: kubectl muster queue resume QUEUE"),
    ReasonCode.PLUGIN_NOT_USABLE: Advice(
        _OTHER_QUEUE,
        "correct the plug-in, or have the built-in one serve meanwhile: policy.onPluginFailure: default",
    ),
    ReasonCode.QUEUE_ON_HOLD: Advice(_OTHER_QUEUE, "end the hold: kubectl muster queue unhold QUEUE"),
    ReasonCode.BUDGET_SPENT: Advice(
        "Wait until then, or name a queue that has budget left", "raise spec.budget.hours of the queue"
    ),
    ReasonCode.QUEUE_CLOSED: Advice("Name another queue", "open it: kubectl muster queue open QUEUE"),
    ReasonCode.UNKNOWN_QUEUE: Advice(
        "Name a queue that exists", "create it: kubectl muster queue create QUEUE"
    ),
    ReasonCode.QUEUE_BROKEN: Advice("Name another queue", "correct the queue that is named"),
    ReasonCode.QUEUE_NOT_LEAF: _NO_ADVICE,
    ReasonCode.NOT_ENOUGH_PODS: Advice("Create the missing pods, or lower the minimum"),
    ReasonCode.BACKOFF: Advice(_NOTHING),
    ReasonCode.BACKOFF_LIMIT_EXCEEDED: _NO_ADVICE,
    ReasonCode.ON_HOLD: _NO_ADVICE,
    ReasonCode.WAITS_FOR_CHECK: Advice(
        "Nothing to do, unless the check says what", "ask those who answer the check, if it is silent"
    ),
    ReasonCode.CHECK_REJECTED: Advice(
        "Change what the check names: it is asked again then",
        "delete the CheckRequest to have it asked again",
    ),
    ReasonCode.UNKNOWN_CHECK: Advice(
        "Name another queue",
        "create the AdmissionCheck, or take it out of spec.admissionChecks",
        of_platform=True,
    ),
    ReasonCode.WAITS_FOR_DEPENDENCY: Advice("Nothing to do: it goes on when that has ended"),
    ReasonCode.DEPENDENCY_FAILED: _NO_ADVICE,
    ReasonCode.DEPENDENCY_MISSING: _NO_ADVICE,
    ReasonCode.DEPENDENCY_CYCLE: _NO_ADVICE,
    ReasonCode.DRAINING: Advice("Nothing to do, unless its pods hang: look at them"),
    ReasonCode.EVICTING: Advice("Nothing to do, unless its pods hang: look at them"),
    ReasonCode.EVICTION_REFUSED: Advice("Wait, or change the disruption budget"),
    ReasonCode.BEING_RECREATED: Advice(_NOTHING),
    ReasonCode.BEHIND: Advice(
        "Nothing to do: it comes after the work before it", "let smaller work pass, by policy.order: fifo"
    ),
    #: Its message says which run time is assumed, and what lets short work pass.
    ReasonCode.RESERVED: _NO_ADVICE,
    ReasonCode.GANG_TOO_LARGE: Advice("Ask for fewer pods, or name another queue", "raise access.maxGang"),
    ReasonCode.MAX_RUN_TIME: _NO_ADVICE,
    ReasonCode.RUN_TIME_TOO_LONG: Advice(administrator="raise access.maxRunTime"),
    ReasonCode.PENDING_LIMIT: Advice(_NOTHING, "raise access.maxPending, or maxPendingPerUser"),
    ReasonCode.USER_LIMIT: Advice(
        "Wait until other work of the same user ends, or ask for less", "raise access.maxPerUser"
    ),
    ReasonCode.TAKES_TURNS: Advice(_NOTHING),
    ReasonCode.MAKING_ROOM: Advice("Nothing to do: it starts when they are gone"),
    ReasonCode.NOTHING_MISSING: Advice(_NOTHING),
    ReasonCode.INVALID_SPEC: Advice("Correct the object: kubectl muster check finds this beforehand"),
    ReasonCode.KIND_LEAVING: Advice("Once the kind is gone, unsuspend the object"),
    ReasonCode.TEMPLATE_REFUSED: _NO_ADVICE,
    ReasonCode.NAMESPACE_QUOTA: Advice(
        "Wait until other pods of the namespace end, or ask for less", "raise the ResourceQuota"
    ),
    ReasonCode.NAME_TAKEN: _NO_ADVICE,
    ReasonCode.UNKNOWN_PRIORITY_CLASS: Advice(administrator="create the priority class", of_platform=True),
    ReasonCode.POD_GROUP_MISSING: Advice(
        "Create the PodGroup, or remove the annotation; one that Muster makes comes by itself"
    ),
    ReasonCode.NOT_ITS_POD: _NO_ADVICE,
    ReasonCode.VOLUME_MISSING: Advice("Create it: the workload goes on by itself"),
    ReasonCode.VOLUMES_NOT_READY: Advice("See kubectl describe pvc: the workload goes on by itself"),
    ReasonCode.OTHER_GATES: Advice(
        "Wait until their controllers remove the gates; take them out of a template"
    ),
    ReasonCode.CROSS_NAMESPACE_ANTI_AFFINITY: Advice(
        "Leave the field out, or write the term under preferredDuringSchedulingIgnoredDuringExecution"
    ),
    ReasonCode.NOT_GATED: _NO_ADVICE,
    ReasonCode.DEFECT: Advice(
        "Report it; other work is not concerned", "read Muster's log", of_platform=True
    ),
    ReasonCode.REFUSED: Advice("Correct what the scheduler's words name"),
}


def advice_on(code: ReasonCode, facts: Mapping[str, Any]) -> Advice:
    """What to do about a reason with these facts (times are seconds since the epoch); nothing if no rule is known."""
    if "alone" in facts:
        count, of, when = facts["alone"], facts["of"], "at a time" if code is ReasonCode.NEVER_FITS else "now"
        words = "" if count is None else f": {f'up to {count}' if count else 'none'} of {of} {when}"
        return ADVICE[code]._replace(owner=_ALONE + words)
    if code is ReasonCode.RESERVED and (at := facts.get("at")):
        return Advice(f"As far as is known it is kept until {rfc3339(at)}")
    if code is ReasonCode.RESERVED and facts.get("soon"):
        return Advice(_NOTHING)
    if code is ReasonCode.NO_FIT and facts.get("asked") == 1:
        asked = [units <= _ONE_DEVICE for name, units in (facts.get("takes") or {}).items() if "/" in name]
        is_smallest = bool(asked) and all(asked)
        return ADVICE[code]._replace(
            owner="Wait for room" + ("" if is_smallest else "; a smaller pod fits earlier")
        )
    if code is ReasonCode.NEVER_FITS and "over" in facts:
        return ADVICE[code]._replace(owner="Waiting does not help: ask for less, or name another queue")
    return ADVICE.get(code, _NO_ADVICE)


def did_you_mean(names: Sequence[str]) -> str:
    """The advice where a name is wrong; "": no name looks alike. ``names``: those that do, best first."""
    return f"Did you mean {' or '.join(names)}?" if names else ""


def with_advice(message: str, advice: str) -> str:
    """Why a workload waits, and what to do."""
    return f"{message.rstrip('.')}. {advice}" if advice else message

"""What to do about each reason for which a workload waits: its owner, and an administrator of its queue besides.

The sentence about a workload is why it waits, then what its owner can do: the same on its object, in the plugin and on
the page. What only administrators can do is shown to them alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from queues.reason_codes import ReasonCode
from queues.text_format import rfc3339


class Advice(NamedTuple):
    """ "": nothing, or the reason itself says it."""

    #: A sentence without its full stop.
    owner: str = ""
    #: As a phrase: what these can do.
    administrator: str = ""


_NOTHING: Final = "Nothing to do: it goes on by itself"
_OTHER_QUEUE: Final = "Name another queue, or wait until an administrator of the queue ends this"

_NO_ADVICE: Final = Advice()

#: By code; others are about no workload that waits.
ADVICE: Final[Mapping[ReasonCode, Advice]] = {
    ReasonCode.QUEUE_LIMIT: Advice(
        "Wait until other work of the queue ends, or ask for less",
        "raise the limit: kubectl muster quota set QUEUE",
    ),
    ReasonCode.NO_FIT: Advice("Wait for room; fewer or smaller pods fit earlier", "add nodes"),
    ReasonCode.TOPOLOGY_NO_FIT: Advice(
        "Wait for room, or prefer the level instead of requiring it", "add nodes"
    ),
    ReasonCode.NEVER_FITS: Advice(
        "Waiting does not help: ask for less, or for other nodes", "raise the limit, or add larger nodes"
    ),
    ReasonCode.UNKNOWN_LEVEL: Advice(
        "Correct the level in its annotation", "create a Topology that has the level"
    ),
    ReasonCode.UNKNOWN_RESOURCE: Advice(
        "Correct the name of the resource", "check that the device plugin runs"
    ),
    ReasonCode.PROVISIONING: Advice(
        "Nothing to do: it waits for new nodes",
        "read the autoscaler's words: kubectl describe provisioningrequest NAME",
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
        "Name another queue", "create the AdmissionCheck, or take it out of spec.admissionChecks"
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
    ReasonCode.UNKNOWN_PRIORITY_CLASS: Advice("Name another priority class", "create the priority class"),
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
    ReasonCode.DEFECT: Advice("Report it; other work is not concerned", "read Muster's log"),
    ReasonCode.REFUSED: Advice("Correct what the scheduler's words name"),
}


def advice_on(code: ReasonCode, facts: Mapping[str, Any]) -> Advice:
    """What to do about a reason with these facts (times are seconds since the epoch); nothing if no rule is known."""
    if code is ReasonCode.RESERVED and (at := facts.get("at")):
        return Advice(f"As far as is known it is kept until {rfc3339(at)}")
    if code is ReasonCode.RESERVED and facts.get("soon"):
        return Advice(_NOTHING)
    return ADVICE.get(code, _NO_ADVICE)


def did_you_mean(names: Sequence[str]) -> str:
    """The advice where a name is wrong. ``names``: those that look alike, best first; not empty."""
    return f"Did you mean {' or '.join(names)}?"


def with_advice(message: str, advice: str) -> str:
    """Why a workload waits, and what to do."""
    return f"{message.rstrip('.')}. {advice}" if advice else message

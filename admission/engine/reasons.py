"""Why a workload waits: the one sentence for each code that the engine gives.

Every builder puts its numbers into ``facts`` (JSON-able, amounts in units of ``queues.resources``) and the
same numbers, as people write them, into ``message``. Messages may improve.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from queues.errors import MusterError
from queues.plan import Reason
from queues.quota.usage import LimitHit
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.wording import counted, listed
from queues.workload import AdmissionId, FlavorName, QueueName


def queue_limit(hit: LimitHit) -> Reason:
    """A limit on the queue's path."""
    return Reason(
        code=ReasonCode.QUEUE_LIMIT,
        message=hit.message,
        facts={
            "queue": hit.queue,
            "flavor": hit.account.flavor,
            "resource": hit.account.resource,
            "limit": hit.limit,
            "used": hit.used,
            "kept": hit.kept,
            "asked": hit.asked,
            "over": hit.short,
        },
    )


def no_fit(*, pods: int, takes: Resources, fit: int, nodes: int, excluded: Mapping[str, int]) -> Reason:
    """Not enough room.

    ``fit`` of ``pods`` have a place. ``excluded``: how many nodes were left out, and why.
    """
    left_out = ", ".join(f"{count} {why}" for why, count in excluded.items() if count)
    return Reason(
        code=ReasonCode.NO_FIT,
        message=f"{fit} of {counted(pods, 'pod')} of {_shape(takes)} fit on {nodes} nodes"
        + (f" ({left_out})" if left_out else ""),
        facts={"asked": pods, "takes": dict(takes), "fit": fit, "nodes": nodes, "excluded": dict(excluded)},
    )


def topology_no_fit(
    *, level: str, pods: int, takes: Resources, fit: int, domain: str | None, domains: int
) -> Reason:
    """No domain of a required level holds all pods.

    ``domain`` is the one with most room, for ``fit`` of them.
    """
    if domain is None:
        text = f"no usable node belongs to a domain of {level}"
    else:
        have = "has" if pods == 1 else "have"
        text = f"{counted(pods, 'pod')} of {_shape(takes)} {have} to be in one {level}; "
        text += f"of {domains} the best, {domain}, holds {fit}"
    return Reason(
        code=ReasonCode.TOPOLOGY_NO_FIT,
        message=text,
        facts={
            "level": level,
            "asked": pods,
            "takes": dict(takes),
            "fit": fit,
            "domain": domain,
            "domains": domains,
        },
    )


def parts_no_fit(
    *, level: str, size: int, parts: int, fit: int, takes: Resources, inside: str | None
) -> Reason:
    """Enough room, but not for whole parts of the pod set in one domain each.

    ``fit`` of ``parts`` have a place; all of them have to be in one domain of ``inside``, if that is not None.
    """
    together = f", all in one {inside}" if inside else ""
    return Reason(
        code=ReasonCode.TOPOLOGY_NO_FIT,
        message=f"{parts} parts of {counted(size, 'pod')} of {_shape(takes)} have to be in one {level} each{together}; "
        f"{fit} of them fit",
        facts={
            "level": level,
            "size": size,
            "asked": parts,
            "fit": fit,
            "takes": dict(takes),
            "inside": inside,
        },
    )


def together_no_fit(*, level: str | None, sets: Mapping[str, int], domains: int) -> Reason:
    """Pod sets that have to be in one domain of a level do not fit into any together."""
    pods = " and ".join(f"{counted(count, 'pod')} of {name}" for name, count in sets.items())
    where = f"in one {level} together; none of {domains} holds them" if level else "placed together"
    return Reason(
        code=ReasonCode.TOPOLOGY_NO_FIT,
        message=f"{pods} have to be {where}",
        facts={"level": level, "sets": dict(sets), "domains": domains},
    )


def not_split(reason: Reason, fits: Mapping[FlavorName, int]) -> Reason:
    """The same refusal, where the flavors together would have room: pods of one set stay in one flavor."""
    said = ", ".join(f"{fit} in {flavor}" for flavor, fit in fits.items())
    return replace(
        reason,
        message=f"{reason.message}; there is room for {said}, but pods of one set are all of one flavor",
        facts={**reason.facts, "flavors": dict(fits)},
    )


def stopped(reason: Reason, at: FlavorName, other: FlavorName) -> Reason:
    """The same refusal, where a later flavor has room that the queue's choice of flavors does not come to."""
    return replace(
        reason,
        message=f"{reason.message}; {other} has room, but the queue waits in {at} until others make room there "
        "(flavorChoice.beforePreempting: stop)",
        facts={**reason.facts, "flavor": at, "room": other},
    )


def scattered(level: str, domains: Sequence[str]) -> Reason:
    """The pods that have seats already are in several domains of the level that is required, or in none."""
    where = ", ".join(domains) or "none"
    return Reason(
        code=ReasonCode.TOPOLOGY_NO_FIT,
        message=f"the pods that run are not in one {level} but in {where}, so no further one can join them",
        facts={"level": level, "domains": list(domains)},
    )


def unknown_level(level: str, known: Sequence[str]) -> Reason:
    """A topology level that nothing describes."""
    return Reason(
        code=ReasonCode.UNKNOWN_LEVEL,
        message=f"no Topology has a level {level}; expected one of {', '.join(known)}",
        facts={"level": level, "known": list(known)},
    )


def unknown_resource(resource: str, known: Iterable[str]) -> Reason:
    """A resource that no node offers, usable or not."""
    names = sorted(known)
    return Reason(
        code=ReasonCode.UNKNOWN_RESOURCE,
        message=f"no node offers {resource}; nodes offer {', '.join(names) or 'nothing'}",
        facts={"resource": resource, "known": names},
    )


def queue_paused(queue: QueueName, by: QueueName) -> Reason:
    """Admissions are stopped here or above."""
    at = "" if by == queue else f" (at {by})"
    return Reason(
        code=ReasonCode.QUEUE_PAUSED, message=f"queue {queue} is paused{at}", facts={"queue": queue, "by": by}
    )


def queue_closed(queue: QueueName, by: QueueName) -> Reason:
    """Nothing new is admitted here or above."""
    at = "" if by == queue else f" (at {by})"
    return Reason(
        code=ReasonCode.QUEUE_CLOSED, message=f"queue {queue} is closed{at}", facts={"queue": queue, "by": by}
    )


def unknown_queue(queue: QueueName) -> Reason:
    """No such queue."""
    return Reason(
        code=ReasonCode.UNKNOWN_QUEUE,
        message=f"queue {queue} does not exist; create it or name another one",
        facts={"queue": queue},
    )


def queue_broken(queue: QueueName, problems: Sequence[MusterError]) -> Reason:
    """The tree is wrong at this queue or above."""
    return Reason(
        code=ReasonCode.QUEUE_BROKEN,
        message=f"queue {queue} cannot be used: " + " ".join(str(problem) for problem in problems),
        facts={"queue": queue, "problems": [str(problem) for problem in problems]},
    )


def queue_not_leaf(queue: QueueName, children: Sequence[QueueName]) -> Reason:
    """Only queues without children hold workloads."""
    instead = f"; name one below it, such as {children[0]}" if children else ""
    return Reason(
        code=ReasonCode.QUEUE_NOT_LEAF,
        message=f"queue {queue} has queues below it and takes no workloads itself{instead}"
        if children
        else f"queue {queue} takes no workloads itself; name a queue below it",
        facts={"queue": queue, "children": list(children)},
    )


def not_enough_pods(*, exist: int, minimum: int, task: str | None = None) -> Reason:
    """Fewer pods exist, or are wanted, than must start together: of the gang, or of one task of it."""
    of_task = f" of task {task}" if task is not None else ""
    return Reason(
        code=ReasonCode.NOT_ENOUGH_PODS,
        message=f"{exist} of {minimum} pods{of_task} exist",
        facts={"wanted": exist, "minimum": minimum},
    )


def backoff(until: int) -> Reason:
    """Not before a time. No seconds left are named, so that the reason does not change every second."""
    return Reason(
        code=ReasonCode.BACKOFF,
        message="not tried again yet after it was taken back",
        facts={"until": until},
    )


def draining(admission: AdmissionId) -> Reason:
    """The pods of an earlier admission are not gone yet."""
    return Reason(
        code=ReasonCode.DRAINING,
        message=f"waits until the pods of admission {admission} are gone",
        facts={"admission": admission},
    )


def behind(queue: QueueName, head: str) -> Reason:
    """A strict queue is held up by its head."""
    return Reason(
        code=ReasonCode.BEHIND,
        message=f"queue {queue} is strictly first in, first out, and {head} waits at its head",
        facts={"queue": queue, "head": head},
    )


def would_delay(head: str, at: int | None) -> Reason:
    """The workload fits, but would delay a gang that has waited longer. No time is named: it changes all the time.

    ``at``: when that gang should be able to start; None: unknown.
    """
    return Reason(
        code=ReasonCode.RESERVED,
        message=f"fits, but would still be there when {head}, which has waited longest, can start in its place",
        facts={"for": head} if at is None else {"for": head, "at": at},
    )


def gang_too_large(*, queue: QueueName, limit: int, pods: int) -> Reason:
    """access.maxGang."""
    return Reason(
        code=ReasonCode.GANG_TOO_LARGE,
        message=f"{counted(pods, 'pod')} asked, and queue {queue} allows {limit} in one gang",
        facts={"queue": queue, "limit": limit, "asked": pods},
    )


def pending_limit(*, queue: QueueName, limit: int) -> Reason:
    """access.maxPending."""
    return Reason(
        code=ReasonCode.PENDING_LIMIT,
        message=f"queue {queue} considers {limit} waiting workloads at a time, and as many came earlier",
        facts={"queue": queue, "limit": limit},
    )


def making_room(*, pods: int, names: Sequence[str]) -> Reason:
    """Victims are leaving for it."""
    first = sorted(set(names))
    return Reason(
        code=ReasonCode.MAKING_ROOM,
        message=f"waits until {counted(pods, 'pod')} of {listed(first)} {'is' if pods == 1 else 'are'} gone",
        facts={"pods": pods, "victims": first},
    )


def user_limit(*, queue: QueueName, limit: int, user: str) -> Reason:
    """access.maxPendingPerUser."""
    return Reason(
        code=ReasonCode.PENDING_LIMIT,
        message=f"queue {queue} considers {limit} waiting workloads of one user at a time, and {user} has as many "
        f"that came earlier",
        facts={"queue": queue, "limit": limit, "user": user},
    )


def nothing_missing() -> Reason:
    """It has all the seats it can use."""
    return Reason(code=ReasonCode.NOTHING_MISSING, message="every pod that needs a seat has one")


def _shape(takes: Resources) -> str:
    rest = Resources({name: units for name, units in takes.items() if name != "pods"})
    return str(rest) if rest else "no requests"

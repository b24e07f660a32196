"""Why a workload waits: the one sentence for each code that the engine gives.

The sentence of ``QueueLimit`` is the ledger's as well: ``queues.quota.usage``.

Every builder puts its numbers into ``facts`` (JSON-able, amounts in units of ``queues.resources``) and the
same numbers, as people write them, into ``message``. Messages may improve.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from queues.errors import MusterError
from queues.plan import Reason
from queues.quota.access import AccessRefusal
from queues.quota.budgets import hours_text
from queues.quota.queue import RunLimit
from queues.quota.queue_policies import PluginProblem
from queues.quota.tree import BudgetOnPath, QueueHold
from queues.quota.usage import LimitHit, UserLimitHit
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.text_format import counted, listed, rfc3339
from queues.workload import AdmissionId, FlavorName, QueueName, Workload

#: Of workloads that never fit, come after others or wait for a budget: they keep nothing out that could start.
_APART: Final = " that cannot be admitted as things are"
#: What a Job waits for that may be there for some of its pods.
_FOR_ROOM: Final = (ReasonCode.QUEUE_LIMIT, ReasonCode.USER_LIMIT, ReasonCode.NO_FIT, ReasonCode.NEVER_FITS)


def queue_limit(hit: LimitHit) -> Reason:
    """A limit on the queue's path."""
    return _reason(
        ReasonCode.QUEUE_LIMIT,
        hit.message,
        queue=hit.queue,
        flavor=hit.account.flavor,
        resource=hit.account.resource,
        limit=hit.limit,
        used=hit.used,
        kept=hit.kept,
        asked=hit.asked,
        over=hit.short,
    )


def room_left(reason: Reason, workload: Workload) -> int | None:
    """Pods of a workload that a refusal leaves room for. None if it does not say.

    Of what never fits: in an empty cluster.
    """
    facts = reason.facts
    if "limit" not in facts or "resource" not in facts:
        fit = facts.get("fit")
        return fit if isinstance(fit, int) else None
    if len(workload.pod_sets) != 1 or not (each := workload.pod_sets[0].takes.get(facts["resource"])):
        return None
    used = 0 if reason.code is ReasonCode.NEVER_FITS else facts.get("used", 0)
    left: int = facts["limit"] - used - facts.get("kept", 0)
    return max(0, left) // each


def with_room_alone(reason: Reason, workload: Workload) -> Reason:
    """The reason, with how many pods there is room for if the workload is a gang by default only and waits for room."""
    if not workload.whole_by_default or workload.minimum <= 1 or reason.code not in _FOR_ROOM:
        return reason
    of, room = sum(pods.wanted_count() for pods in workload.pod_sets), room_left(reason, workload)
    if reason.code is ReasonCode.NEVER_FITS and not room:
        return reason
    return replace(reason, facts={**reason.facts, "alone": None if room is None else min(room, of), "of": of})


def no_fit(
    *,
    pods: int,
    takes: Resources,
    fit: int,
    nodes: int,
    excluded: Mapping[str, int],
    in_one_island: bool = False,
) -> Reason:
    """Not enough room.

    ``fit`` of ``pods`` have a place. ``excluded``: how many nodes were left out, and why.
    """
    left_out = ", ".join(f"{count} {why}" for why, count in excluded.items() if count)
    shape = shape_text(takes, in_one_island=in_one_island)
    message = f"{fit} of {counted(pods, 'pod')} of {shape} fit on {nodes} nodes"
    message += f" ({left_out})" if left_out else ""
    facts = {"asked": pods, "takes": dict(takes), "fit": fit, "nodes": nodes, "excluded": dict(excluded)}
    return _reason(ReasonCode.NO_FIT, message, **facts)


def rules_no_fit(
    *,
    pods: int,
    takes: Resources,
    fit: int,
    nodes: int,
    excluded: Mapping[str, int],
    by_rules: Mapping[str, int],
    domains: tuple[str, int, int] | None,
) -> Reason:
    """Enough room, but not where the pods' rules about other pods allow them.

    ``fit`` of ``pods`` have a place; ``excluded``: how many nodes are left out for the next one, and why; ``by_rules``:
    for their rules. ``domains``: where anti-affinity keeps the pods off one another, its label key, the domains that
    they need, and those with room.
    """
    refused = {why: count for why, count in by_rules.items() if count}
    reason = no_fit(pods=pods, takes=takes, fit=fit, nodes=nodes, excluded={**excluded, **refused})
    reason = replace(reason, facts={**reason.facts, "by_rules": refused})
    if domains is None:
        return reason
    key, needed, fitting = domains
    more = f"anti-affinity by {key}: {counted(needed, 'pod')} need {needed} domains, {fitting} have room"
    return _extended(reason, more, key=key, needed=needed, fitting=fitting)


def refused_everywhere(nodes: int) -> Reason:
    """The stock scheduler refused pods of the workload on all nodes that they may use."""
    places = f"all {nodes} nodes" if nodes > 1 else "the only node"
    message = (
        f"refused by the stock scheduler on {places} that its pods may use; it is tried again when one of them or the "
        "object changes"
    )
    return _reason(ReasonCode.REFUSED, message, nodes=nodes)


def beside_left_out(reason: Reason, left_out: Mapping[str, int]) -> Reason:
    """The reason, with the nodes that Reservations, NodeDrains or refusals leave out: how many, by why."""
    told = {why: count for why, count in left_out.items() if count}
    if not told:
        return reason
    nodes = ", ".join(f"{counted(count, 'node')} {why}" for why, count in told.items())
    message = f"{reason.message} ({nodes})"
    return replace(reason, message=message, facts={**reason.facts, "left_out": told})


def topology_no_fit(
    *,
    level: str,
    pods: int,
    takes: Resources,
    fit: int,
    domain: str | None,
    domains: int,
    in_one_island: bool = False,
) -> Reason:
    """No domain of a required level holds all pods.

    ``domain`` is the one with most room, for ``fit`` of them.
    """
    if domain is None:
        text = f"no usable node belongs to a domain of {level}"
    else:
        have = "has" if pods == 1 else "have"
        shape = shape_text(takes, in_one_island=in_one_island)
        text = f"{counted(pods, 'pod')} of {shape} {have} to be in one {level}; "
        text += f"of {domains} the best, {domain}, holds {fit}"
    facts = {"level": level, "asked": pods, "takes": dict(takes), "fit": fit}
    return _reason(ReasonCode.TOPOLOGY_NO_FIT, text, **facts, domain=domain, domains=domains)


def parts_no_fit(
    *, level: str, size: int, parts: int, fit: int, takes: Resources, inside: str | None
) -> Reason:
    """Enough room, but not for whole parts of the pod set in one domain each.

    ``fit`` of ``parts`` have a place; all of them have to be in one domain of ``inside``, if that is not None.
    """
    together = f", all in one {inside}" if inside else ""
    pods = f"{counted(size, 'pod')} of {shape_text(takes)}"
    message = f"{parts} parts of {pods} have to be in one {level} each{together}; {fit} of them fit"
    facts = {"level": level, "size": size, "asked": parts, "fit": fit, "takes": dict(takes)}
    return _reason(ReasonCode.TOPOLOGY_NO_FIT, message, **facts, inside=inside)


def together_no_fit(*, level: str | None, sets: Mapping[str, int], domains: int) -> Reason:
    """Pod sets that have to be in one domain of a level do not fit into any together."""
    pods = " and ".join(f"{counted(count, 'pod')} of {name}" for name, count in sets.items())
    where = f"in one {level} together; none of {domains} holds them" if level else "placed together"
    message = f"{pods} have to be {where}"
    return _reason(ReasonCode.TOPOLOGY_NO_FIT, message, level=level, sets=dict(sets), domains=domains)


def never_fits(message: str, **facts: Any) -> Reason:
    """Nothing that ends can let it in. ``message`` begins with what is asked and what there is at most."""
    return _reason(ReasonCode.NEVER_FITS, message, **facts)


def not_split(reason: Reason, fits: Mapping[FlavorName, int]) -> Reason:
    """The same refusal, where the flavors together would have room: pods of one set stay in one flavor."""
    rooms = ", ".join(f"{fit} in {flavor}" for flavor, fit in fits.items())
    message = f"there is room for {rooms}, but pods of one set are all of one flavor"
    return _extended(reason, message, flavors=dict(fits))


def stopped(reason: Reason, at: FlavorName, other: FlavorName) -> Reason:
    """The same refusal, where a later flavor has room that the queue's choice of flavors does not come to."""
    message = f"{other} has room, but the queue waits in {at} until others make room there "
    message += "(flavorChoice.beforePreempting: stop)"
    return _extended(reason, message, flavor=at, room=other)


def no_flavor(queue: QueueName, listed: Sequence[FlavorName], policy: str) -> Reason:
    """The queue's choice of flavors leaves none for these pods."""
    message = f"none of the flavors {', '.join(listed)} of queue {queue} is for these pods "
    message += f"(flavorChoice.by: {policy})"
    return _reason(ReasonCode.NO_FIT, message, queue=queue, flavors=list(listed), policy=policy)


def scattered(level: str, domains: Sequence[str]) -> Reason:
    """The pods that have seats already are in several domains of the level that is required, or in none."""
    where = ", ".join(domains) or "none"
    message = f"the pods that run are not in one {level} but in {where}, so no further one can join them"
    return _reason(ReasonCode.TOPOLOGY_NO_FIT, message, level=level, domains=list(domains))


def unknown_level(level: str, known: Sequence[str]) -> Reason:
    """A topology level that nothing describes."""
    message = f"no Topology has a level {level}; expected one of {', '.join(known)}"
    return _reason(ReasonCode.UNKNOWN_LEVEL, message, level=level, known=list(known))


def unknown_resource(resource: str, known: Iterable[str]) -> Reason:
    """A resource that no node offers, usable or not."""
    names = sorted(known)
    near = get_close_matches(resource, names, n=1, cutoff=0.8) or [
        each for each in names if each.rpartition("/")[2] == resource
    ]
    meant = f"did you mean {near[0]}? " if len(near) == 1 else ""
    message = f"no node offers {resource}; {meant}nodes offer {', '.join(names) or 'nothing'}"
    return _reason(ReasonCode.UNKNOWN_RESOURCE, message, resource=resource, known=names)


def not_allowed(queue: QueueName, namespace: str, refusal: AccessRefusal) -> Reason:
    """access.namespaceSelector."""
    facts = {"by": refusal.by, "namespace": namespace, "selector": refusal.selector, "labels": refusal.labels}
    return _reason(ReasonCode.NOT_ALLOWED, refusal.message(namespace, queue), queue=queue, **facts)


def queue_paused(queue: QueueName, by: QueueName) -> Reason:
    """Admissions are stopped here or above."""
    at = "" if by == queue else f" (at {by})"
    return _reason(ReasonCode.QUEUE_PAUSED, f"queue {queue} is paused{at}", queue=queue, by=by)


def budget_spent(queue: QueueName, spent: BudgetOnPath) -> Reason:
    """A budget here or above is used up, and holds."""
    above = "" if spent.queue == queue else f", above {queue},"
    resource, day = spent.spent.resource, spent.spent.ends_on
    hours = hours_text(resource, spent.budget.amount(resource))
    message = (
        f"queue {spent.queue}{above} has used up its budget of {hours} hours of {resource} for this "
        f"{spent.budget.per}; the next one begins on {day}"
    )
    facts = {"by": spent.queue, "resource": resource, "hours": hours, "day": day}
    return _reason(ReasonCode.BUDGET_SPENT, message, queue=queue, **facts)


def plugin_not_usable(queue: QueueName, problem: PluginProblem) -> Reason:
    """Nothing is admitted while a plug-in that serves the queue cannot be used."""
    message = f"{problem.message}. Until it can, nothing is admitted to queue {queue}"
    return _reason(
        ReasonCode.PLUGIN_NOT_USABLE,
        message,
        queue=queue,
        by=problem.queue,
        field=problem.sort.value,
        plugin=problem.plugin,
    )


def queue_on_hold(queue: QueueName, hold: QueueHold) -> Reason:
    """New work is not admitted here or above."""
    at = "" if hold.queue == queue else f" (at {hold.queue})"
    message = f"queue {queue} admits no new work{at}: {hold.reason}"
    return _reason(ReasonCode.QUEUE_ON_HOLD, message, queue=queue, by=hold.queue)


def queue_closed(queue: QueueName, by: QueueName) -> Reason:
    """Nothing new is admitted here or above."""
    at = "" if by == queue else f" (at {by})"
    return _reason(ReasonCode.QUEUE_CLOSED, f"queue {queue} is closed{at}", queue=queue, by=by)


def unknown_queue(queue: QueueName) -> Reason:
    """No such queue."""
    return _reason(ReasonCode.UNKNOWN_QUEUE, f"queue {queue} does not exist", queue=queue)


def queue_broken(queue: QueueName, problems: Sequence[MusterError]) -> Reason:
    """The tree is wrong at this queue or above."""
    texts = [str(problem) for problem in problems]
    message = f"queue {queue} cannot be used: " + " ".join(texts)
    return _reason(ReasonCode.QUEUE_BROKEN, message, queue=queue, problems=texts)


def queue_not_leaf(queue: QueueName, children: Sequence[QueueName]) -> Reason:
    """Only queues without children hold workloads."""
    message = f"queue {queue} takes no workloads itself; name a queue below it"
    if children:
        message = f"queue {queue} has queues below it and takes no workloads itself"
        message += f"; name one below it, such as {children[0]}"
    return _reason(ReasonCode.QUEUE_NOT_LEAF, message, queue=queue, children=list(children))


def not_enough_pods(*, exist: int, minimum: int, task: str | None = None) -> Reason:
    """Fewer pods exist, or are wanted, than must start together: of the gang, or of one task of it."""
    of_task = f" of task {task}" if task is not None else ""
    message = f"{exist} of {minimum} pods{of_task} exist"
    return _reason(ReasonCode.NOT_ENOUGH_PODS, message, wanted=exist, minimum=minimum)


def quota_held(lack: Reason, queue: QueueName, takes: Resources, until: int) -> Reason:
    """Quota is held for a gang that lacks pods."""
    message = f"{takes} of queue {queue} are held for it until {rfc3339(until)}"
    return _extended(lack, message, queue=queue, held=dict(takes), until=until)


def hold_ended(lack: Reason, until: int) -> Reason:
    """Quota was held for a gang that lacks pods still."""
    message = f"quota was held for it until {rfc3339(until)} and then given back; it is held again for a new PodGroup"
    return _extended(lack, message, until=until)


def backoff(until: int) -> Reason:
    """Not before a time. No seconds left are named, so that the reason does not change every second."""
    return _reason(ReasonCode.BACKOFF, "not tried again yet after it was taken back", until=until)


def draining(admission: AdmissionId) -> Reason:
    """The pods of an earlier admission are not gone yet."""
    message = f"waits until the pods of admission {admission} are gone"
    return _reason(ReasonCode.DRAINING, message, admission=admission)


def behind(queue: QueueName, head: str) -> Reason:
    """A strict queue is held up by its head."""
    message = f"queue {queue} is strictly first in, first out, and {head} waits at its head"
    return _reason(ReasonCode.BEHIND, message, queue=queue, head=head)


def takes_turns(queue: QueueName) -> Reason:
    """Trying all that waits in a queue would take too long. No numbers are named: they change every minute."""
    message = (
        f"so many different workloads wait in queue {queue} that only some are tried now, others every minute"
    )
    return _reason(ReasonCode.TAKES_TURNS, message, queue=queue)


def would_delay(head: str, at: int | None, why: str) -> Reason:
    """The workload fits, but would delay a gang that has waited longer. No time is in the message, so that it does not
    change all the time: people are shown that of the facts.

    ``at``: when that gang should be able to start; None if unknown, or now. ``why``: why this one would be there still,
    and what would let it pass; "": nothing would.
    """
    message = f"there is room, but it is kept for {head}, which has waited longest"
    message += f": {why}" if why else ""
    return _reason(ReasonCode.RESERVED, message, **{"for": head} | ({} if at is None else {"at": at}))


def kept_together(head: str) -> Reason:
    """The workload fits, but one before it in the line needs this room with what comes back soon."""
    message = (
        f"there is room, but it is kept for {head}, which needs it together with that of pods which end now"
    )
    return _reason(ReasonCode.RESERVED, message, **{"for": head, "soon": True})


def room_is_coming(reason: Reason) -> Reason:
    """The reason of a workload for which free room is kept until pods that are ending are gone."""
    return replace(
        reason,
        message=f"{reason.message}; enough when the pods that end now are gone: what is free is kept for it",
    )


def gang_too_large(*, queue: QueueName, limit: int, pods: int) -> Reason:
    """access.maxGang."""
    message = f"{counted(pods, 'pod')} asked, and queue {queue} allows {limit} in one gang"
    return _reason(ReasonCode.GANG_TOO_LARGE, message, queue=queue, limit=limit, asked=pods)


def run_time_too_long(limit: RunLimit, declared: int) -> Reason:
    """access.maxRunTime. ``declared``: seconds."""
    message = f"{limit.refusal(declared)}; declare a shorter one, or use another queue"
    facts = {"queue": limit.queue, "limit": limit.seconds, "asked": declared}
    return _reason(ReasonCode.RUN_TIME_TOO_LONG, message, **facts)


def pending_limit(*, queue: QueueName, limit: int, apart: bool = False) -> Reason:
    """access.maxPending. ``apart``: of those that cannot be admitted as things are, which count by themselves."""
    which = _APART if apart else ""
    message = f"queue {queue} considers {limit} waiting workloads{which} at a time, and as many came earlier"
    return _reason(ReasonCode.PENDING_LIMIT, message, queue=queue, limit=limit)


def making_room(*, pods: int, names: Sequence[str]) -> Reason:
    """Victims are leaving for it."""
    first = sorted(set(names))
    message = f"waits until {counted(pods, 'pod')} of {listed(first)} {'is' if pods == 1 else 'are'} gone"
    return _reason(ReasonCode.MAKING_ROOM, message, pods=pods, victims=first)


def user_limit(*, queue: QueueName, limit: int, user: str, apart: bool = False) -> Reason:
    """access.maxPendingPerUser. ``user`` "": workloads without a known user count as one user's. ``apart``: of
    those that cannot be admitted as things are, which count by themselves."""
    whose, which = user or "work without a known user", _APART if apart else ""
    message = (
        f"queue {queue} considers {limit} waiting workloads{which} of one user at a time, "
        f"and {whose} has as many "
    )
    return _reason(
        ReasonCode.PENDING_LIMIT, message + "that came earlier", queue=queue, limit=limit, user=user
    )


def use_per_user(hit: UserLimitHit) -> Reason:
    """access.maxPerUser."""
    return _reason(
        ReasonCode.USER_LIMIT,
        hit.message,
        queue=hit.queue,
        user=hit.user,
        resource=hit.account.resource,
        limit=hit.limit,
        used=hit.used,
        asked=hit.asked,
    )


def nothing_missing() -> Reason:
    """It has all the seats it can use."""
    return _reason(ReasonCode.NOTHING_MISSING, "every pod that needs a seat has one")


def _reason(code: ReasonCode, message: str, /, **facts: Any) -> Reason:
    return Reason(code=code, message=message, facts=facts)


def _extended(reason: Reason, message: str, **facts: Any) -> Reason:
    return replace(reason, message=f"{reason.message}; {message}", facts={**reason.facts, **facts})


def shape_text(takes: Resources, *, in_one_island: bool = False) -> str:
    """What one pod takes, in a sentence."""
    if in_one_island:
        return f"{shape_text(takes)} (devices in one NVLink island)"
    rest = Resources({name: units for name, units in takes.items() if name != "pods"})
    return str(rest) if rest else "no requests"

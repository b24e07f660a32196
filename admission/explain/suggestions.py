"""What would let one pending workload in: the smallest changes, each tried before it is told.

A change is not guessed: it is made in a copy of the snapshot, and told only if ``decide`` then lets the workload
in, or takes others back for it. What is told holds for the workload alone, in the world as it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from admission.engine.snapshot import Snapshot
from admission.explain.fewest_endings import fewest, holding, remaining
from admission.explain.quota_raises import Raised, capability_raised, deserved_raised
from admission.explain.what_if import WhatIf, WhatIfOutcome
from queues.plan import Reason
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.reason_codes import ReasonCode
from queues.wording import counted, duration, listed
from queues.workload import AdmissionId, Workload

#: So many numbers of pods above those that fit are tried.
_MORE_TRIED = 4


class SuggestionKind(StrEnum):
    """What has to change. In the order in which changes are told: what takes care of itself comes first."""

    #: Nothing: it goes in when it is its turn.
    TURN = "turn"
    #: Time has to pass.
    TIME = "time"
    #: Somebody who runs has to end.
    END = "end"
    #: The workload has to ask for less.
    WORKLOAD = "workload"
    #: Its priority has to be higher.
    PRIORITY = "priority"
    #: A queue has to deserve more.
    DESERVED = "deserved"
    #: A queue has to be allowed more.
    CAPABILITY = "capability"
    #: An administrator has to do something else to a queue.
    QUEUE = "queue"
    #: The cluster has to be larger.
    NODES = "nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One thing that would let a workload in, alone."""

    kind: SuggestionKind
    #: As a sentence without its full stop.
    message: str
    #: The numbers, JSON-able; amounts in the units of ``queues.resources``, times in seconds.
    facts: Mapping[str, Any] = field(default_factory=dict)


def suggestions(world: Snapshot, workload: Workload, reason: Reason) -> list[Suggestion]:
    """Changes that would let the workload in, each alone; the smallest first."""
    if (only := _by_hand(world, workload, reason)) is not None:
        return [only]
    trying, now = WhatIf.of(world, workload)
    if now or workload.key in world.claims:
        return [_its_turn(trying, now)]
    refused = now.reason or reason
    raised = capability_raised(trying, refused)
    found = [
        *_time(trying),
        *_endings(trying, refused),
        *_less(trying, refused),
        *_priority(trying),
        *_deserved(trying),
        *((_capability(raised, raised.outcome),) if raised is not None and raised.outcome else ()),
    ]
    return found or [*_more_than_one(trying, refused, raised)]


def _more_than_one(trying: WhatIf, refused: Reason, raised: Raised | None) -> Iterator[Suggestion]:
    """Nothing does alone: higher limits, and whose end or what nodes it then takes."""
    if raised is None:
        yield from _nodes(trying, refused)
        return
    there, now = WhatIf.of(replace(trying.world, queues=raised.queues), trying.workload)
    if now.reason is None:
        return
    for then in (*_endings(there, now.reason), *_nodes(there, now.reason)):
        yield replace(
            _capability(raised, now),
            message=f"{raised.told}, and {then.message}",
            facts={**then.facts, **raised.facts},
        )
        return


def _nodes(trying: WhatIf, refused: Reason) -> Iterator[Suggestion]:
    """Nothing on the nodes that there are would do."""
    workload, table = trying.workload, trying.world.nodes
    if refused.code == ReasonCode.QUEUE_LIMIT and refused.facts["queue"] == ROOT:
        account = Account(refused.facts["flavor"], refused.facts["resource"])
        more = account.amount(refused.facts["over"])
        yield Suggestion(kind=SuggestionKind.NODES, message=f"nodes with {more} more, at the least", facts={})
        return
    if refused.code not in (ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT):
        return
    for pods in workload.pod_sets:
        mask = table.layout.allowed(pods.nodes)
        if not holding(table, pods.takes, mask, empty=True).any():
            message = f"nodes that can hold a pod of {pods.takes}: none of those it may use can, even empty"
            yield Suggestion(kind=SuggestionKind.NODES, message=message, facts={"takes": dict(pods.takes)})
            return
    yield Suggestion(kind=SuggestionKind.NODES, message="more nodes that its pods may use")


def _by_hand(world: Snapshot, workload: Workload, reason: Reason) -> Suggestion | None:
    """What stands against a workload before anything is tried."""
    if workload.obstacle is not None:
        return Suggestion(
            kind=SuggestionKind.WORKLOAD, message=f"what is wrong with it corrected: {reason.message}"
        )
    facts = reason.facts
    queue = facts.get("by", facts.get("queue", workload.queue))
    match reason.code:
        case ReasonCode.BACKOFF:
            seconds = max(0, workload.not_before - world.now)
            return Suggestion(
                kind=SuggestionKind.TIME,
                message=f"in {duration(seconds)} it is tried again",
                facts={"seconds": seconds},
            )
        case ReasonCode.DRAINING:
            return Suggestion(
                kind=SuggestionKind.TIME, message=f"when the pods of admission {facts['admission']} are gone"
            )
        case ReasonCode.QUEUE_PAUSED:
            told = f"queue {queue} resumed (muster resume {queue})"
        case ReasonCode.QUEUE_CLOSED:
            told = f"queue {queue} opened again"
        case ReasonCode.UNKNOWN_QUEUE:
            told = f"a queue named {queue}"
        case ReasonCode.QUEUE_BROKEN | ReasonCode.QUEUE_NOT_LEAF:
            told = f"another queue, or {queue} corrected: {reason.message}"
        case ReasonCode.GANG_TOO_LARGE:
            told = f"access.maxGang {facts['asked']} instead of {facts['limit']} in queue {queue}"
        case ReasonCode.PENDING_LIMIT:
            told = f"fewer of those who came earlier, or access.maxPending above {facts['limit']} in {queue}"
        case ReasonCode.NOT_ENOUGH_PODS:
            missing = facts["minimum"] - facts["wanted"]
            told = f"{counted(missing, 'pod')} more, or a minimum of {facts['wanted']}"
            return Suggestion(kind=SuggestionKind.WORKLOAD, message=told, facts={"pods": missing})
        case _:
            return None
    return Suggestion(kind=SuggestionKind.QUEUE, message=told, facts={"queue": queue})


def _its_turn(trying: WhatIf, now: WhatIfOutcome) -> Suggestion:
    """Alone it would get on."""
    world, claim = trying.world, trying.world.claims.get(trying.workload.key)
    if claim is not None:
        leaving = [each for each in claim.victims if each in world.admissions]
        told = "nothing but the next turn: its place is free"
        if leaving:
            told = f"when the pods of {listed([_holder(world, each) for each in leaving])} are gone"
        return Suggestion(kind=SuggestionKind.TURN, message=told, facts={"admissions": leaving})
    told = "it would go in now" if now.goes_in else _taken_back(trying, now)
    return Suggestion(
        kind=SuggestionKind.TURN,
        message=f"nothing but its turn: alone, {told}",
        facts={"victims": len(now.victims)},
    )


def _time(trying: WhatIf) -> Iterator[Suggestion]:
    """It will have waited long enough for a place to be cleared."""
    workload, world = trying.workload, trying.world
    after_seconds = trying.tree.policy(workload.queue).clear_after
    since = workload.waiting_since or workload.created
    if after_seconds is None or not since:
        return
    moment = since + after_seconds
    if moment <= world.now:
        return
    outcome = trying.outcome(now=moment)
    if outcome:
        seconds = moment - world.now
        yield Suggestion(
            kind=SuggestionKind.TIME,
            message=f"in {duration(seconds)} it will have waited {duration(after_seconds)}: "
            f"then {_taken_back(trying, outcome)}",
            facts={"seconds": seconds, "victims": len(outcome.victims)},
        )


def _endings(trying: WhatIf, refused: Reason) -> Iterator[Suggestion]:
    """The fewest of those who run whose end would do."""
    found = fewest(trying, refused)
    if found is None:
        return
    world = trying.world
    who = listed([_holder(world, each) for each in found.admissions])
    at_most = _at_most(world, found.admissions)
    told = f"{found.where} when {who} end" if found.where else f"when {who} end"
    told += "s" if len(found.admissions) == 1 else ""
    yield Suggestion(
        kind=SuggestionKind.END,
        message=told + (f", at most {duration(at_most)}" if at_most is not None else ""),
        facts={"admissions": list(found.admissions), "domain": found.where, "seconds": at_most},
    )


def _at_most(world: Snapshot, ends: Sequence[AdmissionId]) -> int | None:
    """Seconds until all of them have run as long as they declared; None: somebody declared nothing."""
    times = [remaining(world, world.admissions[each]) for each in ends]
    return None if None in times else max(time for time in times if time is not None)


def _less(trying: WhatIf, refused: Reason) -> Iterator[Suggestion]:
    """Asking for less: a level preferred, not required; or as many pods as fit."""
    workload = trying.workload
    required = sorted({pods.required_topology for pods in workload.pod_sets if pods.required_topology})
    if required:
        freer = tuple(
            replace(
                pods,
                required_topology=None,
                preferred_topology=pods.required_topology or pods.preferred_topology,
            )
            for pods in workload.pod_sets
        )
        if trying.instead(pod_sets=freer).goes_in:
            yield Suggestion(
                kind=SuggestionKind.WORKLOAD,
                message=f"{', '.join(required)} preferred instead of required",
                facts={"levels": required},
            )
    fit = refused.facts.get("fit")
    if len(workload.pod_sets) == 1 and isinstance(fit, int) and 0 < fit < workload.minimum:
        (pods,) = workload.pod_sets
        # So many fit as the refusal has it; in another flavor, say, a few more may.
        for count in sorted({fit, *range(workload.minimum - 1, fit, -1)[:_MORE_TRIED]}, reverse=True):
            fewer = (replace(pods, count=count, minimum=min(pods.minimum, count)),)
            if trying.instead(pod_sets=fewer, minimum=count).goes_in:
                yield Suggestion(
                    kind=SuggestionKind.WORKLOAD,
                    message=f"{counted(count, 'pod')} instead of {workload.minimum}",
                    facts={"pods": count, "minimum": workload.minimum},
                )
                return


def _priority(trying: WhatIf) -> Iterator[Suggestion]:
    """The lowest priority at which somebody would be taken back for it."""
    workload, world = trying.workload, trying.world
    # Whoever else may be taken back for it by priority.
    policy = trying.tree.policy(workload.queue)
    others = policy.reclaim == "lower-priority" or policy.borrow_max_priority is not None
    held = {each.priority for each in world.admissions.values() if others or each.queue == workload.queue}
    steps = {priority + 1 for priority in held}
    if policy.within_queue == "lower-or-newer-equal":
        steps |= held
    higher = sorted(priority for priority in steps if priority > workload.priority)
    for priority in higher[:4]:
        outcome = trying.instead(priority=priority)
        if outcome:
            yield Suggestion(
                kind=SuggestionKind.PRIORITY,
                message=f"priority {priority} instead of {workload.priority}: {_taken_back(trying, outcome)}",
                facts={"priority": priority, "victims": len(outcome.victims)},
            )
            return


def _deserved(trying: WhatIf) -> Iterator[Suggestion]:
    """More deserved, by its queue or by those above as well, so that lent quota is got back for it."""
    for raised in deserved_raised(trying):
        if raised.outcome:
            yield Suggestion(
                kind=SuggestionKind.DESERVED,
                message=f"{raised.told}: {_taken_back(trying, raised.outcome)}",
                facts={**raised.facts, "victims": len(raised.outcome.victims)},
            )
            return


def _capability(raised: Raised, outcome: WhatIfOutcome) -> Suggestion:
    """Limits raised, and who would have to go then."""
    told = f"{raised.told}: {_taken_back(raised.trying, outcome)}" if outcome.victims else raised.told
    return Suggestion(kind=SuggestionKind.CAPABILITY, message=told, facts=raised.facts)


def _holder(world: Snapshot, id_: AdmissionId) -> str:
    admission = world.admissions[id_]
    return f"{admission.workload.kind}/{admission.namespace}/{admission.name}"


def _taken_back(trying: WhatIf, outcome: WhatIfOutcome) -> str:
    """Who would have to go, by queue: ``3 of tenant-b are taken back for it``."""
    if outcome.goes_in:
        return "it goes in"
    counts: dict[str, int] = {}
    for evict in outcome.victims:
        queue = trying.world.admissions[evict.admission].queue
        counts[queue] = counts.get(queue, 0) + 1
    own = trying.workload.queue
    told = [
        f"{count} of {'its own queue' if name == own else name}" for name, count in sorted(counts.items())
    ]
    return f"{' and '.join(told)} {'is' if len(outcome.victims) == 1 else 'are'} evicted for it"

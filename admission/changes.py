"""What would let one pending workload in: the smallest changes, each tried before it is told.

A change is not guessed: it is made in a copy of the snapshot, and told only if ``decide`` then lets the workload
in, or takes others back for it. What is told holds for the workload alone, in the world as it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from admission.endings import fewest_endings, holding, remaining
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.plan import Reason
from admission.engine.reasons import Code
from admission.engine.snapshot import Snapshot
from admission.trying import Outcome, Trying, is_scarce, moved_nodes, with_limit
from admission.words import amount, duration, many, names
from queues.account import Account
from queues.queue import ROOT
from queues.workload import NO_FLAVOR, AdmissionId, QueueName, Workload


class Kind(StrEnum):
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
class Change:
    """One thing that would let a workload in, alone."""

    kind: Kind
    #: As a sentence without its full stop.
    message: str
    #: The numbers, JSON-able; amounts in the units of ``queues.resources``, times in seconds.
    facts: Mapping[str, Any] = field(default_factory=dict)


def changes(world: Snapshot, workload: Workload, reason: Reason) -> list[Change]:
    """Changes that would let the workload in, each alone; the smallest first."""
    if (only := _by_hand(world, workload, reason)) is not None:
        return [only]
    alone = replace(world, pending={workload.key: workload})
    plan, memo = decide(alone, Memo())
    trying = Trying(alone, workload, memo)
    now = trying.outcome()
    if now or workload.key in world.claims:
        return [_its_turn(trying, now)]
    refused = plan.reasons.get(workload.key, reason)
    found = [
        *_time(trying),
        *_endings(trying, refused),
        *_less(trying, refused),
        *_priority(trying),
        *_deserved(trying),
        *_capability(trying, refused),
    ]
    return found or [*_nodes(world, workload, refused)]


def _nodes(world: Snapshot, workload: Workload, refused: Reason) -> Iterator[Change]:
    """Nothing on the nodes that there are would do."""
    if refused.code not in (Code.NO_FIT, Code.TOPOLOGY_NO_FIT):
        return
    for pods in workload.pod_sets:
        mask = world.nodes.layout.allowed(pods.nodes)
        if not holding(world.nodes, pods.takes, mask, empty=True).any():
            message = f"nodes that can hold a pod of {pods.takes}: none of those it may use can, even empty"
            yield Change(kind=Kind.NODES, message=message, facts={"takes": dict(pods.takes)})
            return
    yield Change(kind=Kind.NODES, message="more nodes that its pods may use")


def _by_hand(world: Snapshot, workload: Workload, reason: Reason) -> Change | None:
    """What stands against a workload before anything is tried."""
    if workload.obstacle is not None:
        return Change(kind=Kind.WORKLOAD, message=f"what is wrong with it corrected: {reason.message}")
    facts = reason.facts
    queue = facts.get("by", facts.get("queue", workload.queue))
    match reason.code:
        case Code.BACKOFF:
            seconds = max(0, workload.not_before - world.now)
            return Change(
                kind=Kind.TIME,
                message=f"in {duration(seconds)} it is tried again",
                facts={"seconds": seconds},
            )
        case Code.DRAINING:
            return Change(kind=Kind.TIME, message=f"when the pods of admission {facts['admission']} are gone")
        case Code.QUEUE_PAUSED:
            told = f"queue {queue} resumed (muster resume {queue})"
        case Code.QUEUE_CLOSED:
            told = f"queue {queue} opened again"
        case Code.UNKNOWN_QUEUE:
            told = f"a queue named {queue}"
        case Code.QUEUE_BROKEN | Code.QUEUE_NOT_LEAF:
            told = f"another queue, or {queue} corrected: {reason.message}"
        case Code.GANG_TOO_LARGE:
            told = f"access.maxGang {facts['asked']} instead of {facts['limit']} in queue {queue}"
        case Code.PENDING_LIMIT:
            told = f"fewer of those who came earlier, or access.maxPending above {facts['limit']} in {queue}"
        case Code.NOT_ENOUGH_PODS:
            missing = facts["minimum"] - facts["wanted"]
            told = f"{many(missing, 'pod')} more, or a minimum of {facts['wanted']}"
            return Change(kind=Kind.WORKLOAD, message=told, facts={"pods": missing})
        case _:
            return None
    return Change(kind=Kind.QUEUE, message=told, facts={"queue": queue})


def _its_turn(trying: Trying, now: Outcome) -> Change:
    """Alone it would get on."""
    world, claim = trying.world, trying.world.claims.get(trying.workload.key)
    if claim is not None:
        leaving = [each for each in claim.victims if each in world.admissions]
        told = "nothing but the next turn: its place is free"
        if leaving:
            told = f"when the pods of {names([_holder(world, each) for each in leaving])} are gone"
        return Change(kind=Kind.TURN, message=told, facts={"admissions": leaving})
    told = "it would go in now" if now.goes_in else _taken_back(trying, now)
    return Change(
        kind=Kind.TURN,
        message=f"nothing but its turn: alone, {told}",
        facts={"victims": len(now.victims)},
    )


def _time(trying: Trying) -> Iterator[Change]:
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
        yield Change(
            kind=Kind.TIME,
            message=f"in {duration(seconds)} it will have waited {duration(after_seconds)}: "
            f"then {_taken_back(trying, outcome)}",
            facts={"seconds": seconds, "victims": len(outcome.victims)},
        )


def _endings(trying: Trying, refused: Reason) -> Iterator[Change]:
    """The fewest of those who run whose end would do."""
    world = trying.world
    found = fewest_endings(world, trying.workload, trying.tree, refused)
    if found is None:
        return
    moved = [(world.admissions[each], -1) for each in found.admissions]
    left = {key: each for key, each in world.admissions.items() if key not in found.admissions}
    if not trying.outcome(admissions=left, nodes=moved_nodes(world.nodes, moved)).goes_in:
        return
    who = names([_holder(world, each) for each in found.admissions])
    at_most = _at_most(world, found.admissions)
    told = f"{found.where} when {who} end" if found.where else f"when {who} end"
    told += "s" if len(found.admissions) == 1 else ""
    yield Change(
        kind=Kind.END,
        message=told + (f", at most {duration(at_most)}" if at_most is not None else ""),
        facts={"admissions": list(found.admissions), "domain": found.where, "seconds": at_most},
    )


def _at_most(world: Snapshot, ends: Sequence[AdmissionId]) -> int | None:
    """Seconds until all of them have run as long as they declared; None: somebody declared nothing."""
    times = [remaining(world, world.admissions[each]) for each in ends]
    return None if None in times else max(time for time in times if time is not None)


def _less(trying: Trying, refused: Reason) -> Iterator[Change]:
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
            yield Change(
                kind=Kind.WORKLOAD,
                message=f"{', '.join(required)} preferred instead of required",
                facts={"levels": required},
            )
    fit = refused.facts.get("fit")
    if len(workload.pod_sets) == 1 and isinstance(fit, int) and 0 < fit < workload.minimum:
        (pods,) = workload.pod_sets
        fewer = (replace(pods, count=fit, minimum=min(pods.minimum, fit)),)
        if trying.instead(pod_sets=fewer, minimum=fit).goes_in:
            yield Change(
                kind=Kind.WORKLOAD,
                message=f"{many(fit, 'pod')} instead of {workload.minimum}",
                facts={"pods": fit, "minimum": workload.minimum},
            )


def _priority(trying: Trying) -> Iterator[Change]:
    """The lowest priority at which somebody of its queue would be taken back for it."""
    workload, world = trying.workload, trying.world
    steps = sorted({each.priority for each in world.admissions.values() if each.queue == workload.queue})
    higher = [priority + 1 for priority in steps if priority >= workload.priority]
    for priority in higher[:4]:
        outcome = trying.instead(priority=priority)
        if outcome:
            yield Change(
                kind=Kind.PRIORITY,
                message=f"priority {priority} instead of {workload.priority}: {_taken_back(trying, outcome)}",
                facts={"priority": priority, "victims": len(outcome.victims)},
            )
            return


def _deserved(trying: Trying) -> Iterator[Change]:
    """More deserved, by its queue or by those above as well, so that lent quota is got back for it."""
    workload, tree = trying.workload, trying.tree
    usage = trying.memo.usage
    assert usage is not None
    queues = dict(trying.world.queues)
    more: list[tuple[QueueName, Account, int]] = []
    for name in tree.paths.get(workload.queue, ())[:-1]:
        for resource, units in workload.asks().items():
            account = Account(NO_FLAVOR, resource)
            lacking = usage.used(name, account) + units - tree.deserved(name, account)
            if lacking > 0 and (name in queues) and is_scarce(tree, account):
                more.append((name, account, lacking))
                queues[name] = with_limit(
                    queues[name], "deserved", account, tree.deserved(name, account) + lacking
                )
        if not more:
            continue
        outcome = trying.outcome(queues=queues)
        if outcome:
            told = " and ".join(
                f"{amount(account, units)} more deserved in {name}" for name, account, units in more
            )
            yield Change(
                kind=Kind.DESERVED,
                message=f"{told}: {_taken_back(trying, outcome)}",
                facts={
                    "more": [{"queue": n, "resource": a.resource, "units": u} for n, a, u in more],
                    "victims": len(outcome.victims),
                },
            )
            return


def _capability(trying: Trying, refused: Reason) -> Iterator[Change]:
    """Limits raised by what is too much, one after the other up to root."""
    queues = dict(trying.world.queues)
    raised: list[str] = []
    facts: list[dict[str, Any]] = []
    reason: Reason | None = refused
    for _ in range(8):
        if reason is None or reason.code != Code.QUEUE_LIMIT or reason.facts["queue"] == ROOT:
            return
        name, over = QueueName(reason.facts["queue"]), reason.facts["over"]
        account = Account(reason.facts["flavor"], reason.facts["resource"])
        queues[name] = with_limit(queues[name], "capability", account, reason.facts["limit"] + over)
        raised.append(f"{amount(account, over)} more capability in {name}")
        facts.append({"queue": name, "resource": account.resource, "flavor": account.flavor, "units": over})
        outcome = trying.outcome(queues=queues)
        if outcome:
            told = "" if outcome.goes_in else f": {_taken_back(trying, outcome)}"
            yield Change(kind=Kind.CAPABILITY, message=" and ".join(raised) + told, facts={"more": facts})
            return
        reason = outcome.reason


def _holder(world: Snapshot, id_: AdmissionId) -> str:
    admission = world.admissions[id_]
    return f"{admission.workload.kind}/{admission.namespace}/{admission.name}"


def _taken_back(trying: Trying, outcome: Outcome) -> str:
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

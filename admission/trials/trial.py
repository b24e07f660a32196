"""Workloads decided as if they were submitted now: a turn of the engine on the state after its last one. Pure.

The workloads of one trial are decided together, in their order, after everything that waits. Nothing is stored.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.demand import Demand
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from admission.explain.explain import Explained, explain
from admission.trials.related_pods import with_related_pods
from admission.trials.submitted import Submitted
from admission.workloads.inputs import Timeouts, WorkloadInputs
from admission.workloads.kinds import Holding, support_of
from admission.workloads.state import WorkloadState, derive_state
from admission.world.learned.held_back import gang_asks, refusal_of
from admission.world.pod_relations import PodRelations
from queues.admissions import Seat
from queues.plan import Evict, Plan, Reason
from queues.quota.accounts import Account, charges
from queues.quota.namespace_quota import NamespaceQuota
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import NOTHING, PODS, Resources
from queues.workload import QueueName, Workload, WorkloadKey

#: Beyond the arrival of everything that has arrived.
_LATER: Final = 1


class TrialState(StrEnum):
    """What would become of an object."""

    #: It would have its seats in the next turn.
    ADMITTED = "admitted"
    #: Other workloads would be evicted for it, and it would have their place.
    PREEMPTS = "preempts"
    WAITS = "waits"
    #: The API server would not store it.
    REFUSED = "refused"
    #: It names no queue: it would start at once.
    UNMANAGED = "unmanaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRoom:
    """What the ResourceQuotas of a namespace leave to gangs."""

    quotas: tuple[NamespaceQuota, ...] = ()
    #: To pods that are about to be made.
    promised: Resources = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What trials are decided on."""

    #: The last turn.
    snapshot: Snapshot
    plan: Plan
    #: Seconds since the epoch.
    now: int
    timeouts: Timeouts
    #: A copy; pods of the trial are counted in it.
    demand: Demand
    #: By namespace.
    rooms: Mapping[str, NamespaceRoom]
    #: A copy of what the world knows of the rules of pods about other pods. None if no object of the trial has such a
    #: rule, and no rule is about one.
    relations: PodRelations | None = None

    def next_turn(self) -> Snapshot:
        """The snapshot of the next turn, if nothing happens."""
        return replace(self.snapshot.after(self.plan), now=self.now)


@dataclass(frozen=True, slots=True)
class QuotaTaken:
    """What a workload would take of one line of its queue's books."""

    queue: QueueName
    account: Account
    units: int
    #: The part of it within what the queue deserves. None if the queue states nothing for the account.
    owned: int | None
    #: What the queue uses before, and what it deserves.
    used: int
    deserved: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What would become of one object."""

    submitted: Submitted
    state: TrialState
    #: None if it is refused, or would not wait.
    workload: Workload | None = None
    #: Where its pods would be; of a workload that preempts, once its victims are gone.
    seats: tuple[Seat, ...] = ()
    takes: tuple[QuotaTaken, ...] = ()
    #: Who would be evicted for it, by admission.
    victims: tuple[Evict, ...] = ()
    reason: Reason | None = None
    #: None if it does not wait, or there was no time to work it out.
    explained: Explained | None = None


@dataclass(frozen=True, slots=True)
class DecidedTrial:
    """The turn that decided on a trial."""

    snapshot: Snapshot
    plan: Plan
    outcomes: tuple[Outcome, ...]


def arrival_after(snapshot: Snapshot) -> int:
    """The first number of what arrives now."""
    known = (*snapshot.pending.values(), *snapshot.holders.values())
    return max((each.arrival for each in known), default=0) + _LATER


def tried(
    ground: Ground, next_turn: Snapshot, objects: Sequence[tuple[Submitted, WorkloadInputs | None]]
) -> DecidedTrial:
    """What would become of these objects. ``next_turn``: what they are decided on, of the ground or changed.

    Inputs are None for an object that is refused, or would not wait.
    """
    states: dict[WorkloadKey, WorkloadState] = {}
    for each, inputs in objects:
        state = None if inputs is None else derive_state(inputs, ground.now, ground.timeouts)
        if state is not None and state.needs_seats:
            states[each.key] = state
    pending = {key: state.workload for key, state in states.items()}
    if ground.relations is not None:
        next_turn, pending = with_related_pods(next_turn, ground.relations, states)
    for key, workload in pending.items():
        ground.demand.update(key, workload.pod_sets)
    snapshot = replace(next_turn, pending={**next_turn.pending, **pending}, typical=ground.demand.typical())
    plan, memo = decide(snapshot, Memo(), NO_LIMIT)
    tree, usage = memo.tree, memo.usage
    assert tree is not None, "a turn was decided"
    assert usage is not None, "a turn was decided"
    if memo.state is not None:
        memo.state.retire()  # nothing collects what refers to itself in a circle
    answers = _Answers(plan, tree, usage.copy(), _beyond_quotas(plan, pending, ground.rooms))
    outcomes = tuple(answers.of(each, pending.get(each.key)) for each, _ in objects)
    return DecidedTrial(snapshot, plan, outcomes)


class _Answers:
    """Reads what a plan does with the objects of a trial, in their order."""

    def __init__(
        self, plan: Plan, tree: QueueTree, usage: Usage, kept_back: Mapping[WorkloadKey, Reason]
    ) -> None:
        """``usage``: before the plan; what the objects take is added. ``kept_back``: by ResourceQuotas."""
        self._tree = tree
        self._usage = usage
        self._kept_back = kept_back
        self._reasons = plan.reasons
        self._admits: dict[WorkloadKey, tuple[Seat, ...]] = {}
        for each in plan.admits:  # an elastic gang has several
            self._admits[each.workload] = self._admits.get(each.workload, ()) + each.seats
        self._claims = {each.workload: each.seats for each in plan.claims}
        self._victims: dict[WorkloadKey, list[Evict]] = {}
        for evict in plan.evicts:
            if evict.beneficiary is not None:
                self._victims.setdefault(evict.beneficiary, []).append(evict)

    def of(self, each: Submitted, workload: Workload | None) -> Outcome:
        """What becomes of one object. ``workload``: None if it does not wait."""
        if workload is None:
            state = TrialState.UNMANAGED if each.is_unmanaged else TrialState.REFUSED
            return Outcome(submitted=each, state=state)
        key, victims = each.key, tuple(self._victims.get(each.key, ()))
        reason = self._kept_back.get(key)
        if reason is None and key in self._admits:
            state, seats = TrialState.ADMITTED, self._admits[key]
        elif reason is None and victims:
            state, seats = TrialState.PREEMPTS, self._claims.get(key, ())
        else:
            waits = reason or self._reasons.get(key)
            return Outcome(submitted=each, state=TrialState.WAITS, workload=workload, reason=waits)
        return Outcome(
            submitted=each,
            state=state,
            workload=workload,
            seats=seats,
            takes=self._taken(workload.queue, seats),
            victims=victims,
            reason=self._reasons.get(key),
        )

    def _taken(self, queue: QueueName, seats: Sequence[Seat]) -> tuple[QuotaTaken, ...]:
        amounts = charges(seats) if seats else {}
        found = []
        for account, units in sorted(amounts.items()):
            if account.resource == PODS or not units:
                continue
            used, deserved = (
                self._usage.used(queue, account),
                self._tree.own_deserved.get(queue, {}).get(account),
            )
            owned = None if deserved is None else min(units, max(0, deserved - used))
            found.append(QuotaTaken(queue, account, units, owned, used, deserved))
        if amounts:
            self._usage.add(queue, amounts)
        return tuple(found)


def explained(decided: DecidedTrial, has_time: Callable[[], bool]) -> tuple[Outcome, ...]:
    """The outcomes, those that wait with what would let them in. ``has_time``: asked before each: False: it is left
    out."""
    return tuple(
        replace(each, explained=explain(decided.snapshot, decided.plan, each.workload.key))
        if each.state is TrialState.WAITS and each.workload is not None and has_time()
        else each
        for each in decided.outcomes
    )


def _beyond_quotas(
    plan: Plan, pending: Mapping[WorkloadKey, Workload], rooms: Mapping[str, NamespaceRoom]
) -> dict[WorkloadKey, Reason]:
    """Workloads of the trial that would be admitted, or preempt, and for which a ResourceQuota has no room.

    Pods that exist are counted already (``NamespaceQuotas.within``).
    """
    found: dict[WorkloadKey, Reason] = {}
    promised: dict[str, Resources] = {}
    for key in _asking_for_pods(plan):
        workload = pending.get(key)
        room = None if workload is None else rooms.get(workload.namespace)
        if workload is None or room is None or support_of(key).holding is Holding.GATED:
            continue
        before, asked = promised.get(workload.namespace, room.promised), gang_asks(workload)
        if reason := refusal_of(room.quotas, asked, before):
            found[key] = reason
        else:
            promised[workload.namespace] = before + asked
    return found


def _asking_for_pods(plan: Plan) -> Iterable[WorkloadKey]:
    beneficiaries = {each.beneficiary for each in plan.evicts if each.beneficiary is not None}
    return dict.fromkeys((*(each.workload for each in plan.admits), *sorted(beneficiaries)))

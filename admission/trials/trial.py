"""Workloads decided as if they were submitted now: a turn of the engine on the state after its last one. Pure.

The workloads of one trial are decided together, in their order, after everything that waits. Nothing is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.demand import Demand
from admission.engine.nodes.table import Layout
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.reasons import with_room_alone
from admission.engine.snapshot import Snapshot
from admission.explain.explain import explain
from admission.trials.related_pods import with_related_pods
from admission.trials.submitted import Submitted, TrialState
from admission.workloads.inputs import Timeouts, WorkloadInputs
from admission.workloads.state import WorkloadState, derive_state
from admission.world.learned.held_back import (
    NO_RESOURCE_QUOTAS,
    NamespaceRoom,
    gangs_without_room,
    without_gangs,
)
from admission.world.pod_relations import PodRelations
from queues.admissions import Seat
from queues.plan import Evict, Plan, Reason
from queues.quota.accounts import charges
from queues.quota.budgets import BudgetUse
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.read_api.bodies import ExpectedStartBody, ReasonBody, SeatsBody
from queues.read_api.quantities import facts_with_quantities, quantities, quantity, seats_bodies
from queues.read_api.trials import ComparisonBody, QuotaTakenBody, TrialBody, VictimBody
from queues.reason_codes import NEEDS_A_CHANGE, advice_on
from queues.resources import PODS, show
from queues.workload import NodeName, QueueName, Workload, WorkloadKey

#: Places and victims that are shown of one workload.
MOST_PLACES: Final = 100
MOST_VICTIMS: Final = 50
#: Beyond the arrival of everything that has arrived.
_LATER: Final = 1


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
    #: By namespace of the objects of the trial.
    rooms: Mapping[str, NamespaceRoom]
    #: A copy of what the world knows of the rules of pods about other pods. None if no object of the trial has such a
    #: rule, and no rule is about one.
    relations: PodRelations | None = None
    #: None if no queue has a budget.
    budget_use: BudgetUse | None = None

    def next_turn(self) -> Snapshot:
        """The snapshot of the next turn, if nothing happens."""
        return replace(self.snapshot.after(self.plan), now=self.now)


@dataclass(frozen=True, slots=True)
class DecidedTrial:
    """The turn that decided on a trial."""

    snapshot: Snapshot
    plan: Plan
    #: What would become of each object, by the key that its workload has in the trial.
    items: Mapping[WorkloadKey, TrialBody]
    #: With the cluster without other quota. None if no other quota was asked for.
    comparison: ComparisonBody | None = None


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
    refused = gangs_without_room(plan, snapshot, lambda name: ground.rooms.get(name, NO_RESOURCE_QUOTAS))
    answers = _Answers(snapshot, without_gangs(plan, refused), tree, usage.copy())
    items = {each.key: answers.of(each, pending.get(each.key)) for each, _ in objects}
    return DecidedTrial(snapshot, plan, items)


class _Answers:
    """Reads what a plan does with the objects of a trial, in their order."""

    def __init__(self, snapshot: Snapshot, plan: Plan, tree: QueueTree, usage: Usage) -> None:
        """``usage``: before the plan; what the objects take is added."""
        self._snapshot = snapshot
        self._tree = tree
        self._usage = usage
        self._reasons = plan.reasons
        self._admits: dict[WorkloadKey, tuple[Seat, ...]] = {}
        for each in plan.admits:  # an elastic gang has several
            self._admits[each.workload] = self._admits.get(each.workload, ()) + each.seats
        self._claims = {each.workload: each.seats for each in plan.claims}
        self._victims: dict[WorkloadKey, list[Evict]] = {}
        for evict in plan.evicts:
            if evict.beneficiary is not None:
                self._victims.setdefault(evict.beneficiary, []).append(evict)

    def of(self, each: Submitted, workload: Workload | None) -> TrialBody:
        """What becomes of one object. ``workload``: None if it does not wait."""
        if workload is None:
            return each.item
        key, victims = each.key, self._victims.get(each.key, ())
        item = structs.replace(
            each.item,
            state=TrialState.WAITS,
            queue=workload.queue,
            priority=workload.priority,
            pods=sum(pods.wanted_count() for pods in workload.pod_sets),
            minimum=workload.minimum,
            asks=quantities(workload.asks()),
            reason=_reason(workload, self._reasons.get(key)),
        )
        if not (key in self._admits or victims):
            return item
        is_admitted = key in self._admits
        seats = self._admits[key] if is_admitted else self._claims.get(key, ())
        return structs.replace(
            item,
            state=TrialState.ADMITTED if is_admitted else TrialState.PREEMPTS,
            places=_places_of(self._snapshot.nodes.layout, seats),
            node_count=len({seat.node for seat in seats}),
            quota=self._taken(workload.queue, seats),
            victims=tuple(map(self._victim, victims[:MOST_VICTIMS])),
            victim_count=len(victims),
        )

    def _taken(self, queue: QueueName, seats: Sequence[Seat]) -> tuple[QuotaTakenBody, ...]:
        """What seats take of the books of their queue."""
        amounts = charges(seats) if seats else {}
        found = []
        for account, units in sorted(amounts.items()):
            if account.resource == PODS or not units:
                continue
            used = self._usage.used(queue, account)
            deserved = self._tree.own_deserved.get(queue, {}).get(account)
            owned = None if deserved is None else min(units, max(0, deserved - used))
            found.append(
                QuotaTakenBody(
                    queue=queue,
                    flavor=account.flavor,
                    resource=account.resource,
                    takes=show(account.resource, units),
                    owned=quantity(account.resource, owned),
                    borrowed=quantity(account.resource, None if owned is None else units - owned),
                    used=show(account.resource, used),
                    deserved=quantity(account.resource, deserved),
                )
            )
        if amounts:
            self._usage.add(queue, amounts)
        return tuple(found)

    def _victim(self, evict: Evict) -> VictimBody:
        admission = self._snapshot.admissions[evict.admission]
        return VictimBody(
            kind=str(admission.workload.kind),
            namespace=admission.namespace,
            name=admission.name,
            queue=admission.queue,
            code=evict.code,
            message=evict.message,
        )


def _reason(workload: Workload, reason: Reason | None) -> ReasonBody | None:
    if reason is None:
        return None
    reason = with_room_alone(reason, workload)
    advice = advice_on(reason.code, reason.facts).owner
    facts = facts_with_quantities(reason.facts)
    return ReasonBody(code=reason.code, message=reason.message, advice=advice, facts=facts)


def _places_of(layout: Layout, seats: Sequence[Seat]) -> tuple[SeatsBody, ...]:
    """Seats by node and pod set, in the order of the nodes."""
    columns = {seat.node: layout.position.get(seat.node) for seat in seats}
    ordered = sorted(seats_bodies(seats), key=lambda each: (columns[NodeName(each.node)] or 0, each.pod_set))
    return tuple(
        structs.replace(each, domain=_domain(layout, columns[NodeName(each.node)]))
        for each in ordered[:MOST_PLACES]
    )


def _domain(layout: Layout, column: int | None) -> str:
    """The innermost domain of the first topology above a node; "": none."""
    for level in reversed(layout.chains[0][:-1]) if layout.chains and column is not None else ():
        if (domain := int(level.of[column])) >= 0:
            return level.domains[domain]
    return ""


def with_outlook(
    decided: DecidedTrial,
    has_time: Callable[[], bool],
    expected: Mapping[WorkloadKey, ExpectedStartBody],
) -> tuple[TrialBody, ...]:
    """The items, those that wait with what would let them in and when they should start.

    ``has_time``: asked before each whether there is time to work out what would let it in. ``expected``: no starts of
    workloads that time alone does not let in are taken from it.
    """
    return tuple(
        _with_outlook(item, decided, key, has_time, expected.get(key))
        if item.state == TrialState.WAITS
        else item
        for key, item in decided.items.items()
    )


def _with_outlook(
    item: TrialBody,
    decided: DecidedTrial,
    key: WorkloadKey,
    has_time: Callable[[], bool],
    expected: ExpectedStartBody | None,
) -> TrialBody:
    if item.reason is None or item.reason.code not in NEEDS_A_CHANGE:
        item = structs.replace(item, expected=expected)
    outlook = explain(decided.snapshot, decided.plan, key) if has_time() else None
    if outlook is None:
        return item
    return structs.replace(
        item,
        position=outlook.position,
        queue_length=outlook.queue_length,
        behind=outlook.behind,
        changes=outlook.changes,
    )

"""PodGroups whose pods are not made yet, and which of them are in phase Inqueue. Pure.

Operators, and people who come from Volcano, create a PodGroup first and its pods once it is Inqueue: that says that its
queue has room for ``minResources``. As Volcano's scheduler Muster says so once, and does not take it back: nothing is
held for it, and the pods wait for their admission like others, with a reason of their own. A PodGroup that asks for
quota to be held (``admission.engine.quota_holds``) is Inqueue once it is; one without ``minResources`` as soon as its
queue takes work.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from admission.engine.claims import awaits_pods
from admission.engine.pending.classes import new_work_refusal, queue_refusal
from admission.engine.pending.empty_cluster import EmptyCluster
from admission.engine.reasons import not_allowed, queue_limit
from admission.workloads.kinds import support_of
from admission.workloads.state import WorkloadState
from admission.world.world import World
from queues.api.types.podgroup import PodGroupPhase
from queues.plan import Reason
from queues.quota.accounts import flavor_charges
from queues.quota.usage import Usage
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import NO_FLAVOR, QueueName, Workload, WorkloadKey

#: The next turn gives it the quota, or says what has it.
_NOT_HELD_YET: Final = Reason(code=ReasonCode.NOT_ENOUGH_PODS, message="its quota is not held yet")


@dataclass(frozen=True, slots=True)
class QueueRoom:
    """What queues have room for, as the world is now."""

    world: World
    usage: Usage
    #: The same queues and nodes as if they were empty.
    empty: EmptyCluster
    #: By queue, namespace, user, what is asked and whether it is to be held: many PodGroups ask the same.
    _refusals: dict[Hashable, Reason | None] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World, before: EmptyCluster | None = None) -> "QueueRoom":
        """The room besides what is admitted. ``before``: empty nodes and queues, which may still be the same."""
        tree, table = world.queue_facts.tree(), world.node_inventory.table()
        usage = Usage(tree.over(table.capacity()))
        for name, allocated in world.queue_totals.allocations():
            if allocated and name in usage.tree.paths:
                usage.add(name, flavor_charges({NO_FLAVOR: allocated}))
        if before is None or not before.is_of(table, tree):
            before = EmptyCluster.of(table, tree)
        return cls(world, usage, before)

    def refusal(self, state: WorkloadState, asked: Resources | None) -> Reason | None:
        """Why the pods of a PodGroup should not be made yet; None if they may.

        ``asked``: its minResources; None if it has none, and any room will do.
        """
        workload = state.workload
        queue, namespace = workload.queue, workload.namespace
        asks = (queue, namespace, workload.user, asked, workload.hold is None, workload.was_admitted)
        if asks not in self._refusals:
            self._refusals[asks] = (
                queue_refusal(self.usage.tree, queue)
                or new_work_refusal(self.usage.tree, workload)
                or self._not_allowed(queue, namespace)
                or (None if asked is None else self._lacks(workload, asked))
            )
        return self._refusals[asks]

    def _not_allowed(self, queue: QueueName, namespace: str) -> Reason | None:
        refusal = self.world.queue_permissions.refusal(namespace, queue)
        return None if refusal is None else not_allowed(queue, namespace, refusal)

    def _lacks(self, workload: Workload, asked: Resources) -> Reason | None:
        if (never := self.empty.refusal_of_amounts(workload, asked)) is not None:
            return never
        hit = self.usage.refusal(workload.queue, flavor_charges({NO_FLAVOR: asked}))
        return None if hit is None else queue_limit(hit)


class EnqueuedGroups:
    """PodGroups whose pods are not made yet; remembers for one term which of them are in phase Inqueue."""

    def __init__(self) -> None:
        self._enqueued: set[WorkloadKey] = set()
        #: Those that wait to be, and why.
        self._refused: dict[WorkloadKey, Reason] = {}
        #: PodGroups that had their pods or seats in this term: phase Inqueue was not said of their missing pods.
        self._left: set[WorkloadKey] = set()
        self._empty: EmptyCluster | None = None

    @property
    def some_wait(self) -> bool:
        """Whether some of them wait for room in their queue."""
        return bool(self._refused)

    def is_enqueued(self, key: WorkloadKey) -> bool:
        """Whether the pods of this PodGroup may be made."""
        return key in self._enqueued

    def by_queue(self, world: World) -> Counter[QueueName]:
        """How many of them each queue has in phase Inqueue."""
        states = (world.states.get(key) for key in self._enqueued)
        return Counter(each.workload.queue for each in states if each is not None and _awaits_pods(each))

    def refusal(self, key: WorkloadKey) -> Reason | None:
        """Why the pods of this PodGroup should not be made yet; None if nothing is known to be in the way."""
        return self._refused.get(key)

    def note(self, world: World, keys: Iterable[WorkloadKey]) -> None:
        """These workloads have changed: those that have become PodGroups without their pods get an answer."""
        room: QueueRoom | None = None
        for key in keys:
            state = world.states.get(key)
            if state is None or not _awaits_pods(state):
                self._enqueued.discard(key)
                self._refused.pop(key, None)
                if state is None:
                    self._left.discard(key)
                elif support_of(key).is_group:
                    self._left.add(key)
                continue
            if key in self._enqueued:
                continue
            fact = world.facts[key]
            has_told = fact.phase == PodGroupPhase.INQUEUE and state.workload.hold is None
            if has_told and key not in self._refused and key not in self._left:
                self._enqueued.add(key)  # an earlier leader has said so
                continue
            room = room or self._room(world)
            self._answer(key, _refusal(world, room, state))

    def look_again(self, world: World) -> list[WorkloadKey]:
        """Queues may have got room, or lost it: workloads that have another answer now."""
        if not self._refused:
            return []
        room = self._room(world)
        changed = []
        for key, before in list(self._refused.items()):
            state = world.states.get(key)
            if state is None or key not in world.facts or not _awaits_pods(state):
                continue  # it is about to be noted
            reason = _refusal(world, room, state)
            self._answer(key, reason)
            if reason is None or reason.code != before.code:
                changed.append(key)
        return changed

    def _room(self, world: World) -> QueueRoom:
        room = QueueRoom.of(world, self._empty)
        self._empty = room.empty
        return room

    def _answer(self, key: WorkloadKey, refusal: Reason | None) -> None:
        self._refused.pop(key, None)
        if refusal is None:
            self._enqueued.add(key)
        else:
            self._refused[key] = refusal


def _refusal(world: World, room: QueueRoom, state: WorkloadState) -> Reason | None:
    """Why the pods of a PodGroup should not be made yet."""
    asks_to_hold = state.workload.hold is not None
    if asks_to_hold and state.key in world.ledger.claims:
        return None
    found = room.refusal(state, world.facts[state.key].group.min_resources)
    return _NOT_HELD_YET if found is None and asks_to_hold else found


def _awaits_pods(state: WorkloadState) -> bool:
    """Whether nothing is missing for a gang but pods of its own."""
    return (
        support_of(state.key).is_group
        and not state.is_over
        and not state.seat_maps
        and state.needs_seats
        and awaits_pods(state.workload)
    )

"""Reservations and NodeDrains, with the nodes that were chosen for them. Pure.

Chosen nodes are in the status of the object, so that the next leader keeps them. Until that is written and seen again,
they are known here.

Which reservations of tenants' administrators are within their right follows here too. The webhook compares a new
Reservation with those that are stored. Two that are made at the same moment do not see each other there, so that both
are stored; and a queue may come to deserve less. Here the earlier one counts first: by its creation, then by its name.
Whole nodes count, and loans, as in ``queues.api.validation.closures``.

A reservation for a queue whose budget is used up, or for one below it, keeps nothing until the month is over. Then its
nodes are chosen anew.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from admission.facts.cluster import ClosureFact, NodeFact
from admission.world.admissions import replaced
from queues.api.validation.closures.reservation_rights import CountedReservation, excesses
from queues.api.validation.closures.whole_nodes import NodeShape, kept_devices, node_shape
from queues.node_closures import ClosureKind, ClosurePhase, NodeClosure
from queues.quota.budgets import SpentBudget
from queues.quota.loans import DeservedOverTime
from queues.quota.queue import Queue, path_below_root, path_upwards
from queues.workload import NodeName, QueueName


class NodeDevices:
    """Part of the world: kept up to date node by node."""

    def __init__(self) -> None:
        self._of_nodes: dict[NodeName, NodeShape] = {}
        #: Each combination once; None if nodes have changed.
        self._shapes: Sequence[NodeShape] | None = None

    def put(self, name: NodeName, fact: NodeFact | None) -> None:
        """A node appeared, changed or went away."""
        before = self._of_nodes.pop(name, None)
        after = None if fact is None else node_shape(fact.allocatable)
        if after is not None:
            self._of_nodes[name] = after
        if before != after:
            self._shapes = None

    def kept(self, closure: NodeClosure) -> Mapping[str, int]:
        """What the whole nodes of a reservation have, also of devices that it does not ask for.

        Nodes that were chosen count as they are. Until they have all that is asked, those count that the webhook
        expects. No less than is asked for.
        """
        kept = Counter[str]()
        for name in closure.nodes:
            kept.update(self._of_nodes.get(name, {}))
        if any(kept[name] < units for name, units in closure.amounts.items()):
            kept |= Counter(kept_devices(closure.amounts, self._all_shapes()))
        return kept | Counter(dict(closure.amounts))

    def _all_shapes(self) -> Sequence[NodeShape]:
        if self._shapes is None:
            found = {frozenset(shape.items()) for shape in self._of_nodes.values()}
            self._shapes = [dict(shape) for shape in sorted(found, key=sorted)]
        return self._shapes


def beyond_right(
    facts: Iterable[ClosureFact], deserved: DeservedOverTime, devices: NodeDevices, now: int
) -> dict[str, str]:
    """Reservations by administrators of tenants that are together more than a queue deserves, by id, each with why.

    They are compared with earlier ones of the same time, those of platform administrators included, by the whole nodes
    of each (``NodeDevices.kept``). Ended ones, and those that are beyond the right themselves, count nothing.
    """
    reservations = [
        (fact, closure)
        for fact in sorted(facts, key=attrgetter("created", "name"))
        if (closure := fact.closure) is not None and closure.queue is not None and not closure.has_ended(now)
    ]
    if not any(closure.of_tenant for _, closure in reservations):
        return {}
    counted: list[CountedReservation] = []
    beyond: dict[str, str] = {}
    for fact, closure in reservations:
        path = path_below_root(closure.queue, deserved.queues.get)
        this = CountedReservation(closure, path, devices.kept(closure))
        excess = next(excesses(this, counted, deserved, now), "") if closure.of_tenant else ""
        if excess:
            beyond[fact.id] = excess
        else:
            counted.append(this)
    return beyond


class ClosureState(NamedTuple):
    """A closure as its object should show it."""

    fact: ClosureFact
    phase: ClosurePhase
    #: Why it is refused; "": it is not.
    problem: str
    nodes: tuple[NodeName, ...]
    #: Refused because others of its tenant came first.
    is_beyond_right: bool = False
    #: The budget of its queue, or of one above it, that is used up: it keeps nothing. None if there is none.
    spent: SpentBudget | None = None


class NodeClosures:
    """Part of the world."""

    def __init__(self) -> None:
        self.facts: dict[str, ClosureFact] = {}
        #: Nodes of reservations as this term chose them, by id.
        self._chosen: dict[str, tuple[NodeName, ...]] = {}
        self.devices = NodeDevices()
        #: Budgets that are used up now, and hold.
        self.spent: Mapping[QueueName, SpentBudget] = {}

    def put(self, kind: ClosureKind, name: str, fact: ClosureFact | None) -> None:
        """A Reservation or NodeDrain appeared, changed or went away."""
        id_ = f"{kind}/{name}"
        before = replaced(self.facts, id_, fact)
        if before is None or fact is None or before.uid != fact.uid:
            self._chosen.pop(id_, None)

    def choose(self, chosen: Mapping[str, tuple[NodeName, ...]]) -> None:
        """A plan chose nodes."""
        self._chosen.update((id_, nodes) for id_, nodes in chosen.items() if id_ in self.facts)

    def freeze(self, now: int, deserved: DeservedOverTime) -> tuple[NodeClosure, ...]:
        """Those that a decision has to know of."""
        beyond = self._beyond_right(deserved, now)
        for id_, fact in self.facts.items() if self.spent else ():
            if self._spent(fact.closure, deserved.queues) is not None:
                self._chosen.pop(id_, None)
        return tuple(
            closure
            for id_ in sorted(self.facts.keys() - beyond.keys())
            if (closure := self._closure(id_)) is not None
            and not self._problem(closure, deserved.queues)
            and self._spent(closure, deserved.queues) is None
            and not closure.has_ended(now)
        )

    def states(self, now: int, deserved: DeservedOverTime) -> Iterator[ClosureState]:
        """What the objects should say."""
        beyond = self._beyond_right(deserved, now)
        for id_, fact in sorted(self.facts.items()):
            closure = self._closure(id_)
            if closure is None:
                yield ClosureState(fact, ClosurePhase.REFUSED, fact.problem, ())
                continue
            phase, problem = closure.phase(now), self._problem(closure, deserved.queues)
            if phase is ClosurePhase.ENDED:
                yield ClosureState(fact, phase, "", ())
            elif problem:
                yield ClosureState(fact, ClosurePhase.REFUSED, problem, ())
            elif id_ in beyond:
                yield ClosureState(fact, ClosurePhase.REFUSED, beyond[id_], (), is_beyond_right=True)
            elif (spent := self._spent(closure, deserved.queues)) is not None:
                yield ClosureState(fact, phase, "", (), spent=spent)
            else:
                yield ClosureState(fact, phase, "", closure.nodes)

    def _beyond_right(self, deserved: DeservedOverTime, now: int) -> dict[str, str]:
        facts = [replace(fact, closure=self._closure(id_)) for id_, fact in self.facts.items()]
        return beyond_right(facts, deserved, self.devices, now)

    def _closure(self, id_: str) -> NodeClosure | None:
        closure = self.facts[id_].closure
        if closure is None or id_ not in self._chosen:
            return closure
        return replace(closure, nodes=self._chosen[id_])

    def _spent(self, closure: NodeClosure | None, queues: Mapping[QueueName, Queue]) -> SpentBudget | None:
        if not self.spent or closure is None or closure.queue is None:
            return None
        path = path_upwards(closure.queue, queues.get)
        return next((self.spent[each.name] for each in path if each.name in self.spent), None)

    @staticmethod
    def _problem(closure: NodeClosure, queues: Container[QueueName]) -> str:
        if closure.queue is None or closure.queue in queues:
            return ""
        return f"spec.queue: found {closure.queue}, expected the name of a Queue"

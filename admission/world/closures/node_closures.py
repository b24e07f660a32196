"""Reservations and NodeDrains, with the nodes that were chosen for them. Pure.

Chosen nodes are in the status of the object, so that the next leader keeps them. Until that is written and seen again,
they are known here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from admission.facts.cluster import ClosureFact, QueueFact
from admission.world.closures.node_devices import NodeDevices
from admission.world.closures.tenant_rights import beyond_right
from queues.node_closures import ClosureKind, ClosurePhase, NodeClosure
from queues.quota.loans import DeservedOverTime
from queues.workload import NodeName, QueueName

Queues = Mapping[QueueName, QueueFact]


class ClosureState(NamedTuple):
    """A closure as its object should show it."""

    fact: ClosureFact
    phase: ClosurePhase
    #: Why it is refused; "": it is not.
    problem: str
    nodes: tuple[NodeName, ...]
    #: Refused because others of its tenant came first.
    is_beyond_right: bool = False


class NodeClosures:
    """Part of the world."""

    def __init__(self) -> None:
        self.facts: dict[str, ClosureFact] = {}
        #: Nodes of reservations as this term chose them, by id.
        self._chosen: dict[str, tuple[NodeName, ...]] = {}
        self.devices = NodeDevices()
        self._deserved = DeservedOverTime({}, {})

    def put(self, kind: ClosureKind, name: str, fact: ClosureFact | None) -> None:
        """A Reservation or NodeDrain appeared, changed or went away."""
        id_ = f"{kind}/{name}"
        before = self.facts.pop(id_, None)
        if fact is not None:
            self.facts[id_] = fact
        if before is None or fact is None or before.uid != fact.uid:
            self._chosen.pop(id_, None)

    def choose(self, chosen: Mapping[str, tuple[NodeName, ...]]) -> None:
        """A plan chose nodes."""
        self._chosen.update((id_, nodes) for id_, nodes in chosen.items() if id_ in self.facts)

    def freeze(self, now: int, queues: Queues) -> tuple[NodeClosure, ...]:
        """Those that a decision has to know of."""
        beyond = self._beyond_right(queues, now)
        return tuple(
            closure
            for id_ in sorted(self.facts.keys() - beyond.keys())
            if (closure := self._closure(id_)) is not None
            and not self._problem(closure, queues)
            and not closure.has_ended(now)
        )

    def states(self, now: int, queues: Queues) -> Iterator[ClosureState]:
        """What the objects should say."""
        beyond = self._beyond_right(queues, now)
        for id_, fact in sorted(self.facts.items()):
            closure = self._closure(id_)
            if closure is None:
                yield ClosureState(fact, ClosurePhase.REFUSED, fact.problem, ())
                continue
            phase, problem = closure.phase(now), self._problem(closure, queues)
            if phase is ClosurePhase.ENDED:
                yield ClosureState(fact, phase, "", ())
            elif problem:
                yield ClosureState(fact, ClosurePhase.REFUSED, problem, ())
            elif id_ in beyond:
                yield ClosureState(fact, ClosurePhase.REFUSED, beyond[id_], (), is_beyond_right=True)
            else:
                yield ClosureState(fact, phase, "", closure.nodes)

    def _beyond_right(self, queues: Queues, now: int) -> dict[str, str]:
        """``queues``: as they state their limits; what they lend is in their facts."""
        facts = [replace(fact, closure=self._closure(id_)) for id_, fact in self.facts.items()]
        if not any(fact.closure is not None and fact.closure.of_tenant for fact in facts):
            return {}
        stated = {name: fact.queue for name, fact in queues.items()}
        loans = {name: fact.loans for name, fact in queues.items() if fact.loans}
        if (self._deserved.queues, self._deserved.loans) != (stated, loans):
            self._deserved = DeservedOverTime(stated, loans)
        return beyond_right(facts, self._deserved, self.devices, now)

    def _closure(self, id_: str) -> NodeClosure | None:
        closure = self.facts[id_].closure
        if closure is None or id_ not in self._chosen:
            return closure
        return replace(closure, nodes=self._chosen[id_])

    @staticmethod
    def _problem(closure: NodeClosure, queues: Queues) -> str:
        if closure.queue is None or closure.queue in queues:
            return ""
        return f"spec.queue: found {closure.queue}, expected the name of a Queue"

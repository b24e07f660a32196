"""How often nodes fail and how long they take to come back, as counts and sums that metrics show."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from admission.node_recovery.state import FaultCause, RecoveryPhase, RecoveryState
from admission.node_recovery.view import NodeView
from queues.workload import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryFigures:
    """What has happened to the nodes of a cluster since the process began. Every number only grows."""

    #: Nodes that became faulty.
    faults: int = 0
    #: Nodes that came back: no fault, and in service.
    repairs: int = 0
    #: Seconds from the begin of a fault to the return, summed up over ``repairs``.
    repair_seconds: int = 0
    #: Seconds that nodes were without a fault, summed up over all nodes.
    healthy_seconds: int = 0
    #: Recovery attempts that were begun.
    attempts: int = 0
    #: Recoveries that were given up.
    failures: int = 0

    def after(
        self,
        before: Mapping[NodeName, int],
        faulty: Mapping[NodeName, int],
        *,
        nodes: frozenset[NodeName],
        now: int,
    ) -> "RecoveryFigures":
        """With the changes between two turns.

        ``before``, ``faulty``: faulty nodes, each since when (``faulty_nodes``); ``nodes``: all there are.
        A node that is gone has neither failed nor come back. In its first turn a process passes the same mapping twice:
        what it finds was counted by the process before.
        """
        back = [name for name in before if name not in faulty and name in nodes]
        return replace(
            self,
            faults=self.faults + sum(name not in before for name in faulty),
            repairs=self.repairs + len(back),
            repair_seconds=self.repair_seconds + sum(max(0, now - before[name]) for name in back),
        )

    def elapsed(self, *, well: int, seconds: int) -> "RecoveryFigures":
        """With a time in which so many nodes were well."""
        return replace(self, healthy_seconds=self.healthy_seconds + max(0, well) * max(0, seconds))

    def moved(self, before: RecoveryState, after: RecoveryState) -> "RecoveryFigures":
        """With what one step of one node did."""
        gave_up = after.phase is RecoveryPhase.FAILED and before.phase is not RecoveryPhase.FAILED
        return replace(
            self,
            attempts=self.attempts + max(0, after.attempts - before.attempts),
            failures=self.failures + gave_up,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """The health of the nodes of a cluster at one moment."""

    #: Nodes with an unhealthy device.
    nodes: int = 0
    #: Unhealthy devices, by reason.
    faults: Mapping[str, int] = field(default_factory=dict)
    figures: RecoveryFigures = RecoveryFigures()


def faulty_nodes(
    views: Mapping[NodeName, NodeView], states: Mapping[NodeName, RecoveryState], now: int
) -> dict[NodeName, int]:
    """Nodes with a fault, or out of service because of one, each since when (seconds).

    ``states``: as ``plan`` gives them; nodes that are left out there are in service.
    """
    faulty: dict[NodeName, int] = {}
    for name, view in views.items():
        state = states.get(name, RecoveryState())
        begun = [fault.since for fault in view.faults]
        begun += [view.black_hole.since] if view.black_hole else []
        if state.phase.is_out and state.cause is not FaultCause.PERSON:
            begun.append(state.fault_since or now)
        if begun:
            faulty[name] = min(begun)
    return faulty

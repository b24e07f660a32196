"""One workload before the engine, in worlds that differ from the real one in one thing. Pure.

What people are told would help has been tried here first.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.table import NodeTable
from admission.engine.placement.need import MissingMembers, missing_members
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, AdmissionState
from queues.plan import Admit, Evict, Reason
from queues.quota.accounts import Account
from queues.quota.queue import Queue
from queues.quota.tree import QueueTree
from queues.resources import NOTHING, Resources
from queues.workload import NO_FLAVOR, AdmissionId, NodeName, Workload


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The workload alone before the engine, in worlds that differ in one thing."""

    world: Snapshot
    workload: Workload
    #: Of the world as it is.
    memo: Memo
    #: Of the world that was tried last; one entry.
    latest: list[Memo]

    @classmethod
    def of(cls, world: Snapshot, workload: Workload) -> "tuple[WhatIf, WhatIfOutcome]":
        """The workload alone in this world, and what becomes of it there."""
        alone = replace(world, pending={workload.key: workload})
        _, memo = decide(alone, Memo())
        trying = cls(alone, workload, memo, [memo])
        return trying, trying.outcome()

    @property
    def tree(self) -> QueueTree:
        """The queues as they are."""
        assert self.memo.tree is not None
        return self.memo.tree

    def outcome(self, **other: Any) -> "WhatIfOutcome":
        """What ``decide`` says with these fields of the snapshot instead."""
        world = replace(self.world, **other)
        plan, self.latest[0] = decide(world, self.latest[0])
        key = self.workload.key
        return WhatIfOutcome(
            admit=next((admit for admit in plan.admits if admit.workload == key), None),
            victims=tuple(evict for evict in plan.evicts if evict.beneficiary == key),
            reason=plan.reasons.get(key),
        )

    def need(self) -> MissingMembers:
        """What it lacks beyond the seats that it has."""
        mine = (each for each in self.world.admissions.values() if each.workload == self.workload.key)
        held = [seat for each in mine if each.state is AdmissionState.OPEN for seat in each.holding()]
        return missing_members(self.workload, held)

    def without(self, ends: Collection[AdmissionId]) -> Snapshot:
        """The world once these have ended."""
        admissions = self.world.admissions
        gone = [(admissions[each], -1) for each in ends]
        left = {key: each for key, each in admissions.items() if key not in ends}
        return replace(self.world, admissions=left, nodes=moved_nodes(self.world.nodes, gone))

    def instead(self, **other: Any) -> "WhatIfOutcome":
        """The same with other fields of the workload."""
        workload = replace(self.workload, **other)
        return self.outcome(pending={workload.key: workload})


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """What became of the workload. True: it goes in, now or once its victims are gone."""

    #: Its seats, if it goes in now.
    admit: Admit | None
    victims: tuple[Evict, ...]
    #: Why it waits, if it does.
    reason: Reason | None

    @property
    def goes_in(self) -> bool:
        """Without anybody being taken back for it."""
        return self.admit is not None

    def __bool__(self) -> bool:
        return self.goes_in or bool(self.victims)


def is_scarce(tree: QueueTree, account: Account) -> bool:
    """Whether somebody's share of it is written: what nobody counts keeps nobody out."""
    return any(account in own for own in tree.own_deserved.values())


def with_limit(queue: Queue, kind: str, account: Account, units: int) -> Queue:
    """The queue with another ``deserved`` or ``capability``."""
    limits = queue.limits if account.flavor == NO_FLAVOR else queue.flavors[account.flavor]
    if kind == "deserved":
        limits = replace(limits, deserved={**limits.deserved, account.resource: units})
    else:
        limits = replace(limits, capability={**limits.capability, account.resource: units})
    if account.flavor == NO_FLAVOR:
        return replace(queue, limits=limits)
    return replace(queue, flavors={**queue.flavors, account.flavor: limits})


def moved_nodes(nodes: NodeTable, moved: Sequence[tuple[Admission, int]]) -> NodeTable:
    """Nodes with the seats of some admissions put on (1) or taken off (-1)."""
    deltas: dict[NodeName, Resources] = {}
    for admission, sign in moved:
        for seat in admission.holding():
            deltas[seat.node] = deltas.get(seat.node, NOTHING) + seat.takes * sign
    return nodes.with_used(deltas)

"""One pending workload decided alone, in snapshots that differ from the real one in one thing. Pure.

Every suggestion to a user was tried here first.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.placement.need import MissingMembers, missing_members
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState
from queues.plan import Admit, Evict, Reason
from queues.quota.accounts import Account
from queues.quota.queue import Queue
from queues.quota.tree import QueueTree
from queues.resources import NOTHING, Resources
from queues.workload import NO_FLAVOR, AdmissionId, NodeName, Workload


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One workload, and a snapshot in which no other one is pending."""

    snapshot: Snapshot
    workload: Workload
    #: The engine's memo after the snapshot as it is.
    memo: Memo
    #: One entry: the engine's memo after the snapshot that was tried last.
    latest_memo: list[Memo]

    @classmethod
    def of(cls, snapshot: Snapshot, workload: Workload) -> "tuple[WhatIf, WhatIfOutcome]":
        """The workload alone in this snapshot, and its outcome there."""
        alone = replace(snapshot, pending={workload.key: workload})
        _, memo = decide(alone, Memo(), NO_LIMIT)
        what_if = cls(alone, workload, memo, [memo])
        return what_if, what_if.outcome()

    @property
    def tree(self) -> QueueTree:
        """The queues as they are."""
        assert self.memo.tree is not None
        return self.memo.tree

    def outcome(self, **fields: Any) -> "WhatIfOutcome":
        """The workload's outcome if these fields of the snapshot were different."""
        plan, self.latest_memo[0] = decide(replace(self.snapshot, **fields), self.latest_memo[0], NO_LIMIT)
        key = self.workload.key
        return WhatIfOutcome(
            admit=plan.admit_of(key),
            victims=tuple(evict for evict in plan.evicts if evict.beneficiary == key),
            reason=plan.reasons.get(key),
        )

    def missing(self) -> MissingMembers:
        """Members of the workload that have no seat."""
        mine = (each for each in self.snapshot.admissions.values() if each.workload == self.workload.key)
        held = [seat for each in mine if each.state is AdmissionState.OPEN for seat in each.holding()]
        return missing_members(self.workload, held)

    def without(self, ended: Collection[AdmissionId]) -> Snapshot:
        """The snapshot once these admissions have ended."""
        admissions = self.snapshot.admissions
        freed: dict[NodeName, Resources] = {}
        for id_ in ended:
            for seat in admissions[id_].holding():
                freed[seat.node] = freed.get(seat.node, NOTHING) - seat.takes
        left = {key: each for key, each in admissions.items() if key not in ended}
        return replace(self.snapshot, admissions=left, nodes=self.snapshot.nodes.with_used(freed))

    def outcome_of_workload(self, **fields: Any) -> "WhatIfOutcome":
        """The outcome if these fields of the workload were different."""
        workload = replace(self.workload, **fields)
        return self.outcome(pending={workload.key: workload})


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """What one decision does with the workload. True: it is admitted, now or once its victims are gone."""

    #: None if the workload is not admitted in this decision.
    admit: Admit | None
    victims: tuple[Evict, ...]
    #: Why the workload waits. None if it is admitted.
    reason: Reason | None

    @property
    def is_admitted(self) -> bool:
        """True if the workload is admitted now and needs no victims."""
        return self.admit is not None

    def __bool__(self) -> bool:
        return self.is_admitted or bool(self.victims)


def is_scarce(tree: QueueTree, account: Account) -> bool:
    """True if some queue states ``deserved`` for the account; an account without any limits no queue."""
    return any(account in own for own in tree.own_deserved.values())


def with_limit(queue: Queue, kind: str, account: Account, units: int) -> Queue:
    """The queue with another amount as ``kind``: ``deserved`` or ``capability``."""
    limits = queue.limits if account.flavor == NO_FLAVOR else queue.flavors[account.flavor]
    raised: dict[str, Any] = {kind: {**getattr(limits, kind), account.resource: units}}
    limits = replace(limits, **raised)
    if account.flavor == NO_FLAVOR:
        return replace(queue, limits=limits)
    return replace(queue, flavors={**queue.flavors, account.flavor: limits})

"""What one turn remembers for the next.

It saves time and decides nothing: ``decide(s, memo) == decide(s, Memo())``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from admission.engine.eligible import Prepared
from admission.engine.fragmentation import Gauge
from admission.engine.plan import Plan
from admission.engine.snapshot import Snapshot
from admission.engine.topology import NodeTable
from admission.engine.trial import Trial
from queues.quota import Account, Queue, QueueTree
from queues.usage import Usage, accounts, seats_by_flavor
from queues.workload import Admission, AdmissionId, QueueName, WorkloadKey

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True, eq=False)
class Memo:
    """Empty at the start of a term.

    Each turn returns the next one. Everything in it is compared by identity.
    """

    snapshot: Snapshot | None = None
    plan: Plan | None = None
    #: The plan above holds until this second, if nothing changes (None: for ever).
    until: int | None = None
    tree: QueueTree | None = None
    #: Books of the admissions of that snapshot; never changed in place.
    usage: Usage | None = None
    #: Workloads as they were made ready for the line.
    prepared: Mapping[WorkloadKey, Prepared] = field(default_factory=dict)
    #: Scores of node states; it follows the free amounts that it is shown.
    gauge: Gauge | None = None

    def answer(self, snapshot: Snapshot) -> Plan | None:
        """The last plan, if the last turn changed nothing and saw the same; only the time is new."""
        before, plan = self.snapshot, self.plan
        if before is None or plan is None or (self.until is not None and snapshot.now >= self.until):
            return None
        if plan.changes_ledger() or snapshot.now < before.now:
            return None
        if snapshot.ended or snapshot.evictable or snapshot.unbooked or snapshot.started:
            return None
        same = (
            _same_nodes(before.nodes, snapshot.nodes)
            and same_items(before.queues, snapshot.queues)
            and same_items(before.admissions, snapshot.admissions)
            and same_items(before.pending, snapshot.pending)
            and same_items(before.holders, snapshot.holders)
            and same_items(before.claims, snapshot.claims)
            and (before.budgets is snapshot.budgets or before.budgets == snapshot.budgets)
        )
        return replace(plan, now=snapshot.now, ledger_seq=snapshot.ledger_seq) if same else None

    def tree_for(self, snapshot: Snapshot) -> QueueTree:
        """The queue tree over the usable nodes."""
        before = self.snapshot
        if (
            before is not None
            and self.tree is not None
            and same_items(before.queues, snapshot.queues)
            and before.nodes.layout is snapshot.nodes.layout
            and before.nodes.allocatable is snapshot.nodes.allocatable
            and np.array_equal(before.nodes.held_elsewhere(), snapshot.nodes.held_elsewhere())
        ):
            return self.tree
        return tree_of(snapshot.queues, snapshot.nodes)

    def gauge_for(self, snapshot: Snapshot, trial: Trial) -> Gauge | None:
        """The measure of fragmentation over the nodes, for what is typical now."""
        if self.gauge is not None and self.gauge.measures(snapshot.typical, snapshot.nodes):
            return self.gauge
        return Gauge.over(snapshot.typical, snapshot.nodes, trial.devices)

    def usage_for(self, snapshot: Snapshot, tree: QueueTree) -> Usage:
        """Books of the snapshot's admissions: the last ones, changed where admissions changed."""
        before: Mapping[AdmissionId, Admission] = {}
        usage = Usage(tree)
        if self.snapshot is not None and self.usage is not None and self.usage.tree is tree:
            before, usage = self.snapshot.admissions, self.usage.copy()
        after = snapshot.admissions
        for number, admission in before.items():
            if after.get(number) is not admission:
                usage.remove(admission.queue, held_by(admission))
        for number, admission in after.items():
            if before.get(number) is not admission:
                usage.add(admission.queue, held_by(admission))
        return usage


def tree_of(queues: Mapping[QueueName, Queue], nodes: NodeTable) -> QueueTree:
    """The queue tree over what usable nodes can allocate, in all and by flavor."""
    flavors = {flavor: nodes.capacity(flavor) for flavor in sorted(set(nodes.layout.flavors)) if flavor}
    return QueueTree.build(queues, nodes.capacity(), flavors)


def held_by(admission: Admission) -> dict[Account, int]:
    """What an admission is charged for now."""
    return accounts(seats_by_flavor(admission.holding()))


def same_items(before: Mapping[Key, object], after: Mapping[Key, object]) -> bool:
    """Whether two mappings have the very same values under the same keys."""
    if before is after:
        return True
    return len(before) == len(after) and all(after.get(key) is value for key, value in before.items())


def _same_nodes(before: NodeTable, after: NodeTable) -> bool:
    return before is after or (
        before.layout is after.layout
        and before.allocatable is after.allocatable
        and before.used is after.used
        and before.ports == after.ports
    )

"""What one turn leaves for the next.

It saves time and decides nothing: ``decide(s, memo) == decide(s, Memo())``.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from admission.engine.closures.closing import NOTHING_CLOSED, TurnClosures
from admission.engine.forced_changes import OpenAdmissions
from admission.engine.nodes.fragmentation import FragmentationGauge
from admission.engine.nodes.table import NodeTable
from admission.engine.pending.classes import ClassAnswer, WorkloadClass
from admission.engine.pending.pending import PendingWorkloads
from admission.engine.pending.screening import Screening
from admission.engine.preemption.candidates import ChargesByShape, HeldAdmission
from admission.engine.preemption.pruning import HopelessQueues
from admission.engine.preemption.running import RunningWorkloads
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.order.line import QueueKeys
from queues.order.policies import by_user
from queues.order.shares import UserShares
from queues.plan import Plan
from queues.quota.accounts import Account
from queues.quota.decayed_usage import DecayedUsage
from queues.quota.queue import ROOT, Queue
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage, UserUse
from queues.reason_codes import ReasonCode
from queues.versioned_map import differing, same_rows
from queues.workload import AdmissionId, QueueName, WorkloadKey


class _Charge(NamedTuple):
    """What an admission is posted as."""

    queue: QueueName
    #: None if the queue does not count by user.
    user: str | None
    #: None if no queue on the path limits what one user may use.
    limited_user: str | None
    amounts: Mapping[Account, int]


@dataclass(slots=True, eq=False, kw_only=True)
class EngineState:
    """What is worked out from one snapshot under one queue tree, brought up to date from turn to turn."""

    #: Number of turns that have used it.
    turns: int = 0
    snapshot: Snapshot
    tree: QueueTree
    #: Use of each queue by the admissions of the snapshot.
    usage: Usage
    #: The same by user.
    users: UserShares
    #: The same by user, in queues that limit what one user may use.
    user_use: UserUse
    #: Averages of past use; None if it counts in no queue.
    decayed_usage: DecayedUsage | None
    open_admissions: OpenAdmissions
    #: Seats, amounts and size of each admission.
    held_admissions: dict[AdmissionId, HeldAdmission]
    running: RunningWorkloads
    shapes: ChargesByShape
    pending: PendingWorkloads
    screening: Screening
    queue_keys: QueueKeys = field(default_factory=QueueKeys)
    hopeless: HopelessQueues = field(default_factory=HopelessQueues)
    #: Why each class waits.
    class_answers: dict[WorkloadClass, ClassAnswer] = field(default_factory=dict)
    #: Classes that were in line in the last turn.
    tried_classes: list[WorkloadClass] = field(default_factory=list)
    #: Workloads to be sorted into classes (again).
    dirty_workloads: set[WorkloadKey] = field(default_factory=set)
    #: Queues with use that the last turn changed.
    dirty_queues: set[QueueName] = field(default_factory=set)
    #: Number of holders of admissions that declare a run time: reservations go by it.
    holders_with_run_time: int = 0
    #: Scores of node states. It follows the free amounts that it is given. None if packing alone decides.
    fragmentation: FragmentationGauge | None
    _charges: dict[AdmissionId, _Charge] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, earlier: "EngineState | None" = None) -> "EngineState":
        """The state of a snapshot. What depends on neither queues nor admissions is taken over from an earlier one."""
        built = snapshot.tree
        if built is None or built.given is not snapshot.queues:
            built = None if earlier is None else earlier.tree
        tree = tree_of(snapshot.queues, snapshot.nodes, built)
        usage, users = Usage(tree), UserShares()
        usage.past = users.past = DecayedUsage.over(tree, usage.book, users.book)
        open_admissions, held_admissions = OpenAdmissions(), dict[AdmissionId, HeldAdmission]()
        state = cls(
            snapshot=replace(snapshot, pending={}, admissions={}, holders={}),
            tree=tree,
            usage=usage,
            users=users,
            user_use=UserUse(tree),
            decayed_usage=usage.past,
            open_admissions=open_admissions,
            held_admissions=held_admissions,
            running=RunningWorkloads(tree, open_admissions, held_admissions),
            shapes=ChargesByShape() if earlier is None else earlier.shapes,
            pending=PendingWorkloads(tree),
            screening=Screening() if earlier is None else earlier.screening,
            fragmentation=None if earlier is None else earlier.fragmentation,
        )
        state.update(snapshot)
        return state

    def has_tree_of(self, snapshot: Snapshot) -> bool:
        """Whether queues and the capacity of nodes are what they were."""
        before, after = self.snapshot.nodes, snapshot.nodes
        if before.layout is not after.layout or before.allocatable is not after.allocatable:
            return False
        held = ~before.layout.usable  # use counts as capacity there
        same = before.used is after.used or np.array_equal(before.used[:, held], after.used[:, held])
        return same and same_rows(self.snapshot.queues, snapshot.queues)

    def update(self, snapshot: Snapshot) -> None:
        """Go on to the next snapshot under the same tree: post what changed, and note the dirty workloads."""
        before, self.snapshot = self.snapshot, snapshot
        dirty = self.dirty_workloads
        dirty.update(differing(before.pending, snapshot.pending))
        dirty.update(before.without_more_nodes ^ snapshot.without_more_nodes)
        changed = differing(before.admissions, snapshot.admissions)
        for number in changed:
            was, now = before.admissions.get(number), snapshot.admissions.get(number)
            self.open_admissions.update(number, was, now)
            keys = [each.workload for each in (was, now) if each is not None]
            dirty.update(keys)
            self.running.mark_dirty(keys)
        self._post(changed)
        if self.decayed_usage is not None:
            self.queue_keys.forget(self.decayed_usage.update(snapshot.past_use, snapshot.now))
        if snapshot.now < before.now:
            dirty.update(snapshot.pending)
        elif relabelled := _relabelled(before, snapshot):
            dirty.update(key for key, each in snapshot.pending.items() if each.namespace in relabelled)
        dirty |= self.pending.expired_backoffs(snapshot.now)
        holders = differing(before.holders, snapshot.holders)
        self.running.mark_dirty(holders)
        for key in holders:
            was_holder, holder = before.holders.get(key), snapshot.holders.get(key)
            self.holders_with_run_time -= was_holder is not None and was_holder.run_time is not None
            self.holders_with_run_time += holder is not None and holder.run_time is not None

    def retire(self) -> None:
        """Another state has taken the place of this one. What refers to itself in a circle is let go of: the process
        collects no garbage among what is as old as this."""
        self.turns += 1
        self.pending.dissolve()

    def gauge_for(self, trial: Trial) -> FragmentationGauge | None:
        """The measure of fragmentation over the nodes of a trial, for the typical demand of the snapshot."""
        typical, gauge = self.snapshot.typical, self.fragmentation
        if gauge is None or not gauge.is_for(typical, trial.table):
            self.fragmentation = FragmentationGauge.over(typical, trial.table, trial.devices)
        return self.fragmentation

    def until(self) -> int | None:
        """The next second at which past use may change the order of the pending workloads; None if it will not."""
        if self.decayed_usage is None or not self.pending.classes:
            return None
        return self.decayed_usage.until()

    def _post(self, numbers: Iterable[AdmissionId]) -> None:
        """Take what these admissions were posted as off the books, and enter what they hold now."""
        sums: dict[QueueName, dict[Account, int]] = {}
        for number in numbers:
            if (charge := self._charges.pop(number, None)) is not None:
                self._enter(charge, -1, sums)
            admission = self.snapshot.admissions.get(number)
            if admission is None:
                self.held_admissions.pop(number, None)
                continue
            held = self.held_admissions[number] = self.shapes.hold(admission)
            queue = admission.queue
            by_users = queue in self.tree.paths and by_user(self.tree, queue)
            user = self.snapshot.user_of(admission) if by_users else None
            limited = self.snapshot.user_of(admission) if self.tree.user_limits(queue) else None
            charge = self._charges[number] = _Charge(queue, user, limited, held.charges)
            self._enter(charge, 1, sums)
        for queue, amounts in sums.items():
            self.usage.add(queue, amounts)

    def _enter(self, charge: _Charge, sign: int, sums: dict[QueueName, dict[Account, int]]) -> None:
        total = sums.setdefault(charge.queue, {})
        for account, units in charge.amounts.items():
            total[account] = total.get(account, 0) + sign * units
        if charge.user is not None:
            self.users.add(charge.queue, charge.user, charge.amounts, times=sign)
        if charge.limited_user is not None:
            self.user_use.add(charge.queue, charge.limited_user, charge.amounts, times=sign)


@dataclass(frozen=True, slots=True, eq=False)
class Memo:
    """Empty at the start of a term; each turn returns the next one.

    Turns pass one ``EngineState`` on. A memo that is not the latest still works, and then saves no time.
    """

    plan: Plan | None = None
    #: The plan above holds until this second, if nothing changes (for ever if None).
    until: int | None = None
    #: The queue tree of that turn, and its use by the admissions of the snapshot.
    tree: QueueTree | None = None
    usage: Usage | None = None
    state: EngineState | None = None
    #: Number of turns that had used the state when this memo was made.
    turns: int = 0
    #: Nodes that were closed in that turn.
    closing: TurnClosures = NOTHING_CLOSED

    def answer(self, snapshot: Snapshot) -> Plan | None:
        """The plan of the last turn, if it changed nothing and this snapshot differs in time only; else None."""
        if self.plan is None or self.state is None or self.state.turns != self.turns:
            return None
        plan, before = self.plan, self.state.snapshot
        if plan.changes_ledger() or snapshot.now < before.now:
            return None
        if self.until is not None and snapshot.now >= self.until:
            return None
        if snapshot.changes_anyway():
            return None
        same = (
            before.nodes.used is snapshot.nodes.used
            and before.nodes.differs_in_use_only(self.closing.close(snapshot.nodes))
            and all(
                same_rows(getattr(before, rows), getattr(snapshot, rows))
                for rows in ("queues", "admissions", "pending", "holders", "claims")
            )
            and before.closures == snapshot.closures
            and before.without_more_nodes == snapshot.without_more_nodes
            and before.leaving == snapshot.leaving
            and same_rows(before.past_use.rows, snapshot.past_use.rows)
            and not _relabelled(before, snapshot)
            and (before.budgets is snapshot.budgets or before.budgets == snapshot.budgets)
        )
        return replace(plan, now=snapshot.now, ledger_seq=snapshot.ledger_seq) if same else None

    def state_for(self, snapshot: Snapshot) -> EngineState:
        """The state of this snapshot, for one turn: the last one brought up to date, or a new one."""
        state = self.state
        if state is None or state.turns != self.turns:
            state = EngineState.of(snapshot, state)
        elif state.has_tree_of(snapshot):
            state.update(snapshot)
        else:
            before, state = state, EngineState.of(snapshot, state)
            before.retire()
        state.turns += 1
        return state


def _relabelled(before: Snapshot, after: Snapshot) -> Set[str]:
    """Namespaces with other labels than before."""
    if before.namespaces is after.namespaces:
        return frozenset()
    names = before.namespaces.keys() | after.namespaces.keys()
    return {name for name in names if before.namespaces.get(name) != after.namespaces.get(name)}


def tree_of(
    queues: Mapping[QueueName, Queue], nodes: NodeTable, before: QueueTree | None = None
) -> QueueTree:
    """The queue tree over what usable nodes can allocate, in all and by flavor. ``before``: an older one."""
    flavors = {flavor: nodes.capacity(flavor) for flavor in sorted(set(nodes.layout.flavors)) if flavor}
    return QueueTree.build(queues, nodes.capacity(), flavors, before=before)


# -- amounts of queues, for those who show them --------------------------------------------------------------------

QueueAmounts = Mapping[tuple[QueueName, Account], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBooks:
    """Queues as the last turn left them."""

    tree: QueueTree
    #: What the amounts are worked out from; None if not known.
    usage: Usage | None = None
    used: QueueAmounts = field(default_factory=dict)
    deserved: QueueAmounts = field(default_factory=dict)
    #: Decayed averages, of queues in which past use counts.
    past_use: QueueAmounts = field(default_factory=dict)
    #: Waiting workloads.
    pending: Mapping[tuple[QueueName, ReasonCode], int] = field(default_factory=dict)


def books_after(before: QueueBooks | None, memo: Memo) -> QueueBooks | None:
    """The amounts of queues after a decision; computed again only where they changed."""
    usage, tree = memo.usage, memo.tree
    if usage is None or tree is None:
        return before
    is_same_tree = before is not None and tree is before.tree
    if before is not None and is_same_tree and usage is before.usage:
        return before
    deserved = before.deserved if before is not None and is_same_tree else _deserved(tree)
    used = {(name, account): units for name in tree.paths for account, units in usage.book(name).items()}
    past_use = {
        (name, account): units
        for name in tree.paths
        if usage.past is not None and (past := usage.past.of_queue(name)) is not None
        for account, units in past.averages().items()
    }
    return QueueBooks(tree=tree, usage=usage, used=used, deserved=deserved, past_use=past_use)


def _deserved(tree: QueueTree) -> QueueAmounts:
    accounts = tree.capabilities[ROOT]
    return {(name, account): tree.deserved(name, account) for name in tree.paths for account in accounts}

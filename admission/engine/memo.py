"""What one turn remembers for the next.

It saves time and decides nothing: ``decide(s, memo) == decide(s, Memo())``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from admission.engine.nodes.fragmentation import FragmentationGauge
from admission.engine.nodes.table import NodeTable
from admission.engine.pending.classes import ClassAnswer, WorkloadClass
from admission.engine.pending.pending import PendingWorkloads
from admission.engine.pending.screening import Screening
from admission.engine.preemption.candidates import ChargesByShape, HeldAdmission
from admission.engine.preemption.pruning import ParkedClasses
from admission.engine.settlement import OpenAdmissions
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import Admission
from queues.order.line import QueueKeys
from queues.order.policies import by_user
from queues.order.shares import UserShares
from queues.plan import Plan
from queues.quota.accounts import Account
from queues.quota.decayed_usage import DecayedUsage
from queues.quota.queue import Queue
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.versioned_map import differing, same_rows
from queues.workload import AdmissionId, QueueName, WorkloadKey


@dataclass(slots=True, eq=False)
class EngineState:
    """What turns work on, one after the other: true of one snapshot, brought up to date to the next one."""

    #: How many turns worked on it. A memo that knows another number is an old one.
    turns: int = 0
    snapshot: Snapshot | None = None
    tree: QueueTree | None = None
    #: Books of the admissions of that snapshot.
    usage: Usage | None = None
    users: UserShares = field(default_factory=UserShares)
    open_admissions: OpenAdmissions = field(default_factory=OpenAdmissions)
    pending: PendingWorkloads | None = None
    screening: Screening = field(default_factory=Screening)
    queue_keys: QueueKeys = field(default_factory=QueueKeys)
    #: Why each class waits.
    class_answers: dict[WorkloadClass, ClassAnswer] = field(default_factory=dict)
    #: Classes that were in line in the last turn.
    tried_classes: list[WorkloadClass] = field(default_factory=list)
    #: Who need not ask for room.
    parked: ParkedClasses = field(default_factory=ParkedClasses)
    #: Workloads that have to be sorted again because something held for that turn only.
    dirty_workloads: set[WorkloadKey] = field(default_factory=set)
    #: Queues whose books changed in that turn.
    dirty_queues: set[QueueName] = field(default_factory=set)
    #: What each admission holds, as it would be if it went.
    held_admissions: dict[AdmissionId, HeldAdmission] = field(default_factory=dict)
    shapes: ChargesByShape = field(default_factory=ChargesByShape)
    #: Scores of node states; it follows the free amounts that it is shown.
    fragmentation: FragmentationGauge | None = None
    #: So many holders of admissions say something that a reservation goes by.
    holders_with_run_time: int = 0
    #: What was used in the past; None: it does not count in any queue.
    decayed_usage: DecayedUsage | None = None
    _charged: dict[AdmissionId, tuple[QueueName, str | None, Mapping[Account, int]]] = field(
        default_factory=dict
    )

    def update(self, snapshot: Snapshot) -> set[WorkloadKey]:
        """Bring books and admissions up to date. Returns the workloads that have to be sorted (again)."""
        tree = self._tree_for(snapshot)
        before = self.snapshot
        old = before.admissions if before is not None else {}
        changed = differing(old, snapshot.admissions)
        keys = set(self.dirty_workloads)
        if tree is not self.tree or self.usage is None:
            self._begin(tree)
            keys = set(snapshot.pending)
            posted: Iterable[AdmissionId] = dict.fromkeys((*snapshot.admissions, *changed))
        else:
            earlier = before.pending if before is not None else {}
            keys.update(differing(earlier, snapshot.pending))
            posted = changed
        for number in changed:
            was, now = old.get(number), snapshot.admissions.get(number)
            self.open_admissions.update(number, was, now)
            if was is not None:
                keys.add(was.workload)
            if now is not None:
                keys.add(now.workload)
        self._post(posted, snapshot)
        if self.decayed_usage is not None:
            self.queue_keys.forget(self.decayed_usage.update(snapshot.past_use, snapshot.now))
        assert self.pending is not None
        if before is not None and snapshot.now < before.now:
            keys.update(snapshot.pending)
        keys |= self.pending.expired_backoffs(snapshot.now)
        holders = before.holders if before is not None else {}
        for key in differing(holders, snapshot.holders):
            was_there, is_there = holders.get(key), snapshot.holders.get(key)
            self.holders_with_run_time -= was_there is not None and was_there.run_time is not None
            self.holders_with_run_time += is_there is not None and is_there.run_time is not None
        self.snapshot = snapshot
        return keys

    def gauge_for(self, snapshot: Snapshot, trial: Trial) -> FragmentationGauge | None:
        """The measure of fragmentation over the nodes, for what is typical now."""
        if self.fragmentation is not None and self.fragmentation.is_for(snapshot.typical, snapshot.nodes):
            return self.fragmentation
        return FragmentationGauge.over(snapshot.typical, snapshot.nodes, trial.devices)

    def _begin(self, tree: QueueTree) -> None:
        """Other queues, or other nodes: everybody is sorted anew."""
        self.tree, self.usage, self.users = tree, Usage(tree), UserShares()
        self.pending, self.queue_keys = PendingWorkloads(tree), QueueKeys()
        self.class_answers, self.tried_classes, self.dirty_queues = {}, [], set()
        self.parked = ParkedClasses()
        self._charged = {}
        self.decayed_usage = DecayedUsage.over(tree, self.usage.book, self.users.book)
        self.usage.past = self.users.past = self.decayed_usage

    def until(self) -> int | None:
        """The next second at which past use may put those who wait in another order; None: it will not."""
        waits = self.pending is not None and self.pending.classes
        return self.decayed_usage.until() if self.decayed_usage is not None and waits else None

    def _post(self, numbers: Iterable[AdmissionId], snapshot: Snapshot) -> None:
        usage, tree = self.usage, self.tree
        assert usage is not None
        assert tree is not None
        sums: dict[QueueName, dict[Account, int]] = {}
        for number in numbers:
            if (charged := self._charged.pop(number, None)) is not None:
                queue, user, amounts = charged
                _sum_up(sums.setdefault(queue, {}), amounts, -1)
                if user is not None:
                    self.users.add(queue, user, amounts, times=-1)
            admission = snapshot.admissions.get(number)
            if admission is None:
                self.held_admissions.pop(number, None)
            else:
                part = self.held_admissions.get(number)
                if part is None or part.admission is not admission:
                    part = self.held_admissions[number] = self.shapes.hold(admission)
                queue, amounts = admission.queue, part.charges
                counts = queue in tree.paths and by_user(tree, queue)
                user = self._user_of(admission, snapshot) if counts else None
                _sum_up(sums.setdefault(queue, {}), amounts, 1)
                if user is not None:
                    self.users.add(queue, user, amounts)
                self._charged[number] = (queue, user, amounts)
        for queue, amounts in sums.items():
            usage.add(queue, amounts)

    def _user_of(self, admission: Admission, snapshot: Snapshot) -> str:
        if admission.user:
            return admission.user
        key = admission.workload
        workload = snapshot.holders.get(key) or snapshot.pending.get(key)
        return workload.user if workload is not None else ""

    def _tree_for(self, snapshot: Snapshot) -> QueueTree:
        """The queue tree over the usable nodes."""
        before = self.snapshot
        if (
            before is not None
            and self.tree is not None
            and same_rows(before.queues, snapshot.queues)
            and _same_capacity(before.nodes, snapshot.nodes)
        ):
            return self.tree
        return tree_of(snapshot.queues, snapshot.nodes)


@dataclass(frozen=True, slots=True, eq=False)
class Memo:
    """Empty at the start of a term.

    Each turn returns the next one. The desk goes on to the next turn; an older memo still works, and then saves
    no time.
    """

    plan: Plan | None = None
    #: The plan above holds until this second, if nothing changes (None: for ever).
    until: int | None = None
    #: The queue tree of that turn, and the books of its admissions.
    tree: QueueTree | None = None
    usage: Usage | None = None
    state: EngineState | None = None
    #: How many turns had worked on the desk then.
    turns: int = 0

    def answer(self, snapshot: Snapshot) -> Plan | None:
        """The last plan, if the last turn changed nothing and saw the same; only the time is new."""
        plan, before = self.plan, self._last()
        if before is None or plan is None or (self.until is not None and snapshot.now >= self.until):
            return None
        if plan.changes_ledger() or snapshot.now < before.now:
            return None
        if snapshot.ended or snapshot.evictable or snapshot.unbooked or snapshot.started:
            return None
        same = (
            _same_nodes(before.nodes, snapshot.nodes)
            and same_rows(before.queues, snapshot.queues)
            and same_rows(before.admissions, snapshot.admissions)
            and same_rows(before.pending, snapshot.pending)
            and same_rows(before.holders, snapshot.holders)
            and same_rows(before.claims, snapshot.claims)
            and same_rows(before.past_use.rows, snapshot.past_use.rows)
            and (before.budgets is snapshot.budgets or before.budgets == snapshot.budgets)
        )
        return replace(plan, now=snapshot.now, ledger_seq=snapshot.ledger_seq) if same else None

    def reuse_state(self) -> EngineState:
        """The desk, for the one turn that comes next; a new one if a turn worked on it since."""
        desk = self.state if self.state is not None and self.state.turns == self.turns else EngineState()
        desk.turns += 1
        return desk

    def _last(self) -> Snapshot | None:
        return self.state.snapshot if self.state is not None and self.state.turns == self.turns else None


def tree_of(queues: Mapping[QueueName, Queue], nodes: NodeTable) -> QueueTree:
    """The queue tree over what usable nodes can allocate, in all and by flavor."""
    flavors = {flavor: nodes.capacity(flavor) for flavor in sorted(set(nodes.layout.flavors)) if flavor}
    return QueueTree.build(queues, nodes.capacity(), flavors)


def _sum_up(sums: dict[Account, int], amounts: Mapping[Account, int], sign: int) -> None:
    for account, units in amounts.items():
        sums[account] = sums.get(account, 0) + sign * units


def _same_capacity(before: NodeTable, after: NodeTable) -> bool:
    if before.layout is not after.layout or before.allocatable is not after.allocatable:
        return False
    if before.used is after.used or before.layout.usable.all():
        return True
    return np.array_equal(before.used_on_unusable(), after.used_on_unusable())


def _same_nodes(before: NodeTable, after: NodeTable) -> bool:
    return before is after or (
        before.layout is after.layout
        and before.allocatable is after.allocatable
        and before.used is after.used
        and (before.ports is after.ports or before.ports == after.ports)
    )

"""Queues, removed ones that still hold something among them, what the status of each counts, and past use. Pure.

Past use counts as far as the policies of queues say so. It is read from the postings of the ledger when a term begins
and when half-lives change; every plan that is applied then adds what the ledger posts for it. Both give the same, to
the last digit (``queues.quota.decayed_usage``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from admission.facts.cluster import QueueFact
from admission.facts.pods import PodPhase
from admission.workloads.kinds import StatusForm, support_of
from admission.workloads.seats import is_live
from admission.workloads.state import WorkloadState
from queues.admissions import Admission, AdmissionState
from queues.plugins.guard import PluginFault
from queues.plugins.registry import PluginSetAside
from queues.quota.accounts import Account, charges
from queues.quota.budgets import SpentBudget
from queues.quota.decayed_usage import PastUse, Sums, UsageHolder, UsageRecorder, half_lives
from queues.quota.loans import DeservedOverTime, LoansInForce, loans_in_force
from queues.quota.queue import Queue, ReleaseRules, path_below_root, release_rules, with_removed
from queues.quota.queue_policies import names_others
from queues.quota.tree import QueueTree
from queues.resources import NOTHING, Resources
from queues.workload import AdmissionId, FlavorName, QueueName, Toleration, WorkloadKey


class QueueFacts:
    """Part of the world."""

    def __init__(
        self,
        parents: Mapping[QueueName, QueueName | None],
        set_aside: Mapping[QueueName, tuple[PluginSetAside, ...]] = MappingProxyType({}),
    ) -> None:
        """``parents``: of queues that were removed: what is held of them counts along the same path as before.
        ``set_aside``: plug-ins, by the queue that names them."""
        #: As their objects say. Limits of queues that lend, or that something is lent to, count otherwise: ``counted``.
        self.queues: dict[QueueName, QueueFact] = {}
        self._removed = dict(parents)
        self._set_aside = dict(set_aside)
        #: Budgets that are used up.
        self._spent: Mapping[QueueName, SpentBudget] = {}
        #: Queues that name policies which are not Muster's own, or state parameters.
        self._naming: set[QueueName] = set()
        self._loans = LoansInForce()
        #: Queues that were put since loans were looked at.
        self._put: set[QueueName] = set()
        #: What is asked by ``deserved_over_time``. None if queues or loans have changed.
        self._over_time: DeservedOverTime | None = None
        #: Admissions that are not closed, by queue.
        self._held: Counter[QueueName] = Counter()
        #: The queues as their objects say.
        self._stated: dict[QueueName, Queue] = {}
        #: The queues as they count, with removed ones that hold something. None if they have changed.
        self._known: dict[QueueName, Queue] | None = None
        #: Of the queues as they counted when it was asked for last, and the problems that it has.
        self._tree: QueueTree | None = None
        self._problems: Mapping[QueueName, str] = {}
        #: Plug-ins that cannot be used, and the tree that this was worked out from.
        self._plugin_problems: tuple[QueueTree | None, Mapping[QueueName, str]] = (None, {})
        self._is_being_built = False
        #: Queues that were put since ``take_changed``.
        self._changed: set[QueueName] = set()

    def put(self, name: QueueName, fact: QueueFact | None) -> QueueFact | None:
        """A Queue appeared, changed, or (None) is gone. Returns it as it counts, by the loans that are known so far."""
        self._changed.add(name)
        before = self.queues.pop(name, None)
        self._stated.pop(name, None)
        self._naming.discard(name)
        if before is None or fact is None or before.queue != fact.queue:
            self._known = None
        if fact is None:
            if before is not None:
                self._removed[name] = before.queue.parent
            self._put.add(name)
            self._over_time = None
            return None
        self.queues[name] = fact
        if fact.queue.plugin_parameters or names_others(fact.queue):
            self._naming.add(name)
        # Statuses change every few seconds, and the tree goes by identity.
        self._stated[name] = fact.queue if before is None or before.queue != fact.queue else before.queue
        self._removed.pop(name, None)
        if before is None or before.queue != fact.queue:
            self._put.add(name)
            self._over_time = None
        return fact if name in self._put else self._counted(name)

    def take_changed(self) -> set[QueueName]:
        """Queues whose objects changed, statuses included, since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def tell_time(self, now: int) -> dict[QueueName, QueueFact]:
        """Queues whose limits count otherwise than in the last answer, since a loan began, changed or ended.

        ``now``: seconds since the epoch.
        """
        ends = self._loans.until
        if not self._put and (ends is None or now < ends):
            return {}
        before, put = self._loans.queues, self._put
        self._put = set()
        self._loans = loans_in_force(dict(self._stated), now, before=self._loans.tree)
        counted = self._loans.queues
        if before != counted:
            self._known = None
        changed = {
            name
            for name in before.keys() | counted.keys()
            if name in put or before.get(name) != counted.get(name)
        }
        return {name: self._counted(name) for name in sorted(changed & self.queues.keys())}

    @property
    def loans_until(self) -> int | None:
        """When the next loan ends, in seconds since the epoch; None if none lasts."""
        return self._loans.until

    def counted(self) -> dict[QueueName, Queue]:
        """The queues that there are, with what they deserve by the loans that last, plug-ins that are set aside, and
        budgets that are used up."""
        lent = self._loans.queues
        queues = self._stated | {name: lent[name] for name in lent.keys() & self._stated.keys()}
        for name in self._set_aside.keys() & queues.keys():
            queues[name] = replace(queues[name], set_aside=self._set_aside[name])
        for name in self._spent.keys() & queues.keys():
            queues[name] = replace(queues[name], spent=self._spent[name])
        return queues

    def set_aside_with(self, queue: QueueName, fault: PluginFault) -> tuple[PluginSetAside, ...]:
        """The plug-ins of a queue that are set aside, with the one that failed."""
        asked, stated = fault.asked, self._stated.get(queue)
        others = (each for each in self._set_aside.get(queue, ()) if each.plugin != asked.plugin)
        one = PluginSetAside(
            plugin=asked.plugin,
            digest=asked.digest,
            parameters=asked.parameters,
            retry="" if stated is None else stated.retry,
            why=fault.why,
        )
        return (*others, one)

    def put_set_aside(self, queue: QueueName, plugins: tuple[PluginSetAside, ...]) -> None:
        """Postgres has it that these plug-ins of a queue are set aside."""
        self._set_aside[queue] = plugins
        self._known = None

    def put_spent(self, spent: Mapping[QueueName, SpentBudget]) -> bool:
        """These budgets are used up, and no others. Whether others were until now."""
        if spent == self._spent:
            return False
        self._spent, self._known = spent, None
        return True

    def deserved_over_time(self) -> DeservedOverTime:
        """What queues deserve from now on: the same object until a queue or a loan changes."""
        if self._over_time is None:
            self._over_time = DeservedOverTime(dict(self._stated))
        return self._over_time

    def release_rules(
        self, name: QueueName, tolerations: Mapping[FlavorName, tuple[Toleration, ...]]
    ) -> ReleaseRules:
        """How pods of a queue are released. ``tolerations``: of all flavors."""
        return release_rules(name, self._stated.get, tolerations)

    def tenant_of(self, name: QueueName) -> QueueName:
        """The top-level queue above a queue, itself included."""
        return (path_below_root(name, self._stated.get) or [name])[-1]

    def queue_of(self, name: QueueName) -> Queue | None:
        """A queue as it counts now; None if there is none of that name."""
        fact = self.queues.get(name)
        return None if fact is None else fact.queue

    def _counted(self, name: QueueName) -> QueueFact:
        fact, queue = self.queues[name], self._loans.queues.get(name)
        return fact if queue is None else replace(fact, queue=queue)

    def replace_admission(self, before: Admission | None, after: Admission) -> None:
        """An admission was opened, changed or closed."""
        if before is not None:
            self._hold(before.queue, -1)
        if after.state is not AdmissionState.CLOSED:
            self._hold(after.queue, 1)

    def _hold(self, queue: QueueName, more: int) -> None:
        was_held = self._held[queue] > 0
        self._held[queue] += more
        if self._held[queue] <= 0:
            del self._held[queue]
        if queue in self._removed and was_held != (queue in self._held):
            self._known = None

    def with_removed(self) -> dict[QueueName, Queue]:
        """The queues that there are, as they count, and removed ones that still hold something: the same object until
        that changes."""
        if self._known is None:
            held = [name for name in self._removed if name in self._held]
            self._known = with_removed(self.counted(), held, self._removed)
            # Nothing is opened in a removed queue, so one that holds nothing matters no more.
            self._removed = {name: parent for name, parent in self._removed.items() if name in self._known}
        return self._known

    @property
    def must_be_built(self) -> bool:
        """Whether the next ``tree`` takes in queues that changed."""
        return self._tree is None or self._tree.given is not self.with_removed()

    def build_tree(self) -> None:
        """Build the tree, in a thread: meanwhile ``tree`` answers with the one before."""
        self._is_being_built = self._tree is not None
        try:
            self._tree = QueueTree.build(self.with_removed(), None, before=self._tree)
        finally:
            self._is_being_built = False

    def tree(self) -> QueueTree:
        """The tree of ``with_removed``, over unbounded nodes. It is built once for each change."""
        if self._tree is None or (self.must_be_built and not self._is_being_built):
            self.build_tree()
        assert self._tree is not None
        return self._tree

    def problems(self) -> Mapping[QueueName, str]:
        """Queues that cannot be used, with all that is wrong with them."""
        # What nodes have is no problem of a queue.
        problems = self.tree().problems
        return {name: " ".join(map(str, errors)) for name, errors in problems.items()}

    def plugin_problems(self) -> Mapping[QueueName, str]:
        """Queues that are to be served by plug-ins that cannot be used, with all that is wrong with these.

        The same object until a queue changes.
        """
        tree = self.tree()
        if self._plugin_problems[0] is not tree:
            found: dict[QueueName, str] = {}
            for name in tree.with_below(self._naming & tree.paths.keys()) if self._naming else ():
                if problems := tree.policies(name).problems:
                    found[name] = "; ".join(each.message for each in problems)
            self._plugin_problems = (tree, found)
        return self._plugin_problems[1]


#: Workloads for which there is a PodGroup.
_WITH_GROUP: Final = (StatusForm.POD_GROUP, StatusForm.VOLCANO_JOB)


class Standing(StrEnum):
    """How far a workload is, in the words of Volcano's queue status."""

    PENDING = "pending"
    #: Admitted; not every pod has been bound yet.
    INQUEUE = "inqueue"
    RUNNING = "running"
    #: Pods run, but no longer as a gang; of workloads that have a PodGroup.
    UNKNOWN = "unknown"
    COMPLETED = "completed"


class QueueTotals:
    """Part of the world: sums over workloads and admissions, by queue."""

    def __init__(self, ended: Mapping[WorkloadKey, QueueName]) -> None:
        """``ended``: as Postgres has it, until each workload was looked at."""
        #: Queue of each workload that has ended and has no state.
        self.ended = dict(ended)
        #: Workloads by queue and standing.
        self.workloads = Counter((queue, Standing.COMPLETED) for queue in ended.values())
        self._allocated: dict[QueueName, Resources] = {}
        #: Queues whose sums may have changed since ``take_changed``.
        self._changed: set[QueueName] = set()

    def allocated(self, queue: QueueName) -> Resources:
        """What the seats of a queue's own admissions take."""
        return self._allocated.get(queue, NOTHING)

    def allocations(self) -> Iterable[tuple[QueueName, Resources]]:
        """The same of all queues in which something was admitted in this term."""
        return self._allocated.items()

    def take_changed(self) -> set[QueueName]:
        """Queues whose sums may be others than at the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def replace_state(
        self, key: WorkloadKey, before: WorkloadState | None, after: WorkloadState | None
    ) -> None:
        """One state of a workload takes another's place. None if there was, or is, none."""
        self.end(key, before, None)
        if after is not None:
            self._count(after.workload.queue, standing(after), 1)

    def end(self, key: WorkloadKey, before: WorkloadState | None, queue: QueueName | None) -> None:
        """A workload has ended in this queue, and has no state any more; None if nothing is left of it."""
        if before is not None:
            self._count(before.workload.queue, standing(before), -1)
        if (ended_in := self.ended.pop(key, None)) is not None:
            self._count(ended_in, Standing.COMPLETED, -1)
        if queue is not None:
            self.ended[key] = queue
            self._count(queue, Standing.COMPLETED, 1)

    def _count(self, queue: QueueName, standing: Standing, more: int) -> None:
        self.workloads[queue, standing] += more
        self._changed.add(queue)

    def replace_admission(self, before: Admission | None, after: Admission) -> None:
        """An admission was opened (``before`` is None) or changed."""
        self._changed.update(each.queue for each in (before, after) if each is not None)
        if before is not None:
            self._allocated[before.queue] = self.allocated(before.queue) - before.holds()
        if after.state is not AdmissionState.CLOSED:
            self._allocated[after.queue] = self.allocated(after.queue) + after.holds()


def standing(state: WorkloadState) -> Standing:
    """How far a workload is."""
    if state.is_over:
        return Standing.COMPLETED
    open_ = [place.admission for place in state.seat_maps if place.admission.state is AdmissionState.OPEN]
    if _is_broken_gang(state, open_):
        return Standing.UNKNOWN
    if not open_:
        return Standing.PENDING if state.needs_seats else Standing.COMPLETED
    return Standing.RUNNING if any(admission.started for admission in open_) else Standing.INQUEUE


def _is_broken_gang(state: WorkloadState, open_: Sequence[Admission]) -> bool:
    """Whether its PodGroup is in the phase Unknown (``WorkloadStatus.phase``): pods run without seats, or a gang that
    had started lacks members."""
    if support_of(state.key).status not in _WITH_GROUP:
        return False
    if open_ and not any(admission.started for admission in open_):
        return False
    phases = Counter(pod.phase for pod in state.pods)
    if not phases[PodPhase.RUNNING]:
        return False
    if not open_:
        return True
    there = phases[PodPhase.FAILED] + sum(pod.node is not None and is_live(pod) for pod in state.pods)
    if not support_of(state.key).is_group:
        # Of a PodGroup the workload's minimum leaves them out already.
        there += phases[PodPhase.SUCCEEDED]
    return there < state.workload.minimum


def posted_amounts(
    changed: Iterable[Admission], known: Mapping[AdmissionId, Admission]
) -> Iterator[tuple[Admission, Mapping[Account, int]]]:
    """What the ledger posts for admissions that were opened or changed; below 0: given back. ``known``: as before."""
    for admission in changed:
        before = known.get(admission.id)
        amounts = dict(charges(admission.holding()))
        for account, units in charges(before.holding() if before else ()).items():
            amounts[account] = amounts.get(account, 0) - units
        yield admission, amounts


class UsageHistory:
    """Empty, and no work, as long as no queue has ``usageHalfLife``."""

    def __init__(self) -> None:
        #: Queues have changed: their half-lives may differ from the ones that were read. Or what was missing is there.
        self.needs_reading = False
        #: Half-lives by which too much has to be summed up first: until then only present use counts.
        self.missing: frozenset[int] = frozenset()
        self._wanted: Mapping[QueueName, frozenset[int]] = {}
        self._recorder = UsageRecorder()

    def unread(self, queues: Mapping[QueueName, Queue]) -> Mapping[QueueName, frozenset[int]] | None:
        """By which half-lives the ledger has to be read anew; None if what is known is of the right ones."""
        wanted = half_lives(queues)
        if wanted == self._wanted and not self.missing:
            self.needs_reading = False
            return None
        return wanted

    def half_lives(self) -> frozenset[int] | None:
        """All by which past use counts; None if not known yet."""
        return None if self.needs_reading else frozenset[int]().union(*self._wanted.values())

    def begin(
        self,
        half_lives: Mapping[QueueName, frozenset[int]],
        rows: Mapping[UsageHolder, Sums],
        now: int,
        missing: frozenset[int] = frozenset(),
    ) -> None:
        """What the ledger says (``queues.sql.read.past_use``), by all these half-lives but the ``missing`` ones."""
        self._wanted, self.missing = half_lives, missing
        self._recorder.begin(without(half_lives, missing), rows, now)
        self.needs_reading = False

    def post(self, changed: Iterable[Admission], known: Mapping[AdmissionId, Admission], at: int) -> None:
        """A plan of that second opened or changed admissions; ``known`` are they as they were before."""
        for admission, amounts in posted_amounts(changed, known) if self._recorder.half_lives else ():
            self._recorder.post(admission.queue, admission.user, amounts, at)

    def freeze(self, now: int) -> PastUse:
        """For the snapshot."""
        return self._recorder.freeze(now)


def without(
    half_lives: Mapping[QueueName, frozenset[int]], missing: frozenset[int]
) -> Mapping[QueueName, frozenset[int]]:
    """Half-lives of each queue but these; a queue that has no other is absent."""
    return {queue: every - missing for queue, every in half_lives.items() if every - missing}

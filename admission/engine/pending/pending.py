"""Who is left out because too many wait in a queue, or of one user.

Everybody who waits, sorted into classes and kept so from turn to turn.

A class (``WorkloadClass``) is what has one shape in one queue; classes that get one answer from the nodes are of one
``PlacementClass``. Only what changed is sorted anew. Nothing here depends on anything but the snapshot: an empty
``PendingWorkloads`` that is shown everything is the same as one that was shown every change.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from heapq import heappop, heappush

from admission.engine import reasons
from admission.engine.pending.classes import (
    ClassRequest,
    PendingWorkload,
    PlacementClass,
    PodShapes,
    WorkloadClass,
    never,
    obstacle,
)
from admission.engine.pending.starving import StarvingClasses
from admission.engine.pending.waiting_time import run_time_class
from admission.engine.settlement import SeatLookup
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.order.line import ClassQueue
from queues.order.policies import LineEntry, Rank, by_user, rank
from queues.plan import Reason
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.workload import NO_FLAVOR, QueueName, Workload, WorkloadKey


class PendingLimits:
    """Queues that consider only so many waiting workloads at a time, of all or of each user, by arrival.

    Workloads whose gang is complete, or that hold seats, do not count.
    """

    def __init__(self, tree: QueueTree) -> None:
        limited = {
            name
            for name, queue in tree.queues.items()
            if queue.max_pending is not None or queue.max_pending_per_user is not None
        }
        self._tree = tree
        #: Limited queues on the way up, by queue, nearest first.
        self._above = {
            name: tuple(each for each in path if each in limited) for name, path in tree.paths.items()
        }
        self._counted: dict[QueueName, dict[WorkloadKey, PendingWorkload]] = {name: {} for name in limited}
        self._beyond: dict[QueueName, dict[WorkloadKey, Reason]] = {name: {} for name in limited}
        self._touched: set[QueueName] = set()

    def add(self, entry: PendingWorkload) -> None:
        """Somebody who may be tried waits."""
        for name in self._over(entry):
            self._counted[name][entry.candidate.workload.key] = entry
            self._touched.add(name)

    def remove(self, entry: PendingWorkload) -> None:
        """That one does not wait any more."""
        for name in self._over(entry):
            self._counted[name].pop(entry.candidate.workload.key, None)
            self._beyond[name].pop(entry.candidate.workload.key, None)
            self._touched.add(name)

    def _over(self, entry: PendingWorkload) -> tuple[QueueName, ...]:
        above = self._above.get(entry.candidate.workload.queue, ())
        return () if not above or entry.candidate.joins or entry.wants.need.beside else above

    def cut(self) -> list[tuple[PendingWorkload, Reason | None]]:
        """Who is left out from now on, and why, or (None) left out no more."""
        moved: dict[WorkloadKey, PendingWorkload] = {}
        for name in self._touched:
            before, after = self._beyond[name], self._out(name)
            self._beyond[name] = after
            for key in before.keys() ^ after.keys():
                moved[key] = self._counted[name][key]
            for key in after:  # sorted in anew meanwhile
                if self._counted[name][key].rank is not None:
                    moved[key] = self._counted[name][key]
        self._touched.clear()
        answers: list[tuple[PendingWorkload, Reason | None]] = []
        for key, entry in moved.items():
            above = self._above[entry.candidate.workload.queue]
            reason = next((self._beyond[name][key] for name in above if key in self._beyond[name]), None)
            if reason is not None or entry.rank is None:
                answers.append((entry, reason))
        return answers

    def _out(self, name: QueueName) -> dict[WorkloadKey, Reason]:
        queue, counted = self._tree.queues[name], self._counted[name]
        limit, of_user = queue.max_pending, queue.max_pending_per_user
        if of_user is None and limit is not None and len(counted) <= limit:
            return {}
        out: dict[WorkloadKey, Reason] = {}
        users: Counter[str] = Counter()
        waiting = sorted((each.candidate.workload for each in counted.values()), key=_by_arrival)
        for place, workload in enumerate(waiting):
            users[workload.user] += 1
            if limit is not None and place >= limit:
                out[workload.key] = reasons.pending_limit(queue=name, limit=limit)
            elif of_user is not None and workload.user and users[workload.user] > of_user:
                out[workload.key] = reasons.user_limit(queue=name, limit=of_user, user=workload.user)
        return out


def _by_arrival(workload: Workload) -> tuple[int, WorkloadKey]:
    return workload.arrival, workload.key


class PendingWorkloads:
    """Pending workloads under one queue tree."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.batches: dict[QueueName, dict[Hashable, WorkloadClass]] = {}
        self.kinds: dict[Hashable, PlacementClass] = {}
        #: Reasons of workloads for themselves.
        self.singles: dict[WorkloadKey, Reason] = {}
        #: Classes whose members changed since the last turn, in the order in which they did.
        self.changed: dict[WorkloadClass, None] = {}
        #: Classes of workloads that hold seats.
        self.seated: dict[WorkloadClass, None] = {}
        self._entries: dict[WorkloadKey, PendingWorkload] = {}
        self._pods: dict[Hashable, PodShapes] = {}
        #: (second, workload) at which somebody may be tried again.
        self._timers: list[tuple[int, WorkloadKey]] = []
        self.heads = StarvingClasses(tree)
        self._crowds = PendingLimits(tree)
        self._singles_shared = False
        self._strict: dict[QueueName, bool] = {}
        #: Whether some queue has limits that one pod set may leave to another, or not.
        self._books_matter = bool(tree.idle[ROOT]) or any(
            account.flavor != NO_FLAVOR
            for name, limits in tree.capabilities.items()
            if name != ROOT
            for account in limits
        )

    def expired(self, now: int) -> set[WorkloadKey]:
        """Whose time has come."""
        keys = set()
        while self._timers and self._timers[0][0] <= now:
            keys.add(heappop(self._timers)[1])
        return keys

    def until(self) -> int | None:
        """The next second at which somebody's backoff ends; None: nobody is backing off."""
        return self._timers[0][0] if self._timers else None

    def sort(self, keys: Iterable[WorkloadKey], snapshot: Snapshot, seats: SeatLookup, trial: Trial) -> None:
        """Put these workloads where they belong now."""
        for key in keys:
            before = self._entries.pop(key, None)
            if before is not None:
                self._take_out(key, before)
            workload = snapshot.pending.get(key)
            if workload is not None:
                self._entries[key] = self._placed(workload, snapshot, seats, before, trial)
            if before is not None and before.pods is not None:
                self._forget(before.pods)
        for entry, reason in self._crowds.cut():
            self._move(entry, reason, trial)

    def set_aside(self, keys: Iterable[WorkloadKey]) -> list[PendingWorkload]:
        """Those of these who may be tried, taken out of their classes until they are sorted again."""
        aside = []
        for key in keys:
            entry = self._entries.get(key)
            if entry is None or entry.rank is None or entry.batch is None or entry.batch.never is not None:
                continue
            aside.append(entry)
            self._leave(entry)
        return aside

    def say(self, key: WorkloadKey, reason: Reason) -> None:
        """A workload waits for this reason of its own."""
        if self._singles_shared:
            self.singles, self._singles_shared = dict(self.singles), False
        self.singles[key] = reason

    def _unsay(self, key: WorkloadKey) -> None:
        if key in self.singles:
            if self._singles_shared:
                self.singles, self._singles_shared = dict(self.singles), False
            del self.singles[key]

    def share_singles(self) -> dict[WorkloadKey, Reason]:
        """The reasons of workloads for themselves; from now on a copy is changed."""
        self._singles_shared = True
        return self.singles

    def is_strict(self, queue: QueueName) -> bool:
        """Whether a refused head holds up all behind it."""
        strict = self._strict.get(queue)
        if strict is None:
            strict = self._strict[queue] = self.tree.order(queue) == "strict-fifo"
        return strict

    def is_in_class(self, key: WorkloadKey) -> bool:
        """Whether a workload waits with others of its class."""
        entry = self._entries.get(key)
        return entry is not None and entry.rank is not None

    def sweep(self) -> list[WorkloadClass]:
        """Classes that have no members any more; they are forgotten."""
        gone = [batch for batch in self.changed if not batch.alike.candidates]
        for batch in gone:
            classes, kind = self.batches[batch.queue], batch.kind
            if classes.pop(batch.name, None) is None:
                continue
            if not classes:
                del self.batches[batch.queue]
                self.heads.closes(batch.queue)
            kind.open.pop(batch, None)
            self.heads.forget(batch)
            self.seated.pop(batch, None)
            kind.classes -= 1
            if not kind.classes:
                del self.kinds[kind.name]
        return gone

    def _placed(
        self,
        workload: Workload,
        snapshot: Snapshot,
        seats: SeatLookup,
        before: PendingWorkload | None,
        trial: Trial,
    ) -> PendingWorkload:
        key = workload.key
        entry = self._prepared(workload, seats, before)
        reason = obstacle(workload, snapshot.now)
        if reason is not None and reason.code == reasons.Code.BACKOFF:
            heappush(self._timers, (workload.not_before, key))
        if reason is None and (leaving := seats.leaving(key)) is not None:
            reason = reasons.draining(leaving)
        if reason is None:
            self._put_in(entry, trial)
        else:
            self.say(key, reason)
        return entry

    def _prepared(
        self, workload: Workload, seats: SeatLookup, before: PendingWorkload | None
    ) -> PendingWorkload:
        held = seats.held(workload.key)
        if held:
            return _entry(workload, ClassRequest.of(workload, held), None)
        if before is not None and before.pods is not None and before.candidate.workload is workload:
            before.pods.asked += 1
            return PendingWorkload(before.candidate, before.wants, before.pods)
        name = (workload.minimum, workload.pod_sets)
        pods = self._pods.get(name)
        if pods is None:
            pods = self._pods[name] = PodShapes(name, ClassRequest.of(workload, ()))
        pods.asked += 1
        return _entry(workload, pods.wants, pods)

    def _forget(self, pods: PodShapes) -> None:
        pods.asked -= 1
        if not pods.asked:
            del self._pods[pods.name]

    def _put_in(self, entry: PendingWorkload, trial: Trial) -> None:
        batch = entry.batch = self._class_of(entry, trial)
        if batch.never is None:
            self._crowds.add(entry)
        self._enter(entry, batch)

    def _class_of(self, entry: PendingWorkload, trial: Trial) -> WorkloadClass:
        workload = entry.candidate.workload
        known = workload.queue in self.tree.paths
        user = workload.user if known and by_user(self.tree, workload.queue) else ""
        classes = self.batches.get(workload.queue)
        if classes is None:
            classes = self.batches[workload.queue] = {}
            self.heads.opens(workload.queue)
        name = (entry.candidate.shape, user)
        batch = classes.get(name)
        if batch is None:
            batch = classes[name] = self._batch(name, entry, trial)
        return batch

    def _batch(self, name: Hashable, entry: PendingWorkload, trial: Trial) -> WorkloadClass:
        workload, wants, tree = entry.candidate.workload, entry.wants, self.tree
        queue = workload.queue
        known = queue in tree.paths
        flavors = tree.flavors(queue) if known else ()
        what: Hashable = wants if entry.pods is None else entry.pods
        # Where books have a say in which nodes are of use, the answer is the queue's own.
        by_books = flavors or wants.need.complete or (len(workload.pod_sets) > 1 and self._books_matter)
        kind_name: Hashable = (what, queue if by_books else "", tree.placement(queue) if known else "")
        kind = self.kinds.get(kind_name)
        if kind is None:
            kind = self.kinds[kind_name] = PlacementClass(kind_name, wants, workload, flavors)
        kind.classes += 1
        user = workload.user if known and by_user(tree, queue) else ""
        batch = WorkloadClass(name, ClassQueue(queue, kind, user), wants, kind, never(workload, wants, trial))
        batch.alike.about = batch
        if wants.need.beside:
            self.seated[batch] = None
        return batch

    def _take_out(self, key: WorkloadKey, entry: PendingWorkload) -> None:
        if entry.rank is not None:
            self._leave(entry)
        self._unsay(key)
        if entry.batch is not None and entry.batch.never is None:
            self._crowds.remove(entry)

    def _enter(self, entry: PendingWorkload, batch: WorkloadClass) -> None:
        known = batch.queue in self.tree.paths
        entry.rank = rank(self.tree, entry.candidate) if known else _nowhere(entry.candidate)
        batch.alike.add(entry.rank, entry.candidate)
        if batch.never is None:
            self.heads.comes(batch, entry.candidate.workload)
        self._note(batch)

    def _leave(self, entry: PendingWorkload) -> None:
        assert entry.batch is not None
        assert entry.rank is not None
        entry.batch.alike.remove(entry.rank)
        if entry.batch.never is None:
            self.heads.goes(entry.candidate.workload)
        entry.rank = None
        self._note(entry.batch)

    def _move(self, entry: PendingWorkload, reason: Reason | None, trial: Trial) -> None:
        key = entry.candidate.workload.key
        if reason is not None:
            if entry.rank is not None:
                self._leave(entry)
            self.say(key, reason)
            return
        self._unsay(key)
        # Its class may have been forgotten meanwhile.
        entry.batch = self._class_of(entry, trial)
        self._enter(entry, entry.batch)

    def _note(self, batch: WorkloadClass) -> None:
        batch.verdict = batch.longest = None
        self.changed[batch] = None


def _entry(workload: Workload, wants: ClassRequest, pods: PodShapes | None) -> PendingWorkload:
    # Where they sit matters, so who holds seats is a class of its own.
    shape: Hashable = wants
    if pods is not None:
        # Equal for those who get the same answer: they ask the same, and are as much in the way of others.
        lasts = (run_time_class(workload), workload.preemptable, workload.min_run_time, workload.cooldown)
        shape = (pods, workload.priority, workload.evictions, lasts)
    complete = wants.need.complete
    return PendingWorkload(
        LineEntry(workload=workload, shape=shape, joins=complete, accounts=wants.accounts), wants, pods
    )


def _nowhere(candidate: LineEntry) -> Rank:
    """The place in a queue that does not exist."""
    return Rank(candidate.joins, 0, 0, candidate.workload.arrival, candidate.workload.key)

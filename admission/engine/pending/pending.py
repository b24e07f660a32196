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
    blocked_reason,
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
from queues.reason_codes import ReasonCode
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
        self._excluded: dict[QueueName, dict[WorkloadKey, Reason]] = {name: {} for name in limited}
        self._dirty_queues: set[QueueName] = set()

    def add(self, entry: PendingWorkload) -> None:
        """Somebody who may be tried waits."""
        for name in self._limited_queues(entry):
            self._counted[name][entry.line_entry.workload.key] = entry
            self._dirty_queues.add(name)

    def remove(self, entry: PendingWorkload) -> None:
        """That one does not wait any more."""
        for name in self._limited_queues(entry):
            self._counted[name].pop(entry.line_entry.workload.key, None)
            self._excluded[name].pop(entry.line_entry.workload.key, None)
            self._dirty_queues.add(name)

    def _limited_queues(self, entry: PendingWorkload) -> tuple[QueueName, ...]:
        above = self._above.get(entry.line_entry.workload.queue, ())
        return () if not above or entry.line_entry.joins or entry.wants.need.seated_nodes else above

    def update(self) -> list[tuple[PendingWorkload, Reason | None]]:
        """Who is left out from now on, and why, or (None) left out no more."""
        moved: dict[WorkloadKey, PendingWorkload] = {}
        for name in self._dirty_queues:
            before, after = self._excluded[name], self._beyond_limits(name)
            self._excluded[name] = after
            for key in before.keys() ^ after.keys():
                moved[key] = self._counted[name][key]
            for key in after:  # sorted in anew meanwhile
                if self._counted[name][key].rank is not None:
                    moved[key] = self._counted[name][key]
        self._dirty_queues.clear()
        answers: list[tuple[PendingWorkload, Reason | None]] = []
        for key, entry in moved.items():
            above = self._above[entry.line_entry.workload.queue]
            reason = next((self._excluded[name][key] for name in above if key in self._excluded[name]), None)
            if reason is not None or entry.rank is None:
                answers.append((entry, reason))
        return answers

    def _beyond_limits(self, name: QueueName) -> dict[WorkloadKey, Reason]:
        queue, counted = self._tree.queues[name], self._counted[name]
        limit, of_user = queue.max_pending, queue.max_pending_per_user
        if of_user is None and limit is not None and len(counted) <= limit:
            return {}
        out: dict[WorkloadKey, Reason] = {}
        users: Counter[str] = Counter()
        waiting = sorted((each.line_entry.workload for each in counted.values()), key=_by_arrival)
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
        self.classes: dict[QueueName, dict[Hashable, WorkloadClass]] = {}
        self.placement_classes: dict[Hashable, PlacementClass] = {}
        #: Reasons of workloads for themselves.
        self.own_reasons: dict[WorkloadKey, Reason] = {}
        #: Classes whose members changed since the last turn, in the order in which they did.
        self.dirty_classes: dict[WorkloadClass, None] = {}
        #: Classes of workloads that hold seats.
        self.seated_classes: dict[WorkloadClass, None] = {}
        self._entries: dict[WorkloadKey, PendingWorkload] = {}
        self._pod_shapes: dict[Hashable, PodShapes] = {}
        #: (second, workload) at which somebody may be tried again.
        self._backoffs: list[tuple[int, WorkloadKey]] = []
        self.starving = StarvingClasses(tree)
        self._limits = PendingLimits(tree)
        self._own_reasons_shared = False
        self._strict: dict[QueueName, bool] = {}
        #: Whether some queue has limits that one pod set may leave to another, or not.
        self._books_matter = bool(tree.idle[ROOT]) or any(
            account.flavor != NO_FLAVOR
            for name, limits in tree.capabilities.items()
            if name != ROOT
            for account in limits
        )

    def expired_backoffs(self, now: int) -> set[WorkloadKey]:
        """Whose time has come."""
        keys = set()
        while self._backoffs and self._backoffs[0][0] <= now:
            keys.add(heappop(self._backoffs)[1])
        return keys

    def until(self) -> int | None:
        """The next second at which somebody's backoff ends; None: nobody is backing off."""
        return self._backoffs[0][0] if self._backoffs else None

    def update(
        self, keys: Iterable[WorkloadKey], snapshot: Snapshot, seats: SeatLookup, trial: Trial
    ) -> None:
        """Put these workloads where they belong now."""
        for key in keys:
            before = self._entries.pop(key, None)
            if before is not None:
                self._take_out(key, before)
            workload = snapshot.pending.get(key)
            if workload is not None:
                self._entries[key] = self._placed(workload, snapshot, seats, before, trial)
            if before is not None and before.pod_shapes is not None:
                self._release_shapes(before.pod_shapes)
        for entry, reason in self._limits.update():
            self._move(entry, reason, trial)

    def take_out(self, keys: Iterable[WorkloadKey]) -> list[PendingWorkload]:
        """Those of these who may be tried, taken out of their classes until they are sorted again."""
        aside = []
        for key in keys:
            entry = self._entries.get(key)
            if (
                entry is None
                or entry.rank is None
                or entry.workload_class is None
                or entry.workload_class.blocked is not None
            ):
                continue
            aside.append(entry)
            self._leave(entry)
        return aside

    def set_own_reason(self, key: WorkloadKey, reason: Reason) -> None:
        """A workload waits for this reason of its own."""
        if self._own_reasons_shared:
            self.own_reasons, self._own_reasons_shared = dict(self.own_reasons), False
        self.own_reasons[key] = reason

    def _drop_own_reason(self, key: WorkloadKey) -> None:
        if key in self.own_reasons:
            if self._own_reasons_shared:
                self.own_reasons, self._own_reasons_shared = dict(self.own_reasons), False
            del self.own_reasons[key]

    def share_own_reasons(self) -> dict[WorkloadKey, Reason]:
        """The reasons of workloads for themselves; from now on a copy is changed."""
        self._own_reasons_shared = True
        return self.own_reasons

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

    def drop_empty_classes(self) -> list[WorkloadClass]:
        """Classes that have no members any more; they are forgotten."""
        gone = [batch for batch in self.dirty_classes if not batch.class_queue.candidates]
        for batch in gone:
            classes, kind = self.classes[batch.queue], batch.placement_class
            if classes.pop(batch.name, None) is None:
                continue
            if not classes:
                del self.classes[batch.queue]
                self.starving.remove_queue(batch.queue)
            kind.open_classes.pop(batch, None)
            self.starving.remove_class(batch)
            self.seated_classes.pop(batch, None)
            kind.class_count -= 1
            if not kind.class_count:
                del self.placement_classes[kind.name]
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
        if reason is not None and reason.code == ReasonCode.BACKOFF:
            heappush(self._backoffs, (workload.not_before, key))
        if reason is None and (leaving := seats.leaving_admission(key)) is not None:
            reason = reasons.draining(leaving)
        if reason is None:
            self._put_in(entry, trial)
        else:
            self.set_own_reason(key, reason)
        return entry

    def _prepared(
        self, workload: Workload, seats: SeatLookup, before: PendingWorkload | None
    ) -> PendingWorkload:
        held = seats.held(workload.key)
        if held:
            return _entry(workload, ClassRequest.of(workload, held), None)
        if before is not None and before.pod_shapes is not None and before.line_entry.workload is workload:
            before.pod_shapes.workload_count += 1
            return PendingWorkload(before.line_entry, before.wants, before.pod_shapes)
        name = (workload.minimum, workload.pod_sets)
        pods = self._pod_shapes.get(name)
        if pods is None:
            pods = self._pod_shapes[name] = PodShapes(name, ClassRequest.of(workload, ()))
        pods.workload_count += 1
        return _entry(workload, pods.wants, pods)

    def _release_shapes(self, pods: PodShapes) -> None:
        pods.workload_count -= 1
        if not pods.workload_count:
            del self._pod_shapes[pods.name]

    def _put_in(self, entry: PendingWorkload, trial: Trial) -> None:
        batch = entry.workload_class = self._class_of(entry, trial)
        if batch.blocked is None:
            self._limits.add(entry)
        self._enter(entry, batch)

    def _class_of(self, entry: PendingWorkload, trial: Trial) -> WorkloadClass:
        workload = entry.line_entry.workload
        known = workload.queue in self.tree.paths
        user = workload.user if known and by_user(self.tree, workload.queue) else ""
        classes = self.classes.get(workload.queue)
        if classes is None:
            classes = self.classes[workload.queue] = {}
            self.starving.add_queue(workload.queue)
        name = (entry.line_entry.shape, user)
        batch = classes.get(name)
        if batch is None:
            batch = classes[name] = self._new_class(name, entry, trial)
        return batch

    def _new_class(self, name: Hashable, entry: PendingWorkload, trial: Trial) -> WorkloadClass:
        workload, wants, tree = entry.line_entry.workload, entry.wants, self.tree
        queue = workload.queue
        known = queue in tree.paths
        flavors = tree.flavors(queue) if known else ()
        what: Hashable = wants if entry.pod_shapes is None else entry.pod_shapes
        # Where books have a say in which nodes are of use, the answer is the queue's own.
        by_books = flavors or wants.need.complete or (len(workload.pod_sets) > 1 and self._books_matter)
        kind_name: Hashable = (what, queue if by_books else "", tree.placement(queue) if known else "")
        kind = self.placement_classes.get(kind_name)
        if kind is None:
            kind = self.placement_classes[kind_name] = PlacementClass(kind_name, wants, workload, flavors)
        kind.class_count += 1
        user = workload.user if known and by_user(tree, queue) else ""
        batch = WorkloadClass(
            name, ClassQueue(queue, kind, user), wants, kind, blocked_reason(workload, wants, trial)
        )
        batch.class_queue.about = batch
        if wants.need.seated_nodes:
            self.seated_classes[batch] = None
        return batch

    def _take_out(self, key: WorkloadKey, entry: PendingWorkload) -> None:
        if entry.rank is not None:
            self._leave(entry)
        self._drop_own_reason(key)
        if entry.workload_class is not None and entry.workload_class.blocked is None:
            self._limits.remove(entry)

    def _enter(self, entry: PendingWorkload, batch: WorkloadClass) -> None:
        known = batch.queue in self.tree.paths
        entry.rank = rank(self.tree, entry.line_entry) if known else _nowhere(entry.line_entry)
        batch.class_queue.add(entry.rank, entry.line_entry)
        if batch.blocked is None:
            self.starving.add(batch, entry.line_entry.workload)
        self._mark_dirty(batch)

    def _leave(self, entry: PendingWorkload) -> None:
        assert entry.workload_class is not None
        assert entry.rank is not None
        entry.workload_class.class_queue.remove(entry.rank)
        if entry.workload_class.blocked is None:
            self.starving.remove(entry.line_entry.workload)
        entry.rank = None
        self._mark_dirty(entry.workload_class)

    def _move(self, entry: PendingWorkload, reason: Reason | None, trial: Trial) -> None:
        key = entry.line_entry.workload.key
        if reason is not None:
            if entry.rank is not None:
                self._leave(entry)
            self.set_own_reason(key, reason)
            return
        self._drop_own_reason(key)
        # Its class may have been forgotten meanwhile.
        entry.workload_class = self._class_of(entry, trial)
        self._enter(entry, entry.workload_class)

    def _mark_dirty(self, batch: WorkloadClass) -> None:
        batch.answer = batch._longest_waiting = None
        self.dirty_classes[batch] = None


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

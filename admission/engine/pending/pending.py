"""All pending workloads, sorted into classes and kept so from turn to turn.

Only what changed is sorted again. Nothing here depends on anything but the snapshot: an empty ``PendingWorkloads``
that is given everything at once equals one that was given every change.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from admission.engine import reasons
from admission.engine.claims import awaits_pods
from admission.engine.forced_changes import SeatLookup
from admission.engine.nodes.closed_nodes import Entry, entry_of
from admission.engine.pending.classes import (
    ClassRequest,
    PendingWorkload,
    PlacementClass,
    PodShapes,
    WorkloadClass,
    blocked_reason,
    new_work_refusal,
    obstacle,
    queue_refusal,
)
from admission.engine.pending.empty_cluster import NEVER_FIT, EmptyCluster
from admission.engine.pending.waiting_time import (
    affects_reservation,
    arrival_order,
    run_time_class,
)
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.order.line import ClassQueue
from queues.order.policies import LineEntry, Rank, by_user, rank
from queues.plan import Reason
from queues.quota.access import AccessRefusal
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.reason_codes import OF_DEPENDENCIES, ReasonCode
from queues.resources import Resources
from queues.workload import NO_FLAVOR, QueueName, Workload, WorkloadKey

#: Reasons of workloads that count by themselves in the limits of pending workloads.
_COUNTED_APART: Final = NEVER_FIT | {ReasonCode.BUDGET_SPENT}


class PendingWorkloads:
    """Pending workloads under one queue tree."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.classes: dict[QueueName, dict[Hashable, WorkloadClass]] = {}
        self.placement_classes: dict[Hashable, PlacementClass] = {}
        #: What it costs to try all classes of a queue that nothing blocks, in microseconds.
        self.costs: Counter[QueueName] = Counter()
        #: Reasons of workloads that wait for one of their own.
        self.own_reasons: dict[WorkloadKey, Reason] = {}
        self._own_reasons_shared = False
        #: Classes with other members than in the last turn, in the order in which they did.
        self.dirty_classes: dict[WorkloadClass, None] = {}
        #: Classes of workloads that hold seats.
        self.seated_classes: dict[WorkloadClass, None] = {}
        #: Classes of gangs that nothing blocks: reservations are for them.
        self.gangs: dict[WorkloadClass, None] = {}
        #: Number of pending workloads that matter for the reservations of others.
        self.affecting_reservation = 0
        #: Gangs that wait for their pods and ask for quota to be kept meanwhile.
        self.awaiting_pods: dict[WorkloadKey, Workload] = {}
        #: Some quota is held for such a gang, or was in the last turn: root may be full though nodes are not.
        self.quota_is_held = False
        self._holds_quota = False
        self._entries: dict[WorkloadKey, PendingWorkload] = {}
        self._pod_shapes: dict[Hashable, PodShapes] = {}
        #: (second at which a backoff ends, or closed nodes are closed to it as well, workload), as a heap.
        self._backoffs: list[tuple[int, WorkloadKey]] = []
        self._limits = PendingLimits(tree)
        #: What never fits, comes after other work or waits for a budget counts by itself: it keeps out nothing that may
        #: start.
        self._limits_apart = PendingLimits(tree, apart=True)
        #: The nodes of this state as if they were empty; None if no class was compared with them yet.
        self._empty: EmptyCluster | None = None
        #: Gangs for which no nodes will be added.
        self._without_more_nodes: frozenset[WorkloadKey] = frozenset()
        self._namespaces: Mapping[str, Mapping[str, str]] = {}
        #: Why a namespace may not use a queue, as far as it was asked.
        self._not_allowed: dict[tuple[QueueName, str], AccessRefusal | None] = {}
        self._strict: dict[QueueName, bool] = {}
        #: Whether some queue has limits that one pod set may leave to another, or not.
        self._books_matter = bool(tree.idle[ROOT]) or any(
            account.flavor != NO_FLAVOR
            for name, limits in tree.capabilities.items()
            if name != ROOT
            for account in limits
        )

    def update(
        self, keys: Iterable[WorkloadKey], snapshot: Snapshot, seats: SeatLookup, trial: Trial
    ) -> None:
        """Sort these workloads again, or forget those that are not pending any more."""
        if snapshot.namespaces is not self._namespaces:
            self._namespaces = snapshot.namespaces
            self._not_allowed.clear()
        self._without_more_nodes = snapshot.without_more_nodes
        for key in keys:
            before = self._entries.pop(key, None)
            if before is not None:
                self._forget(before)
            workload = snapshot.pending.get(key)
            if workload is not None:
                self._entries[key] = self._sorted_in(workload, snapshot, seats, before, trial)
            if before is not None and before.pod_shapes is not None:
                self._release_shapes(before.pod_shapes)
        for entry, reason in (*self._limits.update(), *self._limits_apart.update()):
            self._limit(entry, reason, trial)

    def take_out(self, keys: Iterable[WorkloadKey]) -> list[PendingWorkload]:
        """Those of these workloads that may be tried, taken out of their classes until they are sorted again."""
        found = []
        for key in keys:
            entry = self._entries.get(key)
            if entry is None or entry.rank is None:
                continue
            if entry.workload_class is not None and entry.workload_class.blocked is None:
                found.append(entry)
                self._leave(entry)
        return found

    def unfit(self, keys: Iterable[WorkloadKey]) -> list[WorkloadKey]:
        """Those of these workloads that can never be admitted as things are."""
        classes = (
            (key, entry.workload_class) for key in keys if (entry := self._entries.get(key)) is not None
        )
        return [
            key
            for key, each in classes
            if each is not None and each.blocked is not None and each.blocked.code in NEVER_FIT
        ]

    def note_held_quota(self, holds: bool) -> None:
        """Whether quota is held in this turn for gangs without their pods."""
        self.quota_is_held, self._holds_quota = holds or self._holds_quota, holds

    def set_own_reason(self, key: WorkloadKey, reason: Reason) -> None:
        """A workload waits for this reason of its own."""
        self._unshare_own_reasons()
        self.own_reasons[key] = reason

    def share_own_reasons(self) -> dict[WorkloadKey, Reason]:
        """``own_reasons`` as they are now: from now on a copy is changed."""
        self._own_reasons_shared = True
        return self.own_reasons

    def drop_empty_classes(self) -> list[WorkloadClass]:
        """Forget the classes that have no members any more, and return them."""
        empty = [each for each in self.dirty_classes if not each.class_queue.candidates]
        for each in empty:
            of_queue, placement_class = self.classes[each.queue], each.placement_class
            if of_queue.pop(each.name, None) is None:
                continue
            if not of_queue:
                del self.classes[each.queue]
            placement_class.open_classes.pop(each, None)
            if each.blocked is None:
                self._cost(each, -1)
            self.gangs.pop(each, None)
            self.seated_classes.pop(each, None)
            placement_class.class_count -= 1
            if not placement_class.class_count:
                del self.placement_classes[placement_class.name]
        return empty

    def dissolve(self) -> None:
        """Nothing is asked any more: classes and placement classes refer to one another no longer."""
        for each in self.placement_classes.values():
            each.open_classes.clear()

    def expired_backoffs(self, now: int) -> set[WorkloadKey]:
        """Workloads with a backoff that has ended, or that end too late for closed nodes from now on."""
        keys = set()
        while self._backoffs and self._backoffs[0][0] <= now:
            keys.add(heappop(self._backoffs)[1])
        return keys

    def until(self) -> int | None:
        """The next second at which a backoff ends, or nodes close to a workload; None if there is none."""
        return self._backoffs[0][0] if self._backoffs else None

    def is_strict(self, queue: QueueName) -> bool:
        """Whether a refused head holds up all behind it."""
        strict = self._strict.get(queue)
        if strict is None:
            strict = self._strict[queue] = self.tree.order(queue).strict
        return strict

    def is_in_class(self, key: WorkloadKey) -> bool:
        """Whether a workload waits with the others of its class."""
        entry = self._entries.get(key)
        return entry is not None and entry.rank is not None

    def _sorted_in(
        self,
        workload: Workload,
        snapshot: Snapshot,
        seats: SeatLookup,
        before: PendingWorkload | None,
        trial: Trial,
    ) -> PendingWorkload:
        key = workload.key
        # Workloads enter closed nodes by their queue and by when they would end.
        closed = trial.layout.closed
        entering = entry_of(workload, closed, self.tree, snapshot.now) if closed else Entry()
        if entering.until is not None:
            heappush(self._backoffs, (entering.until, key))
        enters = entering.names
        if trial.layout.tolerations and workload.queue in self.tree.paths:
            enters += trial.layout.entries(self.tree.flavors(workload.queue))
        entry = self._entry(workload, seats, before, enters)
        reason = obstacle(workload, snapshot.now)
        if reason is not None and reason.code == ReasonCode.BACKOFF:
            heappush(self._backoffs, (workload.not_before, key))
        if reason is None and (leaving := seats.leaving_admission(key)) is not None:
            reason = reasons.draining(leaving)
        if reason is None and entry.pod_shapes is not None:  # it holds no seats
            reason = new_work_refusal(self.tree, workload)
        if reason is None:
            reason = self._run_time_refusal(workload, entry)
        if reason is not None:
            self.set_own_reason(key, reason)
            if workload.hold is not None and awaits_pods(workload):
                self.awaiting_pods[key] = entry.workload
        else:
            entry.workload_class = self._class_of(entry, trial)
        if (limits := self._limits_for(entry)) is not None:
            limits.add(entry)
        if entry.workload_class is not None:
            self._enter(entry, entry.workload_class)
        return entry

    def _entry(
        self, source: Workload, seats: SeatLookup, before: PendingWorkload | None, enters: tuple[str, ...]
    ) -> PendingWorkload:
        workload = entering_with(source, enters)
        held = seats.held(workload.key)
        if held:
            return self._new_entry(source, workload, ClassRequest.of(workload, held), None)
        if (
            before is not None
            and before.pod_shapes is not None
            and before.source is source
            and before.enters == enters
        ):
            before.pod_shapes.workload_count += 1
            return replace(before, workload_class=None, rank=None)
        name = (workload.minimum, workload.pod_sets, workload.hints)
        shapes = self._pod_shapes.get(name)
        if shapes is None:
            shapes = self._pod_shapes[name] = PodShapes(name, ClassRequest.of(workload, ()))
        shapes.workload_count += 1
        return self._new_entry(source, workload, shapes.request, shapes, enters)

    def _new_entry(
        self,
        source: Workload,
        workload: Workload,
        request: ClassRequest,
        shapes: PodShapes | None,
        enters: tuple[str, ...] = (),
    ) -> PendingWorkload:
        priority = self.tree.counted_priority(source.queue, source.priority)
        workload = workload if priority == source.priority else replace(workload, priority=priority)
        # The nodes of held seats matter, so a workload that holds some is a class of its own.
        shape: Hashable = request if shapes is None else shapes.shared((shapes, *_effects(workload)))
        complete = request.need.complete
        entry = LineEntry(
            workload=workload,
            shape=shape,
            devices=request.devices,
            joins=complete,
            accounts=request.accounts,
        )
        return PendingWorkload(entry, source, request, shapes, enters=enters)

    def _release_shapes(self, shapes: PodShapes) -> None:
        shapes.workload_count -= 1
        if not shapes.workload_count:
            shapes.forget_names()
            del self._pod_shapes[shapes.name]

    def _class_of(self, entry: PendingWorkload, trial: Trial) -> WorkloadClass:
        queue = entry.workload.queue
        by_users = queue in self.tree.paths and by_user(self.tree, queue)
        user = entry.workload.user if by_users else ""
        of_queue = self.classes.get(queue)
        if of_queue is None:
            of_queue = self.classes[queue] = {}
        refusal = self._access_refusal(entry.workload)
        # Users with limits of their own get answers of their own.
        limited = entry.workload.user if self.tree.user_limits(queue) else None
        refused = entry.workload.key in self._without_more_nodes
        namespace = "" if refusal is None else entry.workload.namespace
        name = (entry.line_entry.shape, user, namespace, limited, refused)
        workload_class = of_queue.get(name)
        if workload_class is None:
            workload_class = of_queue[name] = self._new_class(name, user, entry, trial, refusal)
        return workload_class

    def queue_refusal(self, workload: Workload) -> Reason | None:
        """Why the queue takes nothing of a workload at all; None if it may."""
        refusal = self._access_refusal(workload)
        if refusal is not None:
            return reasons.not_allowed(workload.queue, workload.namespace, refusal)
        return queue_refusal(self.tree, workload.queue) or new_work_refusal(self.tree, workload)

    def never_granted(self, workload: Workload, asked: Resources, trial: Trial) -> Reason | None:
        """Why a gang without pods can never be granted these amounts; None if it may be."""
        return self._emptied(trial).refusal_of_amounts(workload, asked)

    def _run_time_refusal(self, workload: Workload, entry: PendingWorkload) -> Reason | None:
        """Why a workload that holds nothing yet is not admitted for its declared run time; None if it may be."""
        if workload.run_time is None or entry.request.need.seated:
            return None
        limit = self.tree.run_limit(workload.queue)
        if limit is None or workload.run_time <= limit.seconds:
            return None
        return reasons.run_time_too_long(limit, workload.run_time)

    def _access_refusal(self, workload: Workload) -> AccessRefusal | None:
        """Why the workload's namespace may not use its queue; None if it may, or if there is no such queue."""
        queue, namespace = workload.queue, workload.namespace
        if queue not in self.tree.paths:
            return None
        asked = (queue, namespace)
        if asked not in self._not_allowed:
            labels = self._namespaces.get(namespace, {})
            self._not_allowed[asked] = self.tree.access_refusal(queue, labels)
        return self._not_allowed[asked]

    def _new_class(
        self, name: Hashable, user: str, entry: PendingWorkload, trial: Trial, refusal: AccessRefusal | None
    ) -> WorkloadClass:
        workload, request, tree = entry.workload, entry.request, self.tree
        queue = workload.queue
        known = queue in tree.paths
        flavors = tree.flavors(queue) if known else ()
        pods: Hashable = request if entry.pod_shapes is None else entry.pod_shapes
        # Where limits have a say in which nodes are of use, the answer is the queue's own.
        by_books = flavors or request.need.complete or (len(workload.pod_sets) > 1 and self._books_matter)
        placement_name: Hashable = (pods, queue if by_books else "", "")
        if known:
            policies = tree.policies(queue)
            placement_name = (pods, queue if by_books else "", policies.placement.name)
            if policies.of_others:  # their answers may depend on all that they are given
                placement_name = (pods, queue, workload.priority)
        placement_class = self.placement_classes.get(placement_name)
        if placement_class is None:
            placement_class = PlacementClass(placement_name, request, workload, flavors)
            self.placement_classes[placement_name] = placement_class
        placement_class.class_count += 1
        class_queue = ClassQueue(queue, placement_class, user)
        blocked = self._blocked(workload, request, trial, refusal)
        workload_class = WorkloadClass(name, class_queue, request, placement_class, blocked)
        if request.need.seated:
            self.seated_classes[workload_class] = None
        if blocked is None:
            self._cost(workload_class, 1)
            if request.need.of_gang:
                self.gangs[workload_class] = None
        return workload_class

    def _blocked(
        self, workload: Workload, request: ClassRequest, trial: Trial, refusal: AccessRefusal | None
    ) -> Reason | None:
        """Why no workload of a class is admitted until queues or nodes change; None if one may be."""
        blocked = blocked_reason(workload, request, trial, refusal)
        if blocked is not None and blocked.code != ReasonCode.UNKNOWN_RESOURCE:
            return blocked
        # Of the class all are refused nodes, or none.
        refused = workload.key in self._without_more_nodes
        empty = self._emptied(trial)
        if blocked is None:
            return empty.refusal(workload, request, refused=refused)
        resource = str(blocked.facts["resource"])
        return empty.offered_nowhere(workload, request, resource, refused=refused) or blocked

    def _emptied(self, trial: Trial) -> EmptyCluster:
        if self._empty is None:
            self._empty = EmptyCluster.of(trial.table, self.tree)
        return self._empty

    def _limits_for(self, entry: PendingWorkload) -> "PendingLimits | None":
        """Where a workload counts; None if nowhere, for it waits for a reason of its own, or its queue takes none."""
        workload_class = entry.workload_class
        if workload_class is None:
            return self._limits_apart if _of_dependencies(entry.source) is not None else None
        if workload_class.blocked is None:
            return self._limits
        return self._limits_apart if workload_class.blocked.code in _COUNTED_APART else None

    def _cost(self, workload_class: WorkloadClass, times: int) -> None:
        queue = workload_class.queue
        self.costs[queue] += times * workload_class.placement_class.cost
        if not self.costs[queue]:
            del self.costs[queue]

    def _enter(self, entry: PendingWorkload, workload_class: WorkloadClass) -> None:
        known = workload_class.queue in self.tree.paths
        entry.rank = rank(self.tree, entry.line_entry) if known else _rank_in_no_queue(entry.line_entry)
        workload_class.class_queue.add(entry.rank, entry.line_entry)
        if workload_class.blocked is None:
            self.affecting_reservation += affects_reservation(entry.workload)
        self._mark_dirty(workload_class)

    def _leave(self, entry: PendingWorkload) -> None:
        """Out of its class, if it is in there."""
        workload_class = entry.workload_class
        if entry.rank is None or workload_class is None:
            return
        workload_class.class_queue.remove(entry.rank)
        entry.rank = None
        if workload_class.blocked is None:
            self.affecting_reservation -= affects_reservation(entry.workload)
        self._mark_dirty(workload_class)

    def _forget(self, entry: PendingWorkload) -> None:
        self._leave(entry)
        self.awaiting_pods.pop(entry.workload.key, None)
        self._drop_own_reason(entry.workload.key)
        if (limits := self._limits_for(entry)) is not None:
            limits.remove(entry)

    def _limit(self, entry: PendingWorkload, reason: Reason | None, trial: Trial) -> None:
        """Take a workload out of its class for a limit of pending workloads; put it back if ``reason`` is None."""
        key = entry.workload.key
        # What it waits for again once the limit does not keep it out any more.
        reason = reason or _of_dependencies(entry.source)
        if reason is not None:
            self._leave(entry)
            self.set_own_reason(key, reason)
            return
        self._drop_own_reason(key)
        # The class may have been forgotten meanwhile.
        entry.workload_class = self._class_of(entry, trial)
        self._enter(entry, entry.workload_class)

    def _drop_own_reason(self, key: WorkloadKey) -> None:
        if key in self.own_reasons:
            self._unshare_own_reasons()
            del self.own_reasons[key]

    def _unshare_own_reasons(self) -> None:
        if self._own_reasons_shared:
            self.own_reasons, self._own_reasons_shared = dict(self.own_reasons), False

    def _mark_dirty(self, workload_class: WorkloadClass) -> None:
        workload_class.members_changed()
        self.dirty_classes[workload_class] = None


class PendingLimits:
    """Queues that consider only so many pending workloads at a time, of all or of each user, by arrival.

    Workloads with a complete gang, or with seats, do not count.
    """

    def __init__(self, tree: QueueTree, *, apart: bool = False) -> None:
        """``apart``: it is about workloads that cannot be admitted as things are."""
        limited = {
            name
            for name, queue in tree.queues.items()
            if queue.max_pending is not None or queue.max_pending_per_user is not None
        }
        self._tree = tree
        self._apart = apart
        #: Limited queues on the path of each queue, nearest first.
        self._above = {
            name: tuple(each for each in path if each in limited) for name, path in tree.paths.items()
        }
        self._counted: dict[QueueName, dict[WorkloadKey, PendingWorkload]] = {name: {} for name in limited}
        self._excluded: dict[QueueName, dict[WorkloadKey, Reason]] = {name: {} for name in limited}
        self._dirty_queues: set[QueueName] = set()

    def add(self, entry: PendingWorkload) -> None:
        """A workload that may be tried is pending."""
        for name in self._limited_queues(entry):
            self._counted[name][entry.workload.key] = entry
            self._dirty_queues.add(name)

    def remove(self, entry: PendingWorkload) -> None:
        """A workload is not pending any more."""
        for name in self._limited_queues(entry):
            self._counted[name].pop(entry.workload.key, None)
            self._excluded[name].pop(entry.workload.key, None)
            self._dirty_queues.add(name)

    def update(self) -> list[tuple[PendingWorkload, Reason | None]]:
        """Workloads that are excluded from now on, and why; the reason is None if not excluded any more."""
        moved: dict[WorkloadKey, PendingWorkload] = {}
        for name in self._dirty_queues:
            before, after = self._excluded[name], self._beyond_limits(name)
            self._excluded[name] = after
            for key in before.keys() ^ after.keys():
                moved[key] = self._counted[name][key]
            for key in after:  # sorted in again meanwhile
                if self._counted[name][key].rank is not None:
                    moved[key] = self._counted[name][key]
        self._dirty_queues.clear()
        answers: list[tuple[PendingWorkload, Reason | None]] = []
        for key, entry in moved.items():
            above = self._above[entry.workload.queue]
            reason = next((self._excluded[name][key] for name in above if key in self._excluded[name]), None)
            if reason is not None or entry.rank is None:
                answers.append((entry, reason))
        return answers

    def _limited_queues(self, entry: PendingWorkload) -> tuple[QueueName, ...]:
        above = self._above.get(entry.workload.queue, ())
        return () if not above or entry.line_entry.joins or entry.request.need.seated else above

    def _beyond_limits(self, name: QueueName) -> dict[WorkloadKey, Reason]:
        queue, counted = self._tree.queues[name], self._counted[name]
        limit, of_user = queue.max_pending, queue.max_pending_per_user
        if of_user is None and limit is not None and len(counted) <= limit:
            return {}
        beyond: dict[WorkloadKey, Reason] = {}
        users: Counter[str] = Counter()
        waiting = sorted((each.workload for each in counted.values()), key=arrival_order)
        for place, workload in enumerate(waiting):
            users[workload.user] += 1
            if limit is not None and place >= limit:
                beyond[workload.key] = reasons.pending_limit(queue=name, limit=limit, apart=self._apart)
            elif of_user is not None and users[workload.user] > of_user:
                beyond[workload.key] = reasons.user_limit(
                    queue=name, limit=of_user, user=workload.user, apart=self._apart
                )
        return beyond


def entering_with(workload: Workload, enters: tuple[str, ...]) -> Workload:
    """The workload with pods that may use the nodes of these closures and flavors."""
    if not enters:
        return workload
    pod_sets = (replace(pods, nodes=replace(pods.nodes, enters=enters)) for pods in workload.pod_sets)
    return replace(workload, pod_sets=tuple(pod_sets))


def _of_dependencies(workload: Workload) -> Reason | None:
    """Why a workload waits that comes after other work; None if it does not wait for that."""
    reason = None if workload.obstacle is None else obstacle(workload, 0)
    return reason if reason is not None and reason.code in OF_DEPENDENCIES else None


def _effects(workload: Workload) -> tuple[Hashable, ...]:
    """What else workloads of one shape have in common: they may have as much evicted, delay others as much, and are
    advised alike."""
    lasts = (run_time_class(workload), workload.preemptable, workload.min_run_time, workload.cooldown)
    return workload.priority, workload.preempts, workload.evictions, workload.whole_by_default, lasts


def _rank_in_no_queue(entry: LineEntry) -> Rank:
    """The place in a queue that does not exist."""
    return Rank(entry.joins, 0, 0, *arrival_order(entry.workload))

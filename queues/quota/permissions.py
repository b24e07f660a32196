"""What queues allow: which namespaces may use them, which priority and which policy counts, as they are now. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from queues.quota.access import AccessRefusal
from queues.quota.queue import DEFAULT_POLICY, PriorityLimit, Queue, QueuePolicy
from queues.quota.run_limits import RunLimit
from queues.quota.tree import QueueTree
from queues.workload import QueueName, WorkloadKey


class QueueUser(NamedTuple):
    """A workload, and what decides whether it may use its queue."""

    workload: WorkloadKey
    namespace: str
    queue: QueueName


class QueuePermissions:
    """Labels of namespaces, and the queues that state which of them they take."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        #: The same as it was last handed out; None: it has changed.
        self._frozen: Mapping[str, Mapping[str, str]] | None = {}
        self._queues: dict[QueueName, Queue] = {}
        self._tree: QueueTree | None = None
        #: Workloads that were told that their namespace may not use their queue.
        self._refused: set[WorkloadKey] = set()
        self._stale = False
        #: Limits of run times may be others than they were told to be.
        self._run_limits_stale = False

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Labels of a namespace as they are now; None: it is gone. True: they are others than before."""
        if self._labels.get(name) == labels:
            return False
        self._labels.pop(name, None)
        if labels is not None:
            self._labels[name] = labels
        self._frozen, self._stale = None, True
        return True

    def put_queue(self, name: QueueName, queue: Queue | None) -> None:
        """A queue as it is now; None: it is gone."""
        before = self._queues.pop(name, None)
        if queue is not None:
            self._queues[name] = queue
        self._tree, self._stale = None, True
        self._run_limits_stale |= self._changes_run_limits(before, queue)

    def _changes_run_limits(self, before: Queue | None, after: Queue | None) -> bool:
        """Whether the limits of run times may be others with one queue changed."""
        limits = {each.max_run_time if each is not None else None for each in (before, after)}
        if len(limits) > 1:
            return True
        moved = before is None or after is None or before.parent != after.parent
        return moved and any(each.max_run_time is not None for each in self._queues.values())

    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """Labels by namespace, in a mapping that never changes; the same one until a label changes."""
        if self._frozen is None:
            self._frozen = dict(self._labels)
        return self._frozen

    def refusal(self, namespace: str, queue: QueueName) -> AccessRefusal | None:
        """Why a namespace may not use a queue; None: it may, or there is no such queue.

        A namespace that was not seen (yet) has no labels.
        """
        tree = self._built()
        return tree.access_refusal(queue, self._labels.get(namespace, {})) if queue in tree.paths else None

    def may_use(self, namespace: str, queue: QueueName) -> bool:
        """True if a namespace may use a queue, or there is no such queue."""
        return self.refusal(namespace, queue) is None

    def priority_limit(self, queue: QueueName) -> PriorityLimit | None:
        """The highest priority that counts in a queue; None: there is no such queue."""
        tree = self._built()
        return tree.priority_limit(queue) if queue in tree.paths else None

    def policy(self, queue: QueueName) -> QueuePolicy:
        """The policy that counts for a queue; the default where there is no such queue."""
        tree = self._built()
        return tree.policy(queue) if queue in tree.paths else DEFAULT_POLICY

    def run_limit(self, queue: QueueName) -> RunLimit | None:
        """How long workloads of a queue may hold their seats; None: no limit, or there is no such queue."""
        return self._built().run_limit(queue)

    def _built(self) -> QueueTree:
        if self._tree is None:
            self._tree = QueueTree.build(self._queues, None)
        return self._tree

    def tell(self, user: QueueUser) -> bool:
        """As ``may_use``; what a workload is told is remembered for ``changed``."""
        allowed = self.may_use(user.namespace, user.queue)
        (self._refused.discard if allowed else self._refused.add)(user.workload)
        return allowed

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self._refused.discard(key)

    def changed(self, users: Iterable[QueueUser]) -> set[WorkloadKey]:
        """Workloads among these that were told something else than holds now, or may have been, if queues or labels
        changed since the last call. ``users`` is read only then."""
        if not self._stale:
            return set()
        self._stale = False
        if self._run_limits_stale:
            self._run_limits_stale = False
            return {each.workload for each in users}
        if not (self._refused or self._is_selective()):
            return set()
        allowed: dict[tuple[str, QueueName], bool] = {}
        found = set()
        for key, namespace, queue in users:
            if (namespace, queue) not in allowed:
                allowed[namespace, queue] = self.may_use(namespace, queue)
            if allowed[namespace, queue] == (key in self._refused):
                found.add(key)
        return found

    def _is_selective(self) -> bool:
        """True if some queue states which namespaces may use it."""
        return any(queue.namespace_selector is not None for queue in self._queues.values())

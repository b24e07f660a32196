"""What queues allow: which namespaces may use them, which priority and which policy counts, as they are now. Pure."""

from collections.abc import Mapping
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
        #: The tree of the queues; of those before, while it is stale.
        self._tree: QueueTree | None = None
        self._tree_is_stale = False
        #: Workloads that were told that their namespace may not use their queue.
        self._refused: set[WorkloadKey] = set()
        #: Workloads that were told anything, by namespace and queue; and where each of them is.
        self._told: dict[str, dict[QueueName, set[WorkloadKey]]] = {}
        self._place_of: dict[WorkloadKey, tuple[str, QueueName]] = {}
        #: Namespaces with other labels than before, and whether other queues may take a namespace than before.
        self._relabelled: set[str] = set()
        self._rules_stale = False
        #: Limits of run times may be others than they were told to be.
        self._run_limits_stale = False

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Labels of a namespace as they are now; None: it is gone. True: they are others than before."""
        if self._labels.get(name) == labels:
            return False
        self._labels.pop(name, None)
        if labels is not None:
            self._labels[name] = labels
        self._frozen = None
        self._relabelled.add(name)
        return True

    def put_queue(self, name: QueueName, queue: Queue | None) -> None:
        """A queue as it is now; None: it is gone."""
        before = self._queues.pop(name, None)
        if queue is not None:
            self._queues[name] = queue
        if before == queue:
            return
        self._tree_is_stale = True
        rules = [
            (each.parent, each.namespace_selector) if each is not None else None for each in (before, queue)
        ]
        self._rules_stale |= rules[0] != rules[1]
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
        if self._tree is None or self._tree_is_stale:
            self._tree = QueueTree.build(self._queues, None, before=self._tree)
            self._tree_is_stale = False
        return self._tree

    def tell(self, user: QueueUser) -> bool:
        """As ``may_use``; what a workload is told is remembered for ``changed``."""
        allowed = self.may_use(user.namespace, user.queue)
        (self._refused.discard if allowed else self._refused.add)(user.workload)
        place = user.namespace, user.queue
        if self._place_of.get(user.workload) != place:
            self._leave(user.workload)
            self._place_of[user.workload] = place
            self._told.setdefault(user.namespace, {}).setdefault(user.queue, set()).add(user.workload)
        return allowed

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self._refused.discard(key)
        self._leave(key)

    def _leave(self, key: WorkloadKey) -> None:
        if (place := self._place_of.pop(key, None)) is None:
            return
        namespace, queue = place
        of_queue = self._told[namespace][queue]
        of_queue.discard(key)
        if not of_queue:
            del self._told[namespace][queue]
        if not self._told[namespace]:
            del self._told[namespace]

    def changed(self) -> set[WorkloadKey]:
        """Workloads that were told something else than holds now, or may have been, since queues or labels changed
        after the last call."""
        namespaces = self._told.keys() if self._rules_stale else self._relabelled & self._told.keys()
        self._relabelled, self._rules_stale = set(), False
        found = set[WorkloadKey]()
        for namespace in namespaces:
            for queue, keys in self._told[namespace].items():
                refused = keys & self._refused
                found |= refused if self.may_use(namespace, queue) else keys - refused
        if self._run_limits_stale:
            self._run_limits_stale = False
            found |= self._place_of.keys()
        return found

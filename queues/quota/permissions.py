"""What queues allow: which namespaces may use them, which priority and which policy counts, as they are now. Pure."""

from collections.abc import Callable, Mapping, Set
from typing import Final, NamedTuple, TypeVar

from queues.quota.access import AccessRefusal
from queues.quota.queue import DEFAULT_POLICY, QueuePolicy, RunLimit
from queues.quota.tree import QueueTree
from queues.workload import QueueName, WorkloadKey

K = TypeVar("K")
V = TypeVar("V")


class QueueUser(NamedTuple):
    """A workload, and what decides whether it may use its queue."""

    workload: WorkloadKey
    namespace: str
    queue: QueueName
    #: The queue of its admission, whose run limit and policy count for it; None if it has none.
    held_in: QueueName | None = None


class ChangedWorkloads(NamedTuple):
    """Workloads for which queues may say something else than before."""

    #: Whether they may use their queue, or how long they may run.
    told: set[WorkloadKey]
    #: Which policy counts.
    by_policy: set[WorkloadKey]
    #: Queues with other AdmissionChecks than before: of all that is in them.
    by_checks: Set[QueueName]


class QueuePermissions:
    """Labels of namespaces, and the queues that state which of them they take."""

    def __init__(self, tree: Callable[[], QueueTree]) -> None:
        """``tree``: the queues as they are now, with removed ones that still hold something."""
        self._tree = tree
        #: The queues as they were when changes were looked at last.
        self._seen = QueueTree.build({}, None)
        self._labels: dict[str, Mapping[str, str]] = {}
        #: The same as it was last handed out; None if it has changed.
        self._frozen: Mapping[str, Mapping[str, str]] | None = {}
        #: Namespaces with other labels than before.
        self._relabelled: set[str] = set()
        #: Workloads for which the last answer was that their namespace may not use their queue.
        self._refused: set[WorkloadKey] = set()
        #: Workloads that got an answer; the same by queue and namespace, and by the queue that holds them.
        self._users: dict[WorkloadKey, QueueUser] = {}
        self._told: dict[QueueName, dict[str, set[WorkloadKey]]] = {}
        self._held: dict[QueueName, set[WorkloadKey]] = {}
        #: Queues in which workloads of a namespace got an answer.
        self._queues_of: dict[str, set[QueueName]] = {}

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Labels of a namespace as they are now; None if it is gone. True if they are others than before."""
        if self._labels.get(name) == labels:
            return False
        self._labels.pop(name, None)
        if labels is not None:
            self._labels[name] = labels
        self._frozen = None
        self._relabelled.add(name)
        return True

    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """Labels by namespace, in a mapping that never changes; the same one until a label changes."""
        if self._frozen is None:
            self._frozen = dict(self._labels)
        return self._frozen

    def refusal(self, namespace: str, queue: QueueName) -> AccessRefusal | None:
        """Why a namespace may not use a queue; None if it may, or if there is no such queue.

        A namespace that was not seen (yet) has no labels.
        """
        tree = self._tree()
        return tree.access_refusal(queue, self._labels.get(namespace, {})) if _is_there(tree, queue) else None

    def may_use(self, namespace: str, queue: QueueName) -> bool:
        """True if a namespace may use a queue, or there is no such queue."""
        return self.refusal(namespace, queue) is None

    def policy(self, queue: QueueName) -> QueuePolicy:
        """The policy that counts for a queue; the default where there is no such queue."""
        tree = self._tree()
        return tree.policy(queue) if _is_there(tree, queue) else DEFAULT_POLICY

    def checks(self, queue: QueueName) -> tuple[str, ...]:
        """AdmissionChecks of a queue and those above it; (): none, or no such queue."""
        return self._tree().checks(queue)

    def run_limit(self, queue: QueueName) -> RunLimit | None:
        """How long workloads of a queue may hold their seats; None if there is no limit, or no such queue."""
        tree = self._tree()
        return tree.run_limit(queue) if _is_there(tree, queue) else None

    def tell(self, user: QueueUser) -> bool:
        """As ``may_use``; the answer for a workload is remembered for ``changed``."""
        key = user.workload
        allowed = self.may_use(user.namespace, user.queue)
        (self._refused.discard if allowed else self._refused.add)(key)
        if self._users.get(key) != user:
            self._leave(key)
            self._users[key] = user
            self._told.setdefault(user.queue, {}).setdefault(user.namespace, set()).add(key)
            self._queues_of.setdefault(user.namespace, set()).add(user.queue)
            if user.held_in is not None:
                self._held.setdefault(user.held_in, set()).add(key)
        return allowed

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self._refused.discard(key)
        self._leave(key)

    def _leave(self, key: WorkloadKey) -> None:
        if (user := self._users.pop(key, None)) is None:
            return
        if user.held_in is not None:
            _take_out(self._held, user.held_in, key)
        _take_out(self._told[user.queue], user.namespace, key)
        if user.namespace not in self._told[user.queue]:
            _take_out(self._queues_of, user.namespace, user.queue)
            if not self._told[user.queue]:
                del self._told[user.queue]

    def changed(self) -> ChangedWorkloads:
        """Workloads whose answer may be another now, since queues or labels changed after the last call."""
        before, self._seen = self._seen, self._tree()
        relabelled, self._relabelled = self._relabelled, set()
        changes = _NO_CHANGES if before is self._seen else _RuleChanges.between(before, self._seen)
        told = set[WorkloadKey]()
        for queue in changes.access & self._told.keys():
            for namespace in self._told[queue]:
                told |= self._told_otherwise(namespace, queue)
        for namespace in relabelled & self._queues_of.keys():
            for queue in self._queues_of[namespace]:
                told |= self._told_otherwise(namespace, queue)
        return ChangedWorkloads(
            told | self._keys_of(changes.run_limits), self._keys_of(changes.policies), changes.checks
        )

    def _told_otherwise(self, namespace: str, queue: QueueName) -> set[WorkloadKey]:
        keys = self._told[queue][namespace]
        refused = keys & self._refused
        return refused if self.may_use(namespace, queue) else keys - refused

    def _keys_of(self, queues: Set[QueueName]) -> set[WorkloadKey]:
        """Workloads that got an answer in these queues, or are held in them."""
        told = (keys for queue in queues & self._told.keys() for keys in self._told[queue].values())
        held = (self._held[queue] for queue in queues & self._held.keys())
        return set[WorkloadKey]().union(*told, *held)


class _RuleChanges(NamedTuple):
    """Queues for which other rules may count than before: those that state others, and all below them."""

    access: Set[QueueName]
    run_limits: Set[QueueName]
    policies: Set[QueueName]
    checks: Set[QueueName]

    @classmethod
    def between(cls, before: QueueTree, after: QueueTree) -> "_RuleChanges":
        access, run_limits, policies = set[QueueName](), set[QueueName](), set[QueueName]()
        differing = after.differing(before)
        for name in differing:
            was, queue = before.queues.get(name), after.queues.get(name)
            if was is None or queue is None or (was.parent, was.removed) != (queue.parent, queue.removed):
                for names in (access, run_limits, policies):
                    names.add(name)
                continue
            if was.namespace_selector != queue.namespace_selector:
                access.add(name)
            if was.max_run_time != queue.max_run_time:
                run_limits.add(name)
            if was.policy != queue.policy:
                policies.add(name)
        below = before.with_below(differing) | after.with_below(differing)
        changed = (
            before.with_below(names) | after.with_below(names) for names in (access, run_limits, policies)
        )
        checks = {name for name in below if before.checks(name) != after.checks(name)}
        return cls._make((*changed, checks))


_NO_CHANGES: Final = _RuleChanges(frozenset(), frozenset(), frozenset(), frozenset())


def _is_there(tree: QueueTree, queue: QueueName) -> bool:
    known = tree.queues.get(queue)
    return known is not None and not known.removed


def _take_out(groups: dict[K, set[V]], group: K, item: V) -> None:
    groups[group].discard(item)
    if not groups[group]:
        del groups[group]

"""The Queues that there are, and removed ones that still hold something. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from admission.facts.cluster import QueueFact
from queues.admissions import Admission, AdmissionState
from queues.quota.loans import LoansInForce, loans_in_force
from queues.quota.queue import ROOT, Queue, keeps_from_autoscalers, with_removed
from queues.quota.tree import QueueTree
from queues.workload import QueueName


class QueueFacts:
    """Part of the world."""

    def __init__(self, parents: Mapping[QueueName, QueueName | None]) -> None:
        """``parents``: of queues that were removed: what is held of them counts along the same path as before."""
        #: As their objects say. Limits of queues that lend, or that something is lent to, count otherwise: ``counted``.
        self.queues: dict[QueueName, QueueFact] = {}
        self._removed = dict(parents)
        self._loans = LoansInForce()
        #: Queues that were put since loans were looked at.
        self._put: set[QueueName] = set()
        #: Admissions that are not closed, by queue.
        self._held: Counter[QueueName] = Counter()
        #: The queues as their objects say.
        self._stated: dict[QueueName, Queue] = {}
        #: The queues as they count, with removed ones that hold something. None if they have changed.
        self._known: dict[QueueName, Queue] | None = None
        #: Of the queues as they counted when it was asked for last, and the problems that it has.
        self._tree: QueueTree | None = None
        self._problems: Mapping[QueueName, str] = {}
        self._is_being_built = False
        #: Queues that were put since ``take_changed``.
        self._changed: set[QueueName] = set()

    def put(self, name: QueueName, fact: QueueFact | None) -> QueueFact | None:
        """A Queue appeared, changed, or (None) is gone. Returns it as it counts, by the loans that are known so far."""
        self._changed.add(name)
        before = self.queues.pop(name, None)
        self._stated.pop(name, None)
        if before is None or fact is None or before.queue != fact.queue:
            self._known = None
        if fact is None:
            if before is not None:
                self._removed[name] = before.queue.parent
            self._put.add(name)
            return None
        self.queues[name] = fact
        # Statuses change every few seconds, and the tree goes by identity.
        self._stated[name] = fact.queue if before is None or before.queue != fact.queue else before.queue
        self._removed.pop(name, None)
        if before is None or (before.queue, before.loans) != (fact.queue, fact.loans):
            self._put.add(name)
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
        loans = {name: fact.loans for name, fact in self.queues.items() if fact.loans}
        stated = dict(self._stated) if loans else {}
        self._loans = loans_in_force(stated, loans, now, before=self._loans.tree)
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
        """The queues that there are, with what they deserve by the loans that last."""
        lent = self._loans.queues
        return self._stated | {name: lent[name] for name in lent.keys() & self._stated.keys()}

    def keeps_from_autoscalers(self, name: QueueName) -> bool:
        """Whether pods of a queue are marked so that cluster autoscalers do not end them."""
        return keeps_from_autoscalers(name, self._stated.get)

    def tenant_of(self, name: QueueName) -> QueueName:
        """The top-level queue above a queue, itself included."""
        seen = {name}
        while (queue := self._stated.get(name)) is not None and queue.parent not in (None, ROOT, *seen):
            name = queue.parent  # type: ignore[assignment]
            seen.add(name)
        return name

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
        return self._tree is None or self._tree.made_of is not self.with_removed()

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

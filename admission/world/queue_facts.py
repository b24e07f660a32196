"""The Queues that there are, and removed ones of which something is held. Pure."""

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
        #: The queues as they count, with removed ones that are held; and their problems. None: they have changed.
        self._known: dict[QueueName, Queue] | None = None
        self._problems: dict[QueueName, str] | None = None
        self._tree: QueueTree | None = None

    def put(self, name: QueueName, fact: QueueFact | None) -> QueueFact | None:
        """A Queue appeared, changed, or (None) is gone. Returns it as it counts, by the loans that are known so far."""
        before = self.queues.pop(name, None)
        if before is None or fact is None or before.queue != fact.queue:
            self._known = None
        if fact is None:
            if before is not None:
                self._removed[name] = before.queue.parent
            self._put.add(name)
            return None
        self.queues[name] = fact
        self._removed.pop(name, None)
        # Statuses change every few seconds, and loans do not depend on them.
        if before is None or (before.queue, before.loans) != (fact.queue, fact.loans):
            self._put.add(name)
        return fact if name in self._put else self._counted(name)

    def tell_time(self, now: int) -> dict[QueueName, QueueFact]:
        """Queues of which the limits count otherwise than was told last, since a loan began, changed or ended.

        ``now``: seconds since the epoch.
        """
        ends = self._loans.until
        if not self._put and (ends is None or now < ends):
            return {}
        before, put = self._loans.queues, self._put
        self._put = set()
        loans = {name: fact.loans for name, fact in self.queues.items() if fact.loans}
        stated = {name: fact.queue for name, fact in self.queues.items()} if loans else {}
        self._loans = loans_in_force(stated, loans, now)
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
        """When the next loan ends, in seconds since the epoch; None: none lasts."""
        return self._loans.until

    def counted(self) -> dict[QueueName, Queue]:
        """The queues that there are, with what they deserve by the loans that last."""
        lent = self._loans.queues
        return {name: lent.get(name, fact.queue) for name, fact in self.queues.items()}

    def keeps_from_autoscalers(self, name: QueueName) -> bool:
        """Whether pods of a queue are marked so that cluster autoscalers do not end them."""
        return keeps_from_autoscalers(name, self._stated)

    def tenant_of(self, name: QueueName) -> QueueName:
        """The top-level queue above a queue, itself included."""
        seen = {name}
        while (queue := self._stated(name)) is not None and queue.parent not in (None, ROOT, *seen):
            name = queue.parent  # type: ignore[assignment]
            seen.add(name)
        return name

    def _stated(self, name: QueueName) -> Queue | None:
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
        """The queues that there are, as they count, and removed ones of which something is held: the same object until
        that changes."""
        if self._known is None:
            held = [name for name in self._removed if name in self._held]
            self._known = with_removed(self.counted(), held, self._removed)
            # Nothing is opened in a removed queue, so one of which nothing is held matters no more.
            self._removed = {name: parent for name, parent in self._removed.items() if name in self._known}
            self._problems = None
        return self._known

    def problems(self) -> dict[QueueName, str]:
        """Queues that cannot be used, with all that is wrong with them."""
        known = self.with_removed()
        if self._problems is None:
            # What nodes have is no problem of a queue.
            self._tree = QueueTree.build(known, None, before=self._tree)
            problems = self._tree.problems.items()
            self._problems = {name: " ".join(map(str, errors)) for name, errors in problems}
        return self._problems

"""What is used of the budgets of queues, as far as the ledger has it. Pure.

It is read from the postings when a term or a month begins, and when a queue moves or others have a budget. Every plan
that is applied then adds what the ledger posts for it. Both give the same, to the second.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, tzinfo

from admission.world.queues import posted_amounts
from queues.admissions import Admission
from queues.quota.budgets import (
    NO_HOURS,
    BudgetUse,
    HoursBudget,
    Period,
    ResourceHours,
    SpentBudget,
    sum_upwards,
)
from queues.quota.queue import Queue, path_upwards
from queues.workload import NO_FLAVOR, AdmissionId, QueueName


class QueueBudgets:
    """Part of the world. As long as no queue has a budget, ``use`` is None, and nothing is asked of it."""

    def __init__(self, queues: Callable[[], Mapping[QueueName, Queue]], zone: tzinfo = UTC) -> None:
        """``queues``: those that there are, and removed ones that hold something. ``zone``: of the calendar months."""
        self._queues = queues
        self._zone = zone
        #: None if no queue has a budget, or nothing is read yet.
        self.use: BudgetUse | None = None
        #: The budgets that use was read of, by their resources.
        self._read_for: Mapping[QueueName, frozenset[str]] = {}
        #: Where each queue counted when use was read, or came later; those that are gone, too.
        self._parents: dict[str, str | None] = {}
        #: Queues have changed since use was read.
        self.may_differ = False

    def unread(self, now: int) -> Period | None:
        """The month whose use has to be read from the ledger; None if it is known, or no queue has a budget."""
        is_over = self.use is not None and not self.use.period.includes(now)
        if not (self.may_differ or is_over):
            return None
        self.may_differ, stated, queues = False, self._stated(), self._queues()
        if not stated:
            self.use = None
            return None
        parents: dict[str, str | None] = {name: queue.parent for name, queue in queues.items()}
        is_moved = any(self._parents.get(name, parent) != parent for name, parent in parents.items())
        if self.use is None or is_over or is_moved or stated != self._read_for:
            self.may_differ = True
            return Period.month_of(now, self._zone)
        self._parents |= parents
        return None

    def counted_since(self, now: int) -> int | None:
        """The second from which on postings count at a second, in seconds since the epoch; None if no queue has a
        budget."""
        return Period.month_of(now, self._zone).begins if self._stated() else None

    def begin(
        self,
        period: Period,
        own: Mapping[QueueName, ResourceHours],
        parents: Mapping[str, str | None],
        now: int,
    ) -> None:
        """What the ledger says of each queue. ``parents``: as stored, also of queues that are gone."""
        self.may_differ, self._read_for = False, self._stated()
        self._parents = dict(parents)
        self._parents.update((name, queue.parent) for name, queue in self._queues().items())
        hours = sum_upwards(own.items(), self._read_for, self._parents, now)
        self.use = BudgetUse(period, hours, period.next_day(self._zone))

    def post(self, changed: Iterable[Admission], known: Mapping[AdmissionId, Admission], at: int) -> None:
        """A plan of that second opened or changed admissions; ``known`` are they as they were before."""
        assert self.use is not None, "a queue has a budget"
        queues, resources = self._queues(), frozenset[str]().union(*self._read_for.values())
        hours = {name: dict(each) for name, each in self.use.hours.items()}
        for admission, amounts in posted_amounts(changed, known):
            for above in path_upwards(admission.queue, queues.get):
                for account, units in amounts.items() if above.name in hours else ():
                    if account.flavor == NO_FLAVOR and account.resource in resources:
                        of_queue = hours[above.name]
                        of_queue[account.resource] = of_queue.get(account.resource, NO_HOURS).posted(
                            units, at
                        )
        self.use = self.use._replace(hours=hours)

    def spent(self, now: int) -> dict[QueueName, SpentBudget]:
        """Budgets that are used up now, and hold."""
        assert self.use is not None, "a queue has a budget"
        return self.use.spent(self._budgets(), now)

    def until(self, now: int) -> int | None:
        """The next second at which ``spent`` is another one though nothing is posted; None if never."""
        assert self.use is not None, "a queue has a budget"
        return min([self.use.period.ends, *(at for *_, at in self.use.used_up(self._budgets()) if at > now)])

    def _budgets(self) -> dict[QueueName, HoursBudget | None]:
        return {name: queue.budget for name, queue in self._queues().items()}

    def resources(self) -> frozenset[str]:
        """What budgets are about."""
        return frozenset[str]().union(*self._stated().values())

    def _stated(self) -> dict[QueueName, frozenset[str]]:
        """The budgets that queues have, by their resources."""
        queues = self._queues().items()
        return {name: frozenset(each.budget.hours) for name, each in queues if each.budget is not None}

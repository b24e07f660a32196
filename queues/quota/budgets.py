"""Budgets: how many hours of a resource a queue and those below it may use in a calendar month. Pure.

What is used of a resource is a line over time as long as the amount that is held stays the same. So what was used until
any second, and when a budget will be used up, follow from one reading of the ledger and from what is posted after it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final, NamedTuple, Self

from queues.resources import in_bytes, scale, show
from queues.workload import QueueName

#: Value of ``budget.whenSpent`` with which nothing more is admitted once the budget is used up.
HOLD: Final = "hold"
#: From this many hundredths of a budget on it is warned of.
WARNED_AT: Final = 80
SECONDS: Final = 3600


class Period(NamedTuple):
    """What a budget is for, in seconds since the epoch."""

    begins: int
    #: The first second of the next one.
    ends: int

    @classmethod
    def month_of(cls, moment: int, zone: tzinfo) -> Self:
        """The calendar month of a time zone that a second is in."""
        first = datetime.fromtimestamp(moment, zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        year, month = (first.year + 1, 1) if first.month == 12 else (first.year, first.month + 1)
        # Of a time that comes twice it is the first, of one that a clock leaps over the second after the leap.
        begins, ends = first.replace(fold=0), first.replace(year=year, month=month, fold=0)
        return cls(int(begins.timestamp()), int(ends.timestamp()))

    def includes(self, moment: int) -> bool:
        """Whether a second is in it."""
        return self.begins <= moment < self.ends

    def next_day(self, zone: tzinfo) -> str:
        """The day on which the next period begins: ``2026-12-01``."""
        return datetime.fromtimestamp(self.ends, zone).date().isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursBudget:
    """What an administrator allows a queue and those below it in a month (``spec.budget``)."""

    #: Units of ``queues.resources`` × hours, by resource.
    hours: Mapping[str, int]
    #: The period: month.
    per: str = "month"
    #: Whether nothing more is admitted once one of them is used up.
    holds: bool = False

    def amount(self, resource: str) -> int:
        """Units × seconds of one of its resources."""
        return self.hours[resource] * SECONDS


class HoursUsed(NamedTuple):
    """Use of a resource since a period began."""

    #: Units × seconds until ``at``, a second since the epoch.
    used: int
    #: Units from then on.
    held: int
    at: int

    def until(self, moment: int) -> int:
        """Units × seconds until a second, if nothing is posted until then."""
        return self.used + self.held * (moment - self.at)

    def posted(self, units: int, at: int) -> "HoursUsed":
        """The same, with so many units more held from a second on."""
        return HoursUsed(self.until(at), self.held + units, at)

    def reaches(self, amount: int) -> int | None:
        """The first second until which so much is used; None if never at this rate."""
        if self.used >= amount:
            return self.at
        return self.at - (self.used - amount) // self.held if self.held > 0 else None


NO_HOURS: Final = HoursUsed(0, 0, 0)
#: Use by resource.
ResourceHours = Mapping[str, HoursUsed]


class BudgetUse(NamedTuple):
    """Use of what has a budget."""

    period: Period
    #: By queue with a budget, with all below it.
    hours: Mapping[QueueName, ResourceHours]
    #: The day on which the next period begins: ``2026-12-01``.
    ends_on: str = ""

    def used_up(
        self, budgets: Mapping[QueueName, "HoursBudget | None"]
    ) -> Iterator[tuple[QueueName, str, int]]:
        """From which second on each of these budgets that holds is used up, by resource, if it will be."""
        for name, hours in self.hours.items():
            if (budget := budgets.get(name)) is None or not budget.holds:
                continue
            for resource in budget.hours:
                if (at := hours.get(resource, NO_HOURS).reaches(budget.amount(resource))) is not None:
                    yield name, resource, at

    def spent(
        self, budgets: Mapping[QueueName, "HoursBudget | None"], now: int
    ) -> dict[QueueName, "SpentBudget"]:
        """Those that are used up now, and hold."""
        if not self.period.includes(now):
            return {}
        return {
            name: SpentBudget(resource=resource, ends_on=self.ends_on)
            for name, resource, at in sorted(self.used_up(budgets), reverse=True)
            if at <= now
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentBudget:
    """A budget that is used up, and holds."""

    resource: str
    #: The day on which it ends, as the next one begins: ``2026-12-01``.
    ends_on: str


def hours_text(resource: str, amount: int) -> str:
    """Units × seconds as hours of one GPU or CPU, with at most four digits after the point: ``1000``, ``0.002``."""
    if in_bytes(resource):
        return show(resource, amount // SECONDS)
    return f"{round(amount / (scale(resource) * SECONDS), 4):f}".rstrip("0").rstrip(".")


def hundredths(used: int, amount: int) -> int:
    """How many hundredths of a budget are used, rounded down: 100 is all of it, and no less."""
    return used * 100 // amount if amount > 0 else 100


def sum_upwards(
    own: Iterable[tuple[QueueName, ResourceHours]],
    wanted: Iterable[QueueName],
    parents: Mapping[str, str | None],
    now: int,
) -> dict[QueueName, dict[str, HoursUsed]]:
    """Use of these queues with all below them. ``own``: of each queue itself, of several times perhaps."""
    found: dict[QueueName, dict[str, HoursUsed]] = {name: {} for name in wanted}
    for queue, hours in own:
        path: dict[str, None] = {}
        above: str | None = queue
        while above is not None and above not in path:
            path[above] = None
            above = parents.get(above)
        for name in found.keys() & path:
            sums = found[name]
            for resource, each in hours.items():
                before = sums.get(resource, NO_HOURS)
                sums[resource] = HoursUsed(before.until(now) + each.until(now), before.held + each.held, now)
    return found

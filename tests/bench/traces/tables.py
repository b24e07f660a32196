"""What was reached, beside what must be and what is aimed at; and as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Final

from tests.bench.mark import Mark
from tests.bench.traces.scoring import Score


@dataclass(frozen=True, slots=True)
class _Column:
    field: str
    title: str
    #: Printed so, after it was multiplied by 100 for a percentage.
    form: str
    upwards: bool = False

    def show(self, value: float) -> str:
        return format(value * 100 if self.form.endswith("%") else value, self.form.rstrip(" %")) + (
            " %" if self.form.endswith("%") else ""
        )


_COLUMNS: Final = (
    _Column("util_eff", "util_eff", ".3f", upwards=True),
    _Column("gang_p95_hours", "p95 wait of gangs, h", ".1f"),
    _Column("longest_gang_wait_hours", "longest, h", ".0f"),
    _Column("share_dev", "share_dev", ".3f"),
    _Column("worst_tenant", "worst tenant", ".2f", upwards=True),
    _Column("mean_wait_hours", "mean wait, h", ".2f"),
    _Column("wasted", "wasted", ".2f %"),
    _Column("evictions", "evictions", ".0f"),
    _Column("evictions_in_a_day", "of one job in a day", ".0f"),
)

HEAD: Final = f"| | {' | '.join(each.title for each in _COLUMNS)} |\n{'|---' * (len(_COLUMNS) + 1)}|"


def row(score: Score) -> str:
    """One week, as a line of a Markdown table."""
    return _line(score.case, [each.show(getattr(score, each.field)) for each in _COLUMNS])


def summary(name: str, scores: Sequence[Score]) -> str:
    """Mean, worst and spread (standard deviation) over weeks, a line each."""
    mean, worst, spread = [], [], []
    for each in _COLUMNS:
        values = [float(getattr(score, each.field)) for score in scores]
        mean.append(each.show(fmean(values)))
        worst.append(each.show(min(values) if each.upwards else max(values)))
        spread.append(each.show(pstdev(values)))
    return "\n".join(
        _line(f"{name}, {what}", values)
        for what, values in (("mean", mean), ("worst", worst), ("spread", spread))
    )


def _line(name: str, values: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(values)} |"


def comparison(reached: Mapping[str, Sequence[Score]]) -> str:
    """Means of several sets of rules, a line each."""
    lines = [
        _line(name, [each.show(fmean(getattr(score, each.field) for score in scores)) for each in _COLUMNS])
        for name, scores in reached.items()
    ]
    return "\n".join([HEAD, *lines])


def marks(scores: Sequence[Score], *, preemption: bool) -> list[Mark]:
    """What was reached, mean over the weeks, beside what must be and what is aimed at."""

    def mark(name: str, unit: str, field: str, must: float, aim: float, *, upwards: bool = False) -> Mark:
        reached = fmean(getattr(score, field) for score in scores)
        factor = 100 if unit == "%" else 1
        return Mark(name=name, unit=unit, reached=reached * factor, must=must, aim=aim, upwards=upwards)

    def most(name: str, unit: str, field: str, must: float, aim: float) -> Mark:
        reached = max(getattr(score, field) for score in scores)
        return Mark(name=name, unit=unit, reached=reached, must=must, aim=aim, upwards=False)

    broken = sum(sum(score.violations.values()) for score in scores)
    every = [Mark(name="invariants violated", unit="", reached=broken, must=0, aim=0, upwards=False)]
    if preemption:
        return [
            *every,
            mark("utilisation of what was possible", "%", "util_eff", 98, 98.7, upwards=True),
            mark("95th percentile of the waits of gangs", "h", "gang_p95_hours", 4, 1.5),
            most("95th percentile of the waits of gangs, worst week", "h", "gang_p95_hours", 12, 6),
            mark("deviation from fair shares", "%", "share_dev", 6, 5),
            mark("worst tenant, of its fair share", "%", "worst_tenant", 68, 80, upwards=True),
            mark("mean wait", "h", "mean_wait_hours", 2.9, 2.2),
            mark("work that was wasted", "%", "wasted", 0.5, 0.2),
            most("evictions of one job in a day", "", "evictions_in_a_day", 5, 5),
        ]
    return [
        *every,
        mark("without preemption: utilisation of what was possible", "%", "util_eff", 96.3, 97, upwards=True),
        mark("without preemption: 95th percentile of the waits of gangs", "h", "gang_p95_hours", 64, 60),
        mark("without preemption: deviation from fair shares", "%", "share_dev", 8.5, 7),
        mark("without preemption: mean wait", "h", "mean_wait_hours", 2.2, 1.8),
    ]

"""The last days, replayed, as text: queues before and after, and how well the replay reproduces what happened."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from admission.cli.look_back.days import DaysReplayed, title
from admission.cli.rendering.table import NONE, Cell, one_line, printable, table
from queues.reason_codes import ReasonCode
from queues.text_format import counted, short_duration

if TYPE_CHECKING:
    from admission.simulate.past_days import Replayed
    from admission.simulate.queue_figures import QueueFigures
    from queues.workload import QueueName

    Figures = Mapping[QueueName, QueueFigures]

#: Queues that are shown without ``--all``: those with the most work.
_SHOWN: Final = 12
#: Characters of a line of a message.
_WIDTH: Final = 80
#: A replayed wait is as recorded if it is off by at most so many seconds, or by so many percent.
_NEAR_SECONDS: Final = 300
_NEAR_PERCENT: Final = 10
#: Name of the line that sums up.
_ALL: Final = "(all)"

_LIMITS: Final = """\
Not recorded, and so not replayed: node selectors and topology of work that has
ended, checkpoints (evicted work begins anew), and what queues and nodes were
before. Work that runs or waits now counts as long as it ran so far.
"""

_Pick = Callable[["QueueFigures"], str | None]


def days_text(days: int, replayed: DaysReplayed, turn_at: datetime, *, everything: bool) -> str:
    """The whole answer."""
    was = replayed.as_it_was.queues
    then = None if replayed.changed is None else replayed.changed.queues
    names = _most_work(was, then or {}, replayed.days.recorded)
    shown = names if everything else names[:_SHOWN]
    lines = title(days, replayed, turn_at)
    if then is not None:
        lines.append("With this change:" if len(replayed.notes) == 1 else "With these changes:")
        lines += [f"  {one_line(printable(each))}" for each in replayed.notes]
        lines += _pairs(
            "Waits until the first start (as it was → with the changes):", (was, then), _WAITS, shown
        )
        lines += _pairs("Use (as it was → with the changes):", (was, then), _USE, shown)
    recorded = replayed.days.recorded
    lines += _pairs("Waits as they were (recorded → replayed):", (recorded, was), _WAITS, shown)
    lines += _pairs("Use as it was (recorded → replayed):", (recorded, was), _USE, shown)
    lines += _not_started("Not started by the end, as it was:", replayed.as_it_was, everything)
    if replayed.changed is not None:
        lines += _not_started("Not started by the end, with the changes:", replayed.changed, everything)
    if len(names) > len(shown):
        lines.append(f"{len(shown)} of {len(names)} queues shown; --all shows them")
    lines.append(_agreement(replayed))
    return "".join(f"{line}\n" for line in lines) + _LIMITS


def _duration(percent: int) -> _Pick:
    def pick(of: "QueueFigures") -> str | None:
        wait = of.wait(percent)
        return None if wait is None else short_duration(wait)

    return pick


def _hours(units: int) -> str:
    """Hours of devices (or CPUs), which are counted in thousandths."""
    hours = units / 1000 / 3600
    return f"{hours:.0f}" if hours >= 100 else f"{hours:.1f}"


_WAITS: Final[Mapping[str, _Pick]] = {
    "MEDIAN": _duration(50),
    "95%": _duration(95),
    "STARTED": lambda of: str(len(of.waits)),
}
_USE: Final[Mapping[str, _Pick]] = {
    "HOURS": lambda of: _hours(of.used),
    "EVICTED": lambda of: str(of.evicted),
    "SHORT": lambda of: _hours(of.short),
}


def _most_work(*figures: "Figures") -> "list[QueueName]":
    used: dict[QueueName, int] = {}
    for each in figures:
        for name, of in each.items():
            used[name] = max(used.get(name, 0), of.used + len(of.waits))
    return sorted(used, key=lambda name: (-used[name], name))


def _pairs(
    heading: str, sides: "tuple[Figures, Figures]", columns: Mapping[str, _Pick], names: "Sequence[QueueName]"
) -> list[str]:
    """A table with each figure twice: before and after, or recorded and replayed."""
    rows: list[list[Cell]] = []
    for name in [*names, *([None] if len(names) > 1 else [])]:
        first, second = (_figures(side, name) for side in sides)
        pairs = [f"{pick(first) or NONE} → {pick(second) or NONE}" for pick in columns.values()]
        rows.append([name or _ALL, *pairs])
    text = table(["QUEUE", *columns], rows, right=" ".join(columns))
    return [heading, *(f"  {line}" for line in text.splitlines())]


def _not_started(heading: str, of: "Replayed", everything: bool) -> list[str]:
    """Why work had not started when the days ended, a queue and reason a line. Empty: all of it had."""
    shown = of.not_started if everything else of.not_started[:_SHOWN]
    if not shown:
        return []
    lines = [heading]
    for each in shown:
        lines.append(f"  {counted(each.workloads, 'workload')} of {each.queue}: {each.code}")
        lines += wrap(
            one_line(printable(each.message)),
            _WIDTH,
            initial_indent="    ",
            subsequent_indent="    ",
            max_lines=3,
            placeholder=" …",
        )
    if any(each.code is ReasonCode.QUEUE_NOT_LEAF for each in shown):
        lines.append(
            "  Queues are those of now: one that got queues below it meanwhile takes no work itself."
        )
    if len(shown) < len(of.not_started):
        lines.append(f"  {len(shown)} of {len(of.not_started)} lines shown; --all shows them")
    return lines


def _figures(side: "Figures", name: "QueueName | None") -> "QueueFigures":
    """Those of one queue; None: of all together."""
    from admission.simulate.queue_figures import QueueFigures

    if name is not None:
        return side.get(name) or QueueFigures()
    return QueueFigures(
        waits=sorted(wait for each in side.values() for wait in each.waits),
        arrived=sum(each.arrived for each in side.values()),
        waiting=sum(each.waiting for each in side.values()),
        evicted=sum(each.evicted for each in side.values()),
        used=sum(each.used for each in side.values()),
        short=sum(each.short for each in side.values()),
    )


def _agreement(replayed: DaysReplayed) -> str:
    """How many waits the replay got right."""
    recorded, found = replayed.days.waits, replayed.as_it_was.waits
    near = sum(
        abs(found[key] - wait) <= max(_NEAR_SECONDS, wait * _NEAR_PERCENT // 100)
        for key, wait in recorded.items()
        if key in found
    )
    if not recorded:
        return "No work both came and started in these days: there is nothing to hold the replay against."
    return f"{near} of {counted(len(recorded), 'wait')} replayed within 5 minutes or a tenth of what was recorded."

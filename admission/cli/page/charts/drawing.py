"""The shapes of charts over time, and a table for each that says the same. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Styles of lines: each has a colour and a dash of its own, so that they differ without colours too.
STYLES: Final = 6
_WIDTH: Final = 1000
_HEIGHT: Final = 200
#: Steps between grid lines are one of these times a power of ten.
_ROUND: Final = (1, 2, 5, 10)
#: Labels below a chart.
_TIMES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """A value for each slot. None where there is none."""

    name: str
    values: Sequence[float | None]
    #: Filled down to zero.
    is_area: bool = False
    #: A level that others are compared with.
    is_limit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLine:
    """The shapes of a line."""

    name: str
    style: str
    path: str
    #: What is filled below it; "": nothing.
    area: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnChart:
    """A chart as the template needs it, and the table that says the same."""

    lines: Sequence[DrawnLine]
    #: Heights of grid lines, and the labels of their levels from the highest to 0.
    grid: Sequence[float]
    levels: Sequence[str]
    #: Some of the times, with their places from the left in percent.
    times: Sequence[tuple[str, str]]
    #: What it shows, for who does not see it.
    summary: str
    unit: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | None]]
    width: int = _WIDTH
    height: int = _HEIGHT


def drawn_chart(
    title: str, times: Sequence[str], lines: Sequence[ChartLine], *, unit: str, digits: int = 1
) -> DrawnChart | None:
    """A chart. None if nothing is known. ``times``: labels of the slots; ``unit``: of the values, for the table."""
    known = [value for line in lines for value in line.values if value is not None]
    if not times or not known:
        return None
    step = _step(max(known))
    top = step * max(1, -(-max(known) // step))
    count = round(top / step)
    return DrawnChart(
        lines=[_line(line, index, top) for index, line in enumerate(lines)],
        grid=[round(_HEIGHT * index / count, 1) for index in range(count + 1)],
        levels=[_short(step * index) for index in range(count, -1, -1)],
        times=_labels(times),
        summary=_told(title, lines, unit, digits),
        unit=unit,
        columns=["Time, UTC", *(line.name for line in lines)],
        rows=[
            [
                time,
                *(None if (value := line.values[slot]) is None else f"{value:.{digits}f}" for line in lines),
            ]
            for slot, time in enumerate(times)
        ],
    )


def _step(most: float) -> float:
    """Between grid lines: about four of them, at round values."""
    rough = max(most, 1e-9) / 4
    power = 1.0
    while power > rough:
        power /= 10
    while power * 10 <= rough:
        power *= 10
    return next(power * each for each in _ROUND if power * each >= rough * 0.999)


def _line(line: ChartLine, index: int, top: float) -> DrawnLine:
    """Runs of known values; a value holds for the whole of its slot."""
    width = _WIDTH / len(line.values)
    parts: list[str] = []
    begun = False
    for slot, value in enumerate(line.values):
        if value is None:
            begun = False
            continue
        y = round(_HEIGHT * (1 - value / top), 1)
        left, right = round(slot * width, 1), round((slot + 1) * width, 1)
        parts.append(f"{'L' if begun else 'M'}{left:g} {y:g}H{right:g}")
        begun = True
    path = "".join(parts)
    has_area = line.is_area and path and None not in line.values
    return DrawnLine(
        name=line.name,
        style="limit" if line.is_limit else f"series-{index % STYLES}",
        path=path,
        area=f"{path}V{_HEIGHT}H0Z" if has_area else "",
    )


def _told(title: str, lines: Sequence[ChartLine], unit: str, digits: int) -> str:
    """What the chart shows, for who does not see it; the table has the rest."""
    parts = []
    for line in lines:
        known = [value for value in line.values if value is not None]
        if known:
            last = next(value for value in reversed(line.values) if value is not None)
            numbers = (
                f"lowest {min(known):.{digits}f}, highest {max(known):.{digits}f}, last {last:.{digits}f}"
            )
            parts.append(f"{line.name}: {numbers if min(known) != max(known) else f'{last:.{digits}f}'}")
    return f"{title}, in {unit}. {'; '.join(parts)}."


def _labels(times: Sequence[str]) -> list[tuple[str, str]]:
    """Some of the times below the beginning of their slots. The text is as large on a phone as elsewhere."""
    every = max(1, -(-len(times) // _TIMES))
    return [
        (f"{100 * slot / len(times):.2f}", times[slot])
        for slot in range(0, len(times), every)
        if len(times) - slot >= every / 2  # the last one has room
    ]


def _short(value: float) -> str:
    return f"{value:g}" if value < 10_000 else f"{value / 1000:g}k"

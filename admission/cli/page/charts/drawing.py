"""Charts over time, drawn as SVG with their labels in HTML, each with a table that says the same. Pure: values in, HTML
out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from admission.cli.page.layout import Cell, table

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


def chart(
    title: str, times: Sequence[str], lines: Sequence[ChartLine], *, unit: str, digits: int = 1
) -> Markup:
    """A chart with its legend and its table. ``times``: labels of the slots; ``unit``: of the values, for the table."""
    known = [value for line in lines for value in line.values if value is not None]
    if not times or not known:
        return Markup('<p class="faint">{}: nothing is known of this time.</p>').format(title)
    step = _step(max(known))
    top = step * max(1, -(-max(known) // step))
    count = round(top / step)
    grid = Markup("").join(
        Markup('<line class="grid" x1="0" x2="{}" y1="{}" y2="{}"/>').format(_WIDTH, y, y)
        for y in (round(_HEIGHT * index / count, 1) for index in range(count + 1))
    )
    drawn = Markup("").join(_line(line, index, top) for index, line in enumerate(lines))
    levels = Markup("").join(
        Markup("<span>{}</span>").format(_short(step * index)) for index in range(count, -1, -1)
    )
    return Markup(
        '<figure class="chart"><figcaption>{title}</figcaption>{legend}'
        '<div class="plot"><div class="levels" aria-hidden="true">{levels}</div>'
        '<svg viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{told}">{grid}{drawn}</svg>'
        '<svg class="times" aria-hidden="true">{times}</svg></div>'
        "<details><summary>{title} as a table</summary>{table}</details></figure>"
    ).format(
        title=title,
        legend=_legend(lines),
        levels=levels,
        w=_WIDTH,
        h=_HEIGHT,
        told=_told(title, lines, unit, digits),
        grid=grid,
        drawn=drawn,
        times=_labels(times),
        table=_table(title, times, lines, unit, digits),
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


def _line(line: ChartLine, index: int, top: float) -> Markup:
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
    style = "limit" if line.is_limit else f"series-{index % STYLES}"
    area = Markup("")
    if line.is_area and path and None not in line.values:
        area = Markup('<path class="area {}" d="{}V{}H0Z"/>').format(style, path, _HEIGHT)
    return area + Markup('<path class="line {}" d="{}"/>').format(style, path)


def _legend(lines: Sequence[ChartLine]) -> Markup:
    return Markup('<ul class="legend">{}</ul>').format(
        Markup("").join(
            Markup(
                '<li><svg class="sample" viewBox="0 0 28 10" aria-hidden="true">'
                '<path class="line {}" d="M0 5H28"/></svg> {}</li>'
            ).format("limit" if line.is_limit else f"series-{index % STYLES}", line.name)
            for index, line in enumerate(lines)
        )
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


def _labels(times: Sequence[str]) -> Markup:
    """Some of the times below the beginning of their slots. The text is as large on a phone as elsewhere."""
    every = max(1, -(-len(times) // _TIMES))
    return Markup("").join(
        Markup('<text x="{}%" y="14">{}</text>').format(f"{100 * slot / len(times):.2f}", times[slot])
        for slot in range(0, len(times), every)
        if len(times) - slot >= every / 2  # the last one has room
    )


def _table(title: str, times: Sequence[str], lines: Sequence[ChartLine], unit: str, digits: int) -> Markup:
    rows: list[list[Cell]] = [
        [
            time,
            *(None if line.values[slot] is None else f"{line.values[slot]:.{digits}f}" for line in lines),
        ]
        for slot, time in enumerate(times)
    ]
    names = [line.name for line in lines]
    return table(f"{title}, in {unit}", ["Time, UTC", *names], rows, numbers=names)


def _short(value: float) -> str:
    return f"{value:g}" if value < 10_000 else f"{value / 1000:g}k"

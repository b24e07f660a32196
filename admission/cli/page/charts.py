"""Use, shares and waits over time: the shapes of charts, and a table for each that says the same. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup

from admission.cli.page.layout import link, render
from admission.cli.rendering.terminal import short_resource
from queues.read_api.bodies import QueueBody
from queues.read_api.usage import SeriesBody, TimeSeriesList

#: Lines of queues that one chart has; more could not be distinguished.
MOST_QUEUES: Final = 5
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


# -- the view --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A length of time that charts are drawn for. Seconds."""

    title: str
    length: int
    step: int


SPANS: Final[Mapping[str, Span]] = {
    "day": Span(title="24 hours", length=86_400, step=1_800),
    "week": Span(title="7 days", length=604_800, step=7_200),
    "month": Span(title="30 days", length=2_592_000, step=21_600),
}


def over_time(
    body: TimeSeriesList,
    *,
    queue: str,
    span: str,
    queues: Sequence[QueueBody],
    resources: Sequence[str],
) -> Markup:
    """Charts of a queue and those below it: ``body`` is a TimeSeriesList."""
    resource = body.resource
    top, children = body.items[0], body.items[1:]
    times = [_time(slot, span) for slot in body.slots]
    short = short_resource(resource)
    used = [ChartLine(name=queue, values=top.used, is_area=True)]
    used += [ChartLine(name=each.queue, values=each.used) for each in children]
    if top.capability is not None:
        used.append(_level("capability", top.capability, times))
    charts = [_chart(f"{short} in use", times, used, unit=resource)]
    owners = [(each, each.deserved) for each in body.items if each.deserved]
    if owners:
        shares = [
            ChartLine(name=each.queue, values=[value / deserved for value in each.used])
            for each, deserved in owners
        ]
        shares.append(_level("all that is deserved", 1.0, times))
        title = "Shares: use ÷ what is deserved now"
        charts.append(_chart(title, times, shares, unit="parts of 1", digits=2))
    waits = [
        ChartLine(name="half waited less", values=_minutes(top.wait_median)),
        ChartLine(name="nine of ten waited less", values=_minutes(top.wait_most)),
    ]
    charts.append(_chart("Minutes from creation to seats", times, waits, unit="minutes"))
    started = [ChartLine(name="workloads that got seats", values=top.started)]
    charts.append(_chart("Starts", times, started, unit="workloads", digits=0))
    return render(
        "charts.html",
        queue=queue,
        body=body,
        choices=_choices(queue, span, resource, queues, resources),
        charts=charts,
        mean=_mean_use(top, short, slot_seconds(body)),
    )


def _chart(title: str, times: Sequence[str], lines: Sequence[ChartLine], **more: Any) -> tuple[str, Any]:
    return title, drawn_chart(title, times, lines, **more)


def _level(name: str, value: float, times: Sequence[str]) -> ChartLine:
    return ChartLine(name=name, values=[value] * len(times), is_limit=True)


def _minutes(seconds: Sequence[int | None]) -> list[float | None]:
    return [None if each is None else round(each / 60, 2) for each in seconds]


def slot_seconds(body: TimeSeriesList) -> list[float]:
    """Seconds of each slot: the last one is over when the period is."""
    begins = [datetime.fromisoformat(slot).timestamp() for slot in body.slots]
    ends = [*begins[1:], datetime.fromisoformat(body.to).timestamp()]
    return [end - begin for begin, end in zip(begins, ends, strict=True)]


def _mean_use(top: SeriesBody, short: str, lengths: Sequence[float]) -> str:
    whole = sum(used * length for used, length in zip(top.used, lengths, strict=True))
    mean = whole / (sum(lengths) or 1)
    part = f", {100 * mean / top.capability:.0f} % of the capability" if top.capability else ""
    return f"On average {mean:.1f} {short} were in use{part}."


def _choices(
    queue: str,
    span: str,
    resource: str,
    queues: Sequence[QueueBody],
    resources: Sequence[str],
) -> list[tuple[str, list[tuple[str, Markup | None]]]]:
    """What may be shown instead: names of choices, each with its options as links. None for what is shown."""
    shown = {"queue": queue, "span": span, "resource": resource}

    def options(field: str, texts: Mapping[str, str]) -> list[tuple[str, Markup | None]]:
        return [
            (text, None if name == shown[field] else link(text, "charts", **{**shown, field: name}))
            for name, text in texts.items()
        ]

    here = next((each for each in queues if each.name == queue), None)
    above = here.parent if here is not None else None
    below = [each.name for each in queues if each.parent == queue]
    names = [name for name in (above, queue, *below) if name and (name == queue or _has(queues, name))]
    found = [("Time", options("span", {name: each.title for name, each in SPANS.items()}))]
    if len(names) > 1:
        found.append(("Queue", options("queue", dict(zip(names, names, strict=True)))))
    if len(resources) > 1:
        found.append(("Resource", options("resource", dict(zip(resources, resources, strict=True)))))
    return found


def _has(queues: Sequence[QueueBody], name: str) -> bool:
    return any(each.name == name for each in queues)


def _time(slot: str, span: str) -> str:
    """The beginning of a slot, as short as its span allows."""
    day, _, clock = slot.removesuffix("Z").partition("T")
    return clock[:5] if span == "day" else f"{day[5:]} {clock[:5]}"

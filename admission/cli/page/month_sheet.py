"""One month on a sheet to print: use by tenant, or by queues, with a bar each, and the same numbers as CSV. Pure."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from markupsafe import Markup

from admission.cli.page.charts import slot_seconds
from admission.cli.page.layout import bar, link, render
from admission.cli.plugin.usage import OTHERS, column_of, hours_of, in_order, unit, unit_size, usage_csv
from queues.quota.queue import ROOT
from queues.read_api.usage import TimeSeriesList, UsageBody, UsageList

#: Months that are shown, by what people call them.
MONTHS: Final = ("this", "last")
#: Parts of an hour that bars tell apart.
_PARTS: Final = 1000
#: Seconds over which use is averaged before it is compared with a guarantee: a month has no more than 400 of them.
IDLE_STEP: Final = 7200
#: Further columns of the CSV, as the sheet calls them.
_TITLES: Final = {"idle_guarantee_hours": "Idle guarantee", "cost": "Cost"}


class MonthChoice(NamedTuple):
    """What is shown."""

    #: One of ``MONTHS``.
    month: str
    #: None for all tenants.
    queue: str | None
    resource: str
    #: Those that may be shown instead.
    resources: Sequence[str]

    def links(self, **other: str) -> dict[str, str]:
        """Parameters of the same view of another queue, or with another choice."""
        return {"month": self.month, "resource": self.resource, **other}

    def choice(self, field: str, values: Sequence[str]) -> list[tuple[str, Markup | None]]:
        """The values of a field with a link to each; None is that which is shown."""
        links = {
            each: link(each, "usage", queue=self.queue, **self.links(**{field: each})) for each in values
        }
        return [(each, None if each == self.links()[field] else links[each]) for each in values]


def idle_guarantees(body: TimeSeriesList) -> dict[str, float]:
    """Hours of the guarantee that each queue has now and did not use."""
    hours = [seconds / 3600 / unit_size(body.resource) for seconds in slot_seconds(body)]
    return {
        each.queue: sum(
            max(0.0, each.guarantee - used) * long for used, long in zip(each.used, hours, strict=True)
        )
        for each in body.items
    }


def _hours(line: UsageBody) -> float:
    return float(hours_of(line.resource, line.amount_seconds))


def _unused(resource: str, by: str, name: str) -> UsageBody:
    """The line of a queue that used nothing."""
    columns = dict.fromkeys(("tenant", "queue", "user", "workload", "flavor")) | {by: name}
    seconds = dict.fromkeys(("amount_seconds", "preempted_seconds", "faulted_seconds"), "0")
    return UsageBody(resource=resource, others=False, hours=0.0, **columns, **seconds)  # type: ignore[arg-type]


def month_sheet(
    body: UsageList, chosen: MonthChoice, *, idle: Mapping[str, float], price: float | None
) -> Markup:
    """``idle``: hours of guarantees by queue, as far as they are known. ``price``: of an hour; None: not known."""
    [by] = body.by
    named = {column_of(line, by) for line in body.items}
    idling = [
        _unused(chosen.resource, by, name)
        for name, hours in idle.items()
        if hours and name != (chosen.queue or ROOT) and name not in named
    ]
    lines, total = in_order([*body.items, *idling], body.by), sum(map(_hours, body.totals))
    most, unit_ = max(map(_hours, lines), default=0.0), unit(chosen.resource)
    more: dict[str, Callable[[UsageBody], float | None]] = {}
    if any(idle.values()):
        more["idle_guarantee_hours"] = lambda line: idle.get(column_of(line, by) or "")
    if price is not None:
        more["cost"] = lambda line: _hours(line) * price
    rows = []
    for line in lines:
        name, used = column_of(line, by), _hours(line)
        label = f"{name or OTHERS}: {used:,.1f} hours"
        drawn = bar(round(used * _PARTS), None, None, label, round(most * _PARTS))
        shown = OTHERS if name is None else link(name, "usage", queue=name, **chosen.links())
        cells = [None if (number := cell(line)) is None else f"{number:,.2f}" for cell in more.values()]
        rows.append([shown, drawn, f"{used:,.1f}", f"{used / total if total else 0.0:.0%}", *cells])
    csv = usage_csv(lines, body.by, (body.from_, body.to), headers=True, more=more)
    numbers = [f"{unit_}-hours", "Part", *map(_TITLES.__getitem__, more)]
    return render(
        "month_sheet.html",
        title=f"{datetime.fromisoformat(body.from_):%B %Y}"
        + (f", queue {chosen.queue}" if chosen.queue else ""),
        body=body,
        columns=[by.capitalize(), "Use", *numbers],
        unit=unit_,
        rows=rows,
        numbers=numbers,
        total=total,
        price=price,
        queue=chosen.queue,
        choices=[
            ("Month", chosen.choice("month", MONTHS)),
            ("Resource", chosen.choice("resource", chosen.resources)),
        ],
        csv=b64encode(csv.encode()).decode(),
        file=f"usage-{body.from_[:7]}.csv",
    )

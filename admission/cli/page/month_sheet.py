"""One month on a sheet to print: use by tenant, or by queues, with a bar each, and the same numbers as CSV. Pure."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from markupsafe import Markup

from admission.cli.page.layout import bar, link, render
from admission.cli.plugin.usage import OTHERS, column_of, in_order, unit, usage_csv
from queues.read_api.usage import UsageList

#: Months that are shown, by what people call them.
MONTHS: Final = ("this", "last")
#: Parts of an hour that bars tell apart.
_PARTS: Final = 1000


def month_sheet(
    body: UsageList, *, month: str, queue: str | None, resource: str, resources: Sequence[str]
) -> Markup:
    """``month``: one of ``MONTHS``. ``queue``: None for all tenants. ``resources``: those that may be shown instead."""
    lines, [by] = in_order(body.items, body.by), body.by
    most = max((round(line.hours * _PARTS) for line in lines), default=0)
    total = sum(line.hours for line in body.totals)
    rows = []
    for line in lines:
        name = column_of(line, by)
        share = line.hours / total if total else 0.0
        label = f"{name or OTHERS}: {line.hours:,.1f} hours"
        drawn = bar(round(line.hours * _PARTS), None, None, label, most)
        shown = OTHERS if name is None else link(name, "usage", queue=name, month=month, resource=resource)
        rows.append([shown, drawn, f"{line.hours:,.1f}", f"{share:.0%}"])
    csv = usage_csv(lines, body.by, (body.from_, body.to), headers=True)
    shown_now = {"month": month, "resource": resource}

    def choice(field: str, values: Sequence[str]) -> list[tuple[str, Markup | None]]:
        links = {value: link(value, "usage", queue=queue, **{**shown_now, field: value}) for value in values}
        return [(value, None if value == shown_now[field] else links[value]) for value in values]

    return render(
        "month_sheet.html",
        title=f"{datetime.fromisoformat(body.from_):%B %Y}" + (f", queue {queue}" if queue else ""),
        body=body,
        by=by.capitalize(),
        unit=unit(resource),
        rows=rows,
        total=total,
        queue=queue,
        choices=[("Month", choice("month", MONTHS)), ("Resource", choice("resource", resources))],
        csv=b64encode(csv.encode()).decode(),
        file=f"usage-{body.from_[:7]}.csv",
    )

"""What a tenant used in a month: as a page, to be read or printed, and as CSV. Pure: answers in, HTML out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup

from admission.cli.page.layout import Cell, choices, facts, heading, link, table
from admission.cli.usage.used_time import UsedTime, decimal, folded, total, unit, used_time, with_quotas

#: Lines of one table of the page; the CSV has all.
_SHOWN: Final = 100
_DIGITS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """A month of a tenant: what each question was answered."""

    tenant: str
    begins: datetime
    #: The month before and the one after; None: it has not begun.
    before: str
    after: str | None
    #: UsageLists by what they are told by: queue, user, flavor; all of one resource.
    by: Mapping[str, Mapping[str, Any]]
    resource: str


def tenants_view(body: Mapping[str, Any], tenants: Sequence[str], begins: datetime) -> Markup:
    """The tenants that the user may see, with what each used since the month began; ``body``: by tenant."""
    lines = {line.columns["tenant"]: line for line in (used_time(item, ["tenant"]) for item in body["items"])}
    month = begins.strftime("%Y-%m")
    of = unit(next(iter(lines.values())).resource) if lines else "GPU"
    rows: list[list[Cell]] = []
    for name in tenants:
        line = lines.get(name)
        rows.append(
            [
                link(name, "reports", name, month=month),
                "0.00" if line is None else decimal(line.hours, _DIGITS),
                link("CSV", "reports", name, "csv", month=month),
            ]
        )
    lead = Markup('<p class="lead">A month of a tenant, as a page to print and as CSV. Since {}, UTC.</p>')
    if not rows:
        return heading("Reports", 1) + Markup("<p>There is no tenant that you may see.</p>")
    return (
        heading("Reports", 1)
        + lead.format(begins.strftime("%-d %B %Y"))
        + table(
            "Tenants", ["Tenant", f"{of}-hours this month", "File"], rows, numbers=[f"{of}-hours this month"]
        )
    )


def month_view(month: Month) -> Markup:
    """The report of one tenant."""
    name, body = month.begins.strftime("%B %Y"), month.by["queue"]
    this = month.begins.strftime("%Y-%m")
    parts = [
        heading(f"{month.tenant}, {name}", 1),
        choices(
            "Month",
            [
                (month.before, link(month.before, "reports", month.tenant, month=month.before)),
                (this, None),
                *(
                    [(month.after, link(month.after, "reports", month.tenant, month=month.after))]
                    if month.after
                    else []
                ),
            ],
        ),
        Markup('<p class="faint">{} to {}. <span class="screen">{} or print this page.</span></p>').format(
            _moment(body["from"]),
            _moment(body["to"]),
            link("As CSV", "reports", month.tenant, "csv", month=this),
        ),
    ]
    if body["historyBegins"]:
        parts.append(
            Markup('<p class="problem">Use before {} is not counted: it was dropped.</p>').format(
                _moment(body["historyBegins"])
            )
        )
    lines = [used_time(item, ["queue"]) for item in body["items"]]
    if not lines:
        return Markup("").join(parts) + Markup("<p>Nothing was used that you may see.</p>")
    if body.get("quotas") is not None:
        lines = with_quotas(folded(lines, ["queue"]), body["quotas"], "queue")
    parts += [_sums(total(month.resource, lines)), _by("queue", lines, owned=body.get("quotas") is not None)]
    for column in ("user", "flavor"):
        found = [used_time(item, [column]) for item in month.by[column]["items"]]
        if any(line.columns[column] for line in found):
            parts.append(_by(column, found, owned=False))
    return Markup("").join(parts)


def _sums(whole: UsedTime) -> Markup:
    of = f"{unit(whole.resource)}-hours"

    def told(value: Any) -> str | None:
        return None if value is None else f"{decimal(value, _DIGITS)} {of}"

    return facts(
        [
            ("Used", told(whole.hours)),
            ("Of that borrowed", told(whole.borrowed)),
            ("Guarantee kept idle", told(whole.idle)),
            ("Lost to preemption", told(whole.preempted)),
            ("Lost to faults", told(whole.faulted)),
            ("Lost to maintenance", told(whole.maintenance)),
        ]
    )


def _by(column: str, lines: Sequence[UsedTime], *, owned: bool) -> Markup:
    report = folded(lines, [column])
    of = f"{unit(report[0].resource)}-hours"
    whole = sum((line.hours for line in report), start=report[0].hours * 0)
    columns = [column.capitalize(), of, "Part"]
    columns += ["Borrowed", "Guarantee idle"] if owned else []
    columns += ["Lost to preemption", "Lost to faults", "Lost to maintenance"]
    rows: list[list[Cell]] = []
    for line in report[:_SHOWN]:
        row: list[Cell] = [
            line.columns[column] or ("unknown" if column == "user" else "none"),
            decimal(line.hours, _DIGITS),
            f"{100 * float(line.hours / whole):.1f} %" if whole else None,
        ]
        if owned:
            row += [None if each is None else decimal(each, _DIGITS) for each in (line.borrowed, line.idle)]
        lost = (line.preempted, line.faulted, line.maintenance)
        rows.append([*row, *(decimal(each, _DIGITS) for each in lost)])
    more = Markup("")
    if len(report) > _SHOWN:
        told = '<p class="faint">The largest {} of {}; the CSV has all.</p>'
        more = Markup(told).format(_SHOWN, len(report))
    title = f"By {column}"
    return heading(title) + table(title, columns, rows, numbers=columns[1:]) + more


def _moment(text: str) -> str:
    return text.replace("T", " ").removesuffix("Z").removesuffix(":00") + " UTC"

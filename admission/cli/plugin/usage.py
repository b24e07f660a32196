"""``kubectl muster usage``: GPU-hours, or hours of another resource, between two times."""

import csv
import io
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

import click

from admission.cli.access.requests import Route, ask, pages
from admission.cli.command_line import CommandFailed
from admission.cli.names import full_resource
from admission.cli.options import of_queue, route
from admission.cli.output import Output, output_with
from admission.cli.rendering.quota import budgets_table
from admission.cli.rendering.terminal import TableColumn, item_table, say, short_resource
from admission.cli.times import EXPECTED, as_text, past_time
from queues.api.resource_names import usual_name
from queues.read_api.bodies import QueueList
from queues.read_api.usage import UsageBody, UsageList

COLUMNS: Final = ("tenant", "queue", "user", "workload", "flavor")
#: Lines in one answer of the read API, and in one report.
LARGEST_PAGE: Final = 10_000
_MOST: Final = 200_000
#: Lines of a table.
USUAL_LIMIT: Final = 500
_GPU: Final = "nvidia.com/gpu"
#: How times are written.
TIME: Final = "TIME"
_MONTH: Final = re.compile(r"(\d{4})-(\d{2})")
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage", "pods")


@click.command(short_help="GPU-hours by queue, user and flavor.")
@click.option("--from", "begins", metavar=TIME, help="Since when [the first of this month].")
@click.option("--to", "ends", metavar=TIME, help="Until when [now].")
@click.option("--month", "of_month", metavar="YYYY-MM", help="A whole month, or this, or last.")
@click.option(
    "--by", metavar="COLUMN[,…]", help=f"What to tell it by: {', '.join(COLUMNS)}.  [default: queue]"
)
@click.option("--resource", metavar="NAME", help="Resource to count [nvidia.com/gpu, or what was used].")
@of_queue
@click.option(
    "--limit", type=click.IntRange(1, _MOST), metavar="N", help="Most lines of a table [500, the largest]."
)
@output_with("csv")
@route
def usage(route: Route, **given: Any) -> int:
    """Add up what workloads held between two times: amount × time, from the ledger, exact to the second.

    Use counts from the admission of a workload until its seats are given back; what runs counts until now. Times are
    in UTC. You see your own use, and that of the queues that you may get.

    Below use in this month are the budgets of the queues.

    -o wide also shows what was held by workloads that were evicted. -o csv is for programs; json and yaml are the
    answer of the read API with all lines.
    """
    return _show(_Asked(**given), route)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The command line."""

    begins: str | None
    ends: str | None
    of_month: str | None
    by: str | None
    resource: str | None
    queue: str | None
    limit: int | None
    output: Output

    def period(self, now: datetime) -> tuple[datetime, datetime | None]:
        """Beginning and end, None for now. Raises UsageError."""
        if self.of_month is not None:
            if self.begins is not None or self.ends is not None:
                raise click.UsageError("--month excludes --from and --to.")
            return month("--month", self.of_month, now)
        first = (
            month("--month", "this", now)[0] if self.begins is None else moment("--from", self.begins, now)
        )
        if self.begins is not None and first > now:
            raise click.UsageError(f"--from: found {self.begins[:60]!r}, which is not past yet.")
        last = None if self.ends is None else moment("--to", self.ends, now)
        if last is not None and last <= first:
            raise click.UsageError(
                f"--to: found {as_text(last)}, expected a time after --from, {as_text(first)}."
            )
        return first, last

    def columns(self) -> tuple[str, ...]:
        """The columns by which use is shown, in the order in which they were asked for. Raises UsageError."""
        if self.by is None:
            return ("queue",)
        named = tuple(dict.fromkeys(name.strip() for name in self.by.split(",")))
        for name in named:
            if name not in COLUMNS:
                raise click.UsageError(f"--by: found {name!r}, expected some of {', '.join(COLUMNS)}.")
        return named


def _show(asked: _Asked, route: Route) -> int:
    begins, ends = asked.period(datetime.fromtimestamp(int(time.time()), UTC))
    by = asked.columns()
    query = {
        "from": as_text(begins),
        "to": None if ends is None else as_text(ends),
        "by": ",".join(by),
        "queue": asked.queue,
    }
    resource, body, used = _used_answer(route, query, asked.resource)
    if asked.resource is not None and resource == asked.resource:
        full_resource("--resource", resource)
    _tell_what_is_missing(body)
    return asked.output.show(
        body,
        lambda: _form(asked, by, body) + _budgets(asked, route, resource),
        nothing=_nothing_used(resource, body, used) if asked.output.is_table else "",
        name=lambda item: _name(item, by),
    )


def _name(item: UsageBody, by: Sequence[str]) -> str:
    """``queue/train``, ``user/ada``, ``vcjob/bert``; "": it is shown by several columns, or it is not known which."""
    if len(by) != 1:
        return ""
    [column] = by
    if column == "workload":
        workload = item.workload
        return f"{workload.kind}/{workload.name}" if workload else f"workload/{OTHERS}"
    found = getattr(item, column)
    return f"{column}/{OTHERS if found is None else found}"


def _used_answer(
    route: Route, query: Mapping[str, str | None], resource: str | None
) -> tuple[str, UsageList, list[str]]:
    """Use of one resource: the one named, or GPUs, or another one that was used; and what was used instead of it."""
    # A name that is not whole is asked for as it is: nothing of it was used, but the answer has the period.
    named = _GPU if resource is None else usual_name(resource) or resource
    body = _pages(route, {**query, "resource": named})
    if body.totals:
        return named, body, []
    whole = ask(route, "usage", UsageList, {**query, "limit": "0"})
    used = [each.resource for each in whole.totals]
    if resource is None:
        alike = [each for each in used if each not in _PLAIN] or [each for each in used if each == "cpu"]
    else:
        alike = [each for each in used if short_resource(each) == resource]
    if not alike:
        return named, body, used
    return alike[0], _pages(route, {**query, "resource": alike[0]}), used


def _pages(route: Route, query: Mapping[str, str | None]) -> UsageList:
    """The whole answer, fetched page by page. Raises CommandFailed: it is too long."""
    body = pages(route, "usage", UsageList, query, limit=_MOST, largest=LARGEST_PAGE)
    if body.continue_:
        hint = "Ask for fewer columns, a queue or a shorter time."
        raise CommandFailed(tried="Adding up use", found=f"more than {_MOST} lines", hint=hint)
    return body


def _form(asked: _Asked, by: Sequence[str], body: UsageList) -> str:
    lines, headers = in_order(body.items, by), asked.output.headers
    if asked.output.form == "csv":
        return usage_csv(lines, by, (body.from_, body.to), headers=headers)
    most = asked.limit or USUAL_LIMIT
    if len(lines) > most:
        say(f"The largest {most} of {len(lines)} lines; --limit shows more.", err=True)
    text = usage_table(lines[:most], body.totals[0], by, asked.output)
    return f"{_period(body)}\n\n{text}" if headers else text


def _budgets(asked: _Asked, route: Route, resource: str) -> str:
    """Below use in this month the budgets of the queues that were asked for; "": there are none."""
    if not asked.output.is_table or asked.begins or asked.ends or asked.of_month not in (None, "this"):
        return ""
    queues = ask(route, "queues", QueueList).items
    wanted = [each for each in queues if asked.queue in (None, each.name, each.parent)]
    text = budgets_table(wanted, asked.output, resource=resource)
    return f"\n{text}" if text else ""


def _period(body: UsageList) -> str:
    begins, ends = (
        time.replace("T", " ").removesuffix("Z").removesuffix(":00") for time in (body.from_, body.to)
    )
    return f"From {begins} to {ends} UTC"


def _tell_what_is_missing(body: UsageList) -> None:
    if body.history_begins is not None:
        say(f"Use before {body.history_begins} is not counted: its postings were dropped.", err=True)
    if body.workloads_begin is not None and "workload" in body.by:
        say(f"Workloads that ended before {body.workloads_begin} are not known by name.", err=True)


def _nothing_used(resource: str, body: UsageList, used: Sequence[str]) -> str:
    period = _period(body)
    instead = f" Used were: {', '.join(used)}." if used else ""
    return f"No {resource} was used that you may see, {period[0].lower()}{period[1:]}.{instead}"


def moment(option: str, text: str, now: datetime) -> datetime:
    """A time, cut to whole seconds. ``now``: in UTC. Raises UsageError."""
    found = past_time(text, now)
    if found is None:
        raise click.UsageError(f"{option}: found {text[:60]!r}, expected {EXPECTED}.")
    return found


def month(option: str, text: str, now: datetime) -> tuple[datetime, datetime]:
    """Beginning and end of a month: ``2026-11``, ``this``, ``last``. Raises UsageError."""
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if text == "last":
        return _first_of(first.year, first.month - 1), first
    if text != "this":
        parts = _MONTH.fullmatch(text)
        if parts is None or not (1970 <= int(parts[1]) < 9999 and 1 <= int(parts[2]) <= 12):
            raise click.UsageError(f"{option}: found {text!r}, expected a month: 2026-11, this or last.")
        first = _first_of(int(parts[1]), int(parts[2]))
    return first, _first_of(first.year, first.month + 1)


def _first_of(year: int, number: int) -> datetime:
    """The first day of a month; 0 is the December before, 13 the January after."""
    more, index = divmod(number - 1, 12)
    return datetime(year + more, index + 1, 1, tzinfo=UTC)


#: In place of the name of users and workloads that may not be seen.
OTHERS: Final = "(others)"
#: Digits of hours after the point: for people, and for programs.
_SHOWN: Final = 2
_WRITTEN: Final = 6
_GIB: Final = 2**30
_WORKLOAD: Final = ("workload_kind", "workload_namespace", "workload_name", "workload_uid")
#: Hours of one GPU, one CPU or one GiB; and those of them by admissions that were evicted, by why they were.
_HOURS: Final[dict[str, Callable[[UsageBody], str]]] = {
    "": lambda line: line.amount_seconds,
    "preempted": lambda line: line.preempted_seconds,
    "faulted": lambda line: line.faulted_seconds,
    "maintenance": lambda line: line.maintenance_seconds,
}


def in_order(lines: Iterable[UsageBody], by: Sequence[str]) -> list[UsageBody]:
    """The lines of an answer, the largest first."""
    return sorted(
        lines,
        key=lambda line: (
            -hours_of(line.resource, line.amount_seconds),
            [column_of(line, name) or "" for name in by],
        ),
    )


def usage_table(lines: Sequence[UsageBody], whole: UsageBody, by: Sequence[str], output: Output) -> str:
    """One line for each line of the report, and the total."""

    def named(index: int, name: str) -> TableColumn[UsageBody]:
        def cell(line: UsageBody) -> str | None:
            return column_of(line, name) if line is not whole else "" if index else "TOTAL"

        return TableColumn(name.upper(), cell, least=12)

    def hours(part: str, seconds: Callable[[UsageBody], str]) -> TableColumn[UsageBody]:
        return TableColumn(
            part.upper() or f"{unit(whole.resource).upper()}-HOURS",
            lambda line: decimal(hours_of(line.resource, seconds(line)), _SHOWN),
            right=True,
            wide=True if part else None,
        )

    columns = [
        *(named(index, name) for index, name in enumerate(by)),
        *(hours(*each) for each in _HOURS.items()),
    ]
    return item_table(columns, [*lines, whole] if by else [whole], output)


def usage_csv(
    lines: Iterable[UsageBody],
    by: Sequence[str],
    period: tuple[str, str],
    *,
    headers: bool,
    more: Mapping[str, Callable[[UsageBody], float | None]] = MappingProxyType({}),
) -> str:
    """A row for each line of the report, without a total. Columns: docs/reference/cli-output.md, then ``more``."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if headers:
        columns = [part for name in by for part in (_WORKLOAD if name == "workload" else (name,))]
        hours = [f"{part}_hours".removeprefix("_") for part in _HOURS]
        writer.writerow(["from", "to", *columns, "resource", "unit", *hours, *more])
    for line in lines:
        cells = [cell for name in by for cell in _cells(line, name)]
        numbers = [decimal(hours_of(line.resource, seconds(line)), _WRITTEN) for seconds in _HOURS.values()]
        told = [column(line) for column in more.values()]
        numbers += ["" if number is None else f"{number:.{_WRITTEN}f}" for number in told]
        writer.writerow([*period, *cells, line.resource, f"{unit(line.resource)}-Hours", *numbers])
    return out.getvalue()


def _cells(line: UsageBody, column: str) -> list[str]:
    workload = line.workload
    if column == "workload" and workload is not None and not line.others:
        return [workload.kind, workload.namespace, workload.name, workload.uid]
    text = column_of(line, column) or ""
    return ["", "", text, ""] if column == "workload" else [text]


def column_of(line: UsageBody, column: str) -> str | None:
    """What a line has in a column, such as ``queue``. None if it is not known."""
    if line.others and column in ("user", "workload"):
        return OTHERS
    if column == "workload":
        workload = line.workload
        return None if workload is None else f"{workload.kind}/{workload.namespace}/{workload.name}"
    return str(getattr(line, column) or "") or None


def unit(resource: str) -> str:
    """What is counted: GPU, CPU, GiB, or the resource's own name."""
    if unit_size(resource) != 1:
        return "GiB"
    short = short_resource(resource)
    return short.upper() if len(short) <= 4 else short


def hours_of(resource: str, amount_seconds: str) -> Fraction:
    """Hours of a ``unit`` of the resource."""
    from queues.resources import quantity

    return Fraction(quantity(amount_seconds)) / (3600 * unit_size(resource))


def unit_size(resource: str) -> int:
    """How many of what the read API counts are a ``unit``: bytes, or 1."""
    from queues.resources import in_bytes

    return _GIB if in_bytes(resource) else 1


def decimal(value: Fraction, digits: int) -> str:
    """A number with so many digits after the point."""
    scaled = round(value * 10**digits)
    sign, number = "-" if scaled < 0 else "", abs(scaled)
    whole, rest = divmod(number, 10**digits)
    return f"{sign}{whole}.{rest:0{digits}d}"

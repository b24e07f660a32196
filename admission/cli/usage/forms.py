"""A report of use: as a table, and as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from admission.cli.rendering.table import Cell
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table
from admission.cli.usage.used_time import UsedTime, decimal, unit

#: Digits of hours and costs after the point: for people, and for programs.
_SHOWN: Final = 2
_WRITTEN: Final = 6
_CSV_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "workload": ("workload_kind", "workload_namespace", "workload_name", "workload_uid")
}


def usage_table(
    lines: Sequence[UsedTime],
    whole: UsedTime,
    by: Sequence[str],
    *,
    wide: bool,
    quotas: bool,
    headers: bool,
    currency: str,
    width: int | None = None,
) -> str:
    """One line for each line of the report, and the total. ``quotas``: with what was borrowed and kept idle."""
    hours = f"{unit(whole.resource).upper()}-HOURS"
    columns = [name.upper() for name in by] + [hours]
    if wide:
        columns += [
            *(["BORROWED", "IDLE-GUARANTEE"] if quotas else []),
            "PREEMPTED",
            "FAULTED",
            "MAINTENANCE",
        ]
    if whole.cost is not None:
        columns.append(f"COST-{currency}" if currency else "COST")
    rows: list[list[Cell]] = [
        [*(line.columns[name] for name in by), *_numbers(line, wide, quotas)] for line in lines
    ]
    first: list[Cell] = ["TOTAL", *("" for _ in by[1:])] if by else []
    if by:
        rows.append([*first, *_numbers(whole, wide, quotas)])
    else:
        rows = [[*_numbers(whole, wide, quotas)]]
    narrow = Narrowing(names={name.upper(): 12 for name in by})
    right = " ".join(columns[len(by) :])
    return fitted_table(columns, rows, narrow, width=width, headers=headers, right=right)


def _numbers(line: UsedTime, wide: bool, quotas: bool) -> list[Cell]:
    numbers: list[Fraction | None] = [line.hours]
    if wide:
        numbers += [
            *([line.borrowed, line.idle] if quotas else []),
            line.preempted,
            line.faulted,
            line.maintenance,
        ]
    cells: list[Cell] = [None if each is None else decimal(each, _SHOWN) for each in numbers]
    if line.cost is not None:
        cells.append(decimal(line.cost, _SHOWN))
    return cells


def usage_csv(
    lines: Sequence[UsedTime],
    by: Sequence[str],
    period: tuple[str, str],
    *,
    quotas: bool,
    headers: bool,
    currency: str,
) -> str:
    """A row for each line of the report, without a total. Columns: docs/reference/cli-output.md."""
    columns = ["from", "to", *(part for name in by for part in _CSV_COLUMNS.get(name, (name,)))]
    columns += ["resource", "unit", "hours", "preempted_hours", "faulted_hours"]
    if quotas:
        columns += ["borrowed_hours", "idle_guarantee_hours"]
    priced = any(line.cost is not None for line in lines)
    if priced:
        columns += ["cost", "currency"]
    columns.append("maintenance_hours")  # last, for those who read by position
    rows = []
    for line in lines:
        row: list[str] = [*period]
        for name in by:
            row += _workload_cells(line) if name == "workload" else [line.columns[name] or ""]
        row += [line.resource, f"{unit(line.resource)}-Hours"]
        row += [decimal(each, _WRITTEN) for each in (line.hours, line.preempted, line.faulted)]
        if quotas:
            row += ["" if each is None else decimal(each, _WRITTEN) for each in (line.borrowed, line.idle)]
        if line.cost is not None:
            row += [decimal(line.cost, _WRITTEN), currency]
        rows.append([*row, decimal(line.maintenance, _WRITTEN)])
    return _csv(columns, rows, headers)


def _workload_cells(line: UsedTime) -> list[str]:
    of = line.workload
    if of is None:
        return ["", "", line.columns["workload"] or "", ""]
    return [of.kind, of.namespace, of.name, of.uid]


def _csv(columns: Sequence[str], rows: Sequence[Sequence[str]], headers: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if headers:
        writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()

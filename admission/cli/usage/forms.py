"""A report of use: as a table, and as CSV."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from admission.cli.output import Output
from admission.cli.rendering.fitting import TableColumn, item_table
from admission.cli.usage.used_time import UsedTime, decimal, unit

#: Digits of hours after the point: for people, and for programs.
_SHOWN: Final = 2
_WRITTEN: Final = 6
_CSV_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "workload": ("workload_kind", "workload_namespace", "workload_name", "workload_uid")
}


def usage_table(lines: Sequence[UsedTime], whole: UsedTime, by: Sequence[str], output: Output) -> str:
    """One line for each line of the report, and the total."""

    def column_of(index: int, name: str) -> TableColumn[UsedTime]:
        def cell(line: UsedTime) -> str | None:
            return line.columns[name] if line is not whole else "" if index else "TOTAL"

        return TableColumn(name.upper(), cell, least=12)

    def number(name: str, of: Callable[[UsedTime], Fraction], wide: bool | None) -> TableColumn[UsedTime]:
        return TableColumn(name, lambda line: decimal(of(line), _SHOWN), right=True, wide=wide)

    columns = [
        *(column_of(index, name) for index, name in enumerate(by)),
        number(f"{unit(whole.resource).upper()}-HOURS", lambda line: line.hours, None),
        number("PREEMPTED", lambda line: line.preempted, True),
        number("FAULTED", lambda line: line.faulted, True),
        number("MAINTENANCE", lambda line: line.maintenance, True),
    ]
    return item_table(columns, [*lines, whole] if by else [whole], output)


def usage_csv(lines: Sequence[UsedTime], by: Sequence[str], period: tuple[str, str], *, headers: bool) -> str:
    """A row for each line of the report, without a total. Columns: docs/reference/cli-output.md."""
    columns = ["from", "to", *(part for name in by for part in _CSV_COLUMNS.get(name, (name,)))]
    columns += ["resource", "unit", "hours", "preempted_hours", "faulted_hours", "maintenance_hours"]
    rows = []
    for line in lines:
        row: list[str] = [*period]
        for name in by:
            row += _workload_cells(line) if name == "workload" else [line.columns[name] or ""]
        row += [line.resource, f"{unit(line.resource)}-Hours"]
        row += [decimal(each, _WRITTEN) for each in (line.hours, line.preempted, line.faulted)]
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

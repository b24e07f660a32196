"""A report of use: as a table, as CSV, and as CSV with the columns of FOCUS."""

import csv
import io
import json
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
    return [of["kind"], of["namespace"], of["name"], of["uid"]]


def focus_csv(
    lines: Sequence[UsedTime],
    period: tuple[str, str],
    *,
    prices: Mapping[str, str],
    currency: str,
    headers: bool,
) -> str:
    """A row for each line of the report, with the columns of FOCUS 1.2 (FinOps Open Cost and Usage Specification).

    Lines have the columns ``tenant``, ``queue``, ``user`` and ``flavor``. ``prices``: of an hour, by flavor.
    """
    rows = [_focus(line, period, prices[line.columns["flavor"] or ""], currency) for line in lines]
    return _csv(list(FOCUS), [[row[name] for name in FOCUS] for row in rows], headers)


#: The columns of ``-o focus``, in this order.
FOCUS: Final = (
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency"),
    *("BillingPeriodStart", "BillingPeriodEnd", "ChargeCategory", "ChargeClass", "ChargeDescription"),
    *("ChargeFrequency", "ChargePeriodStart", "ChargePeriodEnd", "ConsumedQuantity", "ConsumedUnit"),
    *("ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName"),
    *("ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit"),
    *("ProviderName", "PublisherName", "ResourceId", "ResourceName", "ResourceType"),
    *("ServiceCategory", "ServiceName", "SkuId", "SubAccountId", "SubAccountName", "Tags"),
)


def _focus(line: UsedTime, period: tuple[str, str], price: str, currency: str) -> dict[str, str]:
    queue, flavor = line.columns["queue"] or "", line.columns["flavor"] or ""
    tenant = line.columns["tenant"] or queue
    cost = decimal(line.cost, _WRITTEN) if line.cost is not None else ""
    hours, of_unit = decimal(line.hours, _WRITTEN), f"{unit(line.resource)}-Hours"
    of = line.workload or {}
    tags = {"queue": queue, "user": line.columns.get("user") or "", "flavor": flavor}
    if of:
        tags["namespace"] = of["namespace"]
    return {
        **dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), cost),
        **dict.fromkeys(("ContractedUnitPrice", "ListUnitPrice"), price),
        **dict.fromkeys(("BillingAccountId", "BillingAccountName"), tenant),
        **dict.fromkeys(("SubAccountId", "SubAccountName"), queue),
        **dict.fromkeys(("BillingPeriodStart", "ChargePeriodStart"), period[0]),
        **dict.fromkeys(("BillingPeriodEnd", "ChargePeriodEnd"), period[1]),
        **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), hours),
        **dict.fromkeys(("ConsumedUnit", "PricingUnit"), of_unit),
        **dict.fromkeys(("InvoiceIssuerName", "ProviderName", "PublisherName", "ServiceName"), "Muster"),
        "BillingCurrency": currency,
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "ChargeDescription": f"{line.resource} reserved in queue {queue}"
        + (f", flavor {flavor}" if flavor else ""),
        "ChargeFrequency": "Usage-Based",
        "PricingCategory": "Standard",
        "ResourceId": of.get("uid", ""),
        "ResourceName": f"{of['namespace']}/{of['name']}" if of else "",
        "ResourceType": of.get("kind", ""),
        "ServiceCategory": "Compute",
        "SkuId": f"{line.resource}/{flavor}" if flavor else line.resource,
        "Tags": json.dumps(tags, ensure_ascii=False),
    }


def _csv(columns: Sequence[str], rows: Sequence[Sequence[str]], headers: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if headers:
        writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()

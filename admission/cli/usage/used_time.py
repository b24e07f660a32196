"""Use in a period: hours of a resource as exact fractions. Only what is shown is rounded."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from admission.read_api.bodies import WorkloadBody
from admission.read_api.usage import UsageBody

#: In place of the name of users and workloads that may not be seen.
OTHERS: Final = "(others)"
_GIB: Final = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedTime:
    """One line of a report, or the total."""

    #: By column that was asked for, such as ``queue``. None if not known or not visible.
    columns: Mapping[str, str | None] = field(default_factory=dict)
    #: kind, namespace, name and uid. None if not asked for, not known or not visible.
    workload: WorkloadBody | None = None
    resource: str
    #: Hours of one GPU, one CPU, one GiB.
    hours: Fraction
    #: Of them, by admissions that were evicted for other workloads, and because of a fault.
    preempted: Fraction
    faulted: Fraction
    #: The same because nodes were drained or reserved.
    maintenance: Fraction = Fraction()


def unit(resource: str) -> str:
    """What is counted: GPU, CPU, GiB, or the resource's own name."""
    from queues.resources import in_bytes

    if in_bytes(resource):
        return "GiB"
    short = resource.rpartition("/")[2]
    return short.upper() if len(short) <= 4 else short


def used_time(item: UsageBody, by: Sequence[str]) -> UsedTime:
    """A line of the read API's answer."""
    columns = {column: _column(item, column) for column in by}
    resource = item.resource
    return UsedTime(
        columns=columns,
        workload=item.workload,
        resource=resource,
        hours=_hours(resource, item.amount_seconds),
        preempted=_hours(resource, item.preempted_seconds),
        faulted=_hours(resource, item.faulted_seconds),
        maintenance=_hours(resource, item.maintenance_seconds),
    )


def _column(item: UsageBody, column: str) -> str | None:
    if item.others and column in ("user", "workload"):
        return OTHERS
    if column == "workload":
        of = item.workload
        return None if of is None else f"{of.kind}/{of.namespace}/{of.name}"
    return str(getattr(item, column) or "") or None


def _hours(resource: str, amount_seconds: str) -> Fraction:
    from queues.resources import in_bytes, quantity

    return Fraction(quantity(amount_seconds)) / (3600 * (_GIB if in_bytes(resource) else 1))


def folded(lines: Iterable[UsedTime], by: Sequence[str]) -> list[UsedTime]:
    """Lines that agree in these columns, added up: the largest first."""
    sums: dict[tuple[Any, ...], list[UsedTime]] = {}
    for line in lines:
        uid = line.workload.uid if line.workload is not None and "workload" in by else None
        sums.setdefault((line.resource, uid, *(line.columns[name] for name in by)), []).append(line)
    found = [total(alike[0].resource, alike, by) for alike in sums.values()]
    return sorted(found, key=lambda line: (-line.hours, [line.columns[name] or "" for name in by]))


def total(resource: str, lines: Sequence[UsedTime], by: Sequence[str] = ()) -> UsedTime:
    """Lines of one resource as one, with the columns that they have in common."""
    return UsedTime(
        columns={name: lines[0].columns[name] for name in by},
        workload=lines[0].workload if "workload" in by else None,
        resource=resource,
        hours=sum((line.hours for line in lines), Fraction()),
        preempted=sum((line.preempted for line in lines), Fraction()),
        faulted=sum((line.faulted for line in lines), Fraction()),
        maintenance=sum((line.maintenance for line in lines), Fraction()),
    )


def decimal(value: Fraction, digits: int) -> str:
    """A number with so many digits after the point."""
    scaled = round(value * 10**digits)
    sign, number = "-" if scaled < 0 else "", abs(scaled)
    whole, rest = divmod(number, 10**digits)
    return f"{sign}{whole}.{rest:0{digits}d}"

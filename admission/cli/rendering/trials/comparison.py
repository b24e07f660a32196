"""What other quota would make of a cluster, for people: sums first, then workloads by what becomes of them."""

from collections.abc import Sequence
from typing import Final

from admission.cli.rendering.table import Cell, amounts, one_line, printable, short_resource
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table
from admission.read_api.trials import ComparisonBody, DifferenceBody

#: Lines of a table without ``-o wide``.
_SHOWN: Final = 8
#: What becomes of workloads, the most disturbing first. Commands that change quota say the same as ``try``.
TITLES: Final = {
    "stops": "Evicted, and would wait",
    "shrinks": "Would go on with fewer pods",
    "restarts": "Evicted, and would start again at once",
    "waits": "Would wait instead of starting",
    "starts": "Would start now",
    "grows": "Would get more pods",
    "stays": "Would not be evicted any more",
}
_NARROW: Final = Narrowing(
    names={"WORKLOAD": 14, "NAMESPACE": 9, "QUEUE": 8, "NODE": 12, "DOMAIN": 8, "FLAVOR": 6, "RESOURCE": 8},
    left_out=("POD SET", "ASKS", "OWN", "TAKES"),
)
NOTHING_DIFFERS: Final = "Nothing would be different now."
NOT_AT_REST: Final = "There was more to decide when this was broken off."
#: Instead of the name of a workload that the user may not see.
_HIDDEN: Final = "another workload"


def comparison_text(body: ComparisonBody, *, wide: bool, headers: bool, width: int | None = None) -> str:
    """The comparison as text."""
    lines = ["With this change:" if len(body.changes) == 1 else "With these changes:"]
    lines += [f"  {one_line(printable(each))}" for each in body.changes]
    if not body.counts and not body.queues:
        lines.append(NOTHING_DIFFERS)
    if queues := _queues(body, wide=wide, headers=headers, width=width):
        lines += ["Queues:", *(f"  {line}" for line in queues)]
    for what, title in TITLES.items():
        count = body.counts.get(what, 0)
        if not count:
            continue
        lines.append(f"{title}: {count}")
        found = [each for each in body.workloads if each.what == what]
        lines += [f"  {line}" for line in _workloads(found, count, wide=wide, headers=headers, width=width)]
    if not body.at_rest:
        lines.append(NOT_AT_REST)
    return "\n".join(lines) + "\n"


def _queues(body: ComparisonBody, *, wide: bool, headers: bool, width: int | None = None) -> list[str]:
    lines = [each for each in body.queues if wide or "/" in each.resource or not each.resource]
    rows = [
        [
            each.queue,
            (each.resource if wide else short_resource(each.resource)) or None,
            *((each.used_before, "→", each.used_after) if each.resource else (None, None, None)),
            each.waiting_before,
            "→",
            each.waiting_after,
        ]
        for each in lines
    ]
    columns = ["QUEUE", "RESOURCE", "USED", "", "THEN", "WAITING", "", "THEN"]
    return cut_table(
        columns,
        rows,
        len(rows),
        wide=wide,
        headers=headers,
        width=width,
        noun="lines",
        right="USED THEN WAITING",
    )


def _workloads(
    found: Sequence[DifferenceBody], total: int, *, wide: bool, headers: bool, width: int | None = None
) -> list[str]:
    rows = [
        [
            _HIDDEN if each.kind is None else f"{each.kind}/{each.name}",
            each.namespace,
            each.queue,
            each.pods,
            amounts(each.asks, all_of_them=wide),
            None if each.reason is None else each.reason.code,
            *(
                [each.beneficiary, None if each.reason is None else one_line(each.reason.message)]
                if wide
                else []
            ),
        ]
        for each in found
    ]
    columns = [
        "WORKLOAD",
        "NAMESPACE",
        "QUEUE",
        "PODS",
        "ASKS",
        "REASON",
        *(["FOR", "MESSAGE"] if wide else []),
    ]
    return cut_table(
        columns, rows, total, wide=wide, headers=headers, width=width, noun="workloads", right="PODS"
    )


def cut_table(
    columns: list[str],
    rows: Sequence[Sequence[Cell]],
    total: int,
    *,
    wide: bool,
    headers: bool,
    noun: str,
    right: str = "",
    width: int | None = None,
) -> list[str]:
    """A table without empty columns; long ones are cut. Indented by two, lines have at most ``width`` characters."""
    if not rows:
        return []
    filled = [index for index in range(len(columns)) if any(row[index] is not None for row in rows)]
    kept = rows if wide else rows[:_SHOWN]
    text = fitted_table(
        [columns[index] for index in filled],
        [[row[index] for index in filled] for row in kept],
        _NARROW,
        width=None if width is None else width - 2,
        headers=headers,
        right=right,
    )
    lines = text.splitlines()
    if total > len(kept):
        lines.append(f"{len(kept)} of {total} {noun} shown" + ("" if wide else "; -o wide shows more"))
    return lines

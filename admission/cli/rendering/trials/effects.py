"""What a change of quota would do to work, in a few lines: printed by the commands that make the change."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Final

from admission.cli.rendering.table import printable
from admission.cli.rendering.trials.comparison import NOT_AT_REST, NOTHING_DIFFERS, TITLES
from admission.read_api.trials import ComparisonBody, DifferenceBody

#: Names of workloads in one paragraph; the others are counted only.
_NAMED: Final = 10
#: Characters of a line where it goes to no terminal.
_COLUMNS: Final = 80


def effects_text(comparison: ComparisonBody, *, width: int | None = None) -> str:
    """Who would start, wait or be evicted.

    ``comparison``: as the read API has it. ``width``: characters of a line, None if it goes to no terminal.
    """
    lines: list[str] = []
    for what, title in TITLES.items():
        if count := comparison.counts.get(what, 0):
            workloads = [workload for workload in comparison.workloads if workload.what == what]
            lines += [f"{title}: {count}", *_paragraph(workloads, count, width or _COLUMNS)]
    if not lines:
        lines.append(NOTHING_DIFFERS)
    if not comparison.at_rest:
        lines.append(NOT_AT_REST)
    return "\n".join(lines) + "\n"


def _paragraph(workloads: Sequence[DifferenceBody], total: int, width: int) -> list[str]:
    """Names of workloads, and how many there are besides. ``total``: of all."""
    seen = [workload for workload in workloads if workload.kind is not None]
    names = [_name(workload) for workload in seen[:_NAMED]]
    hidden = len(workloads) - len(seen)
    more = total - len(names) - hidden
    if hidden:
        names.append(f"{hidden} that you may not see")
    if more > 0:
        names.append(f"{more} more")
    last = f" and {names[-1]}" if len(names) > 1 else ""
    return wrap(
        ", ".join(names[:-1]) + last if last else "".join(names),
        width,
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _name(workload: DifferenceBody) -> str:
    return printable(f"{workload.kind}/{workload.name} in {workload.namespace}")

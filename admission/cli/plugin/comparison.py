"""What other quota would make of a cluster, for people: sums first, then workloads by what becomes of them."""

from collections.abc import Sequence
from http import HTTPStatus
from textwrap import wrap
from typing import Final, TypeVar

from msgspec import json

from admission.cli.access.requests import Route, Unanswered, ask
from admission.cli.output import Output
from admission.cli.rendering.terminal import (
    TableColumn,
    amounts,
    item_table,
    one_line,
    say,
    short_resource,
)
from queues.api.quota.quota_document import Spec
from queues.errors import MusterError
from queues.read_api.trials import (
    ComparisonBody,
    DifferenceBody,
    QueueDifferenceBody,
    QueuePatchBody,
    TrialList,
    TrialRequestBody,
)
from queues.text_format import printable

T = TypeVar("T")
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
NOTHING_DIFFERS: Final = "Nothing would be different now."
NOT_AT_REST: Final = "There was more to decide when this was broken off."
#: Instead of the name of a workload that the user may not see.
HIDDEN: Final = "another workload"
#: Names of workloads in one paragraph; the others are counted only.
_NAMED: Final = 10
#: Characters of a line where it goes to no terminal.
_COLUMNS: Final = 80


def comparison_text(body: ComparisonBody, output: Output) -> str:
    """The comparison as text."""
    lines = ["With this change:" if len(body.changes) == 1 else "With these changes:"]
    lines += [f"  {one_line(printable(each))}" for each in body.changes]
    if not body.counts and not body.queues:
        lines.append(NOTHING_DIFFERS)
    if queues := _queues(body, output):
        lines += ["Queues:", *(f"  {line}" for line in queues)]
    for what, title in TITLES.items():
        count = body.counts.get(what, 0)
        if not count:
            continue
        lines.append(f"{title}: {count}")
        found = [each for each in body.workloads if each.what == what]
        lines += [f"  {line}" for line in _workloads(found, count, output)]
    if not body.at_rest:
        lines.append(NOT_AT_REST)
    return "\n".join(lines) + "\n"


def _queues(body: ComparisonBody, output: Output) -> list[str]:
    lines = [each for each in body.queues if output.is_wide or "/" in each.resource or not each.resource]
    columns: list[TableColumn[QueueDifferenceBody]] = [
        TableColumn("QUEUE", lambda each: each.queue, least=8),
        TableColumn("RESOURCE", lambda each: short_resource(each.resource) or None, least=8, wide=False),
        TableColumn("RESOURCE", lambda each: each.resource or None, least=8, wide=True),
        TableColumn("USED", lambda each: each.used_before if each.resource else None, right=True),
        TableColumn("", lambda each: "→" if each.resource else None),
        TableColumn("THEN", lambda each: each.used_after if each.resource else None, right=True),
        TableColumn("WAITING", lambda each: each.waiting_before, right=True),
        TableColumn("", lambda _: "→"),
        TableColumn("THEN", lambda each: each.waiting_after, right=True),
    ]
    return cut_table(columns, lines, len(lines), output, noun="lines")


def _workloads(found: Sequence[DifferenceBody], total: int, output: Output) -> list[str]:
    columns: list[TableColumn[DifferenceBody]] = [
        TableColumn(
            "WORKLOAD", lambda each: HIDDEN if each.kind is None else f"{each.kind}/{each.name}", least=14
        ),
        TableColumn("NAMESPACE", lambda each: each.namespace, least=9),
        TableColumn("QUEUE", lambda each: each.queue, least=8),
        TableColumn("PODS", lambda each: each.pods, right=True),
        TableColumn("ASKS", lambda each: amounts(each.asks, all_of_them=output.is_wide), goes=1),
        TableColumn("REASON", lambda each: None if each.reason is None else each.reason.code),
        TableColumn("FOR", lambda each: each.beneficiary, wide=True),
        TableColumn(
            "MESSAGE", lambda each: None if each.reason is None else one_line(each.reason.message), wide=True
        ),
    ]
    return cut_table(columns, found, total, output, noun="workloads")


def cut_table(
    columns: Sequence[TableColumn[T]],
    items: Sequence[T],
    total: int,
    output: Output,
    *,
    noun: str,
    most: int = _SHOWN,
) -> list[str]:
    """A table without empty columns, indented by two; without ``-o wide`` at most so many lines."""
    if not items:
        return []
    filled = [column for column in columns if any(column.cell(item) is not None for item in items)]
    kept = items if output.is_wide else items[:most]
    lines = item_table(filled, kept, output.narrowed(2)).splitlines()
    if total > len(kept):
        more = "" if output.is_wide else "; -o wide shows more"
        lines.append(f"{len(kept)} of {total} {noun} shown{more}")
    return lines


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


#: Seconds to wait for the leader at most: an urgent change does not wait for it longer.
_PATIENCE: Final = 5.0


def trial_of_write(
    route: Route, queue: str, spec: Spec, *, is_checked: bool = False
) -> ComparisonBody | None:
    """What becomes of limits and of work by a merge patch of a Queue's spec. Warnings are printed.

    None where the leader does not answer in time: one line says that this is not known. Raises Unanswered: the leader
    says that it would be refused. ``is_checked``: the API server has taken it in a dry run, so that the leader only
    does not know yet what was changed before.
    """
    asked = TrialRequestBody(quota_patches=(QueuePatchBody(queue=queue, spec=dict(spec)),))
    try:
        found = ask(route.within(_PATIENCE), "trials", TrialList, content=json.encode(asked)).comparison
        # An older replica does not know the question.
        why = "the leader does not answer such questions yet" if found is None else ""
    except MusterError as error:
        is_refusal = (
            isinstance(error, Unanswered) and error.by_muster and error.status == HTTPStatus.BAD_REQUEST
        )
        if is_refusal and not is_checked:
            raise
        # The first sentence: what follows is about what a caller does that goes on trying.
        found, why = None, str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
    if found is None:
        say(f"Effects on waiting and running work are unknown: {why}.", err=True)
        return None
    for warning in found.warnings:
        say(f"Warning: {warning}", err=True)
    return found

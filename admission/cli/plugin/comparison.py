"""What other quota would make of a cluster, for people: workloads by what becomes of them."""

from collections.abc import Sequence
from http import HTTPStatus
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
)
from queues.api.quota.quota_document import Spec
from queues.errors import MusterError
from queues.read_api.trials import (
    ComparisonBody,
    DifferenceBody,
    QueuePatchBody,
    TrialList,
    TrialRequestBody,
)
from queues.text_format import printable

T = TypeVar("T")
#: Lines of a table without ``-o wide``.
_SHOWN: Final = 8
#: What becomes of workloads, the most disturbing first.
_TITLES: Final = {
    "stops": "Evicted, and would wait",
    "shrinks": "Would go on with fewer pods",
    "restarts": "Evicted, and would start again at once",
    "waits": "Would wait instead of starting",
    "starts": "Would start now",
    "grows": "Would get more pods",
    "stays": "Would not be evicted any more",
}
_NOTHING_DIFFERS: Final = "No workload would start, stop or change now."
_NOT_AT_REST: Final = "There was more to decide when this was broken off."
#: Instead of the name of a workload that the user may not see.
HIDDEN: Final = "another workload"


def comparison_text(body: ComparisonBody, output: Output) -> str:
    """The changes, and what they make of the cluster."""
    lines = ["With this change:" if len(body.changes) == 1 else "With these changes:"]
    lines += [f"  {one_line(printable(each))}" for each in body.changes]
    return "\n".join(lines) + "\n" + effects_text(body, output)


def effects_text(body: ComparisonBody, output: Output) -> str:
    """Who would start, wait or be evicted."""
    lines = []
    if not body.counts:
        lines.append(_NOTHING_DIFFERS)
    for what, title in _TITLES.items():
        if count := body.counts.get(what, 0):
            found = [each for each in body.workloads if each.what == what]
            lines += [f"{title}: {count}", *(f"  {line}" for line in _workloads(found, count, output))]
    if not body.at_rest:
        lines.append(_NOT_AT_REST)
    return "\n".join(lines) + "\n"


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

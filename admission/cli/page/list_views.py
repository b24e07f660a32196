"""Views of all live workloads and of the latest decisions. Pure: answers in, HTML out."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from admission.cli.page.layout import Cell, age, heading, link, state, table, workload_state
from admission.cli.page.waiting_views import pages_of, workload_link
from admission.cli.rendering.explanations.history import event_text
from admission.cli.rendering.table import alike_in_short, amounts

#: Nodes of a workload that are named.
_NODES = 4


def live_workloads(body: Mapping[str, Any], queue: str | None, *, is_first: bool = True) -> Markup:
    """What waits and what runs: ``body`` is a WorkloadList."""
    items: Sequence[Mapping[str, Any]] = body["items"]
    title = "Workloads" + (f" in queue {queue}" if queue else "")
    if not items:
        return heading(title, 1) + Markup("<p>No workload waits or runs here that you may see.</p>")
    columns = [
        "Workload",
        "Namespace",
        "Queue",
        "User",
        "State",
        "Pods",
        "Holds or asks",
        "Age",
        "Admitted",
        "Nodes or reason",
    ]
    alike = alike_in_short({name for one in items for name in one["held"] or one["asks"]})
    rows = [_row(one, body["now"], alike) for one in items]
    more = Markup("")
    if len(items) < body["total"]:
        more = Markup('<p class="faint">{} of {:,} are shown.</p>').format(len(items), body["total"])
    ways = pages_of("workloads", body, is_first=is_first, queue=queue)
    return heading(title, 1) + more + table("Workloads", columns, rows, numbers="Pods Age Admitted") + ways


def decisions(body: Mapping[str, Any]) -> Markup:
    """The latest decisions, newest first: ``body`` is a DecisionList."""
    rows = [
        (
            age(one["at"], body["now"]),
            workload_link(one),
            one["namespace"],
            link(one["queue"], "queues", one["queue"]),
            one["what"],
            event_text(one),
        )
        for one in reversed(body["items"])
    ]
    lead = Markup('<p class="lead">What Muster has decided in the last day, newest first.</p>')
    if not rows:
        return heading("Decisions", 1) + lead + Markup("<p>None about workloads that you may see.</p>")
    columns = ["Age", "Workload", "Namespace", "Queue", "What", "Why"]
    return heading("Decisions", 1) + lead + table("Decisions", columns, rows, numbers="Age")


def _row(one: Mapping[str, Any], now: str, alike: Collection[str]) -> list[Cell]:
    nodes = list(one["nodes"][:_NODES])
    if one["nodeCount"] > len(nodes):
        nodes.append(f"and {one['nodeCount'] - len(nodes)} more")
    reason = one["reason"]
    where: Cell = ", ".join(nodes)
    if not where and reason is not None:
        where = Markup("<strong>{}</strong> {}").format(reason["code"], reason["message"])
    return [
        workload_link(one),
        one["namespace"],
        link(one["queue"], "queues", one["queue"]),
        one["user"],
        state(workload_state(one)),
        one["pods"],
        amounts(one["held"] or one["asks"], alike=alike),
        age(one["created"], now),
        age(one["admitted"], now),
        where,
    ]

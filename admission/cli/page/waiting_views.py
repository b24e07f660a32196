"""Views of workloads that wait: the list with positions and reasons. Pure: answers in, HTML out."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from admission.cli.page.layout import Cell, age, heading, link, table
from admission.cli.rendering.expected import expected_cell
from admission.cli.rendering.table import alike_in_short, amounts


def waiting(
    body: Mapping[str, Any], *, queue: str | None, namespace: str | None, is_first: bool = True
) -> Markup:
    """The page of the list: ``body`` is a PendingList."""
    places = [f"in queue {queue}" if queue else "", f"in namespace {namespace}" if namespace else ""]
    title = " ".join(["Waiting workloads", *filter(None, places)])
    everything = link("Show all", "pending") if queue or namespace else Markup("")
    ways = pages_of("pending", body, is_first=is_first, queue=queue, namespace=namespace)
    return heading(title, 1) + everything + waiting_table(body, everywhere=True) + ways


def pages_of(path: str, body: Mapping[str, Any], *, is_first: bool, **query: str | None) -> Markup:
    """Links to the first and the next page of a list; nothing where it has one page."""
    links = [] if is_first else [link("First page", path, **query)]
    if body.get("continue"):
        links.append(link("Next page", path, **query, **{"continue": body["continue"]}))
    if not links:
        return Markup("")
    return Markup('<nav class="pages" aria-label="Pages">{}</nav>').format(Markup(" ").join(links))


def waiting_table(body: Mapping[str, Any], *, everywhere: bool) -> Markup:
    """One row for each workload, by queue and position, with how many there are beyond."""
    items: Sequence[Mapping[str, Any]] = body["items"]
    if not items:
        return Markup("<p>No workload waits here that you may see.</p>")
    columns = ["Position", "Workload", "Namespace", "Queue", "Pods", "Asks", "Age", "Expected", "Reason"]
    alike = alike_in_short({name for one in items for name in one["asks"]})
    rows = [_row(one, body["now"], alike) for one in items]
    if not everywhere:
        columns.remove("Namespace")
        for row in rows:
            row.pop(2)
    told = Markup("")
    if len(items) < body["total"]:
        told = Markup('<p class="faint">{} of {:,} are shown.</p>').format(len(items), body["total"])
    return told + table("Waiting workloads", columns, rows, numbers="Position Pods Age")


def _row(one: Mapping[str, Any], now: str, alike: Collection[str]) -> list[Cell]:
    reason = one["reason"]
    why: Cell = "not considered yet"
    if reason is not None:
        why = Markup("<strong>{}</strong> {}").format(reason["code"], reason["message"])
    return [
        one["position"],
        workload_link(one),
        one["namespace"],
        link(one["queue"], "queues", one["queue"]),
        one["pods"],
        amounts(one["asks"], alike=alike),
        age(one["created"], now),
        expected_cell(one.get("expected"), now),
        why,
    ]


def workload_link(one: Mapping[str, Any]) -> Markup:
    """A link to the view of a workload."""
    text = f"{one['kind']}/{one['name']}"
    return link(text, "workloads", one["namespace"], one["name"], kind=one["kind"])

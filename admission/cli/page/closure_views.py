"""Views of what is planned: reservations and drains of nodes, and loans of quota. Pure: answers in, HTML out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from admission.cli.closures.reservations import begins_in, lasting, what_of
from admission.cli.objects.queues import below
from admission.cli.page.layout import Cell, heading, link, state, table
from admission.cli.rendering.quota import account_text, loan_problems, loans_of_queues

#: Rows of one table, and nodes that a row names.
_ROWS: Final = 200
_NODES: Final = 3

#: A line as ``kubectl muster reservations -o json`` has it.
Line = Mapping[str, Any]
Queue = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Reservations and drains that have not ended, as far as the user may list them."""

    lines: Sequence[Line] = ()
    #: Sentences about kinds that the user may not list.
    gaps: tuple[str, ...] = ()


def planned_view(planned: Planned, queues: Sequence[Queue], now: float) -> Markup:
    """All of them, and the loans between queues that the user may see. ``now``: seconds since the epoch."""
    lead = Markup(
        '<p class="lead">Nodes that are kept for a queue or taken out of service, and quota that queues lend one '
        "another. Nodes are chosen at the lead time: before there are none.</p>"
    )
    return (
        heading("Reservations and loans", 1)
        + lead
        + heading("Reservations and drains")
        + _closures(planned, now)
        + heading("Loans of quota")
        + _loans(queues)
    )


def planned_of_queue(planned: Planned, queues: Sequence[Queue], name: str, now: float) -> Markup:
    """What concerns one queue: reservations for it, for queues above and below it, drains, and its loans.

    Nothing where there is none of it.
    """
    tree = {queue["name"] for queue in below(queues, [name])}
    path = {*tree, *_above(queues, name)}
    lines = [line for line in planned.lines if line["queue"] is None or line["queue"] in path]
    concerned = [queue for queue in queues if queue["name"] in tree]
    found = Markup("")
    if lines or planned.gaps:
        found += heading("Reservations and drains")
        found += _closures(Planned(lines=lines, gaps=planned.gaps), now)
    if loans_of_queues(concerned, None):
        found += heading("Loans of quota") + _loans(concerned)
    return found


def _above(queues: Sequence[Queue], name: str) -> Collection[str]:
    parents = {queue["name"]: queue["parent"] for queue in queues}
    found: list[str] = []
    here = parents.get(name)
    while here is not None and here not in found:
        found.append(here)
        here = parents.get(here)
    return found


def _closures(planned: Planned, now: float) -> Markup:
    said = Markup("").join(Markup('<p class="faint">{}</p>').format(gap) for gap in planned.gaps)
    if not planned.lines:
        return said or Markup("<p>Nothing is reserved or drained.</p>")
    columns = ["Name", "For", "What", "Begins", "Lasts", "Phase", "Nodes", "By"]
    rows = [_closure(line, now) for line in planned.lines[:_ROWS]]
    return said + _more(planned.lines) + table("Reservations and drains", columns, rows)


def _closure(line: Line, now: float) -> list[Cell]:
    begins = Markup('<time datetime="{0}" title="{0}">{1}</time>').format(
        line["from"], begins_in(line["from"], now)
    )
    phase = state(line["phase"]) + (f" ({line['reason']})" if line["reason"] else "")
    if line["message"]:
        phase += Markup('<br><span class="faint">{}</span>').format(line["message"])
    return [
        line["name"],
        link(line["queue"], "queues", line["queue"]) if line["queue"] else "maintenance",
        what_of(line),
        begins,
        lasting(line["for"]) or "until deleted",
        phase,
        _nodes(line["nodes"]),
        line["by"],
    ]


def _nodes(names: Sequence[str]) -> Markup | None:
    if not names:
        return None
    shown = Markup(", ").join(link(name, "nodes", name) for name in names[:_NODES])
    more = len(names) - _NODES
    if more <= 0:
        return shown
    return shown + Markup(' <span title="{}">and {} more</span>').format(", ".join(names[_NODES:_ROWS]), more)


def _loans(queues: Sequence[Queue]) -> Markup:
    loans = loans_of_queues(queues, None)
    if not loans:
        return Markup("<p>No queue that you may see lends or borrows by a loan now.</p>")
    columns = ["From", "To", "Resource", "Lent", "Counts", "Until", "Reason"]
    rows = [_loan(loan) for loan in loans[:_ROWS]]
    problems = Markup("").join(
        Markup('<p class="reason">{}</p>').format(each) for each in loan_problems(queues)
    )
    return _more(loans) + table("Loans of quota", columns, rows, numbers="Lent Counts") + problems


def _loan(loan: Mapping[str, Any]) -> list[Cell]:
    return [
        link(loan["from"], "queues", loan["from"]) if loan["from"] else "another queue",
        link(loan["to"], "queues", loan["to"]),
        account_text(loan),
        loan["amount"],
        loan["counts"],
        Markup('<time datetime="{0}">{0}</time>').format(loan["until"]),
        loan["reason"],
    ]


def _more(rows: Sequence[Any]) -> Markup:
    if len(rows) <= _ROWS:
        return Markup("")
    return Markup('<p class="faint">{} of {:,} are shown.</p>').format(_ROWS, len(rows))


def in_order(lines: Iterable[Line]) -> list[Line]:
    """Those that have not ended, by the time at which they begin."""
    here = (line for line in lines if line["phase"] != "Ended")
    return sorted(here, key=lambda line: (line["from"], line["kind"], line["name"]))

"""Views of what is planned: reservations and drains of nodes, and loans of quota. Pure: answers in, HTML out."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from admission.cli.closures.reservations import ClosureLine
from admission.cli.objects.queues import below
from admission.cli.page.layout import render
from admission.cli.rendering.quota import loan_problems, loans_of_queues
from admission.read_api.bodies import QueueBody

#: Rows of one table.
_ROWS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Reservations and drains that have not ended, as far as the user may list them."""

    lines: Sequence[ClosureLine] = ()
    #: Sentences about kinds that the user may not list.
    gaps: tuple[str, ...] = ()


def planned_view(planned: Planned, queues: Sequence[QueueBody], now: float) -> Markup:
    """All of them, and the loans between queues that the user may see. ``now``: seconds since the epoch."""
    return _view(planned, queues, now, is_whole=True)


def planned_of_queue(planned: Planned, queues: Sequence[QueueBody], name: str, now: float) -> Markup:
    """What concerns one queue: reservations for it, for queues above and below it, drains, and its loans.

    Nothing where there is none of it.
    """
    tree = {queue.name for queue in below(queues, [name])}
    path = {*tree, *_above(queues, name)}
    lines = [line for line in planned.lines if line.queue is None or line.queue in path]
    concerned = [queue for queue in queues if queue.name in tree]
    return _view(Planned(lines=lines, gaps=planned.gaps), concerned, now, is_whole=False)


def _view(planned: Planned, queues: Sequence[QueueBody], now: float, *, is_whole: bool) -> Markup:
    return render(
        "planned.html",
        planned=planned,
        loans=loans_of_queues(queues, None),
        problems=loan_problems(queues),
        now=now,
        most=_ROWS,
        is_whole=is_whole,
    )


def _above(queues: Sequence[QueueBody], name: str) -> Collection[str]:
    parents = {queue.name: queue.parent for queue in queues}
    found: list[str] = []
    here = parents.get(name)
    while here is not None and here not in found:
        found.append(here)
        here = parents.get(here)
    return found

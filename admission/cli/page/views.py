"""Which view a path shows, with the questions to Muster and to the API server that it takes."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, TypeVar

from markupsafe import Markup

from admission.cli.access.object_forms import ClosureObject
from admission.cli.access.objects import listed
from admission.cli.access.requests import Route, Unanswered, ask, pages
from admission.cli.output import age_of
from admission.cli.page.charts import MOST_QUEUES, SPANS, over_time
from admission.cli.page.layout import (
    CHOSEN,
    RUNNING,
    View,
    link,
    list_frame,
    pages_of,
    render,
    resource_names,
)
from admission.cli.page.month_sheet import IDLE_STEP, MONTHS, MonthChoice, idle_guarantees, month_sheet
from admission.cli.page.node_views import node_racks, one_rack
from admission.cli.page.problems import NoSuchView, unknown
from admission.cli.plugin.explain import path_of_workload
from admission.cli.plugin.nodes import nodes_with_gpus
from admission.cli.plugin.queues import below, usual_resource
from admission.cli.plugin.reservations import ClosureLine, closure_line, in_order
from admission.cli.plugin.usage import month as month_of
from admission.cli.rendering.quota import loan_problems, loans_of_queues
from admission.cli.times import as_text
from queues.api.api_resources import NODE_DRAINS, RESERVATIONS
from queues.errors import MusterError
from queues.quota.queue import ROOT
from queues.read_api.bodies import (
    DecisionList,
    ExplanationBody,
    PendingList,
    QueueBody,
    QueueList,
    UserList,
    WorkloadList,
)
from queues.read_api.usage import TimeSeriesList, UsageList

#: Waiting workloads on one view; the command line lists all.
_SHOWN: Final = 200
#: Seconds between two looks at the nodes: each lists all of them, which may be thousands.
_SELDOM: Final = 15
_SOMETIMES: Final = 5

_Query = Mapping[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Reservations and drains that have not ended, as far as the user may list them."""

    lines: Sequence[ClosureLine] = ()
    #: Sentences about kinds that the user may not list.
    gaps: tuple[str, ...] = ()


def planned_view(planned: Planned, queues: Sequence[QueueBody], now: float) -> Markup:
    """All of them, and the loans between queues that the user may see. ``now``: seconds since the epoch."""
    return _planned(planned, queues, now, is_whole=True)


def planned_of_queue(planned: Planned, queues: Sequence[QueueBody], name: str, now: float) -> Markup:
    """What concerns one queue: reservations for it, for queues above and below it, drains, and its loans.

    Nothing where there is none of it.
    """
    tree = {queue.name for queue in below(queues, [name])}
    path = {*tree, *_above(queues, name)}
    lines = [line for line in planned.lines if line.queue is None or line.queue in path]
    concerned = [queue for queue in queues if queue.name in tree]
    return _planned(Planned(lines=lines, gaps=planned.gaps), concerned, now, is_whole=False)


def _planned(planned: Planned, queues: Sequence[QueueBody], now: float, *, is_whole: bool) -> Markup:
    return render(
        "planned.html",
        planned=planned,
        loans=loans_of_queues(queues, None),
        problems=loan_problems(queues),
        now=now,
        most=_SHOWN,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The views of one user."""

    route: Route
    #: Seconds since the epoch.
    clock: Callable[[], float] = time.time
    #: Of an hour, by resource.
    prices: Mapping[str, float] = field(default_factory=dict)

    def show(self, parts: tuple[str, ...], query: _Query) -> View:
        """The view of a path. Raises KeyError: there is none; CommandFailed: Muster does not answer."""
        if not parts:
            return self._queues((), query)
        shown: Mapping[str, Callable[[Sequence[str], _Query], View]] = {
            "queues": self._queues,
            "pending": self._waiting,
            "workloads": self._workload if len(parts) > 1 else self._workloads,
            "users": self._users,
            "nodes": self._nodes,
            "charts": self._charts,
            "usage": self._month,
            "reservations": self._reservations,
            "decisions": self._decisions,
        }
        return shown[parts[0]](parts[1:], query)

    def _queues(self, parts: Sequence[str], query: _Query) -> View:
        body = ask(self.route, "queues", QueueList)
        resource = query.get("resource")
        if not parts:
            main = render("queues.html", queues=body.items, resource=resource or usual_resource(body.items))
            return View(title="Queues", section="Queues", main=main, age=age_of(body)[0])
        [name] = _only(parts, 1)
        self._check_queue(body.items, name)
        main = render(
            "queue.html",
            queue=next(queue for queue in body.items if queue.name == name),
            queues=body.items,
            below=below(body.items, [name]),
            waiting=pages(self.route, "pending", PendingList, {"queue": name}, limit=_SHOWN),
            running=pages(
                self.route, "workloads", WorkloadList, {"queue": name, "state": RUNNING}, limit=_SHOWN
            ),
            resource=resource or usual_resource(body.items),
            planned=planned_of_queue(self._planned(), body.items, name, self.clock()),
        )
        return View(title=f"Queue {name}", section="Queues", main=main, age=age_of(body)[0])

    def _waiting(self, parts: Sequence[str], query: _Query) -> View:
        _only(parts, 0)
        asked = {name: query.get(name) for name in CHOSEN}
        body = self._page("pending", PendingList, asked, query)
        main = render("pending.html", body=body, **list_frame("pending", body, asked, query))
        return View(title="Waiting workloads", section="Waiting", main=main, age=age_of(body)[0])

    def _workload(self, parts: Sequence[str], query: _Query) -> View:
        # The kind is where links have it, or where a user guesses it.
        namespace, *kinds, name = parts if len(parts) == 3 else _only(parts, 2)
        try:
            body = ask(
                self.route,
                path_of_workload(namespace, name),
                tuple[ExplanationBody, ...],
                {"kind": next(iter(kinds), query.get("kind"))},
            )
        except Unanswered as error:
            if error.status == HTTPStatus.NOT_FOUND and error.by_muster:
                ways = [
                    link(f"Workloads in namespace {namespace}", "workloads", namespace=namespace),
                    link("All workloads", "workloads"),
                ]
                raise NoSuchView(str(error), ways) from error
            raise
        return View(
            title=name, section="Workloads", main=render("workload.html", found=body), age=age_of(body[0])[0]
        )

    def _workloads(self, _: Sequence[str], query: _Query) -> View:
        asked = {name: query.get(name) for name in (*CHOSEN, "state")}
        body = self._page("workloads", WorkloadList, asked, query)
        main = render("workloads.html", body=body, **list_frame("workloads", body, asked, query))
        return View(title="Workloads", section="Workloads", main=main, age=age_of(body)[0])

    def _users(self, parts: Sequence[str], query: _Query) -> View:
        _only(parts, 0)
        queue = query.get("queue")
        body = self._page("users", UserList, {"queue": queue}, query)
        main = render(
            "users.html", body=body, shown_queue=queue, **pages_of("users", body, query, queue=queue)
        )
        return View(title="Users", section="Users", main=main, age=age_of(body)[0])

    def _decisions(self, parts: Sequence[str], query: _Query) -> View:
        _only(parts, 0)
        ends = "true" if query.get("ends") == "true" else "false"
        shown = {"queue": query.get("queue"), "namespace": query.get("namespace")}
        body = ask(self.route, "decisions", DecisionList, {**shown, "ends": ends, "limit": str(_SHOWN)})
        choices = [
            (text, None if ends == value else link(text, "decisions", ends=value, **shown))
            for value, text in (("false", "without ends"), ("true", "all"))
        ]
        main = render("decisions.html", body=body, choices=choices)
        return View(title="Decisions", section="Decisions", main=main, age=age_of(body)[0])

    def _page(self, path: str, form: type[T], asked: Mapping[str, str | None], query: _Query) -> T:
        page = {"limit": str(_SHOWN), "continue": query.get("continue")}
        return ask(self.route, path, form, {**asked, **page})

    def _charts(self, parts: Sequence[str], query: _Query) -> View:
        _only(parts, 0)
        queues = ask(self.route, "queues", QueueList).items
        name = query.get("span", "day")
        if name not in SPANS:
            raise KeyError(name)
        span = SPANS[name]
        queue = query.get("queue") or (queues[0].name if queues else ROOT)
        self._check_queue(queues, queue)
        resource = query.get("resource") or usual_resource(queues)
        # Slots begin at whole steps, so that they stay the same slots.
        begins = int(self.clock()) // span.step * span.step - span.length
        asked = {
            "from": as_text(datetime.fromtimestamp(begins, UTC)),
            "step": str(span.step),
            "queue": queue,
            "resource": resource,
            "limit": str(MOST_QUEUES),
        }
        body = ask(self.route, "timeseries", TimeSeriesList, asked)
        resources = resource_names(queues, resource)
        main = over_time(body, queue=queue, span=name, queues=queues, resources=resources)
        return View(title="Charts", section="Charts", main=main, age=age_of(body)[0], least=_SELDOM)

    def _month(self, parts: Sequence[str], query: _Query) -> View:
        _only(parts, 0)
        queues = ask(self.route, "queues", QueueList).items
        month, queue = query.get("month", "this"), query.get("queue")
        if month not in MONTHS:
            raise KeyError(month)
        if queue is not None:
            self._check_queue(queues, queue)
        resource = query.get("resource") or usual_resource(queues)
        begins, ends = month_of("month", month, datetime.fromtimestamp(self.clock(), UTC))
        period = {"from": as_text(begins), "to": as_text(ends)}
        asked = {**period, "by": "queue" if queue else "tenant", "queue": queue, "resource": resource}
        body = pages(self.route, "usage", UsageList, asked, limit=_SHOWN)
        resources = resource_names(queues, resource)
        choice = MonthChoice(month, queue, resource, resources)
        idle = self._idle_guarantees(queue or ROOT, {**period, "resource": resource})
        main = month_sheet(body, choice, idle=idle, price=self.prices.get(resource))
        return View(title="Use in a month", section="Usage", main=main, age=age_of(body)[0], least=_SELDOM)

    def _idle_guarantees(self, queue: str, asked: _Query) -> Mapping[str, float]:
        """Hours of a queue and of those directly below it; empty if they are not known to the user."""
        query = {**asked, "queue": queue, "step": str(IDLE_STEP), "limit": str(MOST_QUEUES)}
        try:
            return idle_guarantees(ask(self.route, "timeseries", TimeSeriesList, query))
        except Unanswered as error:
            if not error.by_muster:
                raise
            return {}

    def _reservations(self, parts: Sequence[str], _: _Query) -> View:
        _only(parts, 0)
        body = ask(self.route, "queues", QueueList)
        main = planned_view(self._planned(), body.items, self.clock())
        title = "Reservations and loans"
        return View(title=title, section="Reservations", main=main, age=age_of(body)[0], least=_SOMETIMES)

    def _planned(self) -> Planned:
        """Reservations and drains, and why some are not known: they are at the API server, which needs not answer."""
        lines: list[ClosureLine] = []
        gaps: list[str] = []
        for resource in (RESERVATIONS, NODE_DRAINS):
            try:
                found = listed(self.route, resource, ClosureObject, left_out=gaps.append)
            except MusterError as error:
                gaps.append(f"{resource.plural.capitalize()} are not known: {error}")
                continue
            if found is None:
                gaps.append(f"You may not list {resource.plural}: ask for the role muster-queue-viewer.")
            lines += [closure_line(document, resource) for document in found or ()]
        return Planned(lines=in_order(lines), gaps=tuple(gaps))

    def _nodes(self, parts: Sequence[str], _: _Query) -> View:
        if len(parts) > 1:
            raise KeyError("/".join(parts))
        body = nodes_with_gpus(self.route)
        gaps = [f"You may not list {' and '.join(body.unread)}."] if body.unread else []
        main = one_rack(body.items, parts[0]) if parts else node_racks(body.items)
        title = f"Nodes, {parts[0]}" if parts else "Nodes"
        age = " ".join(filter(None, [age_of(body)[0], *gaps]))
        return View(title=title, section="Nodes", main=main, age=age, least=_SELDOM)

    @staticmethod
    def _check_queue(queues: Sequence[QueueBody], name: str) -> None:
        """Raises NoSuchView: the user sees no such queue; Unanswered: the user sees none at all."""
        names = [queue.name for queue in queues]
        if not names:
            hint = "Ask for the right to get queues: the role muster-queue-viewer has it."
            found = f"You may not get queue {name}, nor any other"
            raise Unanswered(status=HTTPStatus.FORBIDDEN, found=found, hint=hint, by_muster=True)
        if name not in names:
            raise unknown("queue", name, names, "queues")


def _only(parts: Sequence[str], count: int) -> Sequence[str]:
    if len(parts) != count:
        raise KeyError("/".join(parts))
    return parts

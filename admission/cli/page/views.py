"""Which view a path shows, with the questions to Muster and to the API server that it takes."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, TypeVar

from msgspec import structs

from admission.cli.access.age import age_of
from admission.cli.access.object_forms import ClosureObject, ObjectList, TopologyObject
from admission.cli.access.objects import ClusterRoute, listed, path_of, read
from admission.cli.access.queue_objects import is_open_to_all, read_queues
from admission.cli.access.read_api import Route, Unanswered, ask
from admission.cli.closures.closed_nodes import read_closures
from admission.cli.closures.reservations import closure_line, in_order
from admission.cli.objects.queues import usual_resource
from admission.cli.page.charts.views import MOST_QUEUES, SPANS, over_time
from admission.cli.page.closure_views import Planned, planned_of_queue, planned_view
from admission.cli.page.layout import link, resource_names
from admission.cli.page.list_views import (
    decisions,
    live_workloads,
    one_queue,
    queue_tree,
    waiting,
    workload_view,
)
from admission.cli.page.node_views import NodeOnPage, node_racks, one_rack
from admission.cli.page.problems import NoSuchView, unknown
from admission.cli.page.view import View
from admission.cli.questions.explain import path_of_workload
from admission.cli.questions.pending import pages
from admission.cli.rendering.node_use import with_use
from admission.cli.rendering.nodes import node_lines
from admission.cli.rendering.racks import Racks
from admission.cli.times import as_text
from admission.read_api.bodies import (
    DecisionList,
    ExplanationBody,
    NodeBody,
    NodeList,
    PendingList,
    QueueBody,
    QueueList,
    WorkloadList,
)
from admission.read_api.usage import TimeSeriesList
from admission.wire import WireNode, WireNodeDevices
from queues.api.api_resources import DEVICES, NODE_DRAINS, NODES, RESERVATIONS, TOPOLOGIES
from queues.errors import MusterError
from queues.quota.queue import ROOT

#: Waiting workloads on one view; the command line lists all.
_SHOWN: Final = 200
#: Seconds between two looks at the nodes: each lists all of them, which may be thousands.
_SELDOM: Final = 15
_SOMETIMES: Final = 5

#: Of a node that the ledger does not know.
_NOTHING_HELD: Final = NodeBody(name="", flavor="", usable=True, limits={}, used={})

_Query = Mapping[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The views of one user."""

    route: Route
    cluster: ClusterRoute
    #: Seconds since the epoch.
    clock: Callable[[], float] = time.time

    def show(self, parts: tuple[str, ...], query: _Query) -> View:
        """The view of a path. Raises KeyError: there is none; CommandFailed: Muster does not answer."""
        if not parts:
            return self._queues((), query)
        shown: Mapping[str, Callable[[Sequence[str], _Query], View]] = {
            "queues": self._queues,
            "pending": self._waiting,
            "workloads": self._workload if len(parts) > 1 else self._workloads,
            "nodes": self._nodes,
            "charts": self._charts,
            "reservations": self._reservations,
            "decisions": self._decisions,
        }
        return shown[parts[0]](parts[1:], query)

    def _queues(self, parts: Sequence[str], query: _Query) -> View:
        body = ask(self.route, "queues", QueueList)
        resource = query.get("resource")
        if not parts:
            main = queue_tree(body.items, resource)
            return View(title="Queues", section="Queues", main=main, age=age_of(body)[0])
        [name] = _only(parts, 1)
        self._check_queue(body.items, name)
        found = pages(self.route, "pending", PendingList, {"queue": name}, _SHOWN)
        planned = planned_of_queue(self._planned(), body.items, name, self.clock())
        main = one_queue(body.items, name, found, resource, planned, is_open=self._is_open(name))
        return View(title=f"Queue {name}", section="Queues", main=main, age=age_of(body)[0])

    def _is_open(self, name: str) -> bool:
        """Whether any namespace may use a queue; False if that is not known."""
        try:
            return is_open_to_all(read_queues(self.cluster), name)
        except MusterError:
            return False

    def _waiting(self, parts: Sequence[str], query: _Query) -> View:
        _only(parts, 0)
        queue, namespace = query.get("queue"), query.get("namespace")
        body = self._page("pending", PendingList, {"queue": queue, "namespace": namespace}, query)
        main = waiting(body, queue=queue, namespace=namespace, is_first="continue" not in query)
        return View(title="Waiting workloads", section="Waiting", main=main, age=age_of(body)[0])

    def _workload(self, parts: Sequence[str], query: _Query) -> View:
        namespace, name = _only(parts, 2)
        try:
            body = ask(
                self.route,
                path_of_workload(namespace, name),
                tuple[ExplanationBody, ...],
                {"kind": query.get("kind")},
            )
        except Unanswered as error:
            if error.status == HTTPStatus.NOT_FOUND and error.by_muster:
                ways = [
                    link(f"Workloads in namespace {namespace}", "workloads", namespace=namespace),
                    link("All workloads", "workloads"),
                ]
                raise NoSuchView(str(error), ways) from error
            raise
        return View(title=name, section="Workloads", main=workload_view(body), age=age_of(body[0])[0])

    def _workloads(self, _: Sequence[str], query: _Query) -> View:
        asked = {"queue": query.get("queue"), "namespace": query.get("namespace")}
        body = self._page("workloads", WorkloadList, asked, query)
        main = live_workloads(body, asked["queue"], is_first="continue" not in query)
        return View(title="Workloads", section="Workloads", main=main, age=age_of(body)[0])

    def _decisions(self, parts: Sequence[str], query: _Query) -> View:
        _only(parts, 0)
        asked = {"queue": query.get("queue"), "namespace": query.get("namespace"), "limit": str(_SHOWN)}
        body = ask(self.route, "decisions", DecisionList, asked)
        return View(title="Decisions", section="Decisions", main=decisions(body), age=age_of(body)[0])

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

    def _reservations(self, parts: Sequence[str], _: _Query) -> View:
        _only(parts, 0)
        body = ask(self.route, "queues", QueueList)
        main = planned_view(self._planned(), body.items, self.clock())
        title = "Reservations and loans"
        return View(title=title, section="Reservations", main=main, age=age_of(body)[0], least=_SOMETIMES)

    def _planned(self) -> Planned:
        """Reservations and drains, and why some are not known: they are at the API server, which needs not answer."""
        lines, gaps = [], []
        for resource in (RESERVATIONS, NODE_DRAINS):
            try:
                found = listed(self.cluster, resource, ClosureObject)
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
        # As of the API server's cache: thousands of nodes need not be read from etcd for one look.
        path = path_of(NODES, None)
        found = read(self.cluster, path, ObjectList[WireNode], tried="Listing nodes", resourceVersion="0")
        nodes = found.items or []
        use, closures = None, read_closures(self.cluster, self.clock())
        gaps = [f"You may not list {' and '.join(closures.unread)}."] if closures.unread else []
        try:
            use = self._use()
        except MusterError as error:  # the nodes themselves are known from the API server
            gaps.append(f"What is free, and who has seats, is not known: {error}")
        racks = Racks.known(listed(self.cluster, TOPOLOGIES, TopologyObject) or (), nodes, None)
        reported = node_lines(nodes, listed(self.cluster, DEVICES, WireNodeDevices) or ())
        lines = [
            NodeOnPage(**structs.asdict(line), use=None if use is None else use.get(line.name, _NOTHING_HELD))
            for line in with_use(reported, nodes, racks, use, closures.by_node)
        ]
        main = one_rack(lines, parts[0]) if parts else node_racks(lines)
        title = f"Nodes, {parts[0]}" if parts else "Nodes"
        return View(title=title, section="Nodes", main=main, age=" ".join(gaps), least=_SELDOM)

    @staticmethod
    def _check_queue(queues: Sequence[QueueBody], name: str) -> None:
        """Raises NoSuchView: the user sees no such queue; Unanswered: the user sees none at all."""
        names = [queue.name for queue in queues]
        if not names:
            hint = "Ask for the right to get queues: the role muster-queue-viewer has it."
            found = f"You may not get queue {name}, nor any other"
            raise Unanswered(status=HTTPStatus.FORBIDDEN, tried="", found=found, hint=hint, by_muster=True)
        if name not in names:
            raise unknown("queue", name, names, "queues")

    def _use(self) -> dict[str, NodeBody]:
        found: dict[str, NodeBody] = {}
        page: str | None = None
        with_workloads: str | None = "true"
        while page != "":
            try:
                body = ask(self.route, "nodes", NodeList, {"workloads": with_workloads, "continue": page})
            except Unanswered as refused:
                if refused.status != HTTPStatus.BAD_REQUEST or with_workloads is None:
                    raise
                with_workloads = None  # an older Muster, which does not say what runs on a node
                continue
            found |= {node.name: node for node in body.items}
            page = body.continue_
        return found


def _only(parts: Sequence[str], count: int) -> Sequence[str]:
    if len(parts) != count:
        raise KeyError("/".join(parts))
    return parts

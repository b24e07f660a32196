"""A cluster for the page to show, which tests change while a browser looks at it: the read API's answers."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from msgspec import structs

from admission.cli.access.change_feed import ChangeFeed
from admission.cli.access.requests import Route
from admission.cli.page.local import PageServer
from admission.cli.page.views import Views
from admission.settings import Address
from admission.web.app import PREFIX
from admission.web.changes import Changes, StreamLimits
from admission.web.http import encode, json_answer, serving, text_of_place
from admission.web.reader import EVERYTHING, Sight
from queues.api.api_resources import NODE_DRAINS, RESERVATIONS
from queues.api.names import CHANGED_BY
from queues.read_api import bodies
from queues.read_api.nodes import (
    ClosureBody,
    DeviceFaultBody,
    NodeBody,
    NodeList,
    NodeWorkloadsBody,
    SeatedBody,
)
from queues.sql.read.rows import EVERY_ONE, Chosen
from tests.fakes.fake_reader import PENDING, RUNNING, FakeReader, fake_api, gpu_node, waiting
from tests.fakes.kubeconfigs import write_kubeconfig
from tests.fakes.read_api.fake_lists import GPU, NO_FIT, NOW, is_chosen
from tests.waiting import LIMIT

#: Of 2026-11-21T10:00:00Z, the time of the fakes.
CLOCK = 1_795_255_200.0

#: A gang that waited, ran, was taken back, waited once more, and runs.
GANG = structs.replace(
    RUNNING,
    as_of=NOW,
    created="2026-11-21T06:00:00Z",
    user="ada@example.com",
    device_hours={GPU: 85.3},
    admissions=(
        structs.replace(RUNNING.admissions[0], opened="2026-11-21T08:50:00Z"),
        structs.replace(
            RUNNING.admissions[1],
            opened="2026-11-21T06:40:00Z",
            closed="2026-11-21T08:05:00Z",
            eviction=bodies.ReasonBody(
                code="Preempted",
                message="for vcjob/ml/llama-pretrain, of a higher priority",
                since="2026-11-21T08:00:00Z",
            ),
        ),
    ),
)


class WorldReader(FakeReader):
    """The small cluster, with as many waiting workloads as a test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: tuple[bodies.WaitingBody, ...] = PENDING

    async def explain(
        self, *, namespace: str, name: str, kind: str | None, sight: Sight = EVERYTHING
    ) -> tuple[bodies.ExplanationBody, ...]:
        if (namespace, name) == ("ml", "bert"):
            return (GANG,)
        return await super().explain(namespace=namespace, name=name, kind=kind, sight=sight)

    def _is_below(self, name: str | None, queue: str | None) -> bool:
        parents = {each.name: each.parent for each in self.tree}
        while name is not None and name != queue:
            name = parents.get(name)
        return queue is None or name is not None

    async def pending(
        self,
        *,
        queue: str | None,
        namespace: str | None,
        chosen: Chosen = EVERY_ONE,
        limit: int,
        after: tuple[str, int] | None = None,
        sight: Sight = EVERYTHING,
    ) -> bodies.PendingList:
        self._up()
        here = [
            one
            for one in self.waiting
            if namespace in (None, one.namespace)
            and is_chosen(one, chosen)
            and self._is_below(one.queue, queue)
        ]
        start = 0
        if after is not None:
            start = 1 + next(index for index, one in enumerate(here) if (one.queue, one.position) == after)
        page = here[start : start + limit]
        more = start + limit < len(here)
        return bodies.PendingList(
            now=NOW,
            as_of=NOW,
            total=len(here),
            total_everywhere=len(self.waiting),
            items=tuple(page),
            continue_=text_of_place((page[-1].queue, page[-1].position) if more else None),
        )


@dataclass(slots=True)
class World:
    """What the page shows."""

    reader: WorldReader = field(default_factory=WorldReader)
    #: As the leader tells of them, by name, with the workloads there.
    nodes: dict[str, NodeBody] = field(default_factory=dict)
    reservations: list[dict[str, Any]] = field(default_factory=list)
    drains: list[dict[str, Any]] = field(default_factory=list)
    #: Paths that the API server does not let the user list.
    forbidden: set[str] = field(default_factory=set)

    def changed(self) -> None:
        """Something is not as it was: streams tell it."""
        self.reader.mark += "x"

    def starts(self, name: str) -> None:
        """A gang comes to wait."""
        more = waiting(name, len(self.reader.waiting) + 1, queue="train", reason=NO_FIT)
        self.reader.waiting += (more,)
        self.changed()

    def ends(self, name: str) -> None:
        """A gang waits no more."""
        self.reader.waiting = tuple(one for one in self.reader.waiting if one.name != name)
        self.changed()

    def waits(self, count: int) -> None:
        """So many workloads wait."""
        self.reader.waiting = tuple(
            waiting(f"train-{number:05}", number, reason=NO_FIT) for number in range(1, count + 1)
        )

    def add_nodes(self, count: int, *, per_rack: int = 8) -> None:
        """Nodes with eight GPUs: most are held by gangs of two nodes, some are free, some have an ill GPU."""
        for number in range(count):
            name, rack = f"gpu-{number:04}", f"r{number // per_rack:03}"
            ill = number % 13 == 5
            held = (8, 8, 4, 0)[number // 2 % 4] - (1 if ill and number // 2 % 4 < 2 else 0)
            there = [_seated(f"gang-{number // 2}", held, OWNERS[number // 2 % 3])] if held else []
            if number // 2 % 4 == 2:
                there.append(_seated(f"tune-{number}", 2, OWNERS[3]))
            used = held + (2 if len(there) == 2 else 0)
            self.nodes[name] = gpu_node(
                name,
                rack,
                8 - used - ill,
                healthy=8 - ill,
                faults=(_FAULT,) if ill else (),
                workloads=NodeWorkloadsBody(items=tuple(there), total=len(there), hidden=0),
            )

    def plans(self) -> None:
        """A reservation in its window, one to come, and two drains; a queue lends to another."""
        self.reservations += [
            _reservation("train-night", "2026-11-21T09:00:00Z", "Active", ["gpu-0006", "gpu-0007"]),
            _reservation("train-week", "2026-11-27T14:00:00Z", "Planned", []),
        ]
        self.drains += [
            _drain("rack-r001", "2026-11-21T09:30:00Z", "Active", RACK_1, "2026-11-21T08:30:00Z"),
            _drain("fans", "2026-11-21T10:40:00Z", "Planned", ["gpu-0022"], "2026-11-21T09:40:00Z"),
        ]
        for resource, documents in ((RESERVATIONS, self.reservations), (NODE_DRAINS, self.drains)):
            for document in documents:
                self._close(resource.kind, document)
        loan = bodies.LoanInForceBody(
            to="team-b",
            flavor="",
            resource=GPU,
            amount="8",
            until="2026-11-24T18:00:00Z",
            reason="deadline of the vision team",
            from_="team-a",
            counts="8",
            problem="",
        )
        self.reader.tree = tuple(
            structs.replace(queue, loans=(loan,)) if queue.name in (loan.from_, loan.to) else queue
            for queue in self.reader.tree
        )

    def _close(self, kind: str, document: dict[str, Any]) -> None:
        """The nodes of a reservation or drain are closed by it."""
        spec, status = document["spec"], document["status"]
        closure = ClosureBody(
            kind=kind,
            name=document["metadata"]["name"],
            queue=spec.get("queue"),
            from_=spec.get("from") or spec["at"],
            for_=spec.get("for"),
            phase=status["phase"],
            closed=True,
        )
        for name in status["nodes"]:
            if (node := self.nodes.get(name)) is not None:
                self.nodes[name] = structs.replace(node, usable=False, closures=(*node.closures, closure))


#: Nodes of a rack that is drained.
RACK_1 = [f"gpu-{number:04}" for number in range(8, 16)]


def _reservation(name: str, begins: str, phase: str, nodes: list[str]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {CHANGED_BY: "ada@example.com"}},
        "spec": {"queue": "train", "resources": {GPU: "16"}, "from": begins, "for": "4h"},
        "status": {"phase": phase, "nodes": nodes},
    }


def _drain(name: str, begins: str, phase: str, nodes: list[str], closes_from: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {CHANGED_BY: "ops@example.com"}},
        "spec": {"nodes": nodes, "at": begins},
        "status": {"phase": phase, "nodes": nodes, "closesFrom": closes_from},
    }


#: Queues and users whose work is on the nodes.
OWNERS = (
    ("train", "ada@example.com"),
    ("team-b", "bob@example.com"),
    ("train", "eve@example.com"),
    ("dev", "ada@example.com"),
)


def _seated(name: str, gpus: int, owner: tuple[str, str]) -> SeatedBody:
    names = {"kind": "vcjob", "namespace": "ml", "name": name, "uid": f"{name}-uid"}
    names |= {"queue": owner[0], "user": owner[1]}
    return SeatedBody(**names, evicting=False, seats=1, held={GPU: str(gpus)}, gpus=float(gpus))


_FAULT: Final = DeviceFaultBody(
    number=7, id="GPU-7", reason="Xid79", message="the GPU has fallen off the bus", since=None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The page of a world."""

    world: World
    url: str
    #: With the secret.
    address: str


@contextmanager
def page_of(world: World, folder: Path) -> Iterator[Shown]:
    """Serve the page of a world; ``folder`` gets a kubeconfig."""
    with _api(world) as api:
        kubeconfig = write_kubeconfig(folder / "kubeconfig", api)
        route = Route(server=api, kubeconfig=str(kubeconfig))
        views = Views(route=route, clock=lambda: CLOCK, prices={"nvidia.com/gpu": 2.5})
        with PageServer(views.show, ChangeFeed(route), cluster="prod") as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            yield Shown(world=world, url=f"http://127.0.0.1:{server.server_port}", address=server.url)
            server.shutdown()
            thread.join()


@contextmanager
def _api(world: World) -> Iterator[str]:
    """The read API and the lists of Nodes, at one address, in a thread of its own."""
    ready, over = threading.Event(), asyncio.Event()
    told: dict[str, Any] = {}

    async def serve() -> None:
        async with serving(_application(world), Address("127.0.0.1", 0)) as port:
            told.update(port=port, loop=asyncio.get_running_loop())
            ready.set()
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(LIMIT)
    try:
        yield f"http://127.0.0.1:{told['port']}"
    finally:
        told["loop"].call_soon_threadsafe(over.set)
        thread.join(LIMIT)


def _application(world: World) -> web.Application:
    limits = StreamLimits(every=0.02)
    changes = Changes(read=world.reader.change_mark, limits=limits)
    application = replace(fake_api(world.reader), changes=changes).application()
    lists = {
        RESERVATIONS.path(None): lambda: world.reservations,
        NODE_DRAINS.path(None): lambda: world.drains,
    }

    @web.middleware
    async def objects(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path in world.forbidden:
            return json_answer(encode({"message": f"{request.path} is forbidden"}), status=403)
        if (items := lists.get(request.path)) is not None:
            return json_answer(encode({"items": items()}))
        if request.path == f"{PREFIX}/nodes" and world.nodes:
            return json_answer(encode(NodeList(now=NOW, as_of=NOW, items=tuple(world.nodes.values()))))
        answer: web.StreamResponse = await handler(request)
        return answer

    application.middlewares.insert(0, objects)
    return application

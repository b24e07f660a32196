"""The webhook as a running server, on every replica: its informers, its certificates, its socket."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import msgspec
from aiohttp import web

from admission.decode.admin_documents import (
    closure_fact,
    flavor_fact,
    namespace_fact,
    queue_fact,
    topology_fact,
)
from admission.decode.nodes import node_fact
from admission.facts.cluster import ClosureFact, NamespaceFact, NodeFact
from admission.kube.client.client import Client
from admission.kube.watch.informer import Informer
from admission.kube.watch.store import ObjectChange, WatchedKind
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.mounted_certificates import CertificatesUnusable, serving_certificates
from admission.kube.webhook.review import app
from admission.wire import Bare, Page, WireNode
from queues.api.api_resources import (
    FLAVORS,
    JOB_TEMPLATES,
    NAMESPACES,
    NODE_DRAINS,
    NODES,
    QUEUES,
    RESERVATIONS,
    TOPOLOGIES,
    ApiResource,
    Document,
)
from queues.api.reading.user_values import is_dns_name
from queues.api.validation.closures.whole_nodes import NodeShape, node_shapes
from queues.api.validation.known import Known
from queues.api.validation.size_rules import NodeAmounts
from queues.errors import ApiError, InvalidDocument, NotFound
from queues.flavor_growth import FlavorGrowth
from queues.json_values import mapping_at
from queues.node_closures import ClosureKind, NodeClosure
from queues.quota.queue import Queue
from queues.resources import NOTHING, Resources
from queues.workload import FlavorName

_log = logging.getLogger(__name__)

#: Seconds between attempts to get certificates at start: without them nothing can be served.
_RETRY_AFTER: Final = 2.0


class _Watched:
    """An informer of one kind of cluster-scoped object, and what it knows by name."""

    def __init__(
        self,
        client: Client,
        resource: ApiResource,
        struct: Any,
        translate: Any,
        *,
        may_be_absent: bool = False,
    ) -> None:
        """``may_be_absent``: the definition of the kind may be older than this version."""
        self.values: dict[str, Any] = {}
        kind: WatchedKind[Any, Any] = WatchedKind(
            name=resource.plural,
            resource=resource,
            struct=struct,
            translate=translate,
            may_be_absent=may_be_absent,
        )
        self.informer: Informer[Any, Any] = Informer(client, kind, self._changed)

    def _changed(self, shifts: list[ObjectChange[Any]]) -> None:
        for shift in shifts:
            self.values.pop(shift.name, None)
            if shift.after is not None:
                self.values[shift.name] = shift.after


def _closure(kind: ClosureKind, _: Bare, raw: msgspec.Raw) -> ClosureFact:
    return closure_fact(bytes(raw), kind)


def _growth(found: Bare, raw: msgspec.Raw) -> FlavorGrowth:
    """What can be added to a flavor; of one that cannot be read nothing is known."""
    try:
        return flavor_fact(bytes(raw)).growth()
    except InvalidDocument:
        return FlavorGrowth(flavor=FlavorName(found.metadata.name))


class _NodeAmounts(NamedTuple):
    """What a node offers, and what it holds back because its devices are unhealthy."""

    offered: Resources
    withheld: Resources

    @classmethod
    def of(cls, fact: NodeFact) -> "_NodeAmounts":
        return cls(fact.allocatable, fact.withheld)


class WatchedObjects:
    """What the webhook knows of the cluster: Queues, Topologies, Namespaces, Nodes, and what closes nodes."""

    def __init__(self, client: Client, schedulers: Collection[str] | None) -> None:
        """``schedulers``: names of the stock scheduler, None for the usual ones."""
        self._client = client
        self._schedulers = schedulers
        self._queues = _Watched(client, QUEUES, Bare, lambda _, raw: queue_fact(bytes(raw)).queue)
        self._levels = _Watched(client, TOPOLOGIES, Bare, lambda _, raw: topology_fact(bytes(raw)).levels)
        self._flavors = _Watched(client, FLAVORS, Bare, _growth)
        self._nodes = _Watched(client, NODES, WireNode, lambda node, _: _NodeAmounts.of(node_fact(node)))
        self._closures = [
            _Watched(
                client,
                resource,
                Bare,
                partial(_closure, kind),
                may_be_absent=True,
            )
            for resource, kind in (
                (RESERVATIONS, ClosureKind.RESERVATION),
                (NODE_DRAINS, ClosureKind.DRAIN),
            )
        ]
        self._namespaces = _Watched(client, NAMESPACES, Bare, lambda found, raw: namespace_fact(found))

    async def run(self) -> None:
        """Watch, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for watched in (
                self._queues,
                self._levels,
                self._flavors,
                self._namespaces,
                self._nodes,
                *self._closures,
            ):
                informer = watched.informer
                tasks.create_task(informer.run(), name=f"webhook informer {informer.kind.name}")

    def known(self, namespace: str) -> Known:
        """What is known now. Before the first LIST nothing is: nothing is refused for what was not seen."""
        found: NamespaceFact | None = self._namespaces.values.get(namespace)
        levels = frozenset(level for levels in self._levels.values.values() for level in levels)
        return Known(
            queues=self._queues.values if self._queues.informer.synced.is_set() else None,
            levels=levels if self._levels.informer.synced.is_set() else None,
            flavors=self._flavors.values if self._flavors.informer.synced.is_set() else None,
            namespace_queue=None if found is None else found.queue,
            namespace_labels=None if found is None else found.labels,
            now=int(time.time()),
            closures=self._known_closures(),
            nodes=self._nodes.values if self._nodes.informer.synced.is_set() else None,
            schedulers=self._schedulers,
            amounts=self._amounts if self._nodes.informer.synced.is_set() else None,
            growth=list(self._flavors.values.values()) if self._flavors.informer.synced.is_set() else None,
        )

    def _known_closures(self) -> list[NodeClosure] | None:
        if not all(watched.informer.synced.is_set() for watched in self._closures):
            return None
        facts = (fact for watched in self._closures for fact in watched.values.values())
        return [fact.closure for fact in facts if fact.closure is not None]

    def _amounts(self) -> NodeAmounts:
        """What the nodes have; nodes of few kinds are many."""
        most, together = NOTHING, NOTHING
        for (offered, withheld), count in Counter(self._nodes.values.values()).items():
            has = offered + withheld
            most, together = most.largest(has), together + has * count
        return NodeAmounts(most, together)

    async def find_queue(self, name: str) -> Queue | None:
        """The Queue at the API server. None if there is none, or none can have this name. Raises ApiError."""
        if not is_dns_name(name):
            return None
        try:
            raw = await self._client.get(QUEUES.path(name=name))
        except NotFound:
            return None
        return queue_fact(raw).queue

    async def list_queues(self) -> Mapping[str, Queue]:
        """Every Queue at the API server, by name. Raises ApiError."""
        queues = [queue_fact(bytes(item)).queue for item in await self._stored_queues()]
        return {queue.name: queue for queue in queues}

    async def list_queue_documents(self) -> Mapping[str, Document]:
        """Every Queue as it is stored at the API server, by name. Raises ApiError."""
        documents = [msgspec.json.decode(item) for item in await self._stored_queues()]
        return {document["metadata"]["name"]: document for document in documents}

    def node_shapes(self) -> Collection[NodeShape] | None:
        """The devices of nodes, each combination once. None if the nodes are not listed yet."""
        if not self._nodes.informer.synced.is_set():
            return None
        return node_shapes(each.offered for each in self._nodes.values.values())

    async def list_reservation_documents(self) -> Mapping[str, Document]:
        """Every Reservation as it is stored at the API server, by name. Raises ApiError."""
        items = msgspec.json.decode(await self._client.get(RESERVATIONS.path()), type=Page).items or []
        documents = [msgspec.json.decode(item) for item in items]
        return {document["metadata"]["name"]: document for document in documents}

    async def _stored_queues(self) -> list[msgspec.Raw]:
        return msgspec.json.decode(await self._client.get(QUEUES.path()), type=Page).items or []

    async def find_job_template(self, namespace: str, name: str) -> Document | None:
        """The spec of a JobTemplate at the API server. None if there is none. Raises ApiError."""
        if not is_dns_name(name):
            return None
        try:
            raw = await self._client.get(JOB_TEMPLATES.path(namespace, name))
        except NotFound:
            return None
        return dict(mapping_at(msgspec.json.decode(raw), "spec"))

    async def find_labels(self, namespace: str) -> Mapping[str, str]:
        """Labels of a Namespace at the API server. Empty if there is no such namespace. Raises ApiError."""
        if not is_dns_name(namespace):
            return {}
        raw = await self._client.get(NAMESPACES.path(), fieldSelector=f"metadata.name={namespace}")
        return {
            key: value
            for item in msgspec.json.decode(raw)["items"]
            for key, value in (item["metadata"].get("labels") or {}).items()
        }


class WebhookServer:
    """Serves the webhook. ``run`` it as a task of every replica."""

    def __init__(
        self,
        client: Client,
        *,
        callee: Callee,
        host: str | None,
        port: int,
        certificates: Path | None = None,
        schedulers: Collection[str] | None = None,
    ) -> None:
        """``certificates``: a folder with those that others make. If None, Muster makes them. ``schedulers``: names of
        the stock scheduler, None for the usual ones."""
        self._host = host
        self.watched = WatchedObjects(client, schedulers)
        self.keeper = serving_certificates(client, callee, certificates)
        #: Set while the webhook answers.
        self.open = asyncio.Event()
        #: Where it really listens, once open: asked for 0, a free port.
        self.port = port

    async def run(self) -> NoReturn:
        """Serve for ever. A failure of the API server only delays it. Raises OSError if the port is taken."""
        while True:
            try:
                await self.keeper.keep()
                break
            except (ApiError, CertificatesUnusable) as error:
                _log.warning("the webhook waits for its certificates: %s", error)
                await asyncio.sleep(_RETRY_AFTER)
        runner = web.AppRunner(
            app(self.watched),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=1.0,
            keepalive_timeout=300,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self.port, ssl_context=self.keeper.tls).start()
            self.port = runner.addresses[0][1]
            self.open.set()
            _log.info("webhook open", extra={"port": self.port})
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.watched.run(), name="webhook informers")
                tasks.create_task(self.keeper.run(), name="webhook certificates")
        finally:
            self.open.clear()
            connections = list(runner.server.connections) if runner.server is not None else []
            transports = [connection.transport for connection in connections]
            await runner.cleanup()
            for transport in transports:
                # A TLS connection would go on waiting for the API server's farewell.
                if transport is not None:
                    transport.abort()
            # Their sockets are closed in the loop's next passes; it may have no others.
            for _ in range(3):
                await asyncio.sleep(0)
        raise AssertionError("informers and certificates are kept for ever")

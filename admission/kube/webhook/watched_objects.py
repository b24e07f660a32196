"""What the webhook knows of the cluster's other objects: what it watches, and what it asks the API server."""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from admission.decode.admin_documents import (
    closure_fact,
    flavor_fact,
    namespace_fact,
    queue_fact,
    topology_fact,
)
from admission.decode.nodes import node_fact
from admission.facts.cluster import ClosureFact, NamespaceFact
from admission.kube.client.client import Client
from admission.kube.watch.informer import Informer
from admission.kube.watch.store import ObjectChange, WatchedKind
from admission.wire import Bare, Page, WireNode
from queues.api.api_resources import (
    FLAVORS,
    JOB_TEMPLATES,
    NAMESPACES,
    NODE_DRAINS,
    NODES,
    PRIORITY_CLASSES,
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
from queues.errors import InvalidDocument, NotFound
from queues.flavor_growth import FlavorGrowth
from queues.json_values import mapping_at
from queues.node_closures import ClosureKind, NodeClosure
from queues.quota.queue import Queue
from queues.resources import NOTHING, Resources
from queues.workload import FlavorName


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
        #: Counts changes of the values.
        self.version = 0
        kind: WatchedKind[Any, Any] = WatchedKind(
            name=resource.plural,
            resource=resource,
            struct=struct,
            translate=translate,
            may_be_absent=may_be_absent,
        )
        self.informer: Informer[Any, Any] = Informer(client, kind, self._changed)

    @property
    def known(self) -> dict[str, Any] | None:
        """The values, by name. None before the first LIST."""
        return self.values if self.informer.synced.is_set() else None

    def _changed(self, shifts: list[ObjectChange[Any]]) -> None:
        for shift in shifts:
            self.version += self.values.pop(shift.name, None) != shift.after
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


def _node_amounts(node: WireNode, _: msgspec.Raw) -> _NodeAmounts:
    fact = node_fact(node)
    return _NodeAmounts(fact.allocatable, fact.withheld)


class WatchedObjects:
    """What the webhook knows of the cluster: Queues, Topologies, Namespaces, Nodes, and what closes nodes."""

    def __init__(self, client: Client, schedulers: Collection[str] | None) -> None:
        """``schedulers``: names of the stock scheduler, None for the usual ones."""
        self._client = client
        self._schedulers = schedulers
        self._queues = _Watched(client, QUEUES, Bare, lambda _, raw: queue_fact(bytes(raw)).queue)
        self._levels = _Watched(client, TOPOLOGIES, Bare, lambda _, raw: topology_fact(bytes(raw)).levels)
        self._flavors = _Watched(client, FLAVORS, Bare, _growth)
        self._nodes = _Watched(client, NODES, WireNode, _node_amounts)
        self._classes = _Watched(client, PRIORITY_CLASSES, Bare, lambda found, raw: found.metadata.name)
        self._closures = [
            _Watched(client, resource, Bare, partial(_closure, kind), may_be_absent=True)
            for resource, kind in (
                (RESERVATIONS, ClosureKind.RESERVATION),
                (NODE_DRAINS, ClosureKind.DRAIN),
            )
        ]
        self._namespaces = _Watched(client, NAMESPACES, Bare, lambda found, raw: namespace_fact(found))
        #: What the nodes had at their version.
        self._known_amounts = (0, NodeAmounts(NOTHING, NOTHING))

    async def run(self) -> None:
        """Watch, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for watched in (
                self._queues,
                self._levels,
                self._flavors,
                self._namespaces,
                self._nodes,
                self._classes,
                *self._closures,
            ):
                informer = watched.informer
                tasks.create_task(informer.run(), name=f"webhook informer {informer.kind.name}")

    def known(self, namespace: str) -> Known:
        """What is known now. Before the first LIST nothing is: nothing is refused for what was not seen."""
        found: NamespaceFact | None = self._namespaces.values.get(namespace)
        levels, flavors, nodes = self._levels.known, self._flavors.known, self._nodes.known
        return Known(
            queues=self._queues.known,
            levels=None if levels is None else frozenset(chain.from_iterable(levels.values())),
            flavors=flavors,
            namespace_queue=None if found is None else found.queue,
            namespace_labels=None if found is None else found.labels,
            now=int(time.time()),
            closures=self._known_closures(),
            nodes=nodes,
            schedulers=self._schedulers,
            amounts=None if nodes is None else self._amounts,
            growth=None if flavors is None else list(flavors.values()),
            priority_classes=self._classes.known,
        )

    def _known_closures(self) -> list[NodeClosure] | None:
        found: list[NodeClosure] = []
        for watched in self._closures:
            if watched.known is None:
                return None
            found += (fact.closure for fact in watched.known.values() if fact.closure is not None)
        return found

    def _amounts(self) -> NodeAmounts:
        """What the nodes have; nodes of few kinds are many."""
        if self._known_amounts[0] == self._nodes.version:
            return self._known_amounts[1]
        most, together = NOTHING, NOTHING
        for (offered, withheld), count in Counter(self._nodes.values.values()).items():
            has = offered + withheld
            most, together = most.largest(has), together + has * count
        self._known_amounts = self._nodes.version, NodeAmounts(most, together)
        return self._known_amounts[1]

    async def find_queue(self, name: str) -> Queue | None:
        """The Queue at the API server: it may be too young for ``known``. None if there is none, or none can have this
        name. Raises ApiError."""
        raw = await self._found(QUEUES, name)
        return None if raw is None else queue_fact(raw).queue

    async def find_job_template(self, namespace: str, name: str) -> Document | None:
        """The spec of a JobTemplate at the API server. None if there is none. Raises ApiError."""
        raw = await self._found(JOB_TEMPLATES, name, namespace)
        return None if raw is None else dict(mapping_at(msgspec.json.decode(raw), "spec"))

    async def find_document(self, resource: ApiResource, namespace: str, name: str) -> Document | None:
        """An object at the API server. None if there is none, or if the kind is not served. Raises ApiError."""
        raw = await self._found(resource, name, namespace)
        return None if raw is None else dict(mapping_at(msgspec.json.decode(raw)))

    async def _found(self, resource: ApiResource, name: str, namespace: str | None = None) -> bytes | None:
        if not is_dns_name(name):
            return None
        with suppress(NotFound):
            return await self._client.get(resource.path(namespace, name))
        return None

    async def list_queues(self) -> Mapping[str, Queue]:
        """Every Queue at the API server, by name: one that ``known`` has may just have gone or changed. Raises
        ApiError."""
        queues = [queue_fact(bytes(item)).queue for item in await self._stored(QUEUES)]
        return {queue.name: queue for queue in queues}

    async def list_documents(self, resource: ApiResource) -> Mapping[str, Document]:
        """Every object of a kind as it is stored at the API server, by name. Raises ApiError."""
        documents = [msgspec.json.decode(item) for item in await self._stored(resource)]
        return {document["metadata"]["name"]: document for document in documents}

    def node_shapes(self) -> Collection[NodeShape] | None:
        """The devices of nodes, each combination once, in units of ``queues.resources``. None: not listed yet."""
        nodes = self._nodes.known
        return None if nodes is None else node_shapes(each.offered for each in nodes.values())

    async def _stored(self, resource: ApiResource) -> list[msgspec.Raw]:
        return msgspec.json.decode(await self._client.get(resource.path()), type=Page).items or []

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

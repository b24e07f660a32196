"""All that Muster watches, as one stream of changes in the order of arrival.

The controller starts it in its task group, waits for ``all_synced`` and then drains when ``changed`` is set.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any, Final, Protocol

import msgspec

from admission.decode.admin_documents import (
    broken_queue_fact,
    budget_fact,
    closure_fact,
    command_of,
    flavor_fact,
    hypernode_fact,
    namespace_fact,
    namespace_quota,
    pod_defaults_fact,
    priority_class_fact,
    queue_fact,
    topology_fact,
)
from admission.decode.admission_checks import (
    WireAdmissionCheck,
    WireCheckRequest,
    admission_check_fact,
    check_request_fact,
)
from admission.decode.devices.node_devices import node_devices_fact
from admission.decode.devices.resource_claims import (
    WireResourceClaim,
    WireResourceClaimTemplate,
    resource_claim_fact,
    resource_claim_template_fact,
)
from admission.decode.devices.resource_slices import (
    WireDeviceClass,
    device_class_fact,
    resource_slice_fact,
)
from admission.decode.fields import defect
from admission.decode.nodes import node_fact
from admission.decode.pods import RecentPods, minimal_pod_fact
from admission.decode.topology_requests import Tiers
from admission.decode.volumes import (
    WireCsiNode,
    WireStorageClass,
    WireVolume,
    WireVolumeClaim,
    csi_node_fact,
    storage_class_fact,
    volume_claim_fact,
    volume_fact,
)
from admission.decode.workload_facts import asks, unreadable_fact
from admission.facts.changes import Change, Fact, FactKind
from admission.facts.cluster import HyperNodeFact, NamespaceFact, PriorityClassFact, QueueFact, TopologyFact
from admission.facts.pods import PodFact
from admission.facts.workloads import Child, WorkloadFact
from admission.kube.client.client import Client
from admission.kube.watch.change_queue import ChangeQueue
from admission.kube.watch.informer import Informer, Timing
from admission.kube.watch.store import ObjectChange, WatchedKind, decoded, kind_of
from admission.reconcile.pod_manifest import with_successor
from admission.wire import (
    Bare,
    WireCommand,
    WireNode,
    WireNodeDevices,
    WirePod,
    WirePodDisruptionBudget,
    WirePriorityClass,
    WireResourceQuota,
    WireResourceSlice,
)
from admission.workloads.context import Context, ContextChange, in_context
from admission.workloads.kinds import Kinds, KindSupport, ObjectReader, controller_of, known_kinds, read_pod
from admission.world.hypernodes import tiers_of
from admission.world.volumes import KNOWN, UNWATCHED
from queues.api.api_resources import (
    ADMISSION_CHECKS,
    BUDGETS,
    CHECK_REQUESTS,
    CLAIM_TEMPLATES,
    COMMANDS,
    CSI_NODES,
    DEVICE_CLASSES,
    DEVICES,
    FLAVORS,
    HYPERNODES,
    LIMIT_RANGES,
    NAMESPACES,
    NODE_DRAINS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESERVATIONS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    TOPOLOGIES,
    VOLUME_CLAIMS,
    VOLUMES,
    WEBHOOK_CONFIGURATIONS,
    ApiResource,
)
from queues.kind_names import KindName
from queues.ledger_record import LedgerRecord
from queues.node_closures import ClosureKind
from queues.quota.queue import ROOT
from queues.reason_codes import ReasonCode
from queues.workload import Obstacle

_log = logging.getLogger(__name__)

AnyKind = WatchedKind[Any, Any]
_TIMING: Final = Timing()
#: Kinds with changes that wait by namespace.
_BY_NAMESPACE: Final = frozenset((FactKind.WORKLOAD, FactKind.POD))


@dataclass(frozen=True, slots=True)
class _Facts:
    """An informer with facts as its values."""

    fact_kind: FactKind
    kind: AnyKind
    workload_kind: KindName | None = None


def _document(fact: Callable[[bytes], Any]) -> Callable[[Any, msgspec.Raw], Any]:
    """What ``fact`` makes of an object as it is sent."""
    return lambda bare, raw: fact(bytes(raw))


def _optional(fact_kind: FactKind, resource: ApiResource, struct: Any, translate: Any) -> _Facts:
    """A kind that the cluster may not serve, or not in this version: its definition may be older than Muster, and
    Kubernetes has dynamic resource allocation in this version since 1.34."""
    return _Facts(fact_kind, kind_of(resource, struct, translate, may_be_absent=True))


def _workloads(support: KindSupport, reader: ObjectReader) -> _Facts:
    def unreadable(bare: Bare, raw: msgspec.Raw, error: Exception) -> Fact:
        return unreadable_fact(support.kind, bare, error)

    kind = WatchedKind(
        name=reader.informer,
        resource=support.resource,
        struct=reader.wire,
        translate=reader.fact,
        unreadable=unreadable,
        may_be_absent=reader.may_be_absent,
    )
    return _Facts(FactKind.WORKLOAD, kind, support.kind)


def _unreadable_pod(bare: Bare, raw: msgspec.Raw, error: Exception) -> Fact:
    return minimal_pod_fact(bare.metadata, raw, controller_of(bare.metadata), error)


def _unreadable_queue(bare: Bare, raw: msgspec.Raw, error: Exception) -> Fact:
    return broken_queue_fact(bare, error)


def _pods() -> AnyKind:
    recent = RecentPods(read_pod)
    return kind_of(
        PODS,
        WirePod,
        lambda pod, raw: with_successor(recent.fact(pod), pod.status, bytes(raw)),
        unreadable=_unreadable_pod,
    )


def _watched(kinds: Kinds) -> tuple[_Facts, ...]:
    """All that is watched, in the order in which changes of the same moment are read."""
    return (
        _Facts(FactKind.NAMESPACE, kind_of(NAMESPACES, Bare, decoded(namespace_fact))),
        # What the devices of others follow from comes before them, so that those are reported once.
        _Facts(FactKind.FLAVOR, kind_of(FLAVORS, Bare, _document(flavor_fact))),
        _optional(FactKind.DEVICE_CLASS, DEVICE_CLASSES, WireDeviceClass, decoded(device_class_fact)),
        _optional(FactKind.RESOURCE_SLICE, RESOURCE_SLICES, WireResourceSlice, decoded(resource_slice_fact)),
        _optional(
            *(FactKind.CLAIM_TEMPLATE, CLAIM_TEMPLATES, WireResourceClaimTemplate),
            decoded(resource_claim_template_fact),
        ),
        _optional(FactKind.RESOURCE_CLAIM, RESOURCE_CLAIMS, WireResourceClaim, decoded(resource_claim_fact)),
        _optional(FactKind.NODE_DEVICES, DEVICES, WireNodeDevices, decoded(node_devices_fact)),
        _Facts(FactKind.NODE, kind_of(NODES, WireNode, decoded(node_fact))),
        _Facts(FactKind.QUEUE, kind_of(QUEUES, Bare, _document(queue_fact), unreadable=_unreadable_queue)),
        _Facts(FactKind.TOPOLOGY, kind_of(TOPOLOGIES, Bare, _document(topology_fact))),
        *(
            _optional(fact_kind, resource, Bare, _document(partial(closure_fact, kind=kind)))
            for fact_kind, resource, kind in (
                (FactKind.RESERVATION, RESERVATIONS, ClosureKind.RESERVATION),
                (FactKind.NODE_DRAIN, NODE_DRAINS, ClosureKind.DRAIN),
            )
        ),
        _optional(
            *(FactKind.ADMISSION_CHECK, ADMISSION_CHECKS, WireAdmissionCheck), decoded(admission_check_fact)
        ),
        _optional(FactKind.CHECK_REQUEST, CHECK_REQUESTS, WireCheckRequest, decoded(check_request_fact)),
        _Facts(FactKind.HYPERNODE, kind_of(HYPERNODES, Bare, _document(hypernode_fact))),
        *(_workloads(support, support.reader) for support in kinds.supports if support.reader is not None),
        _Facts(FactKind.BUDGET, kind_of(BUDGETS, WirePodDisruptionBudget, decoded(budget_fact))),
        _optional(FactKind.COMMAND, COMMANDS, WireCommand, decoded(command_of)),
        _Facts(
            FactKind.RESOURCE_QUOTA, kind_of(RESOURCE_QUOTAS, WireResourceQuota, decoded(namespace_quota))
        ),
        *(
            _Facts(
                FactKind.POD_DEFAULTS,
                kind_of(resource, Bare, lambda bare, raw: pod_defaults_fact(bare, bytes(raw))),
            )
            for resource in (LIMIT_RANGES, RUNTIME_CLASSES, *WEBHOOK_CONFIGURATIONS)
        ),
        _Facts(FactKind.POD, _pods()),
    )


def kinds_of_workloads() -> tuple[AnyKind, ...]:
    """Kinds whose objects are workloads or pods."""
    return tuple(each.kind for each in _watched(known_kinds()) if each.fact_kind in _BY_NAMESPACE)


def _in_context(fact: Any, context: Context) -> Any:
    """As ``in_context``. An object for which that fails waits with the defect as its reason; the others go on."""
    try:
        return in_context(fact, context)
    except Exception as error:
        _log.exception(
            "an object cannot be put in context", extra={"object": f"{fact.namespace}/{fact.name}"}
        )
        return replace(fact, obstacle=fact.obstacle or Obstacle(ReasonCode.DEFECT, defect(error)))


def _is_about(change: ContextChange, fact: WorkloadFact | Child) -> bool:
    return isinstance(fact, WorkloadFact) and change.is_about(fact)


_CLASSES: Final = kind_of(PRIORITY_CLASSES, WirePriorityClass, decoded(priority_class_fact))

#: Facts that others are read with, besides priority classes.
_IN_CONTEXT: Final = (FactKind.NAMESPACE, FactKind.TOPOLOGY, FactKind.HYPERNODE)

#: Facts that are read again in one step when their context changes: about 5 ms.
_SLICE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerState:
    """How one informer is doing."""

    #: Seconds since the API server was last heard.
    silent_seconds: float
    #: Seconds since its objects were known to be current; 0: they are.
    behind_seconds: float = 0.0
    #: Lists since the start, the first one included.
    lists: int
    objects: int
    #: Objects that cannot be read as they are now.
    unreadable: int = 0
    #: Why nothing is heard now. None if all is well.
    problem: str | None = None


def _namespace_of(fact: Fact | None) -> str:
    """The namespace of a workload or pod; "": the fact is of another kind."""
    return fact.namespace if isinstance(fact, WorkloadFact | PodFact) else ""


class ObjectListener(Protocol):
    """Gets objects of one kind in addition to the world, which keeps less of them."""

    def seen(self, found: Any, raw: msgspec.Raw) -> None:
        """An object is there or has changed, as decoded and as sent."""
        ...

    def gone(self, uid: str) -> None:
        """An object is gone."""
        ...


def _heard(kind: AnyKind, listener: ObjectListener) -> AnyKind:
    """The kind, with a listener. What that cannot handle must not keep the world from the object."""

    def translate(found: Any, raw: msgspec.Raw) -> Any:
        try:
            listener.seen(found, raw)
        except Exception:
            _log.exception("a listener failed", extra={"kind": kind.name, "object": found.metadata.name})
        return kind.translate(found, raw)

    return replace(kind, translate=translate)


class Informers:
    """The informers of every kind, and their changes in one list."""

    def __init__(
        self,
        client: Client,
        timing: Timing = _TIMING,
        *,
        listeners: Mapping[str, ObjectListener] = {},
    ) -> None:
        """``listeners``: by the name of the kind's informer."""
        #: Set while there are changes to drain.
        self.changed = asyncio.Event()
        #: Set while a turn should answer one of the changes at once.
        self.pressing = asyncio.Event()
        self.context = Context()
        self.changes = ChangeQueue(monotonic)
        #: Facts that are still to be read in the context as it is now.
        self._reading: list[Iterator[Change | None]] = []
        self._is_behind = asyncio.Event()
        #: Changes are collected for ``drain``.
        self._collecting = True
        #: The informer of each kind.
        self.by_name: dict[str, Informer[Any, Any]] = {}
        self._facts: list[tuple[_Facts, Informer[Any, Any]]] = []
        self.by_name[_CLASSES.name] = Informer(client, _CLASSES, lambda _: self._recontext(), timing)
        self._listeners = listeners
        for facts in _watched(known_kinds()):
            listener = listeners.get(facts.kind.name)
            kind = facts.kind if listener is None else _heard(facts.kind, listener)
            informer: Informer[Any, Any] = Informer(client, kind, partial(self._deliver, facts), timing)
            self.by_name[facts.kind.name] = informer
            self._facts.append((facts, informer))

    def start(self, tasks: asyncio.TaskGroup, *, collect: bool = True) -> None:
        """Run every informer as a task of the group.

        ``collect``: False: no changes are collected before ``everything`` is called. All of a large cluster would come
        twice.
        """
        self._collecting = collect
        for name, informer in self.by_name.items():
            tasks.create_task(informer.run(), name=f"informer {name}")
        tasks.create_task(self._keep_in_context(), name="facts in their context")

    async def all_synced(self) -> None:
        """Wait until the first LIST of every kind is reconciled."""
        for informer in self.by_name.values():
            await informer.synced.wait()

    def hand_in(self, change: Change) -> None:
        """Take a change that no informer saw into the stream: an intent of a writer, or the answer of a dry run."""
        self.changes.put(change, _namespace_of(change.fact))
        self.changed.set()
        if asks(None, change.fact):
            self.pressing.set()

    def drain(self) -> list[Change]:
        """All changes that wait."""
        self.changed.clear()
        self.pressing.clear()
        return self.changes.take_all()

    def take(self) -> list[Change]:
        """The changes for the next turn; of one object in the order of arrival."""
        taken = self.changes.take()
        self.changed.clear()
        self.pressing.clear()
        if (seconds := self.changes.wait()) is not None:
            self._wake_in(seconds)
        return taken

    def _wake_in(self, seconds: float) -> None:
        """Ask for a turn for what waits."""
        if seconds > 0:
            asyncio.get_running_loop().call_later(seconds, self._wake_in, 0.0)
        elif self.changes:
            self.changed.set()
            self.pressing.set()

    def everything(self) -> Iterator[Change]:
        """What is known now, as additions: what a new world starts from, after a ``drain``.

        What changes while they are read comes by the next ``drain``, and may be among the additions as well.
        """
        self._collecting = True
        self._reading.clear()
        self.context = self._read_context()
        known = [(facts, informer.collection.kept.values()) for facts, informer in self._facts]
        return (
            self._change(facts, kept.name, kept.uid, _in_context(kept.value, self.context))
            for facts, objects in known
            for kept in objects
        )

    def workloads(self) -> Iterator[WorkloadFact]:
        """Jobs and PodGroups that are known now, not in their context."""
        known = [each.collection.kept.values() for facts, each in self._facts if facts.workload_kind]
        values = (kept.value for objects in known for kept in objects)
        return (value for value in values if isinstance(value, WorkloadFact))

    def hearings(self) -> Mapping[str, InformerState]:
        """How each informer is doing, by name: for metrics and readiness."""
        now = asyncio.get_running_loop().time()
        return {
            name: InformerState(
                silent_seconds=now - informer.heard if informer.heard else 0.0,
                behind_seconds=informer.behind(now),
                lists=informer.lists,
                objects=len(informer.collection.kept),
                unreadable=informer.collection.unreadable,
                problem=informer.problem,
            )
            for name, informer in self.by_name.items()
        }

    def _deliver(self, facts: _Facts, shifts: list[ObjectChange[Any]]) -> None:
        if (listener := self._listeners.get(facts.kind.name)) is not None:
            for shift in shifts:
                if shift.after is None:
                    listener.gone(shift.uid)
        if not self._collecting:
            return
        if facts.fact_kind in _IN_CONTEXT:
            self._recontext()
        for shift in shifts:
            asking = asks(shift.before, shift.after)
            fact = None if shift.after is None else _in_context(shift.after, self.context)
            change = self._change(facts, shift.name, shift.uid, fact)
            namespace = shift.namespace if facts.fact_kind in _BY_NAMESPACE else ""
            if self.changes.put(change, namespace, is_asking=asking):
                self.changed.set()
                if asking:
                    self.pressing.set()

    def _recontext(self) -> None:
        """Namespaces, priority classes or topologies changed: facts that follow from them are read again, and shown if
        they are others. The first of them at once, the rest in slices (``_keep_in_context``)."""
        if not self._collecting:
            return
        before, self.context = self.context, self._read_context()
        change = ContextChange.between(before, self.context)
        if change != ContextChange():
            self._reading.append(self._read_again(before, change))
            self._read_slice()

    def _read_again(self, before: Context, change: ContextChange) -> Iterator[Change | None]:
        """For each fact that is looked at what changes by a change of contexts. None if nothing does."""
        for facts, informer in self._facts:
            if facts.fact_kind not in (FactKind.WORKLOAD, FactKind.POD):
                continue
            of_workloads = facts.fact_kind is FactKind.WORKLOAD
            objects = informer.collection.kept
            everywhere = of_workloads and (change.every_workload or change.classes)
            for namespace in objects.namespaces() if everywhere else change.namespaces:
                for kept in objects.of_namespace(namespace):
                    is_there = objects.get((namespace, kept.name)) is kept
                    if not is_there or (of_workloads and not _is_about(change, kept.value)):
                        yield None
                        continue
                    fact = _in_context(kept.value, self.context)
                    differs = fact != _in_context(kept.value, before)
                    yield self._change(facts, kept.name, kept.uid, fact) if differs else None

    def _read_slice(self) -> None:
        """Read some facts again."""
        left = _SLICE
        while self._reading and left > 0:
            some = list(islice(self._reading[0], left))
            for change in some:
                if change is not None:
                    self.changes.put(change, _namespace_of(change.fact))
            if len(some) < left:
                self._reading.pop(0)
            left -= len(some)
        if self.changes:
            self.changed.set()
        if self._reading:
            self._is_behind.set()

    async def _keep_in_context(self) -> None:
        """Read again what ``_recontext`` has left, without a long step."""
        while True:
            await self._is_behind.wait()
            self._is_behind.clear()
            self._read_slice()
            await asyncio.sleep(0)

    def classes(self) -> dict[str, PriorityClassFact]:
        """Priority classes by name."""
        return self._values("priorityclasses")

    def ledger_record(self) -> LedgerRecord | None:
        """The ledger that leads the cluster, as the watch shows queue root. None if it says nothing."""
        root = self.by_name["queues"].collection.kept.get(("", ROOT))
        fact: QueueFact | None = None if root is None else root.value
        return None if fact is None else fact.ledger

    def _values(self, kind: str) -> dict[str, Any]:
        """What is known of a kind of cluster-scoped object, by name."""
        return {kept.name: kept.value for kept in self.by_name[kind].collection.kept.values()}

    def _read_context(self) -> Context:
        namespaces: dict[str, NamespaceFact] = self._values("namespaces")
        classes = self.classes()
        # The API server takes the lowest where several claim to be the default.
        defaults = sorted((each for each in classes.values() if each.is_default), key=lambda each: each.value)
        default = defaults[0] if defaults else PriorityClassFact(value=0)
        topologies: dict[str, TopologyFact] = self._values("topologies")
        first = min(topologies, default=None)
        hypernodes: list[HyperNodeFact] = list(self._values("hypernodes").values())
        return Context(
            priorities={name: found.value for name, found in classes.items()},
            never_preempting=frozenset(name for name, found in classes.items() if not found.preempts),
            default_priority=default.value,
            default_preempts=default.preempts,
            queues={name: found.queue for name, found in namespaces.items() if found.queue is not None},
            adopt_until={name: found.adopt_until for name, found in namespaces.items() if found.adopt_until},
            tiers=Tiers(
                topologies[first].levels if first is not None else (),
                tiers_of(hypernodes),
                tuple(sorted({(each.tier_name, each.tier) for each in hypernodes if each.tier_name})),
            ),
        )

    @staticmethod
    def _change(facts: _Facts, name: str, uid: str, fact: Fact | None) -> Change:
        key = uid if facts.kind.resource.namespaced else name
        return Change(facts.fact_kind, key, fact, facts.workload_kind)


_OF_VOLUMES: Final = (
    (FactKind.STORAGE_CLASS, kind_of(STORAGE_CLASSES, WireStorageClass, decoded(storage_class_fact))),
    (FactKind.CSI_NODE, kind_of(CSI_NODES, WireCsiNode, decoded(csi_node_fact))),
    (FactKind.VOLUME, kind_of(VOLUMES, WireVolume, decoded(volume_fact))),
    (FactKind.VOLUME_CLAIM, kind_of(VOLUME_CLAIMS, WireVolumeClaim, decoded(volume_claim_fact))),
)


class VolumeInformers:
    """Claims, volumes, storage classes and CSINodes, watched only while a workload with volumes waits: there may be far
    more of these objects than workloads, and most clusters' workloads have none."""

    def __init__(self, client: Client, hand_in: Callable[[Change], None], timing: Timing = _TIMING) -> None:
        """``hand_in``: takes what they see into the stream of changes."""
        self._client = client
        self._hand_in = hand_in
        self._timing = timing
        self._tasks: list[asyncio.Task[Any]] = []

    def keep(self, tasks: asyncio.TaskGroup, *, needed: bool) -> None:
        """Start or stop them, as they are needed now."""
        if needed and not self._tasks:
            informers = [self._informer(fact_kind, kind) for fact_kind, kind in _OF_VOLUMES]
            for each in informers:
                name = f"informer {each.kind.name}"
                self._tasks.append(tasks.create_task(each.run(), name=name))
            self._tasks.append(tasks.create_task(self._tell_synced(informers), name="volumes are known"))
        elif self._tasks and not needed:
            for task in self._tasks:
                task.cancel()
            self._tasks = []
            self._hand_in(UNWATCHED)

    def _informer(self, fact_kind: FactKind, kind: WatchedKind[Any, Any]) -> Informer[Any, Any]:
        def deliver(shifts: list[ObjectChange[Any]]) -> None:
            for shift in shifts:
                key = shift.uid if kind.resource.namespaced else shift.name
                self._hand_in(Change(fact_kind, key, shift.after))

        return Informer(self._client, kind, deliver, self._timing)

    async def _tell_synced(self, informers: list[Informer[Any, Any]]) -> None:
        for each in informers:
            await each.synced.wait()
        self._hand_in(KNOWN)

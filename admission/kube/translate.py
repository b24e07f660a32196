"""Objects → facts: what admission needs to know of nodes, pods and administrators' documents. Pure.

Nothing here raises for what somebody wrote: a document that cannot be used becomes a fact that says why. What
depends on other objects (the value of a priority class, the default queue of a namespace) is added by
``in_context``, so that it can be added again when those change.
"""

import calendar
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from sys import intern
from typing import Any, Final, TypeVar

import msgspec

from admission.facts import (
    Fact,
    FlavorFact,
    NodeFact,
    PodFact,
    PodPhase,
    QueueFact,
    TopologyFact,
    WorkloadFact,
)
from admission.kube.conduct import conduct_of
from admission.kube.objects import Bare, Condition, Metadata, Node, Pod, PodStatus
from admission.kube.placing import Tiers, in_tiers, placing_or_nothing
from queues.errors import InvalidDocument, InvalidQuantity
from queues.quota import ROOT, Queue
from queues.resources import PODS, Resources, capacity
from queues.spec import names
from queues.spec.flavor import ResourceFlavor
from queues.spec.model import Model
from queues.spec.pod import node_filter_of, requests_of, topology_of
from queues.spec.queue import Queue as QueueDocument
from queues.spec.shares import with_devices
from queues.spec.topology import Topology
from queues.workload import (
    AdmissionId,
    NodeFilter,
    NodeName,
    QueueName,
    Requirement,
    Taint,
    WorkloadKey,
    WorkloadKind,
)

T = TypeVar("T")
_M = TypeVar("_M", bound=Model)

INVALID_SPEC: Final = "InvalidSpec"
_LONGEST_NUMBER: Final = 18
_ONE_POD: Final = Resources({PODS: 1})
_VALIDATION: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What other objects say about a fact."""

    #: Value of each priority class.
    priorities: Mapping[str, int] = field(default_factory=dict)
    #: Value of the class that is the cluster's default.
    default_priority: int = 0
    #: Default queue by namespace.
    queues: Mapping[str, QueueName] = field(default_factory=dict)
    #: Node label keys of the topology, outermost first, the host last.
    levels: tuple[str, ...] = ()
    #: Tiers of the HyperNodes, ascending, and those that have a name.
    hypernodes: tuple[int, ...] = ()
    tier_names: tuple[tuple[str, int], ...] = ()


def node_fact(node: Node) -> NodeFact:
    """A node; without a Ready condition that is True it is not ready."""
    return NodeFact(
        name=NodeName(node.metadata.name),
        allocatable=one(
            with_devices(_allocatable(node.status.allocatable or {}), node.metadata.labels or {})
        ),
        # Thousands of nodes repeat the same few hundred texts.
        labels={intern(key): intern(value) for key, value in (node.metadata.labels or {}).items()},
        taints=tuple(
            one(Taint(key=taint.key, value=taint.value or "", effect=taint.effect))
            for taint in node.spec.taints or ()
        ),
        unschedulable=bool(node.spec.unschedulable),
        ready=_is_true(node.status.conditions, "Ready"),
    )


#: Labels in which pods of one template differ.
_OF_ONE_POD = frozenset(
    (
        names.COMPLETION_INDEX,
        names.TASK_INDEX,
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
    )
)


def pod_fact(pod: Pod) -> PodFact:
    """A pod, ours or other people's."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    annotations, labels = meta.annotations or {}, meta.labels or {}
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    gated = names.GATE in gates
    admission = number(annotations.get(names.ADMISSION_ID))
    queue = (
        labels.get(names.QUEUE_LABEL)
        or annotations.get(names.QUEUE_ANNOTATION)
        or labels.get(names.QUEUE_ANNOTATION)
        or annotations.get(names.VOLCANO_QUEUE)
        or labels.get(names.VOLCANO_QUEUE)
    )
    group = annotations.get(names.GROUP_ANNOTATION) or annotations.get(names.GROUP_ANNOTATION_VOLCANO)
    owner = _controlling_job(meta)
    if owner is None and group is None and (queue or gated):
        owner = WorkloadKey(WorkloadKind.POD, meta.uid)
    nodes = node_filter_of(spec)
    required, preferred = topology_of(annotations)
    phase = _phase(status.phase)
    return PodFact(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        phase=phase,
        ready=_is_true(status.conditions, "Ready"),
        node=NodeName(spec.node_name) if spec.node_name else None,
        gated=gated,
        held_by_others=len(gates) > gated,
        deleting=meta.deletion_timestamp is not None,
        forced=meta.deletion_timestamp is not None and not meta.deletion_grace_period_seconds,
        ended_first=_ended_first(meta, status),
        kept=names.FINALIZER in (meta.finalizers or ()),
        takes=one(requests_or_nothing(spec)),
        nodes=one(without_pin(nodes) if admission is not None else nodes),
        required_topology=required,
        preferred_topology=preferred,
        priority=spec.priority or 0,
        created=seconds(meta.creation_timestamp),
        queue=QueueName(queue) if queue else None,
        owner=owner,
        controlled=any(reference.controller for reference in meta.owner_references or ()),
        group=group,
        task=_of_job(names.TASK_SPEC, annotations, labels) or "",
        index=number(
            _of_job(names.COMPLETION_INDEX, annotations, labels)
            or _of_job(names.TASK_INDEX, annotations, labels)
        ),
        admission=None if admission is None else AdmissionId(admission),
        seat=_seat(annotations.get(names.SEAT)),
        recreated_from=annotations.get(names.RECREATED_FROM),
        version=number(_of_job(names.JOB_VERSION, annotations, labels)) or 0,
        refused=_refused(status.conditions),
        exit_code=_exit_code(status) if phase is PodPhase.FAILED else None,
        restarts=sum(
            container.restart_count
            for container in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        ),
        conduct=conduct_of(annotations, labels, spec.active_deadline_seconds),
        placing=one(placing_or_nothing(spec, annotations)),
        labels=one(tuple(sorted((key, value) for key, value in labels.items() if key not in _OF_ONE_POD))),
    )


def queue_fact(raw: bytes) -> QueueFact:
    """A Queue. One that cannot be read is ``broken`` under its own name, with the reason."""
    bare = msgspec.json.decode(raw, type=Bare)
    meta = bare.metadata
    document: dict[str, Any] = msgspec.json.decode(raw)
    try:
        queue = QueueDocument.read(document).to_domain()
    except InvalidDocument as error:
        name = QueueName(meta.name)
        queue = Queue(
            name=name,
            parent=None if name == ROOT else ROOT,
            broken=str(error),
            generation=meta.generation,
        )
    return QueueFact(
        queue=queue,
        uid=meta.uid,
        changed_by=(meta.annotations or {}).get(names.CHANGED_BY, ""),
        document={"spec": document.get("spec") or {}},
    )


def flavor_fact(raw: bytes) -> FlavorFact | None:
    """A ResourceFlavor; None when it cannot be read."""
    flavor = _read(ResourceFlavor, raw)
    if flavor is None:
        return None
    return FlavorFact(name=flavor.metadata.name, node_labels=flavor.spec.node_labels)


def topology_fact(raw: bytes) -> TopologyFact | None:
    """A Topology; None when it cannot be read."""
    topology = _read(Topology, raw)
    if topology is None:
        return None
    return TopologyFact(name=topology.metadata.name, levels=topology.level_keys())


def in_context(fact: Fact, context: Context) -> Fact:
    """The fact with what other objects say about it; the same object when they say nothing."""
    if isinstance(fact, PodFact):
        if not fact.gated or fact.queue is not None:
            return fact
        default = context.queues.get(fact.namespace)
        return fact if default is None else replace(fact, queue=default)
    if not isinstance(fact, WorkloadFact):
        return fact
    kind = fact.key.kind
    queue = fact.queue or context.queues.get(fact.namespace)
    if queue is None and kind is not WorkloadKind.JOB:
        queue = QueueName(names.DEFAULT_QUEUE)
    priority, obstacle = _priority(fact, context)
    fact = in_tiers(fact, Tiers(context.levels, context.hypernodes, context.tier_names))
    if (queue, priority, obstacle) == (fact.queue, fact.priority, fact.obstacle):
        return fact
    return replace(fact, queue=queue, priority=priority, obstacle=obstacle)


def explained(error: msgspec.DecodeError) -> str:
    """A decoder's complaint as field, found, expected."""
    match = _VALIDATION.fullmatch(str(error))
    what, path = (match["what"], match["path"]) if match else (str(error), None)
    found = re.fullmatch(r"Expected `(.*)`, got `(.*)`", what)
    if found:
        return f"{path or 'document'}: found {found[2]}, expected {found[1]}"
    return f"{path or 'document'}: {what}"


def requests_or_nothing(spec: Any) -> Resources:
    """Requests of a pod that the API server has accepted; only ``pods: 1`` if they cannot be read."""
    try:
        return requests_of(spec)
    except InvalidQuantity:
        return _ONE_POD


def without_pin(nodes: NodeFilter) -> NodeFilter:
    """The filter as it was before Muster tied it to nodes (admission.pinning crosses terms with nodes)."""
    terms: dict[tuple[Requirement, ...], None] = {}
    for term in nodes.affinity:
        terms[tuple(requirement for requirement in term if not _is_pin(requirement))] = None
    if () in terms:
        return replace(nodes, affinity=())  # a term that asked for nothing but the node
    return replace(nodes, affinity=tuple(terms))


def _is_pin(requirement: Requirement) -> bool:
    return requirement.field and requirement.operator == "In" and len(requirement.values) == 1


@lru_cache(maxsize=65536)
def _first(value: Any) -> Any:
    return value


def one(value: T) -> T:
    """The value, shared with whoever had an equal one before."""
    shared: T = _first(value)
    return shared


@lru_cache(maxsize=8192)
def seconds(timestamp: str | None) -> int:
    """Seconds since the epoch of an RFC 3339 timestamp in UTC, as the API server writes it; 0 if absent."""
    if not timestamp:
        return 0
    try:
        return calendar.timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0


def condition(conditions: tuple[Condition, ...] | None, kind: str) -> Condition | None:
    """The condition of that type."""
    for found in conditions or ():
        if found.type == kind:
            return found
    return None


def _is_true(conditions: tuple[Condition, ...] | None, kind: str) -> bool:
    found = condition(conditions, kind)
    return found is not None and found.status == "True"


def _allocatable(quantities: Mapping[str, Any]) -> Resources:
    amounts = {}
    for name, text in quantities.items():
        try:
            amounts[name] = capacity(name, text)
        except InvalidQuantity:
            continue  # a resource that cannot be read is one that the node does not offer
    return Resources(amounts)


def _phase(phase: str) -> PodPhase:
    try:
        return PodPhase(phase)
    except ValueError:
        # "Unknown" is set when a node is lost: the pod may well be running. "" is a pod just created.
        return PodPhase.RUNNING if phase else PodPhase.PENDING


def _controlling_job(meta: Metadata) -> WorkloadKey | None:
    for reference in meta.owner_references or ():
        if reference.controller and reference.kind == "Job":
            group = reference.api_version.partition("/")[0]
            if group == "batch":
                return WorkloadKey(WorkloadKind.JOB, reference.uid)
            if group == "batch.volcano.sh":
                return WorkloadKey(WorkloadKind.VOLCANO_JOB, reference.uid)
    return None


def _of_job(name: str, annotations: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    return annotations.get(name) or labels.get(name)


def number(text: str | None) -> int | None:
    """A number that users may have written; None: it is none, or too long for a bigint."""
    return int(text) if text and text.isdecimal() and len(text) <= _LONGEST_NUMBER else None


def _seat(text: str | None) -> tuple[str, int] | None:
    name, _, ordinal = (text or "").rpartition("/")
    index = number(ordinal)
    return None if index is None else (name, index)


def _refused(conditions: tuple[Condition, ...] | None) -> tuple[int, str] | None:
    found = condition(conditions, "PodScheduled")
    if found is None or found.status != "False" or found.reason != "Unschedulable":
        return None
    return seconds(found.last_transition_time), found.message or ""


def _ended_first(meta: Metadata, status: PodStatus) -> bool | None:
    """Whether a pod had ended when its deletion was asked for; None: it cannot tell any more.

    A process that ends with code 0 because it is told to stop has not succeeded. Pods that have ended are
    deleted without grace; others lose theirs, and the time at which the deletion was asked for, once they end.
    """
    if meta.deletion_timestamp is None:
        return True
    if _phase(status.phase) not in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        return False
    grace = meta.deletion_grace_period_seconds
    if not grace:
        return None
    ends = [
        container.state.terminated.finished_at
        for container in status.container_statuses or ()
        if container.state is not None and container.state.terminated is not None
    ]
    if not ends or len(ends) < len(status.container_statuses or ()):
        return False
    return max(map(seconds, ends)) < seconds(meta.deletion_timestamp) - grace


def _exit_code(status: PodStatus) -> int | None:
    codes = [
        container.state.terminated.exit_code
        for container in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        if container.state is not None and container.state.terminated is not None
    ]
    return next((code for code in codes if code), codes[0] if codes else None)


def _read(model: type[_M], raw: bytes) -> _M | None:
    try:
        return model.read(msgspec.json.decode(raw))
    except InvalidDocument:
        return None


def _priority(fact: WorkloadFact, context: Context) -> tuple[int, tuple[str, str] | None]:
    if not fact.priority_class:
        return context.default_priority, fact.obstacle
    value = context.priorities.get(fact.priority_class)
    if value is not None:
        return value, fact.obstacle
    message = f"priority class {fact.priority_class} does not exist; create it or name another"
    return context.default_priority, fact.obstacle or ("UnknownPriorityClass", message)

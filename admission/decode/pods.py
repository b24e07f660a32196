"""Pods → facts: what admission needs to know of a pod. Pure.

Nothing here raises for what a user wrote. What depends on other objects is added by ``admission.workloads.context``.
Whatever a pod says, its use of its node is counted: a fact of some kind is made of each.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from admission.decode.affinity import affinity_of
from admission.decode.devices.resource_claims import claims_of
from admission.decode.fields import condition, defect, explained, one, other_gates, seconds
from admission.decode.ignored_values import ignored_in_template
from admission.decode.interruption import conduct_of, image_of
from admission.decode.pod_rules import PodOwner, template_labels, with_rules
from admission.decode.topology_requests import pod_shape_of
from admission.decode.volumes import volumes_of
from admission.facts.pods import PodController, PodFact, PodPhase, PodShape
from admission.wire import WireCondition, WireContainerStatus, WireMetadata, WirePod, WirePodStatus
from queues import kind_names
from queues.api import names
from queues.api.json_patch import escaped
from queues.api.reading.pod_requests import requests_of
from queues.api.reading.user_values import (
    LONGEST_MESSAGE,
    LONGEST_NAME,
    MOST_PODS,
    UserValues,
    index,
    is_dns_name,
    number,
    shortened,
)
from queues.api.types.pod import WireAffinity, WireContainer, WirePodSpec
from queues.errors import InvalidQuantity
from queues.reason_codes import ReasonCode
from queues.resources import PODS, Resources
from queues.workload import AdmissionId, NodeName, WorkloadKey

#: Characters of the name of a pod set that Muster has written on a pod: a task, a digest and the keys of a subgroup.
_LONGEST_POD_SET: Final = 2000

#: Label of the pods of a Deployment's ReplicaSet: the end of its name.
_TEMPLATE_HASH: Final = "pod-template-hash"
#: Words of the scheduler about a pod that it has not looked at nodes for: the claim of its own volume is being made.
_NOT_JUDGED: Final = "waiting for ephemeral volume controller"

#: JSON pointers of the parts of an affinity: none, one that says nothing of nodes, one that does.
_AFFINITIES = (
    frozenset[str](),
    frozenset(("/spec/affinity",)),
    frozenset(("/spec/affinity", "/spec/affinity/nodeAffinity")),
)

#: JSON pointers of the marks for cluster autoscalers.
_MARKS = {key: f"/metadata/annotations/{escaped(key)}" for key in names.KEPT_FROM_AUTOSCALERS}


def pod_fact(pod: WirePod, controller: PodController | None) -> PodFact:
    """A pod, of a workload or not. ``controller``: the workload that it names as its controller; None if none."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    annotations, labels = meta.annotations or {}, meta.labels or {}
    known, values = _of_metadata(meta, controller), UserValues()
    gated = any(gate.name == names.GATE for gate in spec.scheduling_gates or ())
    queue = values.queue("queue", _queue_named(annotations, labels))
    waits = bool(queue or gated)
    group, group_minimum = _group(annotations, labels, values, waits=waits)
    if known["owner"] is None and group is None and waits:
        known["owner"] = WorkloadKey(kind_names.POD, meta.uid)
    pinned = known["admission"] is not None
    affinity = affinity_of(spec.affinity, values, "spec", namespace=meta.namespace, pinned=pinned)
    shape = pod_shape_of(spec, annotations, values, affinity=affinity, pinned=pinned, status=status)
    shape = with_rules(shape, spec, affinity, values, owner=PodOwner(meta.namespace, labels))
    task = controller.pod_set if controller is not None else ""
    conduct = (spec.active_deadline_seconds, one(image_of(spec)), ignored_in_template(annotations, ""))
    return PodFact(
        **known,
        **_progress_of(pod),
        gated=gated,
        other_gates=other_gates(spec.scheduling_gates),
        ends_by=seconds(meta.deletion_timestamp),
        grace=0 if meta.deletion_timestamp is None else meta.deletion_grace_period_seconds or 0,
        shape=one(shape),
        priority=spec.priority or 0,
        priority_class=one(spec.priority_class_name or ""),
        queue=one(queue),
        group=group,
        group_minimum=group_minimum,
        task=task or values.task(names.TASK_SPEC, _of_job(names.TASK_SPEC, annotations, labels)),
        index=index(
            _of_job(names.COMPLETION_INDEX, annotations, labels)
            or _of_job(names.TASK_INDEX, annotations, labels)
        ),
        existing=_existing(affinity, annotations),
        recreated_from=_short(annotations.get(names.RECREATED_FROM)),
        version=number(_of_job(names.JOB_VERSION, annotations, labels)) or 0,
        conduct=conduct_of(annotations, labels, *conduct),
        labels=template_labels(labels),
        heartbeat=shortened(annotations.get(names.HEARTBEAT) or ""),
        claims=claims_of(spec, status, values),
        volumes=volumes_of(spec, meta.name),
        obstacle=values.obstacle,
    )


def _progress_of(pod: WirePod) -> dict[str, Any]:
    """Fields of a pod's fact that change while it is bound, gets ready and ends."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    phase, readiness = _phase(status.phase), readiness_of(status)
    return {
        "phase": phase,
        "ready_since": readiness.since,
        "waits_for": readiness.waits_for,
        "node": one(NodeName(spec.node_name)) if spec.node_name else None,
        "bound_at": readiness.bound_at if spec.node_name else 0,
        "ended_first": _ended_first(meta, status),
        "refused": _refused(status.conditions),
        "exit_code": _exit_code(status) if phase is PodPhase.FAILED else None,
        "restarts": sum(container.restart_count for container in _containers(status)),
    }


#: Pods that changed last, of which it is known what was read of them.
_RECENT: Final = 8192


class RecentPods:
    """Reads pods one after the other. Of a pod that changed lately only its progress is read, if nothing else differs:
    that is what most changes are about, and a fraction of the work."""

    def __init__(self, read: Callable[[WirePod], PodFact]) -> None:
        """``read``: what a whole pod says."""
        self._read = read
        #: By uid, digest and fact of what does not change with progress.
        self._known: OrderedDict[str, tuple[bytes, PodFact]] = OrderedDict()

    def fact(self, pod: WirePod) -> PodFact:
        """What a pod says now."""
        uid = pod.metadata.uid
        if uid not in self._known and _phase(pod.status.phase) is not PodPhase.PENDING:
            return self._read(pod)  # it changes seldom from now on, and there may be very many at once
        digest = _digest_beside_progress(pod)
        before, fact = self._known.pop(uid, (b"", None))
        fact = self._read(pod) if fact is None or before != digest else replace(fact, **_progress_of(pod))
        self._known[uid] = (digest, fact)
        if len(self._known) > _RECENT:
            self._known.popitem(last=False)
        return fact


def _digest_beside_progress(pod: WirePod) -> bytes:
    """Of all that is read of a pod, but for what ``_progress_of`` reads."""
    metadata = msgspec.structs.replace(pod.metadata, resource_version="", generation=0)
    spec = msgspec.structs.replace(pod.spec, node_name=None)
    content = msgspec.json.encode((metadata, spec, _given(pod.status)))
    return hashlib.blake2b(content, digest_size=16).digest()


def _given(status: WirePodStatus) -> tuple[object, ...]:
    """What a status says of what the pod has: resources, also while they are changed in place, and claims."""
    containers = (
        (each.name, each.resources, each.allocated_resources)
        for each in _containers(status)
        if each.resources is not None
    )
    resize = condition(status.conditions, "PodResizePending")
    given = (status.resources, status.allocated_resources, status.resource_claim_statuses)
    return (*given, None if resize is None else resize.reason, *containers)


def _of_metadata(meta: WireMetadata, controller: PodController | None) -> dict[str, Any]:
    """Fields of a pod's fact that its metadata say, whatever the rest of it is."""
    annotations = meta.annotations or {}
    # Guarded by the admission policies: without the label the annotations are not Muster's.
    released = (meta.labels or {}).get(names.RELEASED) == "true"
    admission = number(annotations.get(names.ADMISSION_ID)) if released else None
    deleting = meta.deletion_timestamp is not None
    return {
        "uid": meta.uid,
        "namespace": one(meta.namespace),
        "name": meta.name,
        "deleting": deleting,
        "forced": deleting and not meta.deletion_grace_period_seconds,
        "kept": names.FINALIZER in (meta.finalizers or ()),
        "uncounted": names.JOB_TRACKING in (meta.finalizers or ()),
        "created": seconds(meta.creation_timestamp),
        "owner": controller.key if controller is not None else None,
        "owner_name": controller.name if controller is not None else "",
        "marked": controller is None or controller.marked,
        "controller": one(_controller(meta)),
        "admission": None if admission is None else AdmissionId(admission),
        "seat": _seat(annotations.get(names.SEAT)) if released else None,
    }


def _controller(meta: WireMetadata) -> str:
    """Kind and name of what controls a pod; of a ReplicaSet that a Deployment made, the Deployment. "": nothing."""
    reference = next((each for each in meta.owner_references or () if each.controller), None)
    if reference is None:
        return ""
    kind, name = reference.kind.lower(), reference.name
    revision = f"-{(meta.labels or {}).get(_TEMPLATE_HASH)}"
    if kind == "replicaset" and name.endswith(revision):
        kind, name = "deployment", name.removesuffix(revision)
    known = kind.isascii() and kind.isalnum() and len(kind) <= LONGEST_NAME and is_dns_name(name)
    return f"{kind}/{name}" if known else "object/?"


def _queue_named(annotations: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    return (
        labels.get(names.QUEUE_LABEL)
        or annotations.get(names.QUEUE_ANNOTATION)
        or labels.get(names.QUEUE_ANNOTATION)
        or annotations.get(names.VOLCANO_QUEUE)
        or labels.get(names.VOLCANO_QUEUE)
    )


def _group(
    annotations: Mapping[str, str], labels: Mapping[str, str], values: UserValues, *, waits: bool
) -> tuple[str | None, int]:
    """The PodGroup of a pod, and the size of its gang if Muster makes that PodGroup for the pod's owner; else 0."""
    group = values.name(
        names.GROUP_ANNOTATION,
        annotations.get(names.GROUP_ANNOTATION) or annotations.get(names.GROUP_ANNOTATION_VOLCANO),
    )
    if group is None:
        return _leader_with_workers(annotations, labels, values) if waits else (None, 0)
    if not group.startswith(names.AUTOMATIC_GROUP):
        return group, 0
    return group, min(number(annotations.get(names.GROUP_MIN_MEMBER)) or 0, MOST_PODS)


def _leader_with_workers(
    annotations: Mapping[str, str], labels: Mapping[str, str], values: UserValues
) -> tuple[str | None, int]:
    """The PodGroup of a LeaderWorkerSet's pod, and its size: each leader is one gang with its workers.

    Workers that come only when their leader has a node can be no gang with it.
    """
    if annotations.get(names.LWS_EXCLUSIVE_TOPOLOGY):
        return None, 0
    owner, position = labels.get(names.LWS_NAME), labels.get(names.LWS_GROUP_INDEX)
    size = number(annotations.get(names.LWS_SIZE)) or 0
    if not owner or number(position) is None or size < 2:
        return None, 0
    return values.name(names.LWS_NAME, f"{names.AUTOMATIC_GROUP}{owner}-{position}"), min(size, MOST_PODS)


class _Parts(msgspec.Struct, gc=False):
    """A pod in parts, each read by itself."""

    spec: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    status: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


def minimal_pod_fact(
    meta: WireMetadata, raw: bytes | msgspec.Raw, controller: PodController | None, error: Exception
) -> PodFact:
    """What counts of a pod that cannot be read or handled as a whole: its node, its requests, its phase and its seat.

    If it is gated, it waits with the error as its reason; what it uses is counted as long as it runs.
    """
    values = UserValues()
    if isinstance(error, msgspec.DecodeError):
        values.note(explained(error))
    else:
        values.note(defect(error), ReasonCode.DEFECT)
    known = _of_metadata(meta, controller)
    parts = _part(raw, _Parts) or _Parts()
    gates = _part(parts.spec.get("schedulingGates"), list[dict[str, Any]]) or []
    gated = any(gate.get("name") == names.GATE for gate in gates)
    node = _part(parts.spec.get("nodeName"), str)
    if known["owner"] is None and gated:
        known["owner"] = WorkloadKey(kind_names.POD, meta.uid)
    return PodFact(
        **known,
        phase=_phase(_part(parts.status.get("phase"), str) or ""),
        node=NodeName(node) if node else None,
        gated=gated,
        shape=one(PodShape(takes=_minimal_takes(parts.spec))),
        obstacle=values.obstacle,
    )


def _minimal_takes(spec: Mapping[str, msgspec.Raw]) -> Resources:
    """Requests of the containers that can be read."""
    containers = _part(spec.get("containers"), list[msgspec.Raw]) or []
    readable = [found for each in containers if (found := _part(each, WireContainer)) is not None]
    try:
        return requests_of(WirePodSpec(containers=tuple(readable)))
    except InvalidQuantity:
        return Resources({PODS: 1})


def _part(raw: bytes | msgspec.Raw | None, kind: Any) -> Any:
    """One part of an object; None if it is absent or cannot be read."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


def _short(text: str | None) -> str | None:
    return None if text is None else shortened(text)


def _existing(affinity: WireAffinity | None, annotations: Mapping[str, str]) -> frozenset[str]:
    found = _AFFINITIES[0 if affinity is None else 1 if affinity.node_affinity is None else 2]
    marks = [path for key, path in _MARKS.items() if key in annotations]
    return one(found.union(marks)) if marks else found


def _phase(phase: str) -> PodPhase:
    try:
        return PodPhase(phase)
    except ValueError:
        # "Unknown" is set when a node is lost: the pod may well be running. "" is a pod just created.
        return PodPhase.RUNNING if phase else PodPhase.PENDING


def _of_job(name: str, annotations: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    return annotations.get(name) or labels.get(name)


def _seat(text: str | None) -> tuple[str, int] | None:
    name, _, ordinal = (text or "").rpartition("/")
    position = index(ordinal)
    return None if position is None or len(name) > _LONGEST_POD_SET else one((name, position))


def _refused(conditions: tuple[WireCondition, ...] | None) -> tuple[int, str] | None:
    found = condition(conditions, "PodScheduled")
    if found is None or found.status != "False" or found.reason != "Unschedulable":
        return None
    message = found.message or ""
    if _NOT_JUDGED in message:
        return None
    return seconds(found.last_transition_time), shortened(message, LONGEST_MESSAGE)


def _ended_first(meta: WireMetadata, status: WirePodStatus) -> bool | None:
    """Whether a pod had ended when its deletion was asked for; None if that is no longer known.

    A process that ends with code 0 because it is asked to stop has not succeeded. Pods that have ended are deleted
    without grace; others lose theirs, and the time at which the deletion was asked for, once they end.
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


def _exit_code(status: WirePodStatus) -> int | None:
    codes = [
        container.state.terminated.exit_code
        for container in _containers(status)
        if container.state is not None and container.state.terminated is not None
    ]
    return next((code for code in codes if code), codes[0] if codes else None)


def _containers(status: WirePodStatus) -> tuple[WireContainerStatus, ...]:
    return (*(status.container_statuses or ()), *(status.init_container_statuses or ()))


#: Characters of what a kubelet says about one container.
_LONGEST_WORDS: Final = 200

#: What every container waits for while it starts.
_STARTING: Final = frozenset(("ContainerCreating", "PodInitializing"))


class PodReadiness(NamedTuple):
    """How far a pod is on its way to be ready; the fields are those of a PodFact."""

    since: int | None
    waits_for: str
    bound_at: int


_UNKNOWN_READINESS: Final = PodReadiness(None, "", 0)


def readiness_of(status: WirePodStatus) -> PodReadiness:
    """What the conditions and containers of a pod say.

    A container that has completed need not be ready: Kubernetes calls a pod with one unready, though all of it does
    what it should.
    """
    if not status.conditions:
        return _UNKNOWN_READINESS
    bound, ready = condition(status.conditions, "PodScheduled"), condition(status.conditions, "Ready")
    bound_at = seconds(bound.last_transition_time) if bound is not None and bound.status == "True" else 0
    if ready is not None and (ready.status == "True" or _all_do_well(status)):
        return PodReadiness(seconds(ready.last_transition_time), "", bound_at)
    return PodReadiness(None, one(next(_obstacles(status), "")), bound_at)


def _all_do_well(status: WirePodStatus) -> bool:
    containers = status.container_statuses or ()
    return status.phase == "Running" and bool(containers) and all(map(_does_well, containers))


def _does_well(container: WireContainerStatus) -> bool:
    ended = container.state.terminated if container.state is not None else None
    return container.ready or (ended is not None and ended.exit_code == 0)


def _obstacles(status: WirePodStatus) -> Iterator[str]:
    """What its containers wait for, in the order in which they start."""
    for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        waiting = container.state.waiting if container.state is not None else None
        if waiting is not None and waiting.reason and waiting.reason not in _STARTING:
            yield _told(waiting.reason, waiting.message)
        elif waiting is None and container.restart_count and not container.ready:
            yield _told(_reason_of_end(container), None)


def _reason_of_end(container: WireContainerStatus) -> str:
    """A container that ended a moment ago, or was started again and is not ready."""
    times = f"{container.restart_count} restarts"
    ended = container.state.terminated if container.state is not None else None
    if ended is None or ended.exit_code == 0:
        return times
    return f"{ended.reason or 'Error'}, exit code {ended.exit_code}, {times}"


def _told(reason: str, message: str | None) -> str:
    text = f"{reason}: {message}" if message else reason
    return shortened(" ".join(text.replace("\0", " ").split()), _LONGEST_WORDS)

"""Pods → facts: what admission needs to know of a pod. Pure.

Nothing here raises for what a user wrote. What depends on other objects is added by ``admission.workloads.context``.
"""

from collections.abc import Mapping
from dataclasses import replace

from admission.decode.fields import condition, is_true, number, one, seconds
from admission.decode.interruption import conduct_of
from admission.decode.topology_requests import readable_pod_shape
from admission.facts import PodController, PodFact, PodPhase
from admission.wire import WireCondition, WireMetadata, WirePod, WirePodStatus
from queues.api import names
from queues.api.node_affinity import without_pin
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey, WorkloadKind

#: Labels in which pods of one template differ.
_OF_ONE_POD = frozenset(
    (
        names.COMPLETION_INDEX,
        names.TASK_INDEX,
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
    )
)


def pod_fact(pod: WirePod, controller: PodController | None) -> PodFact:
    """A pod, of a workload or not. ``controller``: the workload that it names as its controller; None: none."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    annotations, labels = meta.annotations or {}, meta.labels or {}
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    gated = names.GATE in gates
    # Guarded by the admission policies: without the label the annotations are not Muster's.
    released = labels.get(names.RELEASED) == "true"
    admission = number(annotations.get(names.ADMISSION_ID)) if released else None
    queue = (
        labels.get(names.QUEUE_LABEL)
        or annotations.get(names.QUEUE_ANNOTATION)
        or labels.get(names.QUEUE_ANNOTATION)
        or annotations.get(names.VOLCANO_QUEUE)
        or labels.get(names.VOLCANO_QUEUE)
    )
    group = annotations.get(names.GROUP_ANNOTATION) or annotations.get(names.GROUP_ANNOTATION_VOLCANO)
    owner = controller.key if controller is not None else None
    if owner is None and group is None and (queue or gated):
        owner = WorkloadKey(WorkloadKind.POD, meta.uid)
    shape = readable_pod_shape(spec, annotations)
    phase = _phase(status.phase)
    return PodFact(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        phase=phase,
        ready=is_true(status.conditions, "Ready"),
        node=NodeName(spec.node_name) if spec.node_name else None,
        gated=gated,
        held_by_others=len(gates) > gated,
        deleting=meta.deletion_timestamp is not None,
        ends_by=seconds(meta.deletion_timestamp),
        forced=meta.deletion_timestamp is not None and not meta.deletion_grace_period_seconds,
        ended_first=_ended_first(meta, status),
        kept=names.FINALIZER in (meta.finalizers or ()),
        shape=one(shape if admission is None else replace(shape, nodes=without_pin(shape.nodes))),
        priority=spec.priority or 0,
        created=seconds(meta.creation_timestamp),
        queue=QueueName(queue) if queue else None,
        owner=owner,
        owner_name=controller.name if controller is not None else "",
        marked=controller is None or controller.marked,
        controlled=any(reference.controller for reference in meta.owner_references or ()),
        group=group,
        task=_of_job(names.TASK_SPEC, annotations, labels) or "",
        index=number(
            _of_job(names.COMPLETION_INDEX, annotations, labels)
            or _of_job(names.TASK_INDEX, annotations, labels)
        ),
        admission=None if admission is None else AdmissionId(admission),
        seat=_seat(annotations.get(names.SEAT)) if released else None,
        recreated_from=annotations.get(names.RECREATED_FROM),
        version=number(_of_job(names.JOB_VERSION, annotations, labels)) or 0,
        refused=_refused(status.conditions),
        exit_code=_exit_code(status) if phase is PodPhase.FAILED else None,
        restarts=sum(
            container.restart_count
            for container in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        ),
        conduct=conduct_of(annotations, labels, spec.active_deadline_seconds),
        labels=one(tuple(sorted((key, value) for key, value in labels.items() if key not in _OF_ONE_POD))),
    )


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
    index = number(ordinal)
    return None if index is None else (name, index)


def _refused(conditions: tuple[WireCondition, ...] | None) -> tuple[int, str] | None:
    found = condition(conditions, "PodScheduled")
    if found is None or found.status != "False" or found.reason != "Unschedulable":
        return None
    return seconds(found.last_transition_time), found.message or ""


def _ended_first(meta: WireMetadata, status: WirePodStatus) -> bool | None:
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


def _exit_code(status: WirePodStatus) -> int | None:
    codes = [
        container.state.terminated.exit_code
        for container in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        if container.state is not None and container.state.terminated is not None
    ]
    return next((code for code in codes if code), codes[0] if codes else None)

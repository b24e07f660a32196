"""The Jobs that repair and test a node: their names, and how they are made from an administrator's CronJob."""

import copy
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.state import RecoveryPhase, RecoveryState
from queues.api.names import BATCH, CORE, GPU_FAULT, RECOVERY_NODE
from queues.workload import NodeName

#: Characters of a node's name that are in the names of its Jobs, for people.
_SHOWN_OF_NODE: Final = 20
#: A Job that has ended goes after this time (seconds), where its template does not say.
_KEPT_FOR: Final = 7 * 86_400

_PREFIXES: Final[Mapping[RecoveryPhase, str]] = {
    RecoveryPhase.RECOVERING: "muster-recover",
    RecoveryPhase.VERIFYING: "muster-verify",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJob:
    """A Job to be made from a CronJob, for one node. That there is one of this name already is success."""

    node: NodeName
    #: ``namespace/name`` of the CronJob. The Job is made in the same namespace.
    template: str
    name: str


def template_of(phase: RecoveryPhase, policy: FaultPolicy) -> str | None:
    """The CronJob (``namespace/name``) that the Job of a phase is made from. None if the phase has no Job."""
    if phase is RecoveryPhase.RECOVERING:
        return policy.job
    return policy.verify_job if phase is RecoveryPhase.VERIFYING else None


def job_name(node: NodeName, state: RecoveryState) -> str:
    """Name of the Job of this phase of this node: always the same for one attempt, and another one for the next.

    "": the phase has no Job. At most 63 characters, as the label of its pods needs.
    """
    prefix = _PREFIXES.get(state.phase)
    if prefix is None:
        return ""
    shown = re.sub(r"[^a-z0-9]+", "-", node[:_SHOWN_OF_NODE].lower()).strip("-")
    digest = hashlib.sha256(node.encode()).hexdigest()[:8]
    return f"{prefix}-{shown}-{digest}-{state.since}-{state.attempts}"


def job_document(cron_job: Mapping[str, Any], create: CreateJob, *, node_uid: str) -> dict[str, Any]:
    """The Job as ``kubectl create job --from=cronjob`` would make it, for one node.

    Its pods go to the node past its taints against new work, and it goes when the Node goes. It has no owner among the
    CronJobs, whose controller would delete what one node still waits for when the Jobs of others have ended.
    """
    namespace, _, _ = create.template.partition("/")
    template = copy.deepcopy(dict(cron_job.get("spec", {}).get("jobTemplate", {})))
    spec: dict[str, Any] = template.get("spec") or {}
    metadata: dict[str, Any] = template.get("metadata") or {}
    pod_template: dict[str, Any] = spec.setdefault("template", {})
    _pin(pod_template.setdefault("spec", {}), create.node)
    marks = {RECOVERY_NODE: create.node}
    pod_annotations = (pod_template.setdefault("metadata", {}).get("annotations") or {}) | marks
    pod_template["metadata"]["annotations"] = pod_annotations
    spec.setdefault("ttlSecondsAfterFinished", _KEPT_FOR)
    spec.pop("suspend", None)
    owner = {"apiVersion": CORE, "kind": "Node", "name": create.node, "uid": node_uid}
    return {
        "apiVersion": BATCH,
        "kind": "Job",
        "metadata": {
            "name": create.name,
            "namespace": namespace,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}) | marks,
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _pin(pod: dict[str, Any], node: NodeName) -> None:
    """Let the pod go to this node only, also while that gets no new work."""
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity: dict[str, Any] = pod.get("affinity") or {}
    affinity["nodeAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [only]}]}
    }
    pod["affinity"] = affinity
    pod.pop("nodeSelector", None)
    tolerations = list(pod.get("tolerations") or [])
    for key in (GPU_FAULT, "node.kubernetes.io/unschedulable"):
        tolerations.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    pod["tolerations"] = tolerations

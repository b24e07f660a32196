"""The Jobs that repair and test a node: their names, and how they are made from an administrator's CronJob."""

import copy
import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from admission.node_recovery.state import RecoveryPhase, RecoveryState
from queues.api.names import BATCH, CORE, GPU_FAULT, RECOVERY_NODE
from queues.quota.queue import NodeRecoveryRules
from queues.workload import NodeName

#: Characters of a node's name that are in the names of its Jobs, for people.
_SHOWN_OF_NODE: Final = 20
#: A Job that has ended goes after this time (seconds), where its template does not say, and not before that time: how
#: it ended has to be seen.
_KEPT_FOR: Final = 7 * 86_400
_KEPT_FOR_AT_LEAST: Final = 600


class JobName(NamedTuple):
    """Where a Job of a node's recovery is."""

    namespace: str
    name: str


class RecoveryJob(NamedTuple):
    """A Job of a node's recovery, as it is now."""

    #: Seconds since the epoch.
    created: int
    #: None while it runs.
    succeeded: bool | None = None
    uid: str = ""


class CreateJob(NamedTuple):
    """A Job to be made from a CronJob of its namespace, for one node. That there is one of this name is success."""

    node: NodeName
    job: JobName
    template: str


def job_of(node: NodeName, state: RecoveryState, rules: NodeRecoveryRules) -> CreateJob | None:
    """The Job of this phase of this node. None if the phase has none, or no CronJob is named for it.

    Its name is always the same for one attempt, and another one for the next. At most 63 characters, as the label of
    its pods needs.
    """
    match state.phase:
        case RecoveryPhase.RECOVERING:
            prefix, template = "muster-recover", rules.job
        case RecoveryPhase.VERIFYING:
            prefix, template = "muster-verify", rules.verify_job
        case _:
            return None
    if template is None:
        return None
    namespace, _, cron_job = template.partition("/")
    shown = re.sub(r"[^a-z0-9]+", "-", node[:_SHOWN_OF_NODE].lower()).strip("-")
    digest = hashlib.sha256(node.encode()).hexdigest()[:8]
    name = f"{prefix}-{shown}-{digest}-{state.began}-{state.attempts}"
    return CreateJob(node, JobName(namespace, name), cron_job)


def job_document(cron_job: Mapping[str, Any], create: CreateJob, *, node_uid: str) -> dict[str, Any]:
    """The Job as ``kubectl create job --from=cronjob`` would make it, for one node.

    Its pods go to the node past its taints against new work, and it goes when the Node goes. It has no owner among the
    CronJobs, whose controller would delete what one node still waits for when the Jobs of others have ended.
    """
    template = copy.deepcopy(dict(cron_job.get("spec", {}).get("jobTemplate", {})))
    spec: dict[str, Any] = template.get("spec") or {}
    metadata: dict[str, Any] = template.get("metadata") or {}
    pod_template: dict[str, Any] = spec.setdefault("template", {})
    _pin(pod_template.setdefault("spec", {}), create.node)
    marks = {RECOVERY_NODE: create.node}
    pod_annotations = (pod_template.setdefault("metadata", {}).get("annotations") or {}) | marks
    pod_template["metadata"]["annotations"] = pod_annotations
    kept_for = spec.get("ttlSecondsAfterFinished")
    spec["ttlSecondsAfterFinished"] = _KEPT_FOR if kept_for is None else max(kept_for, _KEPT_FOR_AT_LEAST)
    spec.pop("suspend", None)
    owner = {"apiVersion": CORE, "kind": "Node", "name": create.node, "uid": node_uid}
    return {
        "apiVersion": BATCH,
        "kind": "Job",
        "metadata": {
            "name": create.job.name,
            "namespace": create.job.namespace,
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

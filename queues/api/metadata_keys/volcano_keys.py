"""Volcano's labels and annotations: which are honoured, and what becomes of the others."""

from typing import Final

from queues.api import names
from queues.api.metadata_keys.known_key import (
    ANNOTATION,
    JOB,
    LABEL,
    NAMESPACE,
    OPERATOR_JOB,
    POD,
    POD_GROUP,
    POD_OWNER,
    TEMPLATE,
    VOLCANO_JOB,
    KeyUse,
    KnownKey,
    places,
)

_WORKLOADS: Final = places(JOB, VOLCANO_JOB, OPERATOR_JOB, POD_GROUP, TEMPLATE, POD, of=(ANNOTATION, LABEL))
_EITHER: Final = (ANNOTATION, LABEL)


def _of_jobs_pods(key: str, meaning: str, of: tuple[str, ...] = _EITHER) -> KnownKey:
    """A name that Muster writes on the pods of a Volcano Job, as Volcano does."""
    return KnownKey(
        key=key, use=KeyUse.WRITTEN, meaning=meaning, places=places("pods of a Volcano Job", of=of)
    )


def _without_effect(key: str, meaning: str, instead: str = "") -> KnownKey:
    return KnownKey(key=key, use=KeyUse.WITHOUT_EFFECT, meaning=meaning, instead=instead)


VOLCANO_KEYS: Final = (
    KnownKey(
        key=names.GROUP_ANNOTATION,
        use=KeyUse.READ,
        meaning="the PodGroup that the pod belongs to",
        places=places(POD, TEMPLATE),
    ),
    KnownKey(
        key=names.GROUP_ANNOTATION_VOLCANO,
        use=KeyUse.READ,
        meaning="the same, Volcano's newer name",
        places=places(POD, TEMPLATE),
    ),
    KnownKey(
        key=names.GROUP_MIN_MEMBER,
        use=KeyUse.READ,
        meaning="how many pods of the Job, Deployment, ReplicaSet or StatefulSet start together",
        places=places(JOB, POD_OWNER, TEMPLATE),
        instead="a PodGroup with minMember, which the pods name",
    ),
    KnownKey(
        key=names.QUEUE_ANNOTATION,
        use=KeyUse.READ,
        meaning="the queue; on a Namespace the one of what names none there",
        places={
            **places(JOB, POD_OWNER, POD, TEMPLATE, of=_EITHER),
            **places(VOLCANO_JOB, OPERATOR_JOB, POD_GROUP, NAMESPACE),
        },
    ),
    KnownKey(
        key=names.VOLCANO_QUEUE,
        use=KeyUse.READ,
        meaning="the queue of a pod that names none otherwise; Muster writes it on the pods of a Volcano Job",
        places=places(POD, TEMPLATE, of=_EITHER),
        instead=names.QUEUE_LABEL,
    ),
    KnownKey(
        key=names.PREEMPTABLE,
        use=KeyUse.READ,
        meaning="whether the work may be evicted for a beneficiary",
        places=_WORKLOADS,
    ),
    KnownKey(
        key=names.COOLDOWN_TIME,
        use=KeyUse.READ,
        meaning="not evicted for a beneficiary for so long after its admission",
        places=_WORKLOADS,
    ),
    _of_jobs_pods(names.JOB_NAME, "the Job"),
    _of_jobs_pods(names.JOB_NAMESPACE, "its namespace", (LABEL,)),
    _of_jobs_pods(names.TASK_SPEC, "the task"),
    _of_jobs_pods(names.TASK_INDEX, "the pod's index in the task"),
    _of_jobs_pods(names.JOB_VERSION, "how often the Job was restarted", (ANNOTATION,)),
    _of_jobs_pods(names.JOB_RETRY_COUNT, "how often it was retried", (ANNOTATION,)),
    _of_jobs_pods(names.TEMPLATE_UID, "`<job>-<task>`", (ANNOTATION,)),
    _of_jobs_pods(names.PARTITION_ID, "the number of the partition", (LABEL,)),
    _of_jobs_pods("hccl/rankIndex", "the rank, by the plugin hcclrank", (ANNOTATION,)),
    _without_effect(
        names.HIERARCHY,
        "the queue's place in a tree, for the plugin drf",
        "spec.parent; `muster convert` writes it",
    ),
    _without_effect(
        names.HIERARCHY_WEIGHTS,
        "weights along that path",
        "spec.weight of each Queue; `muster convert` writes it",
    ),
    _without_effect(
        "scheduling.volcano.sh/group-min-resources",
        "minResources of the PodGroup that Volcano makes",
        "nothing: what the pods request counts",
    ),
    _without_effect(
        "scheduling.volcano.sh/queue-allocation-gate",
        "a gate until the queue has room",
        "nothing: each pod with a queue waits behind Muster's gate",
    ),
    _without_effect(
        "sla-waiting-time",
        "a longest wait, after which the work goes first",
        "spec.policy.starvation.clearAfter of the Queue",
    ),
    _without_effect(
        "volcano.sh/sla-waiting-time",
        "a longest wait, after which the work goes first",
        "spec.policy.starvation.clearAfter of the Queue",
    ),
    _without_effect(
        names.REVOCABLE_ZONE, "nodes that are taken back at times; copied from a Volcano Job to its pods"
    ),
    _without_effect(
        names.JDB_MIN_AVAILABLE,
        "a disruption budget; copied from a Volcano Job to its pods",
        "a PodDisruptionBudget, which evictions respect",
    ),
    _without_effect(
        names.JDB_MAX_UNAVAILABLE,
        "a disruption budget; copied from a Volcano Job to its pods",
        "a PodDisruptionBudget, which evictions respect",
    ),
    _without_effect(
        names.NUMA_TOPOLOGY_POLICY,
        "NUMA nodes for the pod; copied from a Volcano Job to its pods",
        "the topology manager policy of the kubelet",
    ),
    _without_effect("volcano.sh/qos-level", "the class of a pod in colocation", "a PriorityClass"),
    _without_effect("volcano.sh/task-topology-affinity", "tasks on the same nodes", "pod affinity"),
    _without_effect(
        "volcano.sh/task-topology-anti-affinity", "tasks on different nodes", "pod anti-affinity"
    ),
    _without_effect("volcano.sh/task-topology-task-order", "the order of tasks", "dependsOn"),
    _without_effect(
        "volcano.sh/network-topology-mode",
        "hard or soft topology of pods without a PodGroup",
        f"{names.REQUIRED_TOPOLOGY} or {names.PREFERRED_TOPOLOGY} in the pod template",
    ),
    _without_effect(
        "volcano.sh/network-topology-highest-tier",
        "the highest tier of HyperNodes for pods without a PodGroup",
        f"{names.REQUIRED_TOPOLOGY}: {names.HYPERNODE_TIER}N in the pod template",
    ),
    _without_effect(
        "volcano.sh/nodegroup-name",
        "the group of a node, for the affinity of Queues",
        "a ResourceFlavor with node labels, which the Queue names in spec.flavors",
    ),
    _without_effect(
        "volcano.sh/resource-strategy-scoring-type", "how nodes are scored", "spec.policy.placement"
    ),
    _without_effect("volcano.sh/job-forwarding", "clusters that a job may be forwarded to"),
    _without_effect("volcano.sh/controller-out-of-sync", "a pod that lifecycle policies leave alone"),
    _without_effect("volcano.sh/job-type", "the kind of a Job"),
    _without_effect(
        "volcano.sh/closed-by-parent", "Volcano's note on a queue that was closed with its parent"
    ),
    _without_effect("volcano.sh/created-by-jobflow", "Volcano's note on a Job of a JobFlow"),
    _without_effect("volcano.sh/created-by-jobtemplate", "Volcano's note on a Job of a JobFlow"),
    _without_effect("volcano.sh/cronjob-scheduled-timestamp", "Volcano's note on a Job of a CronJob"),
)

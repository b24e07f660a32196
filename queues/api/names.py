"""Names on Kubernetes objects that Muster reads or writes: API versions, labels, annotations, gate, finalizer.

Not here, but with the code that reads them: labels that Kubernetes' own controllers and kubectl set (host name, pod
index …), and names inside specs and statuses (resources, condition types).
"""

from collections.abc import Mapping
from typing import Final

BATCH_VOLCANO: Final = "batch.volcano.sh/v1alpha1"
SCHEDULING_VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
BUS_VOLCANO: Final = "bus.volcano.sh/v1alpha1"
TOPOLOGY_VOLCANO: Final = "topology.volcano.sh/v1alpha1"
FLOW_VOLCANO: Final = "flow.volcano.sh/v1alpha1"
#: Koordinator's Devices.
KOORDINATOR_SCHEDULING: Final = "scheduling.koordinator.sh/v1alpha1"
MUSTER: Final = "muster.dev/v1alpha1"
#: Requests to cluster autoscalers.
AUTOSCALING_REQUESTS: Final = "autoscaling.x-k8s.io/v1"
#: The read API, which the API server passes on to Muster.
READ_API: Final = "read.muster.dev/v1"
BATCH: Final = "batch/v1"
CORE: Final = "v1"

#: The scheduling gate of a pod that waits.
GATE: Final = "muster.dev/admission"

#: Label on a Job, Pod or PodGroup; on a Namespace an annotation: the queue of objects there that name none.
QUEUE_LABEL: Final = "muster.dev/queue-name"
#: Volcano's annotation for the same, on workloads, pods and namespaces; on pods a label too.
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
#: Label and annotation of a Volcano Job's pods; read on other pods as a last resort.
VOLCANO_QUEUE: Final = "volcano.sh/queue-name"
#: Label on a Namespace, ``"true"``: all pods and Jobs created in it wait, also if they name no queue.
#: A policy writes it on a Namespace that names a queue, unless it is there already.
GATED_NAMESPACE: Final = "muster.dev/gated"
#: Label on a Namespace, ``"true"``: Kueue's names on what is created there count (``kueue_names``).
KUEUE_NAMES: Final = "muster.dev/kueue-names"

#: Annotations of a Namespace: ``"true"`` until a time (RFC 3339, in UTC), and its running pods are adopted until then.
ADOPT: Final = "muster.dev/adopt"
ADOPT_UNTIL: Final = "muster.dev/adopt-until"

#: The PodGroup of a pod, in its namespace: the name that most schedulers read, then Volcano's newer one.
GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
GROUP_ANNOTATION_VOLCANO: Final = "scheduling.volcano.sh/group-name"
#: Names of the PodGroups that Muster makes for owners of pods, followed by its kind and name.
AUTOMATIC_GROUP: Final = "podgroup-"
#: Names of those for groups of pods without an owner, followed by the name of the group. They go with their last pod.
AUTOMATIC_GROUP_OF_PODS: Final = "podgroup-pods-"
#: Annotation of a batch/v1 Job or another owner of pods: so many of its pods start together.
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"

#: Annotations of a pod template: a node label key that is a level of a Topology.
REQUIRED_TOPOLOGY: Final = "muster.dev/required-topology"
PREFERRED_TOPOLOGY: Final = "muster.dev/preferred-topology"
#: The levels that HyperNodes make have this key, followed by the tier.
HYPERNODE_TIER: Final = "topology.volcano.sh/tier-"
#: Annotation of a pod template: parts of its pods, each in one domain, the larger parts first:
#: ``8=topology.muster.dev/rack,2=kubernetes.io/hostname``.
PARTITIONS: Final = "muster.dev/partitions"
#: Annotation of a pod template: templates of one Job with equal values share one domain of their level.
TOGETHER: Final = "muster.dev/together"
#: Annotation of a pod template, ``"true"``: pods evenly over the fewest domains of the level.
BALANCED: Final = "muster.dev/balanced"

#: Label of a node, ``"true"``: its devices may be shared in parts.
SHARES_DEVICES: Final = "muster.dev/shares-devices"
#: Label of a node, written by NVIDIA's device discovery: MiB of memory of each device.
DEVICE_MEMORY: Final = "nvidia.com/gpu.memory"

#: Annotation of a node: devices that a person calls unhealthy, ``all`` or their numbers or uuids: ``0,3=fan is loud``.
GPU_UNHEALTHY: Final = "muster.dev/gpu-unhealthy"
#: Labels of nodes, written by Muster's agent: the model that all devices of the node have, how many devices answer,
#: their driver's version and that of its runtime (CUDA, ROCm, Level Zero). The model is a label of each device too.
GPU_MODEL: Final = "muster.dev/gpu-model"
GPU_COUNT: Final = "muster.dev/gpu-count"
GPU_DRIVER: Final = "muster.dev/gpu-driver"
GPU_RUNTIME: Final = "muster.dev/gpu-runtime"
#: Namespace of the node agents: their leases are there, named after the nodes.
AGENT_NAMESPACE: Final = "muster-agents"
#: Seconds for which such a lease counts.
AGENT_LEASE_SECONDS: Final = 180
#: Label of a node, by a person: ``"true"``, and the agent runs there though no other label says that there are devices.
RUNS_AGENT: Final = "muster.dev/agent"
#: Label of nodes and of devices: the NVLink domain across nodes, ``<cluster uuid>.<clique>``.
NVL_DOMAIN: Final = "muster.dev/nvl-domain"
#: Labels of devices (``spec.devices[].labels`` of a Device): number of the device, as pods name it; the resource that
#: it is registered as, if that is not the usual one of its vendor; of unhealthy ones, whether the kubelet may give it
#: to a pod (``"true"``, ``"false"``); number of the set of devices that NVLinks join; whether MIG is enabled.
DEVICE_INDEX: Final = "muster.dev/device-index"
DEVICE_RESOURCE: Final = "muster.dev/device-resource"
DEVICE_OFFERED: Final = "muster.dev/device-offered"
NVLINK_ISLAND: Final = "muster.dev/nvlink-island"
MIG_MODE: Final = "muster.dev/mig"
#: Labels of a Device: how busy and how hot its devices are (``low``, ``medium``, ``high``), where agents report it.
GPU_UTILISATION: Final = "muster.dev/gpu-utilisation"
GPU_TEMPERATURE: Final = "muster.dev/gpu-temperature"
#: Annotations of a Device, as JSON: MIG instances of each device, and what the agent has to remember of their faults.
MIG_INSTANCES: Final = "muster.dev/mig-instances"
HEALTH_MEMORY: Final = "muster.dev/health-memory"
#: Koordinator's labels of Devices and nodes: vendor, model and driver of the node's devices.
KOORDINATOR_GPU_VENDOR: Final = "node.koordinator.sh/gpu-vendor"
KOORDINATOR_GPU_MODEL: Final = "node.koordinator.sh/gpu-model"
KOORDINATOR_GPU_DRIVER: Final = "node.koordinator.sh/gpu-driver-version"
#: Labels of a node that its agent writes, and takes off again; it writes no others.
AGENT_NODE_LABELS: Final = (
    *(GPU_MODEL, GPU_COUNT, GPU_DRIVER, GPU_RUNTIME, NVL_DOMAIN),
    *(KOORDINATOR_GPU_VENDOR, KOORDINATOR_GPU_MODEL, KOORDINATOR_GPU_DRIVER),
)

#: Annotations of a pod, KAI's: a part of a device (``0.5``) or its memory in MiB, and of how many devices.
GPU_FRACTION: Final = "gpu-fraction"
GPU_MEMORY: Final = "gpu-memory"
GPU_FRACTION_DEVICES: Final = "gpu-fraction-num-devices"

#: Taint of a node (NoSchedule): no new GPU work. With any other value than Muster's it is a person's own.
GPU_FAULT: Final = "muster.dev/gpu-fault"
GPU_FAULT_BY_MUSTER: Final = "muster"
#: Label of a ProvisioningRequest and its PodTemplates: the workload that waits for nodes, as ``kind.uid``.
PROVISIONING_FOR: Final = "muster.dev/provisioning-for"
#: Annotation of the same: the how-many-th request of the gang it is.
PROVISIONING_ATTEMPT: Final = "muster.dev/provisioning-attempt"

#: Annotation of a Node: how far its recovery has come (JSON).
RECOVERY: Final = "muster.dev/recovery"
#: Annotation of Jobs, and of their pods, that recover or test a node: its name.
RECOVERY_NODE: Final = "muster.dev/recovery-node"

#: Expected run time, and the most work that an eviction loses; Go durations (``2h``, ``30m``).
RUN_TIME: Final = "muster.dev/run-time"
CHECKPOINT_INTERVAL: Final = "muster.dev/checkpoint-interval"
#: Protection from eviction for this long: after the start, and (Volcano's) after the admission.
MIN_RUN_TIME: Final = "muster.dev/min-run-time"
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"

#: Domain of annotations, or labels, that say something to the policies of the queue: ``policy.muster.dev/deadline``.
HINTS: Final = "policy.muster.dev"

#: Any other value than before has a workload tried again that was held back because its pods did not get ready.
RETRY: Final = "muster.dev/retry"
#: Annotation of workloads, written by any user who may change them: with "true" its owner holds it back, with
#: "suspended" also while it runs. The latter is written by a policy as well when the owner suspends what runs.
HOLD: Final = "muster.dev/hold"
#: Annotation of workloads: it is not admitted before other workloads of its namespace have ended
#: (``queues.api.reading.dependencies``).
AFTER: Final = "muster.dev/after"
#: Annotation, written by a policy: the object was created suspended. To suspend it once more changes nothing.
CREATED_SUSPENDED: Final = "muster.dev/created-suspended"

#: Annotation of a batch/v1 Job: "true" and its pods are released one by one, so that it may get more of them while it
#: runs; "false" and they are not, whatever its queue says.
MAY_GROW: Final = "muster.dev/may-grow"

#: Annotation of a pod without an owner: whoever is at its shell writes another text each minute.
HEARTBEAT: Final = "muster.dev/heartbeat"

#: Annotation of a PodGroup: quota for its ``minResources`` is held so long for its pods (``10m``).
HOLD_MIN_RESOURCES: Final = "muster.dev/hold-min-resources"

#: Whether the workload may be evicted for a beneficiary.
PREEMPTABLE: Final = "volcano.sh/preemptable"

#: Label of pods and Jobs: ``"true"`` if Muster created or released them, ``"false"`` if it made them wait.
RELEASED: Final = "muster.dev/released"
#: Annotation of pods: the id of the admission that holds their seat.
ADMISSION_ID: Final = "muster.dev/admission-id"
#: Annotation of pods: ``<pod set>/<ordinal>``.
SEAT: Final = "muster.dev/seat"
#: Annotation of pods with parts of devices, or with whole ones that were chosen: their numbers, ascending (``0,3``).
DEVICES: Final = "muster.dev/devices"
#: Annotation of pods and templates: tolerations that Muster has added, those of the flavor of their seats (JSON).
FLAVOR_TOLERATIONS: Final = "muster.dev/flavor-tolerations"
#: Annotation of pods that Muster recreated: uid of the pod that this one replaces.
RECREATED_FROM: Final = "muster.dev/recreated-from"
#: Annotation of workloads and pods: the user who created the object.
USER: Final = "muster.dev/user"
#: Annotation of Queues: the user who changed them last.
CHANGED_BY: Final = "muster.dev/changed-by"
#: Annotation of Reservations: ``"true"`` if the user who stated what it keeps is no platform administrator.
OF_TENANT: Final = "muster.dev/of-tenant"
#: Annotation of Queues: why their spec was changed last. It goes with the next change that gives no other reason.
CHANGE_REASON: Final = "muster.dev/change-reason"
#: Annotation of pods, and of templates that operators make them from: the workload and its pod set, as
#: ``<kind>/<name>/<uid>/<pod set>``.
MEMBER_OF: Final = "muster.dev/member-of"
#: Label of pods while they are created: of one of a class that Muster makes, and of one that a policy is about to have
#: preempt none, which takes it away.
NEVER_PREEMPTS: Final = "muster.dev/never-preempts-next"
#: Finalizer of pods until their outcome is stored.
FINALIZER: Final = "muster.dev/outcome"

#: Label of the roles and policies of a kind that administrators have added: the name of its WorkloadKind.
OF_KIND: Final = "muster.dev/workload-kind"
#: Annotation of these policies: which spec of the WorkloadKind they were made of.
KIND_DIGEST: Final = "muster.dev/workload-kind-digest"
#: Annotation of a WorkloadKind: nothing more of it is admitted, while it is about to be changed or removed.
KIND_DRAIN: Final = "muster.dev/drain-kind"
#: Finalizer of a WorkloadKind that is in use.
KIND_FINALIZER: Final = "muster.dev/kind-in-use"

#: Annotation of a definition that another product installed before: uninstalling Muster never deletes it.
ADOPTED: Final = "muster.dev/adopted"

#: Label of every object that ``muster install`` applies, so that ``muster uninstall`` finds it again.
PART_OF_LABEL: Final = "app.kubernetes.io/part-of"

#: Label of definitions: ``muster`` on Muster's, another product's name on that product's.
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"

#: Annotation of objects that Helm applied: the name of the release.
HELM_RELEASE: Final = "meta.helm.sh/release-name"
HELM_NAMESPACE: Final = "meta.helm.sh/release-namespace"

#: Labels and annotations that only Muster's identity may write: on workloads, pods and templates, and on all objects.
OWN_OF_PODS: Final = (RELEASED, ADMISSION_ID, SEAT, DEVICES, FLAVOR_TOLERATIONS, RECREATED_FROM, USER)
OWN_NAMES: Final = (*OWN_OF_PODS, CHANGED_BY, OF_TENANT)

#: Annotations of pods that cluster autoscalers must not end to remove their node, with what they say (Cluster
#: Autoscaler, Karpenter). Users may write other values.
KEPT_FROM_AUTOSCALERS: Final[Mapping[str, str]] = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}

#: Labels and annotations of the pods of a Volcano Job.
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"

#: Label, of pods of a task with partitions only: the number of the partition.
PARTITION_ID: Final = "volcano.sh/partition-id"

#: Annotation: ``<job>-<task>``.
TEMPLATE_UID: Final = "volcano.sh/template-uid"

#: Annotation of a Volcano Job that a CronJob started: its scheduled time (RFC 3339).
SCHEDULED_TIME: Final = "volcano.sh/cronjob-scheduled-timestamp"
#: Annotations, and labels where the value is short enough, of a Volcano Job that a JobFlow started:
#: ``<namespace>.<name>`` of the JobTemplate and of the JobFlow.
CREATED_BY_TEMPLATE: Final = "volcano.sh/created-by-jobtemplate"
CREATED_BY_FLOW: Final = "volcano.sh/created-by-jobflow"

#: Annotations of a Volcano Job that its pods inherit; Muster gives them no meaning.
NUMA_TOPOLOGY_POLICY: Final = "volcano.sh/numa-topology-policy"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"

#: A LeaderWorkerSet's pods: its name and the number of their group as labels, the group's pods as an annotation.
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
#: Annotation of a LeaderWorkerSet, and of its pods: each group gets a domain of this level for itself. Its controller
#: makes the workers when their leader has a node.
LWS_EXCLUSIVE_TOPOLOGY: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"

#: The completion index of an Indexed batch/v1 Job's pod (annotation, and label since 1.28).
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
#: Finalizer of the job controller on the pods of a Job, until it has counted how they ended.
JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
#: Label of the job controller on the pods of a Job: the Job's uid.
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
#: Labels of that controller on the pods of a Job, by today's names and the former: generated selectors match them.
CONTROLLER_LABELS: Final = (CONTROLLER_UID, "controller-uid", "batch.kubernetes.io/job-name", "job-name")
#: Value of ``spec.managedBy`` of Jobs that the job controller of Kubernetes looks after.
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"

#: Taint of a node that was shut down for certain (KEP-2268, non-graceful node shutdown).
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"

DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"
#: ``spec.schedulerName`` that Volcano's webhook fills in; Muster replaces it by the configured scheduler.
VOLCANO_SCHEDULER: Final = "volcano"
DEFAULT_SCHEDULER: Final = "default-scheduler"

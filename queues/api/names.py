"""Every name that Muster reads from or writes on Kubernetes objects: groups, labels, annotations, gate."""

from typing import Final

BATCH_VOLCANO: Final = "batch.volcano.sh/v1alpha1"

SCHEDULING_VOLCANO: Final = "scheduling.volcano.sh/v1beta1"

BUS_VOLCANO: Final = "bus.volcano.sh/v1alpha1"

TOPOLOGY_VOLCANO: Final = "topology.volcano.sh/v1alpha1"

MUSTER: Final = "muster.dev/v1alpha1"

BATCH: Final = "batch/v1"

CORE: Final = "v1"

#: The scheduling gate of a pod that waits.
GATE: Final = "muster.dev/admission"

#: Label on a Job, Pod, PodGroup or owner; on a Namespace an annotation: the default of its objects.
QUEUE_LABEL: Final = "muster.dev/queue-name"

#: Volcano's annotation for the same: on pods and namespaces.
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"

#: On pods, written by Volcano's job controller.
VOLCANO_QUEUE: Final = "volcano.sh/queue-name"

#: Label on a Namespace: all its pods are gated.
GATED_NAMESPACE: Final = "muster.dev/gated"

#: The PodGroup of a pod, in its namespace: the name the ecosystem uses, then Volcano's newer alias.
GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"

GROUP_ANNOTATION_VOLCANO: Final = "scheduling.volcano.sh/group-name"

GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"

#: Annotations of a pod template: a node label key that is a level of a Topology.
REQUIRED_TOPOLOGY: Final = "muster.dev/required-topology"

PREFERRED_TOPOLOGY: Final = "muster.dev/preferred-topology"

#: The levels of HyperNodes have keys that begin so, then the tier.
HYPERNODE_TIER: Final = "topology.volcano.sh/tier-"

#: Parts of the pods of a template, each in one domain: ``8=topology.muster.dev/rack,2=kubernetes.io/hostname``.
PARTITIONS: Final = "muster.dev/partitions"

#: Templates of one Job with the same name here go into one domain of their level together.
TOGETHER: Final = "muster.dev/together"

#: ``"true"``: evenly over the fewest domains of the level.
BALANCED: Final = "muster.dev/balanced"

#: Label of a node: its devices may be shared in parts.
SHARES_DEVICES: Final = "muster.dev/shares-devices"

#: How long the work runs, and how much of it is lost on eviction; Go durations (``2h``, ``30m``).
RUN_TIME: Final = "muster.dev/run-time"

CHECKPOINT_INTERVAL: Final = "muster.dev/checkpoint-interval"

MIN_RUN_TIME: Final = "muster.dev/min-run-time"

PREEMPTABLE: Final = "volcano.sh/preemptable"

COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"

#: Written by Muster only. Label ``"true"`` on what it created or released.
RELEASED: Final = "muster.dev/released"

#: Annotation of pods: the id of the admission that holds their seat.
ADMISSION_ID: Final = "muster.dev/admission-id"

#: Annotation of pods: ``<pod set>/<ordinal>``.
SEAT: Final = "muster.dev/seat"

#: Annotation of pods with parts of devices: the numbers of their devices, ascending (``0,3``).
DEVICES: Final = "muster.dev/devices"

#: Annotation of pods that Muster made again: uid of the pod that it took back.
RECREATED_FROM: Final = "muster.dev/recreated-from"

#: Annotation: the user who created the object.
USER: Final = "muster.dev/user"

#: Annotation of Queues: the user who changed them last.
CHANGED_BY: Final = "muster.dev/changed-by"

#: Finalizer of pods until their outcome is stored.
FINALIZER: Final = "muster.dev/outcome"

#: Labels and annotations that only Muster's identity may write.
OWN_NAMES: Final = (RELEASED, ADMISSION_ID, SEAT, DEVICES, RECREATED_FROM, USER, CHANGED_BY)

#: Labels and annotations of the pods of a Volcano Job.
JOB_NAME: Final = "volcano.sh/job-name"

JOB_NAMESPACE: Final = "volcano.sh/job-namespace"

JOB_VERSION: Final = "volcano.sh/job-version"

JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"

TASK_SPEC: Final = "volcano.sh/task-spec"

TASK_INDEX: Final = "volcano.sh/task-index"

#: The completion index of an Indexed batch/v1 Job's pod (annotation, and label since 1.28).
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"

DEFAULT_QUEUE: Final = "default"

ROOT_QUEUE: Final = "root"

#: ``spec.schedulerName`` that Volcano's webhook writes; Muster turns it into the configured scheduler.
VOLCANO_SCHEDULER: Final = "volcano"

DEFAULT_SCHEDULER: Final = "default-scheduler"

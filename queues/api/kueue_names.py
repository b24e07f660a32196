"""Kueue's labels and annotations that Muster's policies translate, in namespaces that say so."""

from typing import Final

#: Annotations of a Namespace where these names count (``names.KUEUE_NAMES``), followed by the name of a LocalQueue of
#: Kueue: the Queue that it leads to.
LOCAL_QUEUE: Final = "local-queue.muster.dev/"

#: Label of work: its LocalQueue.
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
#: Label of work: its WorkloadPriorityClass.
KUEUE_PRIORITY: Final = "kueue.x-k8s.io/priority-class"
#: Label of a pod: its group; and as an annotation the size of that.
KUEUE_POD_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_POD_GROUP_SIZE: Final = "kueue.x-k8s.io/pod-group-total-count"
#: Annotations of pod templates.
KUEUE_REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
KUEUE_SLICE_LEVEL: Final = "kueue.x-k8s.io/podset-slice-required-topology"
KUEUE_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
KUEUE_TOGETHER: Final = "kueue.x-k8s.io/podset-group-name"
#: Annotations of a Job: how many of its pods start together at least, and whether it may get more while it runs.
KUEUE_MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
KUEUE_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"

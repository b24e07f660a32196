"""Kueue's labels and annotations, each with what users write instead: some count in namespaces that say so."""

from typing import Final

from queues.api import kueue_names, names
from queues.api.metadata_keys.known_key import (
    ANNOTATION,
    JOB,
    LABEL,
    OPERATOR_JOB,
    POD,
    POD_OWNER,
    TEMPLATE,
    KeyUse,
    KnownKey,
    places,
)

#: Where policies translate those that count.
_PLACES: Final = {
    kueue_names.KUEUE_QUEUE: places(JOB, OPERATOR_JOB, POD_OWNER, POD, TEMPLATE, of=(LABEL,)),
    kueue_names.KUEUE_PRIORITY: places(JOB, OPERATOR_JOB, POD_OWNER, POD, of=(LABEL,)),
    kueue_names.KUEUE_POD_GROUP: places(POD, TEMPLATE, of=(LABEL,)),
    kueue_names.KUEUE_POD_GROUP_SIZE: places(POD, TEMPLATE, of=(ANNOTATION,)),
    **dict.fromkeys(
        (
            kueue_names.KUEUE_REQUIRED,
            kueue_names.KUEUE_PREFERRED,
            kueue_names.KUEUE_SLICE_LEVEL,
            kueue_names.KUEUE_SLICE_SIZE,
            kueue_names.KUEUE_TOGETHER,
        ),
        places(POD, TEMPLATE),
    ),
}

#: Key → what its writer wants, what to write instead ("": nothing does the same).
_KEYS: Final = {
    "queue-name": (
        "the LocalQueue of the work",
        f"{names.QUEUE_LABEL}: the name of the Queue itself",
    ),
    "priority-class": (
        "a WorkloadPriorityClass",
        "spec.priorityClassName in the pod template: a PriorityClass",
    ),
    "pod-group-name": (
        "the group of a pod",
        f"the annotation {names.GROUP_ANNOTATION}: the name of a PodGroup",
    ),
    "pod-group-total-count": ("the size of the group", "spec.minMember of a PodGroup"),
    "pod-group-fast-admission": (
        "admission before all pods of the group exist",
        "spec.minMember of a PodGroup: further pods join later",
    ),
    "pod-group-serving": ("a group that serves", ""),
    "retriable-in-group": ("whether pods of a group may be replaced", "nothing: they may"),
    "podset-required-topology": (
        "all pods in one domain of a level",
        f"{names.REQUIRED_TOPOLOGY} with the same value",
    ),
    "podset-preferred-topology": (
        "the same, if there is such a domain",
        f"{names.PREFERRED_TOPOLOGY} with the same value",
    ),
    "podset-unconstrained-topology": (
        "pods anywhere, packed",
        "nothing: Muster packs nodes unless the Queue's spec.policy.placement is spread",
    ),
    "podset-slice-required-topology": (
        "parts of the pods, each in one domain",
        f"{names.PARTITIONS}: SIZE=LEVEL",
    ),
    "podset-slice-size": ("the size of these parts", f"{names.PARTITIONS}: SIZE=LEVEL"),
    "podset-slice-required-topology-constraints": (
        "parts within parts",
        f"{names.PARTITIONS}: SIZE=LEVEL,SIZE=LEVEL, the larger first",
    ),
    "podset-group-name": ("pod sets that are placed together", f"{names.TOGETHER} with the same value"),
    "max-exec-time-seconds": (
        "how long the work may run",
        f"spec.activeDeadlineSeconds of the Job; {names.RUN_TIME} says how long it will",
    ),
    "job-min-parallelism": (
        "the least pods to start a Job with",
        f"the annotation {names.GROUP_MIN_MEMBER}",
    ),
    "job-completions-equal-parallelism": ("completions that follow the parallelism", ""),
    "elastic-job": ("a Job whose parallelism may grow", ""),
    "priority-boost": ("points added to the priority", ""),
    "admission-gated-by": ("gates of other controllers", ""),
    "safe-to-forcefully-delete": ("pods that may be forced away on lost nodes", ""),
    "*": ("Kueue's", ""),
}

KUEUE_KEYS: Final = tuple(
    KnownKey(
        key=f"kueue.x-k8s.io/{key}",
        use=KeyUse.TRANSLATED if f"kueue.x-k8s.io/{key}" in _PLACES else KeyUse.WITHOUT_EFFECT,
        meaning=meaning,
        places=_PLACES.get(f"kueue.x-k8s.io/{key}", {}),
        instead=instead,
    )
    for key, (meaning, instead) in _KEYS.items()
)

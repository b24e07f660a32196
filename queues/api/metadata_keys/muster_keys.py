"""Muster's own labels and annotations, and those of Kubernetes and other projects that it reads or writes."""

from typing import Final

from queues.api import kueue_names, names
from queues.api.metadata_keys.known_key import (
    ANNOTATION,
    DEVICE,
    DEVICE_OBJECT,
    JOB,
    LABEL,
    NAMESPACE,
    NODE,
    OPERATOR_JOB,
    POD,
    POD_GROUP,
    POD_OWNER,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    QUEUE,
    RESERVATION,
    TEMPLATE,
    VOLCANO_JOB,
    KeyUse,
    KnownKey,
    places,
)

#: Objects and templates on which users say how their work may be interrupted. Labels count as well.
_WORKLOADS: Final = places(JOB, VOLCANO_JOB, OPERATOR_JOB, POD_GROUP, TEMPLATE, POD, of=(ANNOTATION, LABEL))
_TEMPLATES: Final = places(TEMPLATE, POD)

MUSTER_KEYS: Final = (
    KnownKey(
        key=names.QUEUE_LABEL,
        use=KeyUse.READ,
        meaning="the queue; on a Namespace the one of what names none there",
        places={
            **places(JOB, VOLCANO_JOB, OPERATOR_JOB, POD_OWNER, POD_GROUP, POD, TEMPLATE, of=(LABEL,)),
            NAMESPACE: (ANNOTATION,),
        },
    ),
    KnownKey(
        key=names.GATED_NAMESPACE,
        use=KeyUse.READ,
        meaning='`"true"`: all pods and Jobs created in the namespace wait; `"false"`: only those that name a queue',
        places=places(NAMESPACE, of=(LABEL,)),
    ),
    KnownKey(
        key=names.KUEUE_NAMES,
        use=KeyUse.READ,
        meaning='`"true"`: names of [Kueue](#kueue) count in the namespace',
        places=places(NAMESPACE, of=(LABEL,)),
    ),
    KnownKey(
        key=f"{kueue_names.LOCAL_QUEUE}*",
        use=KeyUse.READ,
        meaning="the Queue to which Kueue's LocalQueue of that name leads; without it, the Queue of its name",
        places=places(NAMESPACE),
    ),
    KnownKey(
        key=names.ADOPT,
        use=KeyUse.READ,
        meaning='`"true"`: running pods of the namespace are adopted until the time of `muster.dev/adopt-until`',
        places=places(NAMESPACE),
    ),
    KnownKey(
        key=names.ADOPT_UNTIL,
        use=KeyUse.READ,
        meaning="when adoption ends, at most 90 days away",
        places=places(NAMESPACE),
    ),
    KnownKey(
        key=names.REQUIRED_TOPOLOGY,
        use=KeyUse.READ,
        meaning="a level of a Topology: all pods in one domain of it",
        places=_TEMPLATES,
    ),
    KnownKey(
        key=names.PREFERRED_TOPOLOGY,
        use=KeyUse.READ,
        meaning="the same, if there is such a domain; else wider",
        places=_TEMPLATES,
    ),
    KnownKey(
        key=names.PARTITIONS,
        use=KeyUse.READ,
        meaning="parts of the pods, each in one domain",
        places=_TEMPLATES,
    ),
    KnownKey(
        key=names.TOGETHER,
        use=KeyUse.READ,
        meaning="templates of one Job with the same value go into one domain of their level",
        places=_TEMPLATES,
    ),
    KnownKey(
        key=names.BALANCED,
        use=KeyUse.READ,
        meaning='`"true"`: pods evenly over the fewest domains',
        places=_TEMPLATES,
    ),
    KnownKey(key=names.RUN_TIME, use=KeyUse.READ, meaning="how long the work will run", places=_WORKLOADS),
    KnownKey(
        key=names.CHECKPOINT_INTERVAL,
        use=KeyUse.READ,
        meaning="how much work an eviction loses at most",
        places=_WORKLOADS,
    ),
    KnownKey(
        key=names.MIN_RUN_TIME,
        use=KeyUse.READ,
        meaning="not evicted for a beneficiary before it has run for so long",
        places=_WORKLOADS,
    ),
    KnownKey(
        key=names.HOLD_MIN_RESOURCES,
        use=KeyUse.READ,
        meaning="quota for `minResources` is held for so long, at most an hour, while the pods are being made",
        places=places(POD_GROUP),
    ),
    KnownKey(
        key=names.RETRY,
        use=KeyUse.READ,
        meaning="another value than before has work tried again that was held back",
        places=_WORKLOADS,
    ),
    KnownKey(
        key=names.HOLD,
        use=KeyUse.READ,
        meaning='`"true"`: its owner has suspended it; it holds nothing, and waits until that is `"false"`. To remove '
        "it changes nothing",
        places=places(JOB, OPERATOR_JOB, of=(ANNOTATION,)),
    ),
    KnownKey(
        key=names.CREATED_SUSPENDED,
        use=KeyUse.WRITTEN,
        meaning='`"true"`, by a policy: it was created suspended, so to suspend it once more means nothing',
        places=places(JOB, OPERATOR_JOB, of=(ANNOTATION,)),
    ),
    KnownKey(
        key="muster.dev/traceparent",
        use=KeyUse.WITHOUT_EFFECT,
        meaning="the span of a trace above that of the gang; Muster sends no spans",
        instead="nothing: kubectl muster explain shows the stages of a gang",
        places=places(JOB, VOLCANO_JOB, OPERATOR_JOB, POD_GROUP, POD, of=(ANNOTATION,)),
    ),
    KnownKey(
        key=names.SHARES_DEVICES,
        use=KeyUse.READ,
        meaning='`"true"`: devices of the node may be shared in parts',
        places=places(NODE, of=(LABEL,)),
    ),
    KnownKey(
        key=names.RELEASED,
        use=KeyUse.OWN,
        meaning='`"false"`: made to wait; `"true"`: created or released by Muster',
        places=places(POD, TEMPLATE, of=(LABEL,)),
    ),
    KnownKey(
        key=names.ADMISSION_ID,
        use=KeyUse.OWN,
        meaning="the admission that holds the seat",
        places=places(POD, TEMPLATE),
    ),
    KnownKey(key=names.SEAT, use=KeyUse.OWN, meaning="`<pod set>/<ordinal>`", places=places(POD)),
    KnownKey(
        key=names.DEVICES,
        use=KeyUse.OWN,
        meaning="numbers of the devices that the pod has parts of, or got by number",
        places=places(POD),
    ),
    KnownKey(
        key=names.RECREATED_FROM,
        use=KeyUse.OWN,
        meaning="uid of the pod without an owner that this one replaces",
        places=places(POD),
    ),
    KnownKey(
        key=names.USER,
        use=KeyUse.OWN,
        meaning="the user that created the object",
        places=places(JOB, VOLCANO_JOB, OPERATOR_JOB, POD_GROUP, POD, TEMPLATE),
    ),
    KnownKey(
        key=names.MEMBER_OF,
        use=KeyUse.WRITTEN,
        meaning="the workload that the pod is part of, and its pod set",
        places=places("templates of an operator's job", POD),
    ),
    KnownKey(
        key=names.CHANGED_BY,
        use=KeyUse.OWN,
        meaning="the user that changed the Queue last",
        places=places(QUEUE),
    ),
    KnownKey(
        key=names.OF_TENANT,
        use=KeyUse.OWN,
        meaning='`"true"`: made by an administrator of a tenant, within what its queues deserve',
        places=places(RESERVATION),
    ),
    KnownKey(
        key=names.CHANGE_REASON,
        use=KeyUse.READ,
        meaning="why the Queue was changed last",
        places=places(QUEUE),
    ),
    *(
        KnownKey(key=key, use=KeyUse.READ, meaning=meaning, places=places(POD, of=fields))
        for key, meaning, fields in (
            (names.LWS_NAME, "the LeaderWorkerSet of the pod", (LABEL,)),
            (names.LWS_GROUP_INDEX, "which of its groups the pod is in", (LABEL,)),
            (names.LWS_SIZE, "how many pods a group has", (ANNOTATION,)),
        )
    ),
    KnownKey(
        key=names.LWS_EXCLUSIVE_TOPOLOGY,
        use=KeyUse.READ,
        meaning="workers come after their leader: each pod waits alone",
        places=places(POD_OWNER, POD, of=(ANNOTATION,)),
    ),
    KnownKey(
        key=names.ADOPTED,
        use=KeyUse.WRITTEN,
        meaning="`install --adopt-crds` took the definition over",
        places=places("CustomResourceDefinition"),
    ),
    KnownKey(
        key=names.PART_OF_LABEL,
        use=KeyUse.WRITTEN,
        meaning="`muster` on all that `install` creates",
        places=places("whatever `install` creates", of=(LABEL,)),
    ),
    KnownKey(
        key=names.MANAGED_BY_LABEL,
        use=KeyUse.WRITTEN,
        meaning="`muster` on Muster's definitions; another value names another owner",
        places=places("CustomResourceDefinition", of=(LABEL,)),
    ),
    KnownKey(
        key=names.HELM_RELEASE,
        use=KeyUse.READ,
        meaning="`install` names the release that owns a definition, or Muster itself, and leaves that one alone",
        places=places("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"),
    ),
    KnownKey(
        key=names.HELM_NAMESPACE,
        use=KeyUse.READ,
        meaning="`install` names the namespace of the release that owns Muster",
        places=places("ClusterRole", "ClusterRoleBinding"),
    ),
    KnownKey(
        key=names.GPU_FRACTION,
        use=KeyUse.READ,
        meaning="a part of a device, as in KAI",
        places=_TEMPLATES,
    ),
    KnownKey(
        key=names.GPU_MEMORY,
        use=KeyUse.READ,
        meaning="MiB of a device's memory, as in KAI",
        places=_TEMPLATES,
    ),
    KnownKey(
        key=names.GPU_FRACTION_DEVICES,
        use=KeyUse.READ,
        meaning="of how many devices, as in KAI",
        places=_TEMPLATES,
    ),
    KnownKey(
        key=names.DEVICE_MEMORY,
        use=KeyUse.READ,
        meaning="MiB of memory of each device of the node",
        places=places(NODE, of=(LABEL,)),
    ),
    KnownKey(
        key=names.GPU_UNHEALTHY,
        use=KeyUse.READ,
        meaning="devices that a person calls unhealthy: `all`, or numbers and uuids, each with `=reason` if wanted",
        places=places(NODE),
    ),
    KnownKey(
        key=names.RUNS_AGENT,
        use=KeyUse.READ,
        meaning='`"true"`: the [agent](../how-to/gpu-nodes.md) runs there, though no other label tells of GPUs',
        places=places(NODE, of=(LABEL,)),
    ),
    KnownKey(
        key=names.RECOVERY_HOLD,
        use=KeyUse.READ,
        meaning='`"true"`: nothing of the [recovery](../how-to/gpu-recovery.md) of the node goes on by itself',
        places=places(NODE),
    ),
    KnownKey(
        key=names.RECOVERY_STEP,
        use=KeyUse.READ,
        meaning="the step of its recovery that is to be done now: cordon, drain, recover, verify or done",
        places=places(NODE),
    ),
    KnownKey(
        key=names.RECOVERY,
        use=KeyUse.WRITTEN,
        meaning="how far the recovery of the node has come",
        places=places(NODE),
    ),
    KnownKey(
        key=names.PROVISIONING_FOR,
        use=KeyUse.WRITTEN,
        meaning="kind and uid of the gang that [waits for nodes](../how-to/autoscaling.md)",
        places=places(PROVISIONING_REQUEST, POD_TEMPLATE, of=(LABEL,)),
    ),
    KnownKey(
        key=names.PROVISIONING_ATTEMPT,
        use=KeyUse.WRITTEN,
        meaning="the how-many-th request of the gang it is",
        places=places(PROVISIONING_REQUEST, POD_TEMPLATE),
    ),
    KnownKey(
        key=names.RECOVERY_NODE,
        use=KeyUse.WRITTEN,
        meaning="the node that the Job recovers or tests",
        places=places(JOB, TEMPLATE, POD),
    ),
    *(
        KnownKey(key=key, use=KeyUse.WRITTEN, meaning=meaning, places=places(*where, of=fields))
        for key, meaning, where, fields in (
            (names.GPU_MODEL, "model of the device; on a Node: of all its devices", (NODE, DEVICE), (LABEL,)),
            (names.GPU_COUNT, "how many devices answer", (NODE,), (LABEL,)),
            (names.GPU_DRIVER, "version of the devices' driver", (NODE,), (LABEL,)),
            (names.GPU_RUNTIME, "version of CUDA, ROCm or Level Zero", (NODE, DEVICE_OBJECT), (LABEL,)),
            (names.NVL_DOMAIN, "NVLink domain across nodes, and clique", (NODE, DEVICE), (LABEL,)),
            (names.DEVICE_INDEX, "number of the device on the node", (DEVICE,), (LABEL,)),
            (
                names.DEVICE_RESOURCE,
                "resource that the device is registered as; absent: the usual one of its vendor",
                (DEVICE,),
                (LABEL,),
            ),
            (
                names.DEVICE_OFFERED,
                "of an unhealthy device: whether the kubelet may give it to a pod",
                (DEVICE,),
                (LABEL,),
            ),
            (names.NVLINK_ISLAND, "devices with the same number are joined by NVLinks", (DEVICE,), (LABEL,)),
            (names.MIG_MODE, "whether MIG is enabled", (DEVICE,), (LABEL,)),
            (names.ECC_MODE, "whether ECC is enabled", (DEVICE,), (LABEL,)),
            (names.DEVICE_LINKS, "how each two devices are connected", (DEVICE_OBJECT,), (ANNOTATION,)),
            (names.MIG_INSTANCES, "MIG instances of each device", (DEVICE_OBJECT,), (ANNOTATION,)),
            (
                names.DEVICE_MISMATCHES,
                "pods whose devices are not as they should be",
                (DEVICE_OBJECT,),
                (ANNOTATION,),
            ),
            (
                names.HEALTH_MEMORY,
                "what the agent has to remember of faults when it starts again",
                (DEVICE_OBJECT,),
                (ANNOTATION,),
            ),
            (names.KOORDINATOR_GPU_VENDOR, "vendor of the devices", (DEVICE_OBJECT, NODE, DEVICE), (LABEL,)),
            (names.KOORDINATOR_GPU_MODEL, "model of all devices", (DEVICE_OBJECT, NODE), (LABEL,)),
            (names.KOORDINATOR_GPU_DRIVER, "version of their driver", (DEVICE_OBJECT, NODE), (LABEL,)),
        )
    ),
    KnownKey(
        key=names.COMPLETION_INDEX,
        use=KeyUse.READ,
        meaning="index of an Indexed Job's pod: the ordinal of its seat",
        places=places(POD, of=(ANNOTATION, LABEL)),
    ),
    KnownKey(
        key=names.CONTROLLER_UID,
        use=KeyUse.READ,
        meaning="uid of the pod's Job",
        places=places(POD, of=(LABEL,)),
    ),
)

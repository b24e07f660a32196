"""KAI's labels and annotations that Muster does not read, each with what users write instead.

Those of parts of devices, which Muster reads, are in ``muster_keys``.
"""

from typing import Final

from queues.api import names
from queues.api.metadata_keys.known_key import POD, TEMPLATE, KeyUse, KnownKey, places

#: Key → what its writer wants, what to write instead ("": nothing does the same).
_KEYS: Final = {
    "kai.scheduler/queue": ("the queue of the work", f"the label {names.QUEUE_LABEL}: the name of a Queue"),
    "runai/queue": ("the queue of the work", f"the label {names.QUEUE_LABEL}: the name of a Queue"),
    "kai.scheduler/batch-min-member": (
        "the least pods to start with; without it each pod of a Job starts alone",
        f"the annotation {names.GROUP_MIN_MEMBER}; without it a Job in a queue starts whole",
    ),
    "kai.scheduler/min-member": (
        "the least pods to start with",
        f"the annotation {names.GROUP_MIN_MEMBER}",
    ),
    "kai.scheduler/topology": ("the Topology whose levels are meant", "nothing: a level is known by its key"),
    "kai.scheduler/topology-required-placement": (
        "all pods in one domain of a level",
        f"{names.REQUIRED_TOPOLOGY} on the pod template: the node label key of the level",
    ),
    "kai.scheduler/topology-preferred-placement": (
        "the same, if there is such a domain",
        f"{names.PREFERRED_TOPOLOGY} on the pod template: the node label key of the level",
    ),
    "kai.scheduler/node-pool": ("nodes of one pool", "spec.nodeSelector of the pods"),
    "gpu-fraction-container-name": ("which container gets the part of a device", "nothing: the pod gets it"),
    "pod-group-name": (
        "the PodGroup of a pod",
        f"the annotation {names.GROUP_ANNOTATION}: the name of a PodGroup of {names.SCHEDULING_VOLCANO}",
    ),
    "kai.scheduler/*": ("KAI's", ""),
}

KAI_KEYS: Final = tuple(
    KnownKey(
        key=key,
        use=KeyUse.WITHOUT_EFFECT,
        meaning=meaning,
        # Names without a prefix may belong to another tool elsewhere.
        places={} if "/" in key else places(POD, TEMPLATE),
        instead=instead,
    )
    for key, (meaning, instead) in _KEYS.items()
)

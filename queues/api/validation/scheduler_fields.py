"""What Muster makes of each field of a pod that kube-scheduler reads to compare nodes, pods, volumes or devices.

Muster binds a pod to its node by required node affinity. A plugin of kube-scheduler that looks at other nodes then sees
that node alone, and one that looks at other pods or volumes can only accept it or refuse it. So each such field is
placed by, refused before seats are held, or reported. A test holds the table to the fields of PodSpec.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from queues.api.model import excerpt
from queues.api.names import DEFAULT_SCHEDULER, VOLCANO_SCHEDULER
from queues.api.validation.violations import Violation


class Handling(StrEnum):
    """What Muster makes of a field."""

    #: Placement decides by it.
    MODELLED = "modelled"
    #: A pod with it is refused with a reason, before it holds seats.
    REFUSED = "refused"
    #: Placement passes over it, and that is reported, as far as an object shows it: ``reported_violations``.
    REPORTED = "reported"


@dataclass(frozen=True, slots=True)
class SchedulerField:
    """One field, or several that are handled alike, with the plugin that reads it."""

    plugin: str
    #: Below ``spec``; ``[]`` stands for each entry of a list.
    path: str
    handling: Handling
    #: What placement does; of a field that is not modelled, what to do instead.
    says: str


_M, _R, _S = Handling.MODELLED, Handling.REFUSED, Handling.REPORTED
_NEAR = "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[]"
_APART = "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[]"
_SPREAD = "topologySpreadConstraints[]"

FIELDS: Final = (
    SchedulerField(
        "NodeResourcesFit", "containers[].resources", _M, "requests; of extended resources limits"
    ),
    SchedulerField("NodeResourcesFit", "initContainers[].resources", _M, "as kube-scheduler adds them up"),
    SchedulerField("NodeResourcesFit", "resources", _M, "requests of the pod as a whole"),
    SchedulerField("NodeResourcesFit", "overhead", _M, "added to the requests"),
    SchedulerField(
        "NodeName", "nodeName", _R, "Muster gives each pod its node: use nodeSelector or nodeAffinity"
    ),
    SchedulerField("NodePorts", "containers[].ports", _M, "host ports: one pod of a node has each"),
    SchedulerField("NodePorts", "initContainers[].ports", _M, "the same for sidecars"),
    SchedulerField("NodePorts", "hostNetwork", _M, "every container port is a host port"),
    SchedulerField("NodeAffinity", "nodeSelector", _M, "nodes that may be used"),
    SchedulerField(
        "NodeAffinity",
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        _M,
        "nodes that may be used",
    ),
    SchedulerField(
        "NodeAffinity",
        "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
        _M,
        "nodes with the higher score first",
    ),
    SchedulerField(
        "TaintToleration", "tolerations", _M, "NoSchedule and NoExecute; PreferNoSchedule is passed over"
    ),
    SchedulerField("InterPodAffinity", f"{_NEAR}.topologyKey", _M, "any label of nodes"),
    SchedulerField(
        "InterPodAffinity",
        f"{_NEAR}.labelSelector",
        _M,
        "pods of the gang and pods that run; labels in which pods of one template differ (indexes) are refused",
    ),
    SchedulerField("InterPodAffinity", f"{_NEAR}.namespaces", _M, "pods of these namespaces"),
    SchedulerField(
        "InterPodAffinity", f"{_NEAR}.namespaceSelector", _M, "pods of namespaces with these labels"
    ),
    SchedulerField("InterPodAffinity", f"{_NEAR}.matchLabelKeys", _M, "pods with the same value"),
    SchedulerField("InterPodAffinity", f"{_NEAR}.mismatchLabelKeys", _M, "pods with another value"),
    SchedulerField(
        "InterPodAffinity",
        f"{_APART}.topologyKey",
        _M,
        "any label of nodes; running pods' terms count as well",
    ),
    SchedulerField("InterPodAffinity", f"{_APART}.labelSelector", _M, "as for podAffinity"),
    SchedulerField(
        "InterPodAffinity",
        f"{_APART}.namespaces",
        _R,
        "names other than its own: it keeps pods of others off nodes",
    ),
    SchedulerField("InterPodAffinity", f"{_APART}.namespaceSelector", _R, "the same"),
    SchedulerField("InterPodAffinity", f"{_APART}.matchLabelKeys", _M, "pods with the same value"),
    SchedulerField("InterPodAffinity", f"{_APART}.mismatchLabelKeys", _M, "pods with another value"),
    SchedulerField(
        "InterPodAffinity",
        "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution",
        _M,
        "among nodes that are equal otherwise",
    ),
    SchedulerField(
        "InterPodAffinity",
        "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution",
        _M,
        "among nodes that are equal otherwise",
    ),
    SchedulerField("PodTopologySpread", f"{_SPREAD}.topologyKey", _M, "any label of nodes"),
    SchedulerField(
        "PodTopologySpread", f"{_SPREAD}.maxSkew", _M, "in the end and while pods are bound one by one"
    ),
    SchedulerField(
        "PodTopologySpread",
        f"{_SPREAD}.whenUnsatisfiable",
        _M,
        "DoNotSchedule is a rule; ScheduleAnyway decides among nodes that are equal otherwise",
    ),
    SchedulerField("PodTopologySpread", f"{_SPREAD}.labelSelector", _M, "as for podAffinity"),
    SchedulerField("PodTopologySpread", f"{_SPREAD}.matchLabelKeys", _M, "pods with the same value"),
    SchedulerField(
        "PodTopologySpread",
        f"{_SPREAD}.minDomains",
        _M,
        "with nodeAffinityPolicy Honor at most maxSkew of the pods on one node, which is all that kube-scheduler sees",
    ),
    SchedulerField("PodTopologySpread", f"{_SPREAD}.nodeAffinityPolicy", _M, "Honor and Ignore"),
    SchedulerField("PodTopologySpread", f"{_SPREAD}.nodeTaintsPolicy", _M, "Honor and Ignore"),
    SchedulerField(
        "DynamicResources",
        "resourceClaims",
        _M,
        "templates of claims are counted by class; shared claims are refused",
    ),
    SchedulerField(
        "VolumeBinding, VolumeZone, NodeVolumeLimits, VolumeRestrictions",
        "volumes[].persistentVolumeClaim",
        _M,
        "where the volume is or can be made, ReadWriteOncePod, and how many volumes of a CSI driver a node can attach "
        "(CSINode)",
    ),
    SchedulerField(
        "VolumeBinding, NodeVolumeLimits", "volumes[].ephemeral", _M, "as for persistentVolumeClaim"
    ),
    SchedulerField(
        "VolumeBinding",
        "volumes[] of drivers with CSIStorageCapacity",
        _S,
        "found when kube-scheduler refuses the pod (Refused): drivers report the capacity some time after a volume was "
        "made, so it is no amount to place by",
    ),
    SchedulerField(
        "VolumeBinding",
        "volumes[] of claims with a selector",
        _S,
        "the selector is passed over; found when kube-scheduler refuses the pod (Refused)",
    ),
    SchedulerField(
        "VolumeRestrictions, VolumeZone, NodeVolumeLimits",
        "volumes[] of in-tree drivers",
        _S,
        "where it can be used is not looked at, and kube-scheduler may refuse the pod (Refused): use a claim of a CSI "
        "driver",
    ),
    SchedulerField(
        "GangScheduling",
        "schedulingGroup",
        _S,
        "kube-scheduler waits for the group as well, so pods with seats wait for others: leave it out, Muster starts "
        "gangs whole",
    ),
    SchedulerField(
        "DefaultPreemption",
        "priorityClassName",
        _M,
        "the queue decides; its twin that never preempts takes its place",
    ),
    SchedulerField("DefaultPreemption", "preemptionPolicy", _M, "the same"),
    SchedulerField("DefaultPreemption", "priority", _M, "the same"),
    SchedulerField("SchedulingGates", "schedulingGates", _R, "of other controllers: they would hold seats"),
    SchedulerField(
        "profiles",
        "schedulerName",
        _S,
        "another scheduler has rules of its own, which Muster does not know; if it is the stock scheduler, the setting "
        "schedulerAliases has to say so",
    ),
)

#: In-tree drivers whose volumes have a place or a limit.
IN_TREE: Final = frozenset(
    (
        "awsElasticBlockStore",
        "azureDisk",
        "cinder",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "iscsi",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    )
)

#: Fields of PodSpec and of its parts that say nothing about which node a pod may have.
NOT_ABOUT_NODES: Final[Mapping[str, frozenset[str]]] = {
    "PodSpec": frozenset(
        (
            "activeDeadlineSeconds",
            "automountServiceAccountToken",
            "dnsConfig",
            "dnsPolicy",
            "enableServiceLinks",
            "ephemeralContainers",
            "hostAliases",
            "hostIPC",
            "hostPID",
            "hostUsers",
            "hostname",
            "hostnameOverride",
            "imagePullSecrets",
            "os",
            "readinessGates",
            "restartPolicy",
            "runtimeClassName",  # its overhead, nodeSelector and tolerations are written into the pod
            "securityContext",
            "serviceAccount",
            "serviceAccountName",
            "setHostnameAsFQDN",
            "shareProcessNamespace",
            "subdomain",
            "terminationGracePeriodSeconds",
        )
    ),
    "Volume": frozenset(
        (
            "azureFile",
            "cephfs",
            "configMap",
            "csi",  # of inline volumes kube-scheduler counts none
            "downwardAPI",
            "emptyDir",
            "gitRepo",
            "glusterfs",
            "hostPath",
            "image",
            "name",
            "nfs",
            "projected",
            "secret",
        )
    ),
}

#: Names of the stock scheduler, as far as no setting says otherwise.
STOCK_SCHEDULERS: Final = frozenset((DEFAULT_SCHEDULER, VOLCANO_SCHEDULER))

_SAYS: Final = {field.path: field.says for field in FIELDS}


def reported_violations(
    spec: Any, path: str, schedulers: Collection[str] | None = None
) -> Iterator[Violation]:
    """Warnings about fields of a pod's spec that are reported only, with the words of the table.

    ``schedulers``: names of the stock scheduler; None if not known.
    """
    if not isinstance(spec, Mapping):
        return
    if spec.get("schedulingGroup"):
        yield _reported(f"{path}.schedulingGroup", "a group", "schedulingGroup")
    if (other := other_scheduler(spec, path, schedulers)) is not None:
        yield other
    volumes = spec.get("volumes")
    for index, volume in enumerate(volumes if isinstance(volumes, list) else ()):
        for driver in sorted(IN_TREE & volume.keys() if isinstance(volume, Mapping) else ()):
            at = f"{path}.volumes[{index}].{driver}"
            yield _reported(at, "a volume of an in-tree driver", "volumes[] of in-tree drivers")


def other_scheduler(
    spec: Mapping[str, Any], path: str, schedulers: Collection[str] | None = None
) -> Violation | None:
    """The warning about a scheduler that is not the stock one, in the spec of a pod or of a Volcano Job."""
    name = spec.get("schedulerName")
    if not isinstance(name, str) or name in ("", *(STOCK_SCHEDULERS if schedulers is None else schedulers)):
        return None
    return _reported(f"{path}.schedulerName", excerpt(name), "schedulerName")


def _reported(path: str, found: str, field: str) -> Violation:
    return Violation(path, found, f"none: {_SAYS[field]}", tolerable=True)


_HEAD: Final = """\
# What kube-scheduler compares, and what Muster makes of it

<!-- Written by `python -m deploy.reference_pages` from queues/api/validation/scheduler_fields.py; do not edit. -->

Muster chooses the node of each pod and binds the pod to it by required node affinity. kube-scheduler still checks the
pod on that node. A plugin that compares nodes sees that node alone; one that looks at other pods or volumes can only
accept it or refuse it. So each field that such a plugin reads is

- **modelled**: placement decides by it, with the meaning that kube-scheduler gives it;
- **refused**: a pod with it waits with a reason, before it holds seats;
- **reported**: placement passes over it. What that means is said below, in a warning of the admission webhook for
  Volcano's kinds and of `muster check` for all, and where kube-scheduler refuses the pod, by the reason
  [`Refused`](reasons.md) with its words.

Fields of `spec` that are not in the table say nothing about which node a pod may have.

| field | plugin | Muster | |
|---|---|---|---|
"""

_TAIL: Final = """
Rules about other pods hold for the gang as a whole: places are chosen so that the rules of all its pods hold in the
end, whatever order kube-scheduler binds them in. So a gang waits where its pods could be bound in one order only, which
breaks the rules of those that were bound first. Pods that are being deleted count until they are gone. Rules that an
administrator gives kube-scheduler for all pods (`defaultConstraints` of PodTopologySpread, `addedAffinity` of
NodeAffinity) are not seen; hard ones lead to `Refused`.

The volumes of a node are those of its pods, each once. Volumes that are still being detached, whose pods are gone,
count for kube-scheduler only. Members of one pod set with claims of their own count with as many volumes as the member
with most of them.

The counts of other pods cost memory only while some pod has such rules, and volumes only while a pod with volumes
waits.
"""


def scheduler_page() -> str:
    """The page ``docs/reference/scheduler-fields.md``."""
    rows = (f"| `{field.path}` | {field.plugin} | {field.handling} | {field.says} |\n" for field in FIELDS)
    return _HEAD + "".join(rows) + _TAIL

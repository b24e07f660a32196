"""Pods, of workloads or not."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from queues.api.reading.device_shares import with_share
from queues.resources import Resources
from queues.workload import (
    EVERYWHERE,
    AdmissionId,
    DeviceShare,
    HostPort,
    NodeFilter,
    NodeName,
    Partition,
    PodSet,
    Preference,
    QueueName,
    WorkloadKey,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """What the owner of a workload says about its run time and its eviction. Durations in seconds."""

    #: The user who created the object; "": unknown.
    user: str = ""
    run_time: int | None = None
    checkpoint_interval: int | None = None
    min_run_time: int = 0
    #: None: not given.
    preemptable: bool | None = None
    cooldown: int = 0


NOTHING_SAID: Final = Conduct()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodShape:
    """What one pod asks for, and where it may go. Pods of equal shapes are interchangeable.

    Fields mean what they mean in ``PodSet``. A new field belongs here, in ``PodSet``, and in what reads it
    (``admission.decode.topology_requests``); digests and pod sets follow.
    """

    #: Requests as written, ``pods: 1`` included; without the share of devices.
    takes: Resources
    nodes: NodeFilter = EVERYWHERE
    required_topology: str | None = None
    preferred_topology: str | None = None
    prefers: tuple[Preference, ...] = ()
    ports: tuple[HostPort, ...] = ()
    partitions: tuple[Partition, ...] = ()
    together: str | None = None
    balanced: bool = False
    share: DeviceShare | None = None

    def details(self) -> dict[str, object]:
        """The fields beyond resources, nodes and levels, which most pods leave out. Empty: all are left out."""
        found = {name: getattr(self, name) for name in SHAPE_DETAILS}
        return found if any(found.values()) else {}

    def pod_set(self, name: str, count: int = 0) -> PodSet:
        """So many pods of this shape."""
        return PodSet(
            name=name,
            count=count,
            takes=with_share(self.takes, self.share),
            nodes=self.nodes,
            required_topology=self.required_topology,
            preferred_topology=self.preferred_topology,
            **self.details(),  # type: ignore[arg-type]
        )


#: Fields of a shape, and of a pod set, that most pods leave out; in the order of digests that are stored.
SHAPE_DETAILS: Final = tuple(
    each.name
    for each in fields(PodShape)
    if each.name not in ("takes", "nodes", "required_topology", "preferred_topology")
)


class PodPhase(StrEnum):
    """How far a pod is."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFact:
    """A pod, of a workload or not."""

    uid: str
    namespace: str
    name: str
    phase: PodPhase
    ready: bool = False
    #: Bound to this node.
    node: NodeName | None = None
    #: Still carries the gate ``muster.dev/admission``.
    gated: bool = False
    #: Carries scheduling gates other than Muster's.
    held_by_others: bool = False
    deleting: bool = False
    #: Being deleted without a grace period, or the grace period is over.
    forced: bool = False
    #: The pod had ended before its deletion was requested; None: its object no longer shows whether.
    ended_first: bool | None = True
    #: Carries Muster's finalizer: the pod does not disappear before Muster removes it.
    kept: bool = False
    shape: PodShape
    priority: int = 0
    created: int = 0
    #: Queue named on the pod itself (label or Volcano's annotation); None: not ours unless its owner is.
    queue: QueueName | None = None
    #: The workload the pod belongs to as far as itself tells: its controlling Job, or itself; None: foreign.
    owner: WorkloadKey | None = None
    #: Has a controller that makes a successor when it is deleted.
    controlled: bool = False
    #: Name of the PodGroup in the same namespace, if the pod names one.
    group: str | None = None
    #: Task or template of a Volcano Job, else "".
    task: str = ""
    #: Task index of a Volcano Job's pod or completion index of an Indexed Job's.
    index: int | None = None
    #: Annotations written by Muster.
    admission: AdmissionId | None = None
    seat: tuple[str, int] | None = None
    #: Made again by Muster: uid of the pod that was taken back.
    recreated_from: str | None = None
    #: volcano.sh/job-version; a pod of an older version is stale.
    version: int = 0
    #: Since when (seconds) the stock scheduler says Unschedulable, with its message; None: it does not.
    refused: tuple[int, str] | None = None
    #: Exit code of the first container that terminated with one, once the pod failed.
    exit_code: int | None = None
    restarts: int = 0
    conduct: Conduct = NOTHING_SAID
    #: Those that all pods of one template share: what PodDisruptionBudgets select by.
    labels: tuple[tuple[str, str], ...] = ()

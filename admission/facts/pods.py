"""Pods, ours and other people's."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from queues.resources import Resources
from queues.workload import (
    EVERYWHERE,
    AdmissionId,
    DeviceShare,
    HostPort,
    NodeFilter,
    NodeName,
    Partition,
    Preference,
    QueueName,
    WorkloadKey,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """What its owner says about interrupting a piece of work. Seconds."""

    #: Who asked; "": unknown.
    user: str = ""
    run_time: int | None = None
    checkpoint_interval: int | None = None
    min_run_time: int = 0
    #: None: nothing is said.
    preemptable: bool | None = None
    cooldown: int = 0


NOTHING_SAID: Final = Conduct()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """What a pod template says about where its pods go, beyond the nodes and the level they need."""

    prefers: tuple[Preference, ...] = ()
    ports: tuple[HostPort, ...] = ()
    partitions: tuple[Partition, ...] = ()
    together: str | None = None
    balanced: bool = False
    share: DeviceShare | None = None


class PodPhase(StrEnum):
    """How far a pod is."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFact:
    """A pod, ours or other people's."""

    uid: str
    namespace: str
    name: str
    phase: PodPhase
    ready: bool = False
    #: Bound to this node.
    node: NodeName | None = None
    #: Still carries the gate ``muster.dev/admission``.
    gated: bool = False
    #: Carries other gates than ours.
    held_by_others: bool = False
    deleting: bool = False
    #: Nobody waits for it to end: its grace period is over, or it was deleted without one.
    forced: bool = False
    #: It had ended when its deletion was asked for; None: the pod alone cannot tell any more.
    ended_first: bool | None = True
    #: Carries our finalizer: it does not disappear before Muster says so.
    kept: bool = False
    #: Requests of the pod, ``pods: 1`` included.
    takes: Resources
    nodes: NodeFilter = EVERYWHERE
    required_topology: str | None = None
    preferred_topology: str | None = None
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
    placing: Placing = Placing()

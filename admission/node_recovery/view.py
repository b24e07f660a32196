"""What the cluster shows of a node with devices, as far as its recovery asks for it.

Views have to show every write that was sent, also where the watch is behind: two plans on one old view would close two
nodes where one is allowed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from admission.facts.devices import DeviceFault
from queues.workload import NodeName, WorkloadKey

#: How the fault of a node that kills pods is called among accepted faults.
KILLS_PODS: Final = "kills-pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackHole:
    """The finding that a node kills pods: what was seen, and since when."""

    since: int
    #: Different gangs with a pod that failed early.
    gangs: int
    #: Trials that failed.
    trials: int = 0

    def __str__(self) -> str:
        return f"pods of {self.gangs} different gangs failed soon after their start"


class TaintOwner(StrEnum):
    """Who wrote the taint ``muster.dev/gpu-fault`` that a node has."""

    #: The node does not have it.
    ABSENT = "absent"
    MUSTER = "muster"
    PERSON = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangOnNode:
    """A gang that holds devices of the node."""

    key: WorkloadKey
    #: Numbers of its devices there. None if not known, so that a fault of the node may be on one of them.
    devices: frozenset[int] | None = None
    #: Its eviction is under way, or its pods are ending.
    leaving: bool = False

    def is_on(self, faults: Iterable[DeviceFault]) -> bool:
        """Whether one of these faults may be on one of its devices."""
        return any(self.devices is None or fault.number in self.devices for fault in faults)


class JobProgress(StrEnum):
    """How far a Job is."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryJob:
    """A Job that was made for a node's recovery."""

    namespace: str
    name: str
    progress: JobProgress = JobProgress.RUNNING
    #: Seconds since the epoch.
    created: int
    deleting: bool = False

    @property
    def is_running(self) -> bool:
        """Whether it still does something."""
        return self.progress is JobProgress.RUNNING and not self.deleting


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node with devices."""

    name: NodeName
    #: Of unhealthy devices, each with the time since when it is there.
    faults: tuple[DeviceFault, ...] = ()
    #: None if it does not kill pods, as far as is known.
    black_hole: BlackHole | None = None
    #: Whether devices are reported, those that had the fault for which the node was closed among them.
    is_reported: bool = True
    #: Whether its kubelet is ready, and whether a person has cordoned it (``kubectl cordon``).
    ready: bool = True
    cordoned: bool = False
    taint: TaintOwner = TaintOwner.ABSENT
    #: Value of ``muster.dev/recovery``; "": none.
    annotation: str = ""
    #: Gangs with devices of the node, also those that are leaving.
    gangs: tuple[GangOnNode, ...] = ()
    #: Pods with devices of the node that Muster did not admit. Pods of recovery Jobs do not count.
    foreign_pods: int = 0
    #: Jobs of the recovery of this node, by name.
    jobs: Mapping[str, RecoveryJob] = field(default_factory=dict)
    #: Why the API server refused the Job of the present phase the last time; "": it did not.
    refused: str = ""

    @property
    def occupied(self) -> bool:
        """Whether pods hold devices of the node."""
        return bool(self.gangs or self.foreign_pods)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has to be looked at."""
        is_tainted = self.taint is TaintOwner.MUSTER
        return not (self.faults or self.black_hole or self.annotation or self.jobs or is_tainted)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """The health of the nodes of a cluster at one moment."""

    #: Nodes with an unhealthy device.
    nodes: int = 0
    #: Unhealthy devices, by reason.
    faults: Mapping[str, int] = field(default_factory=dict)
    #: Closed nodes, by phase.
    closed: Mapping[str, int] = field(default_factory=dict)

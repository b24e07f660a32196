"""All that is known about one workload: from the cluster, from the ledger, and from the last minutes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from admission.decode.workload_facts import digest
from admission.facts.devices import DeviceFault
from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import Child, WorkloadFact
from admission.workloads.admission_checks import NO_CHECKS, CheckProgress
from admission.workloads.pod_sets import NOTHING_ASKED, NOWHERE_REFUSED, RefusedPlaces, TemplateShapes
from queues.admissions import NO_SETBACKS, Admission, Recreation, Setbacks
from queues.plan import Reason
from queues.quota.namespace_quota import NamespaceQuota
from queues.quota.queue import DEFAULT_POLICY, QueuePolicy, RunLimit
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import AdmissionId, NodeName, Obstacle, QueueName, Result, WorkloadKey

#: Where Volcano puts what names no queue.
DEFAULT_QUEUE = QueueName("default")


#: Indices of seats by admission.
SeatIndices = Mapping[AdmissionId, frozenset[int]]
#: Seats of a workload for which a pod may still come although none is seen: what the writers know.
AwaitedSeatsOf = Callable[[WorkloadKey], SeatIndices]


def joined(*several: SeatIndices) -> SeatIndices:
    """The seats of several sources together."""
    found = [each for each in several if each]
    if len(found) < 2:
        return found[0] if found else {}
    ids = {id_ for each in found for id_ in each}
    return {id_: frozenset[int]().union(*(each.get(id_, frozenset()) for each in found)) for id_ in ids}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long to wait before drawing conclusions. Seconds."""

    #: A refusal by the stock scheduler counts after this.
    refusal_grace: int = 10
    #: A gang that went back whole waits this long, doubled each time …
    backoff: int = 10
    #: … up to this.
    backoff_limit: int = 600
    #: A pod that is being deleted on a node that is not ready counts as gone so long after both its grace period is
    #: over and the node is not ready; 0: never.
    dead_node: int = 360
    #: Longest grace period of a pod that is evicted.
    eviction_grace: int = 600
    #: Pods that have been ready together for so long are ready.
    ready_for: int = 30

    #: A Job that leaves its seats makes no pods any more so long after it was suspended, or deleted, while its
    #: controller does not say so: after this and ``job_sync_per_pod`` for each pod that one sync may make.
    job_sync: int = 10
    #: The controller's default of 20 requests a second makes four pods in this time.
    job_sync_per_pod: float = 0.2
    #: A workload waits so long at most for what its templates become; 0: it does not wait.
    dry_run: int = 0

    def next_try(self, rollbacks: int, now: int) -> int:
        """When a gang is tried again that goes back now, after so many rollbacks before."""
        return now + min(self.backoff_limit, self.backoff << min(rollbacks, 10))


class HeldBack(NamedTuple):
    """A workload that is not considered for a while, though the nodes may have room."""

    #: Of the workload; one with another generation is not held back.
    generation: str
    obstacle: Obstacle


class MissingSince(NamedTuple):
    """Since when (seconds) an admission lacks pods that it had; 0: it does not."""

    #: A seat has no pod.
    seat: int = 0
    #: It has fewer pods than it needs to go on.
    needed: int = 0


NOT_MISSING: Final = MissingSince()


#: Seconds without another heartbeat after which nobody is at a shell any more.
SILENT_SHELL_SECONDS: Final = 300


class ShellHeartbeat(NamedTuple):
    """The last heartbeat of a shell, by whatever clock it was written, and when (seconds) the leader saw it first."""

    #: "": it has none.
    text: str = ""
    since: int = 0

    @property
    def lost_at(self) -> int | None:
        """When (seconds) the shell is over unless there is another one; None if it has none."""
        return self.since + SILENT_SHELL_SECONDS if self.text else None


NO_HEARTBEAT: Final = ShellHeartbeat()


class Remembered(NamedTuple):
    """What only a leader knows that has watched a workload: input for its next state."""

    #: Since when (seconds) a Job that leaves seats is being deleted, is suspended and has no pod, or is smaller, while
    #: its controller may still make some; 0: that is not so.
    stopping_since: int = 0
    #: Since when (seconds) it is over and holds seats still; 0: that is not so.
    over_since: int = 0
    #: A Job lacks no pod that could run at once, or lacked none when it began to leave its seats.
    pods_seen: bool = False
    #: Since when its admissions lack pods that they had; empty: they lack none.
    missing_since: Mapping[AdmissionId, MissingSince] = MappingProxyType({})
    heartbeat: ShellHeartbeat = NO_HEARTBEAT


NOTHING_REMEMBERED: Final = Remembered()


class PodOrigin(NamedTuple):
    """The admission of another workload for which a pod was let go."""

    queue: QueueName
    #: When the first admission was opened that its workload held then (seconds since the epoch).
    since: int


class WorkloadInputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known about one workload.

    A struct because one is made whenever a state is derived: made without Python code.
    """

    key: WorkloadKey
    #: None if the object is gone, or if it is a bare pod.
    fact: WorkloadFact | None
    #: Its pods, by name.
    pods: Sequence[PodFact]
    #: What its operator made for it, by name.
    children: Sequence[Child] = ()
    #: Its admissions that are not closed, oldest first.
    admissions: Sequence[Admission]
    #: None if not numbered yet.
    arrival: int | None
    #: Terminal outcomes of a Volcano Job's seats.
    outcomes: Mapping[tuple[str, int], PodPhase] = {}
    #: Of a Volcano Job that has ended, or was stopped: no pod comes any more. None if it goes on, or is another kind.
    job_result: Result | None = None
    #: A Volcano Job that restarts keeps its seats: what ends meanwhile may be restarted next.
    job_restarts: bool = False
    setbacks: Setbacks = NO_SETBACKS
    #: Why it was evicted last, if that is shown while it waits (``LastEviction``); None if it was not, or runs again.
    last_eviction: ReasonCode | None = None
    #: The policy that counts for its queue.
    policy: QueuePolicy = DEFAULT_POLICY
    #: The policy of the queue in which it was admitted.
    held_by: QueuePolicy = DEFAULT_POLICY
    #: How long it may hold its seats, by the queue in which it was admitted; None for ever, or if it holds none.
    run_limit: RunLimit | None = None
    #: When (seconds) one of its bound pods was last seen to go, which made room; 0: not in this term.
    pod_left_at: int = 0
    #: From its last state; nothing: it had none in this term.
    remembered: Remembered = NOTHING_REMEMBERED
    #: ``WorkloadFact.suspended_at`` of a Job as it was last seen resumed, in seconds; 0: its controller had reported by
    #: then that it is resumed, or it was not seen so in this term.
    suspended_before: int = 0
    #: Faults of devices that pods of it have, by the pod's uid.
    device_faults: Mapping[str, DeviceFault] = {}
    #: Nodes that are being recovered and from which it is evicted, each with why.
    recovery: Mapping[NodeName, str] = {}
    #: Nodes of its seats on which a pod that is not there yet can no longer start …
    dead_nodes: frozenset[NodeName] = frozenset()
    #: … among them healthy ones, but others have taken the room.
    taken_nodes: frozenset[NodeName] = frozenset()
    #: Nodes that are not ready, on which pods of it are being deleted: since when (seconds). None if it is confirmed
    #: that nothing runs there any more.
    silent_nodes: Mapping[NodeName, int | None] = {}
    #: Where the stock scheduler refused its pods: it is not to be seated there.
    refused: RefusedPlaces = NOWHERE_REFUSED
    #: Nodes that may give it an unhealthy device that it had before: neither there.
    avoided_nodes: frozenset[NodeName] = frozenset()
    #: Seats (indices) by admission for which a pod may still come although none is seen: a write that brings one is
    #: queued, under way, or was sent and its effect is not seen yet.
    awaited: SeatIndices = {}
    #: What the API server refuses to the writers; None for nothing.
    refusal: Reason | None = None
    #: Admission ids on pods that the ledger has closed: such pods are removed, not adopted.
    closed: frozenset[AdmissionId] = frozenset()
    #: By pod (uid): of pods that were let go for an admission of another workload that the ledger knows. They stay
    #: charged to its queue, whatever they, or the object that they belong to now, may name, and its time goes on.
    origins: Mapping[str, PodOrigin] = {}
    #: What the API server makes of its templates.
    templates: TemplateShapes = NOTHING_ASKED
    #: Its volumes are expected to be known any moment, until this second; 0: they are known, or it has none.
    volumes_awaited_until: int = 0
    #: What its pods asked beyond that when they came up, by pod set: something adds to them.
    larger: Mapping[str, Resources] = {}
    #: ResourceQuotas of its namespace, where its pods are still to be made.
    quotas: tuple[NamespaceQuota, ...] = ()
    #: Why it is held back; None if it is not.
    held_back: HeldBack | None = None
    #: A pod without a group: what keeps it from being one of the Job that it names as its controller; "": nothing.
    disowned: str = ""
    #: Its namespace may use its queue, so that pods that run may be adopted into it.
    may_use_queue: bool = True
    #: Pods of it that were taken back, or are about to be, and are to be made again.
    recreations: tuple[Recreation, ...] = ()
    #: What it waits for that it is to come after; None if nothing.
    dependency: Obstacle | None = None
    #: How far the AdmissionChecks of its queue are.
    checks: tuple[CheckProgress, ...] = NO_CHECKS


def revision_of(fact: WorkloadFact | None, pods: Sequence[PodFact]) -> str:
    """A digest of what the object of a workload is now: of what it asks, and of the annotation for another try."""
    if fact is not None:
        return digest(fact.generation, fact.conduct.retry)
    return digest(pods[0].conduct.retry if pods else "")

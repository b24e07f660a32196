"""What a new leader reads from Postgres at the start of its term: everything open that the cluster does not show."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from queues.admissions import Admission, Claim, LastEviction, PodOutcome, Recreation, Setbacks
from queues.plan import Reason
from queues.plugins.registry import PluginSetAside
from queues.workload import NodeName, QueueName, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldRows:
    """The open rows of the ledger and of what was observed."""

    #: Sequence number of the last transaction of the ledger; 0: there was none.
    ledger_seq: int = 0
    #: Admissions that are not closed, oldest first.
    admissions: Sequence[Admission] = ()
    #: Sequence number of arrival.
    arrivals: Mapping[WorkloadKey, int] = field(default_factory=dict)
    #: Queue of each workload that is stored as ended.
    ended: Mapping[WorkloadKey, QueueName] = field(default_factory=dict)
    #: Ends of pods, oldest first; those of earlier versions of a Volcano Job among them.
    outcomes: Sequence[PodOutcome] = ()
    setbacks: Mapping[WorkloadKey, Setbacks] = field(default_factory=dict)
    claims: Sequence[Claim] = ()
    #: Phase, version, retryCount … of Volcano Jobs, as ``admission.volcano_jobs.state`` writes them.
    job_states: Mapping[WorkloadKey, Mapping[str, Any]] = field(default_factory=dict)
    #: Why workloads wait, as last stored.
    reasons: Mapping[WorkloadKey, Reason] = field(default_factory=dict)
    #: Queues and nodes that were there when the last leader stopped: what is gone by now is removed.
    queues: AbstractSet[QueueName] = frozenset()
    nodes: AbstractSet[NodeName] = frozenset()
    #: Parent of each queue that is stored, also of those that were removed while something of them is held.
    parents: Mapping[QueueName, QueueName | None] = field(default_factory=dict)
    #: Plug-ins that are set aside, by the queue that names them.
    plugins_set_aside: Mapping[QueueName, tuple[PluginSetAside, ...]] = field(default_factory=dict)
    #: Pods that were deleted for a victim, or are about to be, and have to be created again.
    recreations: Sequence[Recreation] = ()
    #: Last eviction of each workload that waits again since another one took its place.
    last_evictions: Mapping[WorkloadKey, LastEviction] = field(default_factory=dict)

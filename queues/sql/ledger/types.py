"""What apply hands to the ledger besides the values of the plan (``queues.plan``), and what it gets back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from queues.quota.posting import Rejection
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, QueueName, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerOutcome:
    """What became of the rows given to ``admit`` or ``adopt``, by their index there."""

    accepted: Mapping[int, AdmissionId] = field(default_factory=dict)
    rejected: Mapping[int, Rejection] = field(default_factory=dict)
    #: Since when the workloads of the accepted rows hold seats without a break (seconds since the epoch).
    starts: Mapping[WorkloadKey, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What ``free`` really gave back; what was free already is absent."""

    #: By admission: indices that ended now.
    seats: Mapping[AdmissionId, frozenset[int]]
    closed: frozenset[AdmissionId]


DecisionCode = ReasonCode | Literal["gang", "elastic", "running", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One line of the decision log: workload, rule, beneficiary and the numbers it was decided on."""

    #: admit | adopt | evict | free | reject | claim
    kind: str
    workload: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    #: Of a reason; else by which rule seats were given, or that they ended.
    code: DecisionCode
    message: str = ""
    admission: AdmissionId | None = None
    beneficiary: WorkloadKey | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)

"""How far the recovery of a node has come: what Muster remembers of it, as an annotation of the Node.

Everything else is read from the cluster, so that another leader goes on where this one stops.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from queues.text_format import rfc3339

_Made = TypeVar("_Made")

#: Characters of the text of a fault, and of the annotation as a whole, that are kept or read.
LONGEST_FAULT: Final = 300
_LONGEST_ANNOTATION: Final = 8192
#: Entries of ``accepted``: a node has at most sixteen devices, and each may have several faults.
_MOST_ACCEPTED: Final = 64


class RecoveryPhase(StrEnum):
    """Where a node is on its way out of service and back."""

    #: In service, as far as recovery is concerned.
    NONE = "none"
    #: It gets no new GPU work.
    CORDONED = "cordoned"
    #: Its gangs leave.
    DRAINING = "draining"
    #: A recovery Job runs on it, or others repair it.
    RECOVERING = "recovering"
    #: It is shown to be well, or not.
    VERIFYING = "verifying"
    #: All attempts are used up. It needs a person.
    FAILED = "failed"

    @property
    def is_out(self) -> bool:
        """Whether a node in this phase has Muster's taint."""
        return self is not RecoveryPhase.NONE


class FaultCause(StrEnum):
    """What a node is out of service for."""

    #: A device is unhealthy.
    DEVICE = "device"
    #: Pods of different gangs failed on it soon after their start.
    KILLS_PODS = "kills-pods"
    #: The test Job failed, although no fault is reported.
    VERIFICATION = "verification"
    #: A person wanted it.
    PERSON = "person"


class StartedBy(StrEnum):
    """Whose decision the present phase is."""

    MUSTER = "muster"
    PERSON = "person"


class WaitsFor(StrEnum):
    """What keeps a recovery from going on, beyond the time that its phase takes."""

    #: Too many nodes are out of service already.
    CIRCUIT_BREAKER = "circuit-breaker"
    #: The CronJob that the Job is to be made from does not exist.
    TEMPLATE = "template"
    #: The API server refuses the Job.
    JOB_REFUSED = "job-refused"
    #: Pods with devices that Muster did not admit are on the node: it does not evict them.
    FOREIGN_PODS = "foreign-pods"
    #: The agent has not read the devices since the phase began.
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryState:
    """What is remembered of a node's recovery. Times in seconds since the epoch; 0: not known."""

    phase: RecoveryPhase = RecoveryPhase.NONE
    #: When the phase began.
    since: int = 0
    #: When the fault began, for the time to repair.
    fault_since: int = 0
    #: None: there is no fault.
    cause: FaultCause | None = None
    #: The fault in words, for people.
    fault: str = ""
    #: Recovery attempts that were begun. Kept after a recovery, since a fault that soon comes back goes on counting.
    attempts: int = 0
    #: Name of the Job of this phase, once it was seen: if it is gone it is not made again. "": not seen yet.
    job: str = ""
    by: StartedBy = StartedBy.MUSTER
    #: Faults that a person has accepted: nothing follows from them as long as they are there.
    accepted: tuple[str, ...] = ()
    waits: WaitsFor | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not (self.phase.is_out or self.attempts or self.accepted or self.waits)

    def annotation(self) -> str:
        """The value of ``muster.dev/recovery``; "": the annotation is not there."""
        if self.is_empty:
            return ""
        fields: dict[str, Any] = {
            "phase": self.phase,
            "since": rfc3339(self.since) if self.since else None,
            "faultSince": rfc3339(self.fault_since) if self.fault_since else None,
            "cause": self.cause,
            "fault": self.fault,
            "attempts": self.attempts,
            "job": self.job,
            "by": self.by,
            "accepted": self.accepted[:_MOST_ACCEPTED],
            "waits": self.waits,
        }
        return json.dumps({name: value for name, value in fields.items() if value}, separators=(",", ":"))


def read_state(annotation: str) -> RecoveryState | None:
    """The state that an annotation tells; "": nothing is remembered. None: it cannot be read."""
    if not annotation:
        return RecoveryState()
    if len(annotation) > _LONGEST_ANNOTATION:
        return None
    try:
        fields = json.loads(annotation)
        return _state(fields) if isinstance(fields, dict) else None
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _state(fields: Mapping[str, Any]) -> RecoveryState:
    attempts = fields.get("attempts", 0)
    accepted = fields.get("accepted", [])
    if type(attempts) is not int or not 0 <= attempts < 10_000 or not isinstance(accepted, list):
        raise ValueError("found another type or amount")
    return RecoveryState(
        phase=RecoveryPhase(_text(fields.get("phase"))),
        since=_seconds(fields.get("since")),
        fault_since=_seconds(fields.get("faultSince")),
        cause=_optional(FaultCause, fields.get("cause")),
        fault=_text(fields.get("fault"))[:LONGEST_FAULT],
        attempts=attempts,
        job=_text(fields.get("job")),
        by=_optional(StartedBy, fields.get("by")) or StartedBy.MUSTER,
        accepted=tuple(_text(each) for each in accepted[:_MOST_ACCEPTED]),
        waits=_optional(WaitsFor, fields.get("waits")),
    )


def _optional(made: Callable[[str], _Made], value: object) -> _Made | None:
    return made(value) if isinstance(value, str) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> int:
    if not isinstance(value, str):
        return 0
    moment = datetime.fromisoformat(value)
    return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()))

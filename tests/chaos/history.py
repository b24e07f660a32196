"""What a chaos run records, and its checks read afterwards: every change of every object and of every row.

Nothing here is worked out: objects are documents as the API server stored them, rows are those that a trigger saw
(``tests.chaos.row_changes``). So one history can be stored, checked again with stricter checks, and read by people.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

Document = dict[str, Any]
ChangeKind = Literal["ADDED", "MODIFIED", "DELETED"]

#: Writers of objects that are no replica of Muster.
USER, JOB_CONTROLLER, SCHEDULER, KUBELET, NODE_CONTROLLER = (
    "user",
    "job-controller",
    "scheduler",
    "kubelet",
    "node-controller",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """One change of one object, in the order in which the API server made it."""

    #: The resource version that it made: one order for all kinds. No number is missing on the model API server.
    number: int
    #: Seconds since the run began, by a clock that no fault sets.
    at: float
    #: ``pods``, ``jobs``, ``jobs.batch.volcano.sh``, ``podgroups``, ``queues``, ``nodes``, ``namespaces`` ….
    resource: str
    change: ChangeKind
    #: The whole object afterwards; for DELETED as it was last, with the resource version of its deletion.
    document: Document
    #: ``USER`` …, the name of a replica, or "": unknown.
    writer: str = ""
    #: Seconds by which it may have happened before ``at``: it was not seen at once.
    late: float = 0.0

    @property
    def earliest(self) -> float:
        """When it can have happened at the earliest, as ``at``."""
        return self.at - self.late


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """One change of one row of Muster's database, committed. ``before`` None: inserted; ``after`` None: deleted."""

    #: Grows; of two transactions that lock the same row, the earlier one has the smaller numbers.
    number: int
    #: Rows of one transaction have the same; it says nothing about order.
    transaction: int
    #: Seconds since the epoch, by the clock of the database's machine that no fault sets.
    at: float
    #: Role that the session was opened with: each replica has its own.
    writer: str
    table: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    #: Seconds by which the clock that the database goes by was ahead of that.
    ahead: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that was done to the run."""

    #: Seconds since the run began.
    at: float
    #: ``kill``, ``stop``, ``continue``, ``postgres-killed``, ``answer-lost`` ….
    name: str
    #: Name of a replica, or what else it was done to.
    target: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a replica's log."""

    replica: str
    message: str
    level: str = "info"
    #: What else the line says; the time by the replica's clock among it.
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """A turn that a leader has ended."""

    #: Seconds since the run began.
    at: float
    replica: str
    #: Seconds of its decision; 0: there was nothing to decide.
    decided_in: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One run from its beginning to its end."""

    seed: int
    #: Environment that all replicas were given.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Seconds since the epoch when the run began; ``RowChange.at`` minus this is like ``ObjectChange.at``.
    began: float = 0.0
    objects: tuple[ObjectChange, ...] = ()
    #: Numbers of object changes that were made before the replicas started, up to and with this one.
    prepared: int = 0
    rows: tuple[RowChange, ...] = ()
    faults: tuple[Fault, ...] = ()
    log: tuple[LogLine, ...] = ()
    #: Of all replicas; the objectives are measured by them.
    turns: tuple[TurnEnd, ...] = ()
    #: Why the run did not come to rest after the last fault, as a sentence; "": it did, so what holds at the end must
    #: hold now. A run at rest: some replica leads, and nothing has changed for longer than any pause or backoff.
    unrest: str = ""

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def load(cls, path: Path) -> "History":
        """Read what ``save`` wrote."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

"""What the ledger and the decision log know of admissions that have a trace. SELECT only."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.resources import WHOLE, is_device
from queues.sql.statements import NUMBER, attributes
from queues.workload import AdmissionId, WorkloadKey, WorkloadKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedAdmission:
    """One admission with the times of its stages, in seconds since the epoch. None if not reached, or not known."""

    id: AdmissionId
    workload: WorkloadKey
    namespace: str
    name: str
    queue: str
    seats: int
    #: Devices of its seats; parts of devices count as parts.
    devices: float
    #: Of the ledger after the decision, and the term in which it was made.
    turn: int
    term: int
    #: It was given to a gang that had begun: an elastic part.
    is_part: bool = False
    #: What the decision says of the trace (``admission.tracing.context``).
    numbers: Mapping[str, Any] = field(default_factory=dict)
    created: float | None = None
    seen: float | None = None
    #: When the admission before it was closed.
    waits_since: float | None = None
    admitted: float
    released: float | None = None
    bound: float | None = None
    running: float | None = None
    evicted: float | None = None
    #: Why it was evicted; "": it was not.
    cause: str = ""
    closed: float | None = None


# Seats are counted by their shapes: a row is small however large its gang is.
_COLUMNS: Final = (
    "id, kind, uid, namespace, name, queue, shapes, cardinality(shape_of) AS seats, "
    "(SELECT jsonb_object_agg(shape, n) FROM "
    "(SELECT shape, count(*) AS n FROM unnest(shape_of) AS shape GROUP BY shape) AS counted) AS seats_of, "
    "admitted_at AS admitted, "
    "released_at AS released, bound_at AS bound, running_at AS running, evicted_at AS evicted, "
    "coalesce(cause_code, '') AS cause"
)
# Of a gang with elastic parts that were admitted with it, only its own admission has a decision.
_TRACED: Final = text(
    f"""
    SELECT a.*, d.numbers, d.ledger_seq AS turn, d.term, d.code = 'elastic' AS is_part,
           coalesce(w.created, e.created) AS created, coalesce(w.seen_at, e.seen_at) AS seen,
           (SELECT max(c.closed_at) FROM closed_admissions c
            WHERE c.kind = a.kind AND c.uid = a.uid AND c.id < a.id) AS waits_since
    FROM (
        SELECT {_COLUMNS}, NULL::timestamptz AS closed FROM admissions WHERE id = ANY(:ids)
        UNION ALL SELECT {_COLUMNS}, closed_at FROM closed_admissions WHERE id = ANY(:ids)
    ) AS a
    JOIN LATERAL (
        SELECT numbers, ledger_seq, term, code FROM decisions
        WHERE workload_kind = a.kind AND workload_uid = a.uid AND admission = a.id AND kind = 'admit'
        LIMIT 1
    ) AS d ON true
    LEFT JOIN workloads w ON w.kind = a.kind AND w.uid = a.uid
    LEFT JOIN LATERAL (
        SELECT created, seen_at FROM ended_workloads
        WHERE kind = a.kind AND uid = a.uid ORDER BY ended_at DESC LIMIT 1
    ) AS e ON true
    WHERE d.numbers ? 'trace'
    ORDER BY a.id
    """
).bindparams(bindparam("ids", type_=ARRAY(NUMBER)))


async def traced_admissions(tx: AsyncConnection, ids: Collection[AdmissionId]) -> tuple[TracedAdmission, ...]:
    """Those of these admissions that have a trace, by id: open or closed, admitted while traces were on."""
    if not ids:
        return ()
    rows = await tx.execute(_TRACED, {"ids": sorted(ids)})
    return tuple(
        TracedAdmission(
            workload=WorkloadKey(WorkloadKind(row.kind), row.uid),
            seats=row.seats,
            devices=sum(
                seats * _devices(row.shapes[int(shape)]) for shape, seats in (row.seats_of or {}).items()
            )
            / WHOLE,
            created=row.created or None,
            waits_since=_seconds(row.waits_since),
            seen=_seconds(row.seen),
            admitted=row.admitted.timestamp(),
            released=_seconds(row.released),
            bound=_seconds(row.bound),
            running=_seconds(row.running),
            evicted=_seconds(row.evicted),
            closed=_seconds(row.closed),
            **attributes(
                row, "id", "namespace", "name", "queue", "turn", "term", "is_part", "numbers", "cause"
            ),
        )
        for row in rows
    )


def _devices(takes: Mapping[str, int]) -> int:
    """Units of devices that a seat takes, of the resource that it takes most of."""
    return max((units for name, units in takes.items() if "/" in name and not is_device(name)), default=0)


def _seconds(at: Any) -> float | None:
    return None if at is None else float(at.timestamp())

"""Everything open, as the world of a new leader starts from it, and rows as values for all readers. SELECT only."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from sys import intern
from types import MappingProxyType
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Row,
    Text,
    and_,
    any_,
    bindparam,
    case,
    cast,
    false,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from queues import kind_names
from queues.admissions import (
    CAUSES_TOLD,
    COMING_FIRST,
    NO_SEATS,
    Admission,
    AdmissionState,
    Claim,
    ClosedAdmission,
    LastEviction,
    PodOutcome,
    Recreation,
    Setbacks,
    Unready,
)
from queues.kind_names import KindName
from queues.plan import Reason
from queues.plugins.registry import PluginSetAside
from queues.read_api.quantities import facts_with_quantities
from queues.reason_codes import ReasonCode
from queues.sql.leadership import CONTROLLER
from queues.sql.read.rows import Eviction
from queues.sql.seat_columns import SEAT_NAMES, from_columns
from queues.sql.statements import NUMBER, attributes, newest_first, parts, same
from queues.sql.tables import (
    admissions,
    backoffs,
    claims,
    closed_admissions,
    decisions,
    fences,
    job_states,
    nodes,
    outcomes,
    queues,
    reasons,
    recreations,
    workloads,
)
from queues.text_format import rfc3339
from queues.workload import AdmissionId, QueueName, WorkloadKey
from queues.world_rows import WorldRows

#: Workloads in a row that is about many of them, about, and such rows of a part.
_TOGETHER: Final = 2000
_PART_OF_MANY: Final = 2
#: Reasons that many workloads share come in so many rows each.
_SPREAD: Final = 64


async def open_claims(tx: AsyncConnection) -> tuple[Claim, ...]:
    """All claims, sorted by beneficiary."""
    rows = await tx.execute(select(claims).order_by(claims.c.kind, claims.c.uid))
    return tuple(
        Claim(
            workload=key_of(row.kind, row.uid),
            victims=tuple(row.victims),
            seats=from_columns(*attributes(row, *SEAT_NAMES).values()),
            **attributes(row, "queue", "generation", "until"),
        )
        for row in rows
    )


_TOLD = (
    *("id", "kind", "uid", "namespace", "name", "queue", "priority", "generation", "username", "started"),
    *("ready", "opened_at", "held_since", "adopted_pods", "adopted_seats"),
    *("evicted_at", "cause_code", "cause_message"),
    *SEAT_NAMES,
)

#: Keys of workloads, each under itself: rows about these workloads share them.
SharedKeys = Mapping[WorkloadKey, WorkloadKey]
NO_KEYS: Final[SharedKeys] = MappingProxyType({})

AdmissionRows = tuple[tuple[Admission, ...], dict[AdmissionId, Eviction]]


async def read_admissions(
    tx: AsyncConnection, which: ColumnElement[bool] | None = None, shared: SharedKeys = NO_KEYS
) -> AdmissionRows:
    """Admissions that hold something and match a condition (all of them if None), oldest first, and the causes of
    evictions among them."""
    statement = select(*admissions.c[_TOLD], *admissions.c["state", "ended", "minimum"]).order_by(
        admissions.c.id
    )
    if which is not None:
        statement = statement.where(which)
    found: list[Admission] = []
    evictions: dict[AdmissionId, Eviction] = {}
    async for part in parts(tx, statement):
        for row in part:
            found.append(_admission(row, AdmissionState(row.state), row.ended, shared, minimum=row.minimum))
            if row.evicted_at is not None:
                evictions[row.id] = _eviction(row)
    return tuple(found), evictions


async def read_closed(tx: AsyncConnection, key: WorkloadKey, limit: int) -> AdmissionRows:
    """The last closed admissions of a workload, oldest first, and the causes of evictions among them."""
    closed = closed_admissions
    last = await tx.execute(
        select(*closed.c[_TOLD])
        .where(closed.c.kind == key.kind, closed.c.uid == key.uid)
        .order_by(newest_first(closed.c.id))
        .limit(limit)
    )
    rows = last.all()[::-1]
    found = (_admission(row, AdmissionState.CLOSED, range(len(row.pod_sets))) for row in rows)
    return tuple(found), {row.id: _eviction(row) for row in rows if row.evicted_at is not None}


def _admission(
    row: Row[Any],
    state: AdmissionState,
    ended: Iterable[int],
    shared: SharedKeys = NO_KEYS,
    *,
    minimum: int = 0,
) -> Admission:
    """Texts that many admissions repeat are shared."""
    adopted = dict(zip(row.adopted_pods, row.adopted_seats, strict=True))
    return Admission(
        workload=_shared_key(shared, KindName(intern(row.kind)), row.uid),
        namespace=intern(row.namespace),
        queue=QueueName(intern(row.queue)),
        generation=intern(row.generation),
        user=intern(row.username),
        seats=from_columns(*attributes(row, *SEAT_NAMES).values()),
        ended=frozenset(ended) or NO_SEATS,
        state=state,
        adopted=adopted or None,
        minimum=minimum,
        opened_at=seconds_of(row.opened_at),
        held_since=seconds_of(row.held_since),
        evicted_at=0 if row.evicted_at is None else seconds_of(row.evicted_at),
        reclaimed=row.cause_code == ReasonCode.RECLAIMED,
        **attributes(row, "id", "name", "priority", "started", "ready"),
    )


def _eviction(row: Row[Any]) -> Eviction:
    return Eviction(code=row.cause_code, message=row.cause_message, at=seconds_of(row.evicted_at))


def key_of(kind: str, uid: str) -> WorkloadKey:
    """Key of the workload that a row is about."""
    return WorkloadKey(KindName(intern(kind)), uid)


def _shared_key(shared: SharedKeys, kind: KindName, uid: str) -> WorkloadKey:
    key = WorkloadKey(kind, uid)
    return shared.get(key, key)


def seconds_of(moment: datetime) -> int:
    """Since the epoch."""
    return int(moment.timestamp())


def event_fields(row: Row[Any]) -> dict[str, Any]:
    """A row of ``decisions`` as fields of ``EventBody``."""
    return {
        **attributes(row, "code", "message", "admission"),
        "at": rfc3339(seconds_of(row.decided_at)),
        "what": row.kind,
        "beneficiary": f"{row.beneficiary_kind}/{row.beneficiary_uid}" if row.beneficiary_uid else None,
        "numbers": facts_with_quantities(row.numbers),
    }


async def load_world(
    tx: AsyncConnection, *, lease: str = CONTROLLER, shared: SharedKeys = NO_KEYS, with_told: bool = True
) -> WorldRows:
    """Everything open; ``tx`` is one snapshot of the database (``Database.snapshot``).

    ``shared``: keys that are in memory already. There may be hundreds of thousands of workloads. ``with_told``: also
    what is only shown to users, and read from a history.
    """
    held, _ = await read_admissions(tx, shared=shared)
    return WorldRows(
        ledger_seq=await tx.scalar(select(fences.c.ledger_seq).where(fences.c.name == lease)) or 0,
        admissions=held,
        arrivals=await _arrivals(tx, shared),
        ended=await _ended(tx, shared),
        outcomes=tuple(
            [
                PodOutcome(
                    workload=key_of(row.kind, row.uid),
                    **attributes(row, "pod_set", "ordinal", "pod_uid", "phase", "exit_code", "version"),
                )
                async for part in parts(
                    tx, select(outcomes).order_by(outcomes.c.recorded_at, outcomes.c.pod_uid)
                )
                for row in part
            ]
        ),
        setbacks={
            key_of(row.kind, row.uid): _setbacks(row)
            async for part in parts(tx, select(backoffs))
            for row in part
        },
        claims=await open_claims(tx),
        job_states={
            key_of(kind, uid): state
            async for part in parts(tx, select(*job_states.c["kind", "uid", "state"]))
            for kind, uid, state in part
        },
        reasons=await _reasons(tx, shared),
        queues=frozenset(await tx.scalars(select(queues.c.name).where(queues.c.present))),
        parents={row.name: row.parent for row in await tx.execute(select(*queues.c["name", "parent"]))},
        plugins_set_aside={
            row.name: msgspec.convert(row.plugins_set_aside, tuple[PluginSetAside, ...])
            for row in await tx.execute(
                select(*queues.c["name", "plugins_set_aside"]).where(
                    func.jsonb_array_length(queues.c.plugins_set_aside) > 0
                )
            )
        },
        nodes=frozenset(await tx.scalars(select(nodes.c.name))),
        recreations=tuple(
            [
                Recreation(
                    workload=key_of(row.kind, row.uid),
                    **attributes(row, "pod_uid", "namespace", "name", "queue", "manifest"),
                )
                async for part in parts(tx, select(recreations).order_by(recreations.c.pod_uid))
                for row in part
            ]
        ),
        last_evictions=await last_evictions(tx) if with_told else {},
    )


def _setbacks(row: Row[Any]) -> Setbacks:
    return Setbacks(
        unready=Unready(revision=row.unready_revision, times=row.unready, message=row.unready_message)
        if row.unready
        else None,
        **attributes(row, "not_before", "rollbacks", "evictions", "waiting_since"),
    )


#: A row about many workloads costs a fraction of one row for each.
_ARRIVALS = select(
    workloads.c.kind, func.array_agg(workloads.c.uid), func.array_agg(workloads.c.arrival)
).group_by(workloads.c.kind, workloads.c.arrival.op("/")(_TOGETHER))


async def _arrivals(tx: AsyncConnection, shared: SharedKeys) -> dict[WorkloadKey, int]:
    """Number of each workload that is known."""
    found: dict[WorkloadKey, int] = {}
    async for part in parts(tx, _ARRIVALS, _PART_OF_MANY):
        for kind, uids, numbers in part:
            of_kind = KindName(intern(kind))
            found.update(zip((_shared_key(shared, of_kind, uid) for uid in uids), numbers, strict=True))
    return found


_ENDED = (
    select(workloads.c.kind, workloads.c.queue, func.array_agg(workloads.c.uid))
    .where(workloads.c.finished)
    .group_by(workloads.c.kind, workloads.c.queue, workloads.c.arrival.op("/")(_TOGETHER))
)


async def _ended(tx: AsyncConnection, shared: SharedKeys) -> dict[WorkloadKey, QueueName]:
    """Queue of each workload that has ended."""
    found: dict[WorkloadKey, QueueName] = {}
    async for part in parts(tx, _ENDED):
        for kind, queue, uids in part:
            of_kind, name = KindName(intern(kind)), QueueName(intern(queue))
            found.update((_shared_key(shared, of_kind, uid), name) for uid in uids)
    return found


_FACTS = cast(reasons.c.facts, Text)
_REASONS = select(
    reasons.c.kind, *reasons.c["code", "message"], _FACTS.label("facts"), func.array_agg(reasons.c.uid)
).group_by(
    reasons.c.kind,
    *reasons.c["code", "message"],
    _FACTS,
    func.hashtext(reasons.c.uid).op("&")(_SPREAD - 1),
)


async def _reasons(tx: AsyncConnection, shared: SharedKeys) -> dict[WorkloadKey, Reason]:
    """Why workloads wait. Those that wait for the same share one value, as they do in the engine's answers."""
    known: dict[tuple[str, str, str], Reason] = {}
    found: dict[WorkloadKey, Reason] = {}
    async for part in parts(tx, _REASONS):
        for kind, code, message, facts, uids in part:
            reason = known.get((code, message, facts))
            if reason is None:
                reason = known[code, message, facts] = Reason(
                    code=ReasonCode.of_row(code), message=message, facts=msgspec.json.decode(facts)
                )
            of_kind = KindName(intern(kind))
            found.update((_shared_key(shared, of_kind, uid), reason) for uid in uids)
    return found


#: One array, because a statement takes 32,767 parameters, and after the loss of a ledger any number may be unknown.
_ASKED = any_(bindparam("ids", type_=ARRAY(NUMBER)))
_CLOSED_AMONG = select(*closed_admissions.c["id", "kind", "uid", "queue", "held_since"]).where(
    closed_admissions.c.id == _ASKED
)


async def closed_among(
    tx: AsyncConnection, ids: Collection[AdmissionId]
) -> dict[AdmissionId, ClosedAdmission]:
    """Closed ones among these admissions: pods of their workloads are leftovers.

    An id that the ledger never gave is absent: its pods come from another ledger and are to be adopted. So is one that
    was closed before the history begins.
    """
    rows = await tx.execute(_CLOSED_AMONG, {"ids": sorted(ids)})
    return {
        AdmissionId(row.id): ClosedAdmission(
            key_of(row.kind, row.uid), QueueName(row.queue), seconds_of(row.held_since)
        )
        for row in rows
    }


# -- why what waits was evicted last, read from the log of decisions ---------------------------------------------

#: Decisions that start or end a run.
_TURNING_POINTS = ("admit", "adopt", "evict")

#: A pod that was made again has another uid than the one that was taken back, and its setback, but the same name.
_BY_NAME = and_(
    workloads.c.kind == kind_names.POD,
    decisions.c.namespace == workloads.c.namespace,
    decisions.c.name == workloads.c.name,
)
#: Of the others there may be any number of one name, one after the other.
_BY_UID = and_(workloads.c.kind != kind_names.POD, decisions.c.workload_uid == workloads.c.uid)


def comes_first() -> ColumnElement[bool]:
    """Whether a row of ``workloads`` (joined with ``backoffs``) was evicted last for nothing that it is to blame for.

    It then comes first among equals of its queue.
    """
    by_uid, by_name = (_last_eviction_code(its) for its in (_BY_UID, _BY_NAME))
    code = case((workloads.c.kind == kind_names.POD, by_name), else_=by_uid)
    # Without a setback there was no such eviction: that is known without the log.
    return case((func.coalesce(backoffs.c.not_before, 0) > 0, code.in_(sorted(COMING_FIRST))), else_=false())


def _last_eviction_code(its: ColumnElement[bool]) -> ColumnElement[str]:
    """NULL: it was admitted since, or never evicted."""
    code = case((decisions.c.kind == "evict", decisions.c.code))
    return (
        select(code)
        .where(its, decisions.c.workload_kind == workloads.c.kind, decisions.c.kind.in_(_TURNING_POINTS))
        .order_by(newest_first(decisions.c.id))
        .limit(1)
        .correlate(workloads)
        .scalar_subquery()
    )


async def last_evictions(
    tx: AsyncConnection, which: ColumnElement[bool] | None = None
) -> dict[WorkloadKey, LastEviction]:
    """Workloads (that match ``which``) that were evicted for another one, because the scheduler refused their pods, or
    because a device failed, and not admitted since.

    An eviction older than the log of decisions is absent.
    """
    found: dict[WorkloadKey, LastEviction] = {}
    for its in (_BY_UID, _BY_NAME):
        found |= await _last_evictions(tx, its, which)
    return found


async def _last_evictions(
    tx: AsyncConnection, its: ColumnElement[bool], which: ColumnElement[bool] | None
) -> dict[WorkloadKey, LastEviction]:
    """``its``: which decisions are about a workload."""
    last = (
        select(*decisions.c["decided_at", "kind", "code", "message", "numbers"])
        .where(its, decisions.c.workload_kind == workloads.c.kind, decisions.c.kind.in_(_TURNING_POINTS))
        .order_by(newest_first(decisions.c.id))
        .limit(1)
        .correlate(workloads)
        .lateral("last")
    )
    by = last.c.numbers["for"].astext
    is_caused = last.c.code.in_(sorted(CAUSES_TOLD))
    # Of evictions for others and of the other ones alike there is a setback, which says so cheaply.
    told = or_(
        and_(backoffs.c.waiting_since > 0, by.is_not(None)), and_(backoffs.c.not_before > 0, is_caused)
    )
    cause = case((is_caused, last.c.message), else_="")
    asked = (
        select(
            *workloads.c["kind", "uid"],
            *last.c["decided_at", "code"],
            func.coalesce(by, "").label("by"),
            cause.label("cause"),
            func.coalesce(last.c.numbers["takes"].astext, "").label("takes"),
        )
        .select_from(workloads.join(backoffs, same(backoffs, workloads)).join(last, true()))
        .where(last.c.kind == "evict", told)
    )
    if which is not None:
        asked = asked.where(which)
    return {
        key_of(row.kind, row.uid): LastEviction(
            at=seconds_of(row.decided_at),
            code=ReasonCode.of_row(row.code),
            by=row.by,
            cause=row.cause,
            takes=row.takes,
        )
        for row in await tx.execute(asked)
    }

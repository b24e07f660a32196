"""Answers for users: queues, waiting workloads, explanations. SELECT only, so that any replica can answer."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import convert, structs
from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    Table,
    and_,
    any_,
    bindparam,
    cast,
    exists,
    func,
    null,
    or_,
    select,
    text,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, distinct_on
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import NEVER_AGAIN, Admission, AdmissionState, LastEviction
from queues.quota.accounts import Account
from queues.quota.queue import ROOT, Queue, QueuePolicy
from queues.quota.tree import QueueTree
from queues.read_api import bodies
from queues.read_api.quantities import hours, seats_bodies
from queues.reason_codes import ReasonCode
from queues.resources import is_device
from queues.sql.read.listed import GONE_LISTED, MOST_NODES
from queues.sql.read.pending import RESUMED_BY, WAITS, shown_time, waiting_body, workload_lines
from queues.sql.read.rows import AccountLine, Eviction, QueueLine
from queues.sql.statements import MOMENT, NUMBER, attributes, moment, newest_first, same
from queues.sql.tables import (
    admissions,
    capacity,
    closed_admissions,
    decisions,
    ended_workloads,
    history_starts,
    queue_balances,
    queue_limits,
    queues,
    reasons,
    workloads,
)
from queues.sql.world import (
    event_fields,
    key_of,
    last_evictions,
    read_admissions,
    read_closed,
    seconds_of,
)
from queues.text_format import rfc3339
from queues.workload import AdmissionId, QueueName, WorkloadKey

#: Decisions about one workload that are shown: the last ones.
HISTORY = 200
#: The same of its closed admissions.
CLOSED = 50
#: Columns of a queue that are shown as they are.
_SHOWN = ("name", "parent", "paused", "closed", "broken", "changed_by", "document", "present")


async def queue_overview(tx: AsyncConnection) -> tuple[QueueLine, ...]:
    """All queues with limits and use, by name; removed ones among them as long as something of them is held."""
    accounts = await _account_lines(tx)
    waiting = await _count(
        tx, select(workloads.c.queue, func.count()).outerjoin(reasons, same(reasons, workloads)).where(WAITS)
    )
    admitted = await _count(
        tx,
        select(
            admissions.c.queue, func.count(func.distinct(func.concat(admissions.c.kind, admissions.c.uid)))
        ),
    )
    held = exists().where(queue_balances.c.queue == queues.c.name, queue_balances.c.used != 0)
    shown = or_(queues.c.present, held)
    rows = await tx.execute(select(*queues.c[*_SHOWN, "served"]).where(shown).order_by(queues.c.name))
    return tuple(
        QueueLine(
            **attributes(row, *_SHOWN),
            served=_served(row),
            accounts=tuple(accounts.get(row.name, ())),
            pending=waiting.get(row.name, 0),
            admitted=admitted.get(row.name, 0),
        )
        for row in rows
    )


def _served(row: Row[Any]) -> Queue:
    """How a queue is served, as the leader read its document."""
    return Queue(
        name=row.name,
        parent=row.parent,
        order=row.served.get("order"),
        ageing_per_hour=row.served.get("ageing_per_hour"),
        max_run_time=row.served.get("max_run_time"),
        policy=convert(row.served.get("policy", {}), QueuePolicy),
        placement=row.served.get("placement"),
        plugin_parameters=row.served.get("plugin_parameters", {}),
        on_plugin_failure=row.served.get("on_plugin_failure"),
        hold=row.served.get("hold"),
    )


async def _account_lines(tx: AsyncConnection) -> dict[QueueName, list[AccountLine]]:
    balance, limit = queue_balances.c, queue_limits.c
    account_columns = ("queue", "flavor", "resource")
    offered = {
        Account(flavor, resource): units
        for flavor, resource, units in await tx.execute(select(*capacity.c["flavor", "resource", "amount"]))
        if not is_device(resource)
    }
    lines: dict[QueueName, list[AccountLine]] = {}
    listed: set[Account] = set()
    for row in await tx.execute(
        select(
            *(func.coalesce(balance[name], limit[name]).label(name) for name in account_columns),
            *limit["keeps", "deserved", "ceiling"],
            *balance["used", "counted"],
        )
        .select_from(
            queue_balances.outerjoin(
                queue_limits, same(queue_balances, queue_limits, *account_columns), full=True
            )
        )
        .order_by(*account_columns)
    ):
        account = Account(row.flavor, row.resource)
        ceiling = row.ceiling
        if row.queue == ROOT:
            listed.add(account)
            units = offered.get(account, 0)
            ceiling = units if ceiling is None else min(units, ceiling)
        lines.setdefault(row.queue, []).append(
            AccountLine(
                flavor=row.flavor,
                resource=row.resource,
                guarantee=row.keeps or 0,
                deserved=row.deserved,
                capability=ceiling,
                used=row.used or 0,
                counted=row.counted or 0,
            )
        )
    unused = [
        AccountLine(flavor=account.flavor, resource=account.resource, capability=offered[account])
        for account in sorted(offered.keys() - listed)
    ]
    lines.setdefault(ROOT, []).extend(unused)
    return lines


async def _count(tx: AsyncConnection, counting: Select[Any]) -> dict[QueueName, int]:
    queue = counting.selected_columns[0]
    return {row[0]: row[1] for row in await tx.execute(counting.group_by(queue))}


_ENDED = workloads.c["result", "finished_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionTimes:
    """When an admission reached each stage, in seconds since the epoch. None if it has not, or if that is not known."""

    admitted: float
    released: float | None = None
    bound: float | None = None
    running: float | None = None
    #: Whole seconds.
    closed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTimes:
    """The admissions of one workload, the oldest first, and when what happened. Times are seconds since the epoch."""

    #: 0: not known.
    created: int
    #: When Muster first stored it; None if not known.
    seen: float | None
    #: 0: it has not ended.
    ended: int
    admissions: tuple[Admission, ...]
    evictions: Mapping[AdmissionId, Eviction]
    times: Mapping[AdmissionId, AdmissionTimes]


class _Question(NamedTuple):
    """What an explanation needs besides the rows of its workload."""

    tree: QueueTree
    #: Seconds since the epoch.
    now: int
    #: Fields of ``AgedBody``.
    age: Mapping[str, Any]


async def explain(
    tx: AsyncConnection,
    namespace: str,
    name: str,
    kind: str | None = None,
    *,
    tree: QueueTree,
    now: int,
    age: Mapping[str, Any],
) -> tuple[bodies.ExplanationBody, ...]:
    """All about the workloads of that name (several kinds may share it); empty: there is none, and never was. Places in
    queues, and the queues above, are left blank.

    Of a kind that has none of that name now: about the last one. ``tree``: says how long work may run. ``now``: seconds
    since the epoch. ``age``: fields of ``AgedBody``.
    """
    its_name = and_(workloads.c.namespace == namespace, workloads.c.name == name)
    named = workload_lines().add_columns(*_ENDED).where(its_name)
    if kind is not None:
        named = named.where(workloads.c.kind == kind)
    question = _Question(tree, now, age)
    rows = (await tx.execute(named.order_by(workloads.c.arrival))).all()
    evictions = await last_evictions(tx, its_name)
    there = [await _explanation(tx, row, evictions, question, is_gone=False) for row in rows]
    kinds = {row.kind for row in rows}
    gone = [row for row in await _gone_named(tx, namespace, name, kind) if row.kind not in kinds]
    return (*there, *[await _explanation(tx, row, {}, question, is_gone=True) for row in gone])


async def _gone_named(
    tx: AsyncConnection, namespace: str, name: str, kind: str | None
) -> Sequence[Row[*tuple[Any, ...]]]:
    """The last workload of that name of each kind (of any kind if None) whose object is gone."""
    asked = (
        GONE_LISTED.where(ended_workloads.c.namespace == namespace, ended_workloads.c.name == name)
        .ext(distinct_on(ended_workloads.c.kind))
        .order_by(ended_workloads.c.kind, ended_workloads.c.ended_at.desc())
    )
    if kind is not None:
        asked = asked.where(ended_workloads.c.kind == kind)
    return (await tx.execute(asked)).all()


async def _explanation(
    tx: AsyncConnection,
    row: Row[Any],
    evictions: Mapping[WorkloadKey, LastEviction],
    question: _Question,
    *,
    is_gone: bool,
) -> bodies.ExplanationBody:
    """``row``: of a workload with an object, or of one whose object ``is_gone``."""
    key = key_of(row.kind, row.uid)
    admissions_, causes = await read_closed(tx, key, CLOSED)
    state = "finished"
    if not is_gone:
        mine = and_(admissions.c.kind == row.kind, admissions.c.uid == row.uid)
        held, causes_of_held = await read_admissions(tx, mine)
        # What joined a gang may be closed, and the gang not.
        admissions_ = tuple(sorted((*admissions_, *held), key=attrgetter("id")))
        causes = {**causes, **causes_of_held}
        state = _state(row, held)
    ids = [each.id for each in admissions_]
    times = WorkloadTimes(
        created=row.created,
        seen=await _seen_at(tx, key),
        ended=row.finished_at if state == "finished" else 0,
        admissions=admissions_,
        evictions=causes,
        times=await _admission_times(tx, ids),
    )
    body, begins = waiting_body(row, evictions), await _history_begins(tx)
    shown = structs.replace(
        body, reason=body.reason if state in ("pending", "admitted", "suspended") else None
    )
    told = tuple(_admission(each, times) for each in reversed(admissions_))
    return bodies.ExplanationBody(
        **structs.asdict(shown),
        **question.age,
        state=state,
        result=row.result,
        ended=shown_time(times.ended),
        gone=is_gone,
        device_hours=hours(await _device_seconds(tx, ids, question.now)),
        outcomes=await _outcomes(tx, key),
        stages=stages_of(times),
        queue_length=None,
        position_by="",
        not_before=rfc3339(row.not_before) if 0 < row.not_before < NEVER_AGAIN else None,
        rollbacks=row.rollbacks,
        ahead=(),
        path=(),
        admissions=with_ends(told, admissions_, question.tree),
        history=await _history(tx, row.kind, row.uid),
        # None if the workload is younger than what was dropped.
        history_begins=rfc3339(begins) if begins > row.created else None,
    )


def _admission(held: Admission, of: WorkloadTimes) -> bodies.AdmissionBody:
    eviction, times = of.evictions.get(held.id), of.times.get(held.id)
    nodes = sorted({seat.node for seat in held.seats})
    return bodies.AdmissionBody(
        id=held.id,
        queue=held.queue,
        state=str(held.state),
        opened=rfc3339(held.opened_at),
        closed=None if times is None or times.closed is None else rfc3339(times.closed),
        seat_count=len(held.seats),
        nodes=tuple(nodes[:MOST_NODES]),
        node_count=len(nodes),
        adopted=held.adopted is not None,
        eviction=None
        if eviction is None
        else bodies.ReasonBody(code=eviction.code, message=eviction.message, since=rfc3339(eviction.at)),
        seats=seats_bodies(held.holding()),
        ended=len(held.ended),
    )


def _times_of(table: Table, closed: ColumnElement[Any]) -> Select[Any]:
    stages = table.c["admitted_at", "released_at", "bound_at", "running_at"]
    asked = table.c.id == any_(bindparam("ids", type_=ARRAY(NUMBER)))
    return select(table.c.id, *stages, closed.label("closed_at")).where(asked)


_TIMES: Final = union_all(
    _times_of(admissions, cast(null(), MOMENT)),
    _times_of(closed_admissions, closed_admissions.c.closed_at),
)


async def _admission_times(
    tx: AsyncConnection, ids: Collection[AdmissionId]
) -> dict[AdmissionId, AdmissionTimes]:
    """The times of these admissions, open or closed."""
    if not ids:
        return {}
    return {
        AdmissionId(row.id): AdmissionTimes(
            admitted=row.admitted_at.timestamp(),
            released=_seconds(row.released_at),
            bound=_seconds(row.bound_at),
            running=_seconds(row.running_at),
            closed=None if row.closed_at is None else seconds_of(row.closed_at),
        )
        for row in await tx.execute(_TIMES, {"ids": sorted(ids)})
    }


_SEEN: Final = union_all(
    *(
        select(table.c.seen_at).where(table.c.kind == bindparam("kind"), table.c.uid == bindparam("uid"))
        for table in (workloads, ended_workloads)
    )
)


async def _seen_at(tx: AsyncConnection, key: WorkloadKey) -> float | None:
    """When Muster first stored a workload, whether its object is there or not; None if it never did."""
    found = await tx.scalars(_SEEN, {"kind": str(key.kind), "uid": key.uid})
    return min((at.timestamp() for at in found), default=None)


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


_OUTCOMES = text(
    """
    SELECT phase, exit_code, count(*) AS pods
    FROM (
        SELECT phase, exit_code FROM outcomes WHERE kind = :kind AND uid = :uid
        UNION ALL
        SELECT one ->> 'phase', CAST(one ->> 'exit_code' AS integer)
        FROM ended_workloads e, jsonb_array_elements(e.outcomes) AS one WHERE e.kind = :kind AND e.uid = :uid
    ) AS ended
    GROUP BY phase, exit_code
    ORDER BY phase DESC, exit_code
    LIMIT 50
    """
)


async def _outcomes(tx: AsyncConnection, key: WorkloadKey) -> tuple[bodies.OutcomeBody, ...]:
    """How its pods ended, those that succeeded first."""
    rows = await tx.execute(_OUTCOMES, {"kind": str(key.kind), "uid": key.uid})
    return tuple(bodies.OutcomeBody(**attributes(row, "phase", "exit_code", "pods")) for row in rows)


# What was given back again was held between the two postings; the rest is held on.
_DEVICE_SECONDS = text(
    """
    SELECT line.resource, sum(CASE kind WHEN 'free' THEN -line.amount ELSE line.amount END
                              * extract(epoch FROM :now - posted_at)) AS unit_seconds
    FROM postings, unnest(resources, amounts) AS line(resource, amount)
    WHERE admission = ANY(:ids) AND line.resource LIKE '%/%'
    GROUP BY line.resource
    """
).bindparams(bindparam("now", type_=MOMENT), bindparam("ids", type_=ARRAY(NUMBER)))


async def _device_seconds(tx: AsyncConnection, ids: Collection[AdmissionId], now: int) -> dict[str, int]:
    """What seats of these admissions took of devices until now, in units × seconds by resource."""
    if not ids:
        return {}
    rows = await tx.execute(_DEVICE_SECONDS, {"now": moment(now), "ids": sorted(ids)})
    return {resource: int(unit_seconds) for resource, unit_seconds in rows if not is_device(resource)}


def _state(row: Row[Any], held: Iterable[Admission]) -> str:
    states = {admission.state for admission in held}
    if row.finished:
        return "finished" if row.result else "suspended"
    if AdmissionState.EVICTING in states:
        return "evicting"
    if AdmissionState.OPEN in states:
        return "admitted"
    is_suspended = row.code == ReasonCode.ON_HOLD and RESUMED_BY in row.message
    return "suspended" if is_suspended else "pending"


async def _history_begins(tx: AsyncConnection) -> int:
    begins = select(history_starts.c.begins_at).where(history_starts.c.history == decisions.name)
    at = await tx.scalar(begins)
    return 0 if at is None else seconds_of(at)


async def _history(tx: AsyncConnection, kind: str, uid: str) -> tuple[bodies.EventBody, ...]:
    last = await tx.execute(
        select(decisions)
        .where(decisions.c.workload_kind == kind, decisions.c.workload_uid == uid)
        .order_by(newest_first(decisions.c.id))
        .limit(HISTORY)
    )
    return tuple(bodies.EventBody(**event_fields(row)) for row in last.all()[::-1])


# -- the stages of a workload, and when its admissions end ----------------------------------------------------


def stages_of(rows: WorkloadTimes) -> tuple[bodies.StageBody, ...]:
    """Creation and arrival, then each admission, the oldest first, then the end. What is not known is left out."""
    created = rows.created or None
    found = []
    if created is not None:
        found.append(_stage("created", created, None))
    if rows.seen is not None:
        found.append(_stage("seen", rows.seen, created))
    closings: list[float | None] = []
    gang: Admission | None = None
    for admission in rows.admissions:
        is_part = gang is not None and _is_part(admission, gang)
        if gang is not None and is_part and not {gang.id, admission.id} & rows.evictions.keys():
            continue  # it goes the same way as its gang
        gang = gang if is_part else admission
        waits_since = created if not closings else None if None in closings else max(filter(None, closings))
        found += _stages_of_admission(admission, rows, waits_since)
        closings.append(_times_within(admission, rows).closed)
    if rows.ended:
        found.append(_stage("ended", rows.ended, None))
    return tuple(found)


def _is_part(admission: Admission, gang: Admission) -> bool:
    """Whether an admission is an elastic part of one before it: both were opened together, for other pods."""
    mine, its = ({(seat.pod_set, seat.ordinal) for seat in each.seats} for each in (admission, gang))
    return admission.opened_at == gang.opened_at and not mine & its


def _stages_of_admission(
    admission: Admission, rows: WorkloadTimes, waits_since: float | None
) -> Iterator[bodies.StageBody]:
    """``waits_since``: when the last admission before it was closed. None if one is open."""
    times = _times_within(admission, rows)
    # Some times are whole seconds, cut off.
    if waits_since is not None and int(waits_since) > times.admitted:
        waits_since = None  # it joined a gang that ran: when its pods came is not known
    yield _stage(
        "adopted" if admission.adopted is not None else "admitted",
        times.admitted,
        waits_since,
        admission,
    )
    eviction = rows.evictions.get(admission.id)
    following = [
        ("released", times.released),
        ("bound", times.bound),
        ("running", times.running),
        ("evicted", None if eviction is None else eviction.at),
        ("closed", times.closed),
    ]
    last = times.admitted
    for name, at in following:
        if at is not None:
            yield _stage(name, max(at, last), last, admission)
            last = max(at, last)


def _times_within(admission: Admission, rows: WorkloadTimes) -> AdmissionTimes:
    return rows.times.get(admission.id, AdmissionTimes(admitted=admission.opened_at))


def _stage(
    name: str,
    at: float,
    since: float | None,
    admission: Admission | None = None,
) -> bodies.StageBody:
    return bodies.StageBody(
        stage=name,
        at=rfc3339(at, "milliseconds"),
        after_seconds=None if since is None else max(0.0, round(at - since, 3)),
        admission=None if admission is None else admission.id,
    )


def with_ends(
    told: Sequence[bodies.AdmissionBody], admissions: Sequence[Admission], tree: QueueTree
) -> tuple[bodies.AdmissionBody, ...]:
    """The admissions of one workload with the time at which the open ones end, all with the oldest of them: by
    ``access.maxRunTime`` of their queue and those above it."""
    open_ = {each.id: each for each in admissions if each.state is AdmissionState.OPEN}
    first = min(open_.values(), key=lambda each: (each.opened_at, each.id), default=None)
    limit = None if first is None else tree.run_limit(first.queue)
    if first is None or limit is None:
        return tuple(told)
    ends = rfc3339(limit.end(first.opened_at))
    return tuple(structs.replace(each, ends=ends) if each.id in open_ else each for each in told)

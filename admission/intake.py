"""Intake: what the world saw and the cluster forgets is stored in OBSERVED, in short transactions.

Before a decision: what it depends on (``save``). Afterwards, in what time is left: descriptions for the read API, and
workloads that are gone (``save_rest``). However much there is, a transaction stores a bounded number of rows, so
that none takes longer than the timeouts of its statements, and urgent work gets its turn in between.

The world's lists of unsaved rows are emptied after the commit only, so a failed write is tried again. A batch that
Postgres refuses for what is in it is tried in halves, until the row is found: it is set aside, and all others are
stored.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import Any, Final

from admission.facts.cluster import QueueFact
from admission.facts.pods import PodFact
from admission.workloads.state import WorkloadState
from admission.world.persistence import AFTER_DECISION, BEFORE_DECISION, Unsaved, UnsavedRow
from admission.world.world import World
from queues import kind_names
from queues.admissions import PodOutcome
from queues.errors import DataRefused
from queues.order.policies import devices
from queues.plugins.registry import PluginSetAside
from queues.slices import slices
from queues.sql.database import Database, Transaction
from queues.sql.leadership import Term, check_term
from queues.sql.observed import workloads
from queues.sql.observed.nodes import record_node_limits
from queues.sql.observed.queues import record_queues, record_set_aside
from queues.sql.observed.rows import Description, NodeLimit, QueueVersion, Succession
from queues.workload import NodeName, QueueName, Result, WorkloadKey

_log = logging.getLogger(__name__)

#: Rows of a transaction before a decision.
ROWS: Final = 2000
#: Rows of a transaction afterwards: a departure moves several rows into the history.
ROWS_OF_REST: Final = 500
#: Transactions that a call spends on finding refused rows; the rows that are not reached are left to the next call.
ATTEMPTS: Final = 100


async def save(database: Database, term: Term, world: World, now: int, *, rows: int = ROWS) -> bool:
    """Store what a decision depends on, at most so many ``rows`` in a transaction; false: there was nothing.

    ``now``: seconds since the epoch. Raises Fenced when the term is over, DatabaseError when Postgres cannot be
    reached.
    """
    waiting = [row async for row in _in_order(world)]
    batches = _Batches(database, term, world, now)
    for start in range(0, len(waiting), rows):
        await batches.store(waiting[start : start + rows])
    return bool(waiting)


async def save_rest(
    database: Database, term: Term, world: World, now: int, *, rows: int = ROWS_OF_REST
) -> bool:
    """Store some of what no decision depends on, in one transaction of at most so many rows. Whether more is left.

    Raises as ``save``.
    """
    waiting = _to_be_tried(world, AFTER_DECISION)
    if some := list(islice(waiting, rows)):
        await _Batches(database, term, world, now).store(some)
    return has_rest(world)


async def _in_order(world: World) -> AsyncIterator[UnsavedRow]:
    """What is to be stored before a decision; arrivals by creation and name, however many, without a long step."""
    arrivals: list[list[tuple[int, str, UnsavedRow]]] = []
    async for part in slices(_to_be_tried(world, BEFORE_DECISION)):
        some: list[tuple[int, str, UnsavedRow]] = []
        for row in part:
            if row.kind == "arrivals":
                state = world.states.get(row.key)
                named = world.facts[row.key] if state is None else state.workload
                some.append((named.created, named.name, row))
            else:
                yield row
        arrivals.append(sorted(some))
    async for together in slices(merge(*arrivals)):
        for _, _, row in together:
            yield row


async def save_set_aside(
    database: Database, term: Term, queue: QueueName, plugins: Sequence[PluginSetAside]
) -> None:
    """Store which plug-ins of a queue are set aside: what is decided from now on depends on it. Raises as ``save``."""
    async with database.transaction() as tx:
        await record_set_aside(tx, term, queue, plugins)


def has_urgent(world: World) -> bool:
    """Whether something waits to be stored that a decision depends on."""
    return any(True for _ in _to_be_tried(world, BEFORE_DECISION))


def has_rest(world: World) -> bool:
    """Whether something waits to be stored that no decision depends on."""
    return any(True for _ in _to_be_tried(world, AFTER_DECISION))


def _to_be_tried(world: World, kinds: Iterable[str]) -> Iterator[UnsavedRow]:
    """Unsaved rows of these kinds without those that were refused as they are."""
    unsaved, refused = world.unsaved, world.refused_rows
    for kind in kinds:
        keys: Iterable[Any] = getattr(unsaved, kind)
        for key in keys:
            row = UnsavedRow(kind, key)
            if not refused.holds(row) or refused.has_changed(row, _content(world, row)):
                yield row


@dataclass(slots=True)
class _Batches:
    """The transactions of one call."""

    database: Database
    term: Term
    world: World
    #: Seconds since the epoch.
    now: int
    _failed: int = field(default=0, init=False)

    async def store(self, rows: Sequence[UnsavedRow]) -> None:
        """Store these rows together, or, where Postgres refuses one of them, all others."""
        batch = self.world.unsaved.only(rows)
        try:
            async with self.database.transaction() as tx:
                numbers, left = await _write(tx, self.term, self.world, batch, self.now)
        except DataRefused as error:
            self._failed += 1
            if len(rows) == 1:
                self._set_aside(rows[0], error)
            elif self._failed <= ATTEMPTS:
                middle = len(rows) // 2
                await self.store(rows[:middle])
                await self.store(rows[middle:])
            return
        self.world.saved(batch, numbers, left)

    def _set_aside(self, row: UnsavedRow, error: DataRefused) -> None:
        world, about = self.world, _about(self.world, row)
        why = str(error.facts.get("reason", error))
        world.refuse(row, _content(world, row), about, why)
        subject = row.key if about is None else about
        _log.error(
            "row set aside: the database refuses it",
            extra={"row": row.kind, "about": str(subject), "why": why},
        )


async def _write(
    tx: Transaction, term: Term, world: World, batch: Unsaved, now: int
) -> tuple[Mapping[WorkloadKey, int], frozenset[WorkloadKey]]:
    """Store a batch. Returns the numbers of the workloads that arrived, and the workloads that left."""
    arrivals = await _all_descriptions(world, batch.arrivals)
    heirs = [row for row in arrivals if row.key in world.recreations.successions]
    described = [*heirs, *await _all_descriptions(world, batch.described)]
    await check_term(tx, term)
    if batch.nodes:
        limits = _node_limits(world, batch.nodes)
        await record_node_limits(tx, term, limits, batch.nodes.keys() - limits.keys())
    if batch.queues:
        changed = [_version(fact) for fact in batch.queues.values() if fact is not None]
        gone = [name for name, fact in batch.queues.items() if fact is None]
        await record_queues(tx, term, changed, gone)
    if heirs:
        await workloads.succeed(
            tx,
            term,
            [Succession(heir=row, after=world.recreations.successions[row.key]) for row in heirs],
        )
    numbers = await workloads.arrive(tx, term, arrivals) if arrivals else {}
    if described:
        await workloads.describe(tx, term, described)
    if batch.outcomes:
        await workloads.record_outcomes(tx, term, [_outcome(*ended) for ended in batch.outcomes.values()])
    if batch.recreations:
        kept = [each for each in batch.recreations.values() if each is not None]
        dropped = [uid for uid, each in batch.recreations.items() if each is None]
        await workloads.record_recreations(tx, term, kept, dropped)
    left = frozenset[WorkloadKey]()
    if batch.departed:
        left = await workloads.depart(tx, term, batch.departed, now)
    return numbers, left


def _content(world: World, row: UnsavedRow) -> object:
    """What is to be stored in a row: as long as it stays the same, Postgres would refuse it again."""
    match row.kind:
        case "arrivals" | "described":
            return next(_descriptions(world, [row.key]), None)
        case "nodes":
            return _node_limits(world, [row.key])
        case _:
            return getattr(world.unsaved, row.kind).get(row.key)


def _about(world: World, row: UnsavedRow) -> WorkloadKey | None:
    """The workload that a row is about; None if it is about a queue or a node."""
    match row.kind:
        case "arrivals" | "described" | "departed":
            key: WorkloadKey = row.key
            return key
        case "outcomes":
            return world.unsaved.outcomes[row.key][0]
        case "recreations":
            intent = world.unsaved.recreations[row.key]
            return None if intent is None else intent.workload
        case _:
            return None


def _node_limits(world: World, changed: Iterable[NodeName]) -> dict[NodeName, NodeLimit]:
    """Limits of these nodes; nodes that are gone are absent."""
    inventory = world.node_inventory
    table = inventory.table()
    return {
        name: NodeLimit(
            limits=limit,
            flavor=table.flavor(name),
            usable=inventory.can_take_pods(name),
            closed=inventory.faulty.closed(name),
        )
        for name in sorted(changed)
        if (limit := inventory.limit(name)) is not None
    }


def _version(fact: QueueFact) -> QueueVersion:
    return QueueVersion(queue=fact.queue, uid=fact.uid, document=fact.document, changed_by=fact.changed_by)


async def _all_descriptions(world: World, keys: Iterable[WorkloadKey]) -> list[Description]:
    found: list[Description] = []
    async for some in slices(list(keys)):
        found += _descriptions(world, some)
    return found


def _descriptions(world: World, keys: Iterable[WorkloadKey]) -> Iterator[Description]:
    """Of those of these workloads that are there."""
    for key in keys:
        if (state := world.state_to_describe(key)) is not None:
            yield _description(world, state)


def described_result(world: World, state: WorkloadState) -> Result:
    """How a workload is described to have ended: its object may have gone after that."""
    return (world.seen_ends.of(state.key) or state.result) if state.is_gone else state.result


def _description(world: World, state: WorkloadState) -> Description:
    workload = state.workload
    return Description(
        key=state.key,
        namespace=workload.namespace,
        name=workload.name,
        queue=workload.queue,
        priority=workload.priority,
        created=workload.created,
        minimum=workload.minimum,
        pods=sum(pods.wanted_count() for pods in workload.pod_sets),
        asks=workload.asks(),
        devices=devices(workload),
        run_time=workload.run_time,
        owner=_owner(state),
        finished=state.is_over or state.is_idle or state.result is not Result.UNKNOWN,
        gone=state.is_gone,
        user=workload.user,
        image=workload.image,
        result=described_result(world, state),
        ignored_values="\n".join(state.ignored),
        notes="\n".join(state.notes),
    )


def _owner(state: WorkloadState) -> str:
    """What controls a pod that waits alone; "": nothing, or it is no such pod."""
    pod = next(iter(state.pods), None) if state.key.kind == kind_names.POD else None
    return "" if pod is None else pod.controller


def _outcome(key: WorkloadKey, pod: PodFact) -> PodOutcome:
    assert pod.index is not None
    return PodOutcome(
        workload=key,
        pod_set=pod.task,
        ordinal=pod.index,
        pod_uid=pod.uid,
        phase=pod.phase.value,
        exit_code=pod.exit_code,
        version=pod.version,
    )

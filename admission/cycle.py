"""One turn: observe changes, save them, freeze, decide, apply."""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from time import monotonic, perf_counter

from admission import intake
from admission.apply import Applied, TurnPlan, apply, is_refused
from admission.containment.decider import Decider, find_culprits
from admission.containment.decision_thread import DecisionTooLong
from admission.engine.plan_limit import SEATS_PER_PLAN
from admission.engine.snapshot import Snapshot
from admission.facts.changes import Change
from admission.failpoints import Failpoint
from admission.figures.gang_waits import GangWait
from admission.turn_report import (
    Decided,
    Stage,
    TurnReport,
    devices_of,
    evictions_of,
    log_applied,
    log_queue_changes,
    lost_work,
)
from admission.volcano_jobs.state import JobTransition
from admission.workloads.inputs import AwaitedSeatsOf
from admission.world.learned.seen_times import AdmissionStages
from admission.world.queues import without
from admission.world.reasons import REASONS_PER_TURN, ReasonChanges, StoredReasons, ToldRequests, counts
from admission.world.world import World
from queues.admissions import CAUSES_TOLD, Admission, LastEviction
from queues.dependencies import Predecessor, PredecessorQuestion
from queues.errors import DatabaseError, DatabaseTooSlow, DataRefused, Fenced
from queues.plan import Evict, Plan, Reason, setbacks_of
from queues.plugins.guard import PluginFault
from queues.reason_codes import ReasonCode
from queues.slices import run_in_slices, slices
from queues.sql.database import Database
from queues.sql.leadership import Term
from queues.sql.predecessors import predecessors
from queues.sql.read import past_use
from queues.sql.read.usage import hours_used, queue_parents
from queues.sql.world import closed_among
from queues.text_format import listed
from queues.workload import AdmissionId, QueueName, Workload, WorkloadKey

_log = logging.getLogger(__name__)

#: Workloads of a few pods that are brought up to date in one slice of the event loop: half a millisecond each, or less.
REFRESHED = 40
#: Admissions that one statement asks about.
_RECALLED = 10_000
#: Predecessors that one statement asks about: two tables are looked into for each.
_LOOKED_FOR = 1_000
#: Postings that a turn reads to learn past use: a few seconds.
MOST_POSTINGS = 50_000
#: How often limits are halved at the most: then a transaction is about few rows.
MOST_HALVINGS = 10
#: Changed numbers of a reason with the same code are stored at most this often.
REASON_NUMBERS_EVERY_SECONDS = 2.0


class Cycle:
    """The turns of one term."""

    def __init__(
        self,
        database: Database,
        term: Term,
        world: World,
        *,
        awaited: AwaitedSeatsOf,
        transitions: Callable[[World, Sequence[WorkloadKey], int], tuple[JobTransition, ...]],
        clock: Callable[[], float],
        decider: Decider,
        failpoint: Failpoint,
    ) -> None:
        """``awaited``: seats of a workload for which a pod may still come. ``clock`` gives seconds since the epoch;
        ``failpoint`` is called at each named point of the turn."""
        self._database = database
        self._term = term
        self.world = world
        self._awaited = awaited
        self._transitions = transitions
        self._clock = clock
        self._decider = decider
        self._failpoint = failpoint
        #: What is not stored yet of how far admissions came; the writers report releases.
        self.stages = AdmissionStages()
        #: What gangs show about their requests for nodes.
        self.progress = ToldRequests(world.ledger.reasons)
        #: Workloads that may need a write to their objects since the last report.
        self._dirty_workloads: set[WorkloadKey] = set()
        self._pending_counts: Mapping[tuple[QueueName, ReasonCode], int] = {}
        #: When (of the monotonic clock) the admissions of this term were committed that have not started yet.
        self._committed: dict[AdmissionId, float] = {}
        #: How often what Postgres is given at once is halved by now: seats and reasons of a plan, and rows.
        self._halvings = 0
        self._rest_failed = False
        self._stored_reasons = StoredReasons()
        self._numbers_stored_at = 0.0
        #: Reasons changed that are stored later: when, seconds from now; None if there are none.
        self._postponed: float | None = None
        #: Seconds since the epoch: until then nothing is to do if nothing changes.
        self.next_look = 0
        self.last: Decided | None = None

    async def turn(self, changes: Sequence[Change] = ()) -> TurnReport:
        """One pass. ``changes``: what the cluster shows since the last call.

        Raises DatabaseUnavailable: try again later, nothing is lost, for nothing is known here that the ledger does not
        know or that the next pass does not find again; of what Postgres did not get done in time it is given half.
        Fenced, OutcomeUnknown, any other error: the world must be read again.
        """
        try:
            report = await self._turn(changes)
        except DatabaseTooSlow:
            self._halve()
            raise
        if not self._rest_failed:
            self._halvings = max(0, self._halvings - 1)
        return report

    def _halve(self) -> None:
        self._halvings = min(self._halvings + 1, MOST_HALVINGS)

    def _halved(self, limit: int) -> int:
        """What is left of a limit."""
        return max(1, limit >> self._halvings)

    async def _turn(self, changes: Sequence[Change]) -> TurnReport:
        now = int(self._clock())
        world = self.world
        async for part in slices(world.devices.resolved(changes)):
            log_queue_changes(part, world.queues)
            world.put(part)
        world.tell_time(now)  # before anything is read for queues as they are now
        if world.node_inventory.must_be_built:
            # Meanwhile nothing else changes the world: that is done by turns only.
            await asyncio.to_thread(world.node_inventory.table)
        if world.queue_facts.must_be_built:
            await asyncio.to_thread(world.queue_facts.build_tree)
        if world.admission_index.unknown:
            await recall(self._database, world)
        if world.dependencies.is_used and world.dependencies.must_ask:
            await look_for_predecessors(self._database, world)
        if world.usage_history.needs_reading:
            await look_back(self._database, world, now)
        if world.budgets.may_differ or world.budgets.use is not None:
            await read_budgets(self._database, world, now)
        await self._refresh(now)
        if await self._store_urgent(now):
            self._failpoint("intake-committed")
            await self._refresh(now)
        jobs = await self._job_transitions(now)
        self._tell_defects()
        if not (world.snapshot_is_stale or jobs or now >= self.next_look):
            return self._without_decision(now, len(changes), self._take_dirty_workloads())
        return await self._decide(now, len(changes), jobs)

    async def _decide(self, now: int, changes: int, jobs: tuple[JobTransition, ...]) -> TurnReport:
        """The second half of a turn that decides something."""
        world = self.world
        started = perf_counter()
        frozen = world.freeze(now).keeping_seats_of({job.key for job in jobs if job.restarts})
        # Until the plan is stored, a failed turn has to be repeated.
        world.snapshot_is_stale = True
        froze = perf_counter()
        while True:
            try:
                decision = await self._decision(frozen)
                break
            except PluginFault as fault:
                frozen = await self._without_plugin(fault, frozen)
        decided = perf_counter()
        snapshot = decision.snapshot
        plan, held_back = world.namespace_quotas.within(decision.plan, snapshot, world.states)
        for key in held_back:
            world.mark_dirty(key)
        self.last = Decided(snapshot=snapshot, plan=plan)
        self._failpoint("decided")
        plan = self.progress.told_in(plan, snapshot.pending, world.ledger.reasons)
        reasons = await self._changed_reasons(plan, snapshot.pending)
        turn = self._turn_plan(plan, jobs, reasons, snapshot)
        applied = None
        if turn.changes_ledger():
            try:
                applied = await apply(self._database, self._term, turn, snapshot.admissions, self._failpoint)
            except DataRefused as refused:
                await self._set_aside_refused(turn, snapshot, refused, now)
                return self._without_decision(now, changes, frozenset())
        world.snapshot_is_stale = False
        self._note_stored(reasons)
        world.node_inventory.closures.choose(plan.chosen_nodes)
        waits = () if applied is None else self._waits(snapshot, applied)
        stages = {} if applied is None else self._stages(turn, snapshot.admissions, applied)
        if applied is not None:
            await self._follow(applied, turn, snapshot)
        if applied is not None or decision.culprits or held_back:
            await self._refresh(now)
        if applied is not None:
            self._look_again_at_run_out(applied)
        self.next_look = self._when_to_look_again(now, applied)
        return replace(
            self._report(snapshot, plan, applied, changes),
            dirty_workloads=self._take_dirty_workloads(),
            waits=waits,
            stages={Stage.ADMITTED: [wait.seconds for wait in waits], **stages},
            freeze_seconds=froze - started,
            decide_seconds=decided - froze,
            apply_seconds=perf_counter() - decided,
        )

    async def _decision(self, frozen: Snapshot) -> Decided:
        """What is decided, without the workloads that keep a decision from coming about: they are set aside."""
        try:
            decision = await self._decider.decide(frozen, self._halved(SEATS_PER_PLAN))
        except DecisionTooLong as too_long:
            if too_long.fault is not None:
                raise too_long.fault from too_long
            await self._store_culprits(too_long, frozen)
            raise
        for key, error in decision.culprits.items():
            self.world.set_aside(key, error, frozen.now)
        return decision

    async def _without_plugin(self, fault: PluginFault, frozen: Snapshot) -> Snapshot:
        """The same moment, with the plug-in set aside that a decision failed on.

        That is an input of the decision, so it is stored first: the next leader, and a replay, decide with it too.
        """
        queue, facts = fault.asked.queue, self.world.queue_facts
        plugins = facts.set_aside_with(queue, fault)
        _log.error(
            "plug-in set aside", extra={"queue": queue, "plugin": fault.asked.plugin, "why": fault.why}
        )
        await intake.save_set_aside(self._database, self._term, queue, plugins)
        facts.put_set_aside(queue, plugins)
        await asyncio.to_thread(facts.build_tree)
        return replace(frozen, queues=facts.with_removed(), tree=facts.tree())

    def _turn_plan(
        self, plan: Plan, jobs: tuple[JobTransition, ...], reasons: ReasonChanges, snapshot: Snapshot
    ) -> TurnPlan:
        """The plan with all that is stored with it."""
        admissions = snapshot.admissions
        return TurnPlan(
            plan=plan,
            jobs=jobs,
            reasons=reasons.changed,
            without_reason=reasons.gone,
            users=self._users(plan),
            lost={each.admission: lost_work(admissions[each.admission], snapshot) for each in plan.evicts},
            stages=self.stages.of(plan, admissions, self.world.states, self._clock()),
            suspended=[
                each.admission
                for each in plan.frees
                if self.world.is_suspended(admissions[each.admission].workload)
            ],
        )

    async def _follow(self, applied: Applied, turn: TurnPlan, snapshot: Snapshot) -> None:
        """Bring what is known to what is stored."""
        self.stages.forget(turn.plan)
        self._failpoint("applied")
        await log_applied(applied, snapshot.admissions)
        await self._update_world(applied, turn)

    def _look_again_at_run_out(self, applied: Applied) -> None:
        """What follows for a Volcano Job is decided in the next turn, before anything else is seen of it."""
        admissions = self.world.admissions
        for evict in applied.evicted:
            if evict.code is ReasonCode.MAX_RUN_TIME and evict.admission in admissions:
                self.world.mark_dirty(admissions[evict.admission].workload)

    async def _store_culprits(self, error: DecisionTooLong, snapshot: Snapshot) -> None:
        """Store with their reason that workloads kept a decision from ending: the next leader decides without them."""
        culprits = error.culprits[:REASONS_PER_TURN]
        if not culprits:
            return
        now, seconds = snapshot.now, error.facts["seconds"]
        reasons: dict[WorkloadKey, Reason] = {}
        async for part in slices(culprits):
            reasons.update((key, self.world.endless_reason(key, seconds, now)) for key in part)
        plan = Plan(now=now, ledger_seq=snapshot.ledger_seq)
        turn = TurnPlan(plan=plan, reasons=reasons)
        about = {"workloads": listed([str(snapshot.pending[key]) for key in culprits])}
        try:
            await apply(self._database, self._term, turn, snapshot.admissions, self._failpoint)
        except (DatabaseError, Fenced) as why:
            _log.warning("workloads not set aside", extra={**about, "why": str(why)})
        else:
            _log.error("workloads set aside: a decision did not end with them", extra=about)

    def _without_decision(self, now: int, changes: int, dirty: AbstractSet[WorkloadKey]) -> TurnReport:
        return TurnReport(
            now=now,
            changes=changes,
            dirty_workloads=dirty,
            set_aside=self.world.set_aside_count(),
            failed_decisions=self._decider.failures,
        )

    async def _set_aside_refused(
        self, turn: TurnPlan, snapshot: Snapshot, error: DataRefused, now: int
    ) -> None:
        """Set the workloads aside that Postgres refuses a value or a row of; the next turn decides without them.

        Raises the error if it is no workload's, does not come back, or is that of a workload that was set aside before.
        """
        admissions = snapshot.admissions

        async def passes(some: Sequence[WorkloadKey]) -> bool:
            part = turn.only(frozenset(some), admissions)
            return not await is_refused(self._database, self._term, part, admissions)

        workloads = sorted(turn.workloads(admissions))
        if await passes(workloads):
            raise error  # it does not come back, so that no workload can be blamed for it
        culprits = await find_culprits(workloads, passes)
        if culprits is None or not culprits.found or any(key in self.world.aside for key in culprits.found):
            raise error
        for key in culprits.found:
            self.world.set_aside(key, error, now)
        await self._refresh(now)
        self._tell_defects()

    def is_due(self) -> bool:
        """Whether the next turn has something to do though nothing else changes."""
        world = self.world
        must_ask = world.dependencies.is_used and world.dependencies.must_ask
        return world.snapshot_is_stale or intake.has_urgent(world) or must_ask

    def has_stopped(self) -> bool:
        """Whether the last plan was as large as one may be, so that the next turn goes on with it at once."""
        return self.last is not None and self.last.plan.stopped

    async def _store_urgent(self, now: int) -> bool:
        """Store what a decision depends on. Whether there was something."""
        if not intake.has_urgent(self.world):
            return False
        rows = self._halved(intake.ROWS)
        return await intake.save(self._database, self._term, self.world, now, rows=rows)

    async def store_rest(self) -> bool:
        """Store some of what no decision waits for. Whether more is left. Raises Fenced."""
        left, rows = False, self._halved(intake.ROWS_OF_REST)
        try:
            if intake.has_rest(self.world):
                now = int(self._clock())
                left = await intake.save_rest(self._database, self._term, self.world, now, rows=rows)
        except DatabaseError as error:
            if isinstance(error, DatabaseTooSlow):
                self._halve()
            # Whatever is stored twice is stored once: the next turn tries again.
            if not self._rest_failed:
                _log.warning("descriptions and departures not stored", extra={"why": str(error)})
            self._rest_failed = True
            return False
        self._rest_failed = False
        return left

    async def _refresh(self, now: int) -> None:
        for dirty in self.world.refresh_in_slices(now, self._awaited, REFRESHED):
            self._dirty_workloads.update(dirty)
            for key in dirty:
                if (state := self.world.states.get(key)) is not None and state.running:
                    self.stages.note_state(state)
            await asyncio.sleep(0)

    async def _job_transitions(self, now: int) -> tuple[JobTransition, ...]:
        found: list[JobTransition] = []
        async for part in slices(self._dirty_workloads, weight=self.world.weight):
            found += self._transitions(self.world, part, now)
        return tuple(job for job in found if job.key not in self.world.aside)

    def _take_dirty_workloads(self) -> AbstractSet[WorkloadKey]:
        dirty, self._dirty_workloads = self._dirty_workloads, set()
        return dirty

    def _users(self, plan: Plan) -> dict[WorkloadKey, str]:
        """Users of the workloads that the plan gives seats."""
        opening = (*plan.admits, *(adopt.admit for adopt in plan.adopts))
        states = ((admit.workload, self.world.states.get(admit.workload)) for admit in opening)
        return {key: "" if state is None else state.workload.user for key, state in states}

    def _tell_defects(self) -> None:
        for key, error in self.world.take_defects().items():
            _log.error("workload cannot be handled", extra={"workload": str(key)}, exc_info=error)

    def _waits(self, snapshot: Snapshot, applied: Applied) -> tuple[GangWait, ...]:
        """How long gangs took to be admitted."""
        gangs = [snapshot.pending[admit.workload] for _, admit in applied.admitted if not admit.elastic]
        clock = self._clock()
        return tuple(
            GangWait(gang.queue, devices_of(gang), clock - gang.created) for gang in gangs if gang.created
        )

    def _stages(
        self, turn: TurnPlan, admissions: Mapping[AdmissionId, Admission], applied: Applied
    ) -> dict[Stage, list[float]]:
        """Seconds from the commit of admissions to the release and the binding of their last pod, of those that are
        bound now, and until their pods were ready together, of those that are so now."""
        clock, moment = self._clock(), monotonic()
        opened = {id_: admissions[id_].opened_at for id_ in (*turn.plan.starts, *turn.plan.ready)}
        committed = {id_: self._committed.pop(id_, None) for id_ in (*turn.plan.starts, *applied.closed)}
        self._committed.update((id_, moment) for id_, _ in applied.admitted)
        since = ((id_, committed[id_]) for id_ in turn.plan.starts)
        released = ((id_, turn.stages[id_].released) for id_ in turn.plan.starts if id_ in turn.stages)
        running = ((id_, turn.stages[id_].running) for id_ in turn.plan.ready if id_ in turn.stages)
        return {
            Stage.BOUND: [clock - opened[id_] if at is None else moment - at for id_, at in since],
            Stage.RELEASED: [at - opened[id_] for id_, at in released if at is not None],
            Stage.READY: [at - opened[id_] for id_, at in running if at is not None],
        }

    async def _update_world(self, applied: Applied, turn: TurnPlan) -> None:
        """Bring the world to the state after the commit."""
        world, plan = self.world, turn.plan
        opened = [admit for _, admit in applied.admitted]
        world.ledger.seq = applied.ledger_seq
        world.usage_history.post(applied.admissions, world.admissions, plan.now)
        if world.budgets.use is not None:
            world.budgets.post(applied.admissions, world.admissions, plan.now)
        async for changed_now in slices(applied.admissions):
            world.put_admissions(changed_now)
        world.ledger.put_claims(applied.claims, dropped=applied.unclaimed)
        # In the order in which the ledger has taken it: what is evicted with the plan counts besides what got ready.
        ready = frozenset(plan.ready)
        world.put_ready({admission.workload for admission in applied.admissions if admission.id in ready})
        lost = ((world.admissions[evict.admission].workload, evict) for evict in applied.evicted)
        for key, setback in setbacks_of(lost).items():
            world.put_setback(key, setback, plan.now)
        world.ledger.put_last_evictions(
            [admit.workload for admit in (*opened, *(adopt.admit for _, adopt in applied.adopted))],
            {
                world.admissions[evict.admission].workload: _last_eviction(evict, plan.now)
                for evict in applied.evicted
            },
        )
        for job in applied.jobs:
            world.put_job(job.key, job.new)
        changed = {**turn.reasons, **applied.dropped}
        world.ledger.put_reasons(changed, turn.without_reason)
        self._dirty_workloads.update(changed, turn.without_reason)

    async def _changed_reasons(self, plan: Plan, pending: Mapping[WorkloadKey, Workload]) -> ReasonChanges:
        """Reasons with another code, now and then also with other numbers, and workloads that wait no more."""
        with_numbers = monotonic() - self._numbers_stored_at >= REASON_NUMBERS_EVERY_SECONDS
        limit = self._halved(REASONS_PER_TURN)
        stored = self.world.ledger.reasons
        looking = self._stored_reasons.next(plan, pending, stored, with_numbers=with_numbers, limit=limit)
        return await run_in_slices(looking)

    def _note_stored(self, reasons: ReasonChanges) -> None:
        """These changes are in the ledger."""
        self._stored_reasons = reasons.stored_after
        self._postponed = REASON_NUMBERS_EVERY_SECONDS if reasons.numbers_postponed else None
        if reasons.postponed:
            self._postponed = 0.0
        elif reasons.with_numbers:
            self._numbers_stored_at = monotonic()

    def _when_to_look_again(self, now: int, applied: Applied | None) -> int:
        """Second of the next turn if nothing changes: a workload may be tried again, or numbers are to be stored."""
        waits = []
        if (ends := self.world.queue_facts.loans_until) is not None:
            waits.append(max(ends, now + 1))
        budgets = self.world.budgets
        for until in (self._decider.until, None if budgets.use is None else budgets.until(now)):
            waits += () if until is None else (max(until, now + 1),)
        if self.has_stopped():
            waits.append(now)
        if self._postponed is not None:
            waits.append(now + math.ceil(self._postponed))
        if applied is not None and applied.dropped:
            waits.append(now + math.ceil(REASON_NUMBERS_EVERY_SECONDS))
        return min(waits, default=now + 3600)

    def _report(self, snapshot: Snapshot, plan: Plan, applied: Applied | None, changes: int) -> TurnReport:
        if (books := self._decider.books) is not None:
            if not plan.stopped:
                self._pending_counts = counts(plan.reasons, snapshot.pending)
            books = replace(books, pending=self._pending_counts)
        return TurnReport(
            now=plan.now,
            changes=changes,
            admitted=len(applied.admitted) if applied else 0,
            adopted=len(applied.adopted) if applied else 0,
            freed=sum(len(free.seats) for free in plan.frees) if applied else 0,
            evicted=len(applied.evicted) if applied else 0,
            dropped=len(applied.dropped) if applied else 0,
            evictions=evictions_of(applied.evicted, snapshot) if applied else {},
            books=books,
            nodes_usable=int(snapshot.nodes.layout.usable.sum()),
            applied=applied,
            set_aside=self.world.set_aside_count(),
            failed_decisions=self._decider.failures,
        )


async def look_back(database: Database, world: World, now: int) -> None:
    """Read past use from the ledger if half-lives have changed. Raises DatabaseError.

    Where much has to be read for it, the leader sums up between the turns (``admission.history_keeper``), and says when
    all is summed up.
    """
    history = world.usage_history
    wanted = history.unread({name: fact.queue for name, fact in world.queues.items()})
    if wanted is None:
        return
    async with database.snapshot() as tx:
        far = await past_use.far_behind(tx, frozenset[int]().union(*wanted.values()), now, MOST_POSTINGS)
        history.begin(wanted, await past_use.past_use(tx, without(wanted, far), now), now, missing=far)


async def read_budgets(database: Database, world: World, now: int) -> None:
    """Read from the ledger what was used of budgets in the month, if it is not known. Raises DatabaseError."""
    if (month := world.budgets.unread(now)) is None:
        return
    async with database.snapshot() as tx:
        own = await hours_used(tx, month.begins, now, world.budgets.resources())
        parents = await queue_parents(tx)
    world.budgets.begin(month, own, parents, now)


async def recall(database: Database, world: World) -> None:
    """Read from the ledger which of the unknown admissions that live pods name are closed. Raises DatabaseError."""
    unknown = sorted(world.admission_index.unknown)
    for start in range(0, len(unknown), _RECALLED):
        asked = unknown[start : start + _RECALLED]
        async with database.transaction() as tx:
            world.learn_closed(asked, await closed_among(tx, asked))


async def look_for_predecessors(database: Database, world: World) -> None:
    """Read from the ledger which workloads others come after that are not there any more. Raises DatabaseError."""
    questions = world.dependencies.questions()
    found: dict[PredecessorQuestion, Predecessor] = {}
    for start in range(0, len(questions), _LOOKED_FOR):
        async with database.transaction() as tx:
            found |= await predecessors(tx, questions[start : start + _LOOKED_FOR])
    world.dependencies.learn(questions, found)


def _last_eviction(evict: Evict, now: int) -> LastEviction | None:
    """What is shown of an eviction while its workload waits; None for nothing."""
    by = evict.facts.get("for", "")
    cause = evict.message if evict.code in CAUSES_TOLD else ""
    if not (by or cause):
        return None
    return LastEviction(at=now, code=evict.code, by=by, cause=cause, takes=evict.facts.get("takes", ""))

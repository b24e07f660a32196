"""The event loop of a simulation: gangs arrive, end and are evicted in virtual time, and each event has its turns.

The engine gets what a controller would know: a gang exists, its nodes, and that it has ended. Durations are known
to the loop alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from time import perf_counter
from typing import Final

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.demand import Demand
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from admission.world.queues import UsageHistory
from queues.admissions import Admission, Claim, Seat
from queues.plan import Evict, Plan
from queues.quota.decayed_usage import half_lives
from queues.quota.queue import DEFAULT_POLICY, Queue
from queues.resources import NOTHING, Resources
from queues.versioned_map import VersionedMap
from queues.workload import AdmissionId, NodeName, QueueName, Workload, WorkloadKey
from tests.bench.simulate.gang_trace import START, Case, TraceJob

#: Seconds that a job needs to start again after an eviction.
STARTUP: Final = 60
#: Turns at one moment; after more of them the engine does not come to rest.
_MOST_TURNS: Final = 100

_END, _ARRIVAL, _TIMER = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A job on some nodes for some time (seconds after the start of the case)."""

    job: str
    start: int
    end: int
    #: The node of each member.
    nodes: tuple[NodeName, ...]


@dataclass(slots=True)
class _JobProgress:
    """Progress of a job, which the loop knows and the engine does not."""

    job: TraceJob
    #: Seconds of work up to the last checkpoint.
    saved: int = 0
    restarts: int = 0


@dataclass(slots=True, kw_only=True)
class SimulationOutcome:
    """The schedule of a case, and its figures."""

    segments: list[Segment] = field(default_factory=list)
    #: Jobs that never ended, with their last reasons.
    left: dict[str, str] = field(default_factory=dict)
    turns: int = 0
    admitted: int = 0
    #: Workloads that were admitted or refused with a reason, over all turns.
    answers: int = 0
    evicted: Counter[str] = field(default_factory=Counter)
    claims: int = 0
    decide_seconds: float = 0.0
    longest_turn: float = 0.0
    seconds: float = 0.0


class Simulation:
    """One case with one tree of queues."""

    def __init__(self, case: Case, queues: Mapping[QueueName, Queue]) -> None:
        self._case = case
        self._queues = queues
        self._nodes = case.nodes
        self._progress = {job.workload.key: _JobProgress(job) for job in case.jobs}
        self._pending: VersionedMap[WorkloadKey, Workload] = VersionedMap()
        self._holders: VersionedMap[WorkloadKey, Workload] = VersionedMap()
        self._admissions: VersionedMap[AdmissionId, Admission] = VersionedMap()
        self._claims: VersionedMap[WorkloadKey, Claim] = VersionedMap()
        self._ended: dict[AdmissionId, frozenset[int]] = {}
        self._demand = Demand()
        self._usage_history = UsageHistory()
        self._usage_history.begin(half_lives(queues), {}, START)
        self._last_id = 0
        self._memo = Memo()
        #: Heap of (second, kind of event, number of the admission or arrival).
        self._events: list[tuple[int, int, int]] = []
        self._arrivals = {job.workload.arrival: job.workload for job in case.jobs}
        self._timers: set[int] = set()
        self._node_deltas: dict[NodeName, Resources] = {}
        self._last_plan: Plan | None = None
        self.outcome = SimulationOutcome()

    def run(self) -> SimulationOutcome:
        """Simulate until no events are left."""
        for _ in self.turns():
            pass
        return self.outcome

    def turns(self) -> Iterator[tuple[Snapshot, Plan]]:
        """Simulate until no events are left; gives the input and the plan of each turn."""
        began = perf_counter()
        for job in self._case.jobs:
            heappush(self._events, (job.submitted, _ARRIVAL, job.workload.arrival))
        while self._events:
            now = self._events[0][0]
            if self._take_events(now):
                yield from self._decide(now)
        reasons = self._last_plan.reasons if self._last_plan is not None else {}
        self.outcome.left = {
            workload.name: reasons[key].message if key in reasons else ""
            for key, workload in self._pending.freeze().items()
        }
        self.outcome.seconds = perf_counter() - began

    def _take_events(self, now: int) -> bool:
        """Apply all events of this moment. False: none of them matters to a decision."""
        matters = False
        while self._events and self._events[0][0] == now:
            _, what, number = heappop(self._events)
            if what == _END:
                admission = self._admissions.get(AdmissionId(number))
                if admission is None:  # evicted before
                    continue
                self._ended[admission.id] = frozenset(range(len(admission.seats)))
                self._demand.update(admission.workload, ())
                self._end_segment(admission, now)
            elif what == _ARRIVAL:
                workload = self._arrivals[number]
                self._add_pending(workload, now)
            elif (
                self._arrivals.get(number) is not None
                and self._pending.get(self._arrivals[number].key) is None
            ):
                continue  # the workload waits no more
            matters = True
        return matters

    def _decide(self, now: int) -> Iterator[tuple[Snapshot, Plan]]:
        """Turns until a plan evicts nothing: victims end at once, so the next turn can use their seats."""
        for _ in range(_MOST_TURNS):
            snapshot, plan = self._turn(now)
            yield snapshot, plan
            if not plan.evicts:
                break
        else:
            raise AssertionError(f"{self._case.name}: no rest after {_MOST_TURNS} turns at {now} s")
        until = self._memo.until
        if until is not None and until - START > now and until not in self._timers:
            self._timers.add(until)
            heappush(self._events, (until - START, _TIMER, 0))

    def _turn(self, now: int) -> tuple[Snapshot, Plan]:
        snapshot = Snapshot(
            now=START + now,
            queues=self._queues,
            nodes=self._nodes,
            pending=self._pending.freeze(),
            admissions=self._admissions.freeze(),
            ended=self._ended,
            holders=self._holders.freeze(),
            namespaces=self._case.namespaces,
            claims=self._claims.freeze(),
            typical=self._demand.typical(),
            past_use=self._usage_history.freeze(START + now),
        )
        began = perf_counter()
        plan, self._memo = decide(snapshot, self._memo, NO_LIMIT)
        taken = perf_counter() - began
        self._last_plan = plan
        outcome = self.outcome
        outcome.turns += 1
        outcome.admitted += len(plan.admits)
        outcome.answers += len(plan.admits) + len(plan.reasons)
        outcome.claims += len(plan.claims)
        outcome.decide_seconds += taken
        outcome.longest_turn = max(outcome.longest_turn, taken)
        self._apply(plan, snapshot.admissions, now)
        return snapshot, plan

    def _apply(self, plan: Plan, before: Mapping[AdmissionId, Admission], now: int) -> None:
        """Apply the changes of a plan. Gangs end whole, so a free closes its admission."""
        self._ended = {}
        first = self._last_id + 1
        self._last_id += len(plan.admits)
        opened = [AdmissionId(number) for number in range(first, first + len(plan.admits))]
        users = {admit.workload: self._progress[admit.workload].job.workload.user for admit in plan.admits}
        changed = plan.changed_admissions(before, opened, users)
        for free in plan.frees:
            self._release(before[free.admission], now)
        for key in plan.dropped:
            self._claims.pop(key)
        for evict in plan.evicts:
            self._evict(evict, before[evict.admission], now)
        for claim in plan.claims:
            self._claims.put(claim.workload, claim)
        for id_ in opened:
            self._admit(replace(changed[id_], started=True), now)
        if self._node_deltas:
            self._nodes = self._nodes.with_used(self._node_deltas)
            self._node_deltas = {}

    def _admit(self, admission: Admission, now: int) -> None:
        key, id_ = admission.workload, admission.id
        progress = self._progress[key]
        workload = self._pending.get(key)
        assert workload is not None, f"{key} was admitted but did not wait"
        self._usage_history.post((admission,), {}, START + now)
        self._admissions.put(id_, admission)
        self._pending.pop(key)
        self._holders.put(key, workload)
        self._move_seats(admission.seats, 1)
        left = progress.job.duration - progress.saved + (STARTUP if progress.restarts else 0)
        heappush(self._events, (now + left, _END, id_))

    def _evict(self, evict: Evict, admission: Admission, now: int) -> None:
        """Remove the pods at once; the workload waits again, with the work up to its last checkpoint."""
        workload = self._holders.get(admission.workload)
        assert workload is not None, f"{admission.workload} was evicted but held nothing"
        progress = self._progress[admission.workload]
        self._release(admission, now)
        self._end_segment(admission, now)
        ran = START + now - admission.opened_at - (STARTUP if progress.restarts else 0)
        checkpoint = self._case.checkpoint
        progress.saved += max(0, ran) // checkpoint * checkpoint
        progress.restarts += 1
        self.outcome.evicted[evict.code] += 1
        self._add_pending(
            replace(
                workload,
                evictions=workload.evictions + (evict.beneficiary is not None),
                waiting_since=START + now,
                not_before=evict.not_before,
            ),
            now,
        )

    def _end_segment(self, admission: Admission, now: int) -> None:
        """End the segment of an admission. It holds its seats until the next turn frees them."""
        self._holders.pop(admission.workload)
        self.outcome.segments.append(
            Segment(
                job=admission.name,
                start=admission.opened_at - START,
                end=now,
                nodes=tuple(seat.node for seat in admission.seats),
            )
        )

    def _add_pending(self, workload: Workload, now: int) -> None:
        self._arrivals[workload.arrival] = workload
        self._pending.put(workload.key, workload)
        self._demand.update(workload.key, workload.pod_sets)
        if workload.not_before - START > now:
            heappush(self._events, (workload.not_before - START, _TIMER, workload.arrival))
        tree = self._memo.tree
        policy = DEFAULT_POLICY if tree is None else tree.policy(workload.queue)
        heappush(self._events, (now + (policy.clear_after or 0), _TIMER, workload.arrival))

    def _release(self, admission: Admission, now: int) -> None:
        """Free all seats of an admission."""
        self._admissions.pop(admission.id)
        self._move_seats(admission.seats, -1)
        closed = replace(admission, ended=frozenset(range(len(admission.seats))))
        self._usage_history.post((closed,), {admission.id: admission}, START + now)

    def _move_seats(self, seats: tuple[Seat, ...], sign: int) -> None:
        for seat in seats:
            before = self._node_deltas.get(seat.node, NOTHING)
            self._node_deltas[seat.node] = before + seat.takes * sign

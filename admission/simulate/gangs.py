"""The event loop: gangs arrive, end and are evicted in virtual time, and every moment has its turns.

What the engine is told is what a controller would know: that a gang is there, where it runs, and that it has
ended. Durations are used by the loop alone, to know when that is.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from time import perf_counter
from typing import Final

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.demand import Demand
from admission.engine.snapshot import Snapshot
from admission.simulate.trace import START, Case, TraceJob
from admission.world.past_use import UsageHistory
from queues.admissions import Admission, Claim, Seat
from queues.plan import Evict, Plan
from queues.quota.decayed_usage import half_lives
from queues.quota.queue import DEFAULT_POLICY, Queue
from queues.resources import Resources
from queues.versioned_map import VersionedMap
from queues.workload import AdmissionId, NodeName, QueueName, Workload, WorkloadKey

#: Seconds that a job needs to come back to work after an eviction.
STARTUP: Final = 60
#: Turns at one moment; more of them mean that the engine does not come to rest.
_TURNS_AT_ONCE: Final = 100

_END, _ARRIVAL, _TIMER = range(3)

#: Sees every turn's input and output.
Watch = Callable[[Snapshot, Plan], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A job in one place from one moment to another (seconds after the start of the case)."""

    job: str
    start: int
    end: int
    #: One per member.
    nodes: tuple[NodeName, ...]


@dataclass(slots=True)
class _Career:
    """What the loop knows of a job, and the engine does not."""

    job: TraceJob
    #: Seconds of work that are done and saved.
    saved: int = 0
    restarts: int = 0


@dataclass(slots=True, kw_only=True)
class SimulationOutcome:
    """What came of a case."""

    segments: list[Segment] = field(default_factory=list)
    #: Jobs that never ended, with the reason they were last given.
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
    """One case under one tree of queues."""

    def __init__(self, case: Case, queues: Mapping[QueueName, Queue]) -> None:
        self._case = case
        self._queues = queues
        self._nodes = case.nodes
        self._careers = {job.workload.key: _Career(job) for job in case.jobs}
        self._pending: VersionedMap[WorkloadKey, Workload] = VersionedMap()
        self._holders: VersionedMap[WorkloadKey, Workload] = VersionedMap()
        self._admissions: VersionedMap[AdmissionId, Admission] = VersionedMap()
        self._claims: VersionedMap[WorkloadKey, Claim] = VersionedMap()
        self._ended: dict[AdmissionId, frozenset[int]] = {}
        self._demand = Demand()
        self._retrospect = UsageHistory()
        self._retrospect.begin(half_lives(queues), {}, START)
        self._last_id = 0
        self._memo = Memo()
        #: (when, what, number), the smallest first.
        self._events: list[tuple[int, int, int]] = []
        self._arrivals = {job.workload.arrival: job.workload for job in case.jobs}
        self._looks: set[int] = set()
        self._moved: dict[NodeName, Resources] = {}
        self._plan: Plan | None = None
        self.outcome = SimulationOutcome()

    def run(self, until: int | None = None, watch: Watch = lambda snapshot, plan: None) -> SimulationOutcome:
        """Play until nothing can happen any more, or until a moment. ``watch`` sees every plan."""
        began = perf_counter()
        for job in self._case.jobs:
            heappush(self._events, (job.submitted, _ARRIVAL, job.workload.arrival))
        while self._events and (until is None or self._events[0][0] <= until):
            now = self._events[0][0]
            if self._happen(now):
                self._turns(now, watch)
        reasons = self._plan.reasons if self._plan is not None else {}
        self.outcome.left = {
            workload.name: reasons[key].message if key in reasons else ""
            for key, workload in self._pending.freeze().items()
        }
        self.outcome.seconds = perf_counter() - began
        return self.outcome

    def _happen(self, now: int) -> bool:
        """Everything that happens at this moment. False: it makes no difference to a decision."""
        news = False
        while self._events and self._events[0][0] == now:
            _, what, number = heappop(self._events)
            if what == _END:
                admission = self._admissions.get(AdmissionId(number))
                if admission is None:  # evicted before
                    continue
                self._ended[admission.id] = frozenset(range(len(admission.seats)))
                self._demand.update(admission.workload, ())
                self._close(admission, now)
            elif what == _ARRIVAL:
                workload = self._arrivals[number]
                self._wait(workload, now)
            elif (
                self._arrivals.get(number) is not None
                and self._pending.get(self._arrivals[number].key) is None
            ):
                continue  # somebody who waits no more
            news = True
        return news

    def _turns(self, now: int, watch: Watch) -> None:
        """Decide until nothing more is to be changed at this moment."""
        for _ in range(_TURNS_AT_ONCE):
            snapshot, plan = self._turn(now)
            watch(snapshot, plan)
            if not plan.evicts:
                break
        else:
            raise AssertionError(f"{self._case.name}: no rest after {_TURNS_AT_ONCE} turns at {now} s")
        until = self._memo.until
        if until is not None and until - START > now and until not in self._looks:
            self._looks.add(until)
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
            claims=self._claims.freeze(),
            typical=self._demand.typical(),
            past_use=self._retrospect.freeze(START + now),
        )
        began = perf_counter()
        plan, self._memo = decide(snapshot, self._memo)
        taken = perf_counter() - began
        self._plan = plan
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
        """What the plan changes. Gangs here are whole, so a free closes its admission."""
        self._ended = {}
        first = self._last_id + 1
        self._last_id += len(plan.admits)
        opened = [AdmissionId(number) for number in range(first, first + len(plan.admits))]
        users = {admit.workload: self._careers[admit.workload].job.workload.user for admit in plan.admits}
        changed = plan.changed_admissions(before, opened, users)
        for free in plan.frees:
            self._over(before[free.admission], now)
        for key in plan.dropped:
            self._claims.pop(key)
        for evict in plan.evicts:
            self._evict(evict, before[evict.admission], now)
        for claim in plan.claims:
            self._claims.put(claim.workload, claim)
        for id_ in opened:
            self._admit(replace(changed[id_], started=True), now)
        if self._moved:
            self._nodes = self._nodes.with_used(self._moved)
            self._moved = {}

    def _admit(self, admission: Admission, now: int) -> None:
        key, id_ = admission.workload, admission.id
        career = self._careers[key]
        workload = self._pending.get(key)
        assert workload is not None, f"{key} was admitted and did not wait"
        self._retrospect.post((admission,), {}, START + now)
        self._admissions.put(id_, admission)
        self._pending.pop(key)
        self._holders.put(key, workload)
        self._post(admission.seats, 1)
        left = career.job.duration - career.saved + (STARTUP if career.restarts else 0)
        heappush(self._events, (now + left, _END, id_))

    def _evict(self, evict: Evict, admission: Admission, now: int) -> None:
        """Its pods are gone at once; it waits again, with the work of its last checkpoint."""
        workload = self._holders.get(admission.workload)
        assert workload is not None, f"{admission.workload} was evicted and held nothing"
        career = self._careers[admission.workload]
        self._over(admission, now)
        self._close(admission, now)
        ran = START + now - admission.opened_at - (STARTUP if career.restarts else 0)
        checkpoint = self._case.checkpoint
        career.saved += max(0, ran) // checkpoint * checkpoint
        career.restarts += 1
        self.outcome.evicted[evict.code] += 1
        self._wait(
            replace(
                workload,
                evictions=workload.evictions + (evict.beneficiary is not None),
                waiting_since=START + now,
                not_before=evict.not_before,
            ),
            now,
        )

    def _close(self, admission: Admission, now: int) -> None:
        """It runs no more. An admission that ended holds its seats until the next turn frees them."""
        self._holders.pop(admission.workload)
        self.outcome.segments.append(
            Segment(
                job=admission.name,
                start=admission.opened_at - START,
                end=now,
                nodes=tuple(seat.node for seat in admission.seats),
            )
        )

    def _wait(self, workload: Workload, now: int) -> None:
        self._arrivals[workload.arrival] = workload
        self._pending.put(workload.key, workload)
        self._demand.update(workload.key, workload.pod_sets)
        if workload.not_before - START > now:
            heappush(self._events, (workload.not_before - START, _TIMER, workload.arrival))
        clear_after = self._clear_after(workload.queue)
        heappush(self._events, (now + clear_after, _TIMER, workload.arrival))

    def _clear_after(self, queue: QueueName) -> int:
        tree = self._memo.tree
        after = tree.policy(queue).clear_after if tree is not None else DEFAULT_POLICY.clear_after
        return after if after is not None else 0

    def _over(self, admission: Admission, now: int) -> None:
        """It gives everything back."""
        self._admissions.pop(admission.id)
        self._post(admission.seats, -1)
        closed = replace(admission, ended=frozenset(range(len(admission.seats))))
        self._retrospect.post((closed,), {admission.id: admission}, START + now)

    def _post(self, seats: tuple[Seat, ...], sign: int) -> None:
        for seat in seats:
            before = self._moved.get(seat.node)
            delta = seat.takes if sign > 0 else seat.takes * -1
            self._moved[seat.node] = delta if before is None else before + delta

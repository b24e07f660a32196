"""The engine run forward in virtual time: which pending workloads start when, if run times are these. Pure.

It is the real ``decide``: what runs ends, what waits is admitted, victims leave and wait again. Not foreseen are
workloads that come later, changes of queues and nodes, and failures: ``admission.forecast.calibration`` learns what
they cost.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Final

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.host_ports import NotedPorts, ports_of
from admission.engine.pending.waiting_time import soonest
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from admission.world.queues import UsageHistory
from queues.admissions import Admission, AdmissionState, Claim, Seat
from queues.plan import Evict, Plan
from queues.quota.decayed_usage import half_lives
from queues.resources import NOTHING, Resources
from queues.versioned_map import VersionedMap, rows_of
from queues.workload import AdmissionId, HostPort, NodeName, Workload, WorkloadKey

#: Plans at one moment; after more of them the engine does not come to rest there, and time goes on.
_MOST_PLANS: Final = 20

#: Seconds that a workload runs in all: of what holds seats, by what it is and how long it has run so far.
TotalRunTime = Callable[[Workload | Admission, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationBounds:
    """How far and how exactly a simulation goes."""

    #: Seconds from the snapshot on.
    horizon: int
    #: Decisions at most.
    decisions: int
    #: What ends within this part of the time that has passed already is taken together, at its end: 20 means a 20th.
    #: 0: each second by itself.
    precision: int = 20
    #: Seconds that pods of a victim need to go.
    grace: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """What a simulation came to."""

    #: The second (since the epoch) at which pending workloads of the snapshot started for the first time.
    at: Mapping[WorkloadKey, int]
    #: All of these workloads: the pending ones that have no seats and nothing that keeps them from being considered.
    waiting: Set[WorkloadKey]
    #: Everything up to this second is known: a workload that is not in ``at`` starts later. None if nothing more
    #: happens at all, so that it never starts.
    until: int | None


class Forward:
    """One simulation, step by step."""

    def __init__(
        self, snapshot: Snapshot, plan: Plan, total_run_time: TotalRunTime, limits: SimulationBounds
    ) -> None:
        self._limits = limits
        self._total_run_time = total_run_time
        self._began = self._now = snapshot.now
        self._last_id = max(snapshot.admissions, default=0)
        self._decisions = 0
        self._memo = Memo()
        #: Pending workloads of the snapshot that have not started yet. Those with seats have.
        seated = {each.workload for each in rows_of(snapshot.admissions) if each.state is AdmissionState.OPEN}
        self._waiting = {
            key for key, each in snapshot.pending.items() if key not in seated and each.obstacle is None
        }
        self._all = frozenset(self._waiting)
        self._at: dict[WorkloadKey, int] = {}
        self._known_until: int | None = snapshot.now
        self._first = (snapshot, plan)

    def starts(self) -> Starts:
        """What is known so far."""
        return Starts(at=self._at, waiting=self._all, until=self._known_until)

    def steps(self) -> Iterator[None]:
        """Go on, a decision a step."""
        snapshot, plan = self._first
        del self._first
        for _ in range(_MOST_PLANS):
            self._note_starts(plan, snapshot.now)
            snapshot = snapshot.after(plan, self._last_id)
            self._last_id = max(self._last_id, max(snapshot.admissions, default=0))
            if not plan.stopped:
                break
            plan = self._decide(snapshot)
            yield
        try:
            yield from self._turns(_World(snapshot, self._total_run_time, self._limits.grace, self._last_id))
        finally:
            if self._memo.state is not None:
                self._memo.state.retire()

    def _turns(self, world: "_World") -> Iterator[None]:
        while self._waiting and self._decisions < self._limits.decisions:
            coming = soonest(world.next_event(), self._memo.until)
            if coming is None:
                self._known_until = None
                return
            coming = max(coming, self._soonest_step())
            if coming > self._began + self._limits.horizon:
                self._known_until = self._began + self._limits.horizon
                return
            world.advance(coming)
            self._now = coming
            for _ in range(_MOST_PLANS):
                snapshot = world.freeze()
                plan = self._decide(snapshot)
                self._note_starts(plan, coming)
                world.apply(plan, snapshot)
                yield
                if not plan.evicts or self._limits.grace:  # else victims are gone at once
                    break
            self._known_until = coming

    def _soonest_step(self) -> int:
        """The soonest second at which something may be decided again."""
        passed = self._now - self._began
        return self._now + max(1, passed // self._limits.precision if self._limits.precision else 1)

    def _decide(self, snapshot: Snapshot) -> Plan:
        self._decisions += 1
        plan, self._memo = decide(snapshot, self._memo, NO_LIMIT)
        return plan

    def _note_starts(self, plan: Plan, now: int) -> None:
        for admit in plan.admits:
            if admit.workload in self._waiting:
                self._waiting.discard(admit.workload)
                self._at[admit.workload] = now


@dataclass(slots=True)
class _Life:
    """A workload with seats, or one that had some."""

    #: Seconds that it runs in all.
    total: int
    #: Seconds of its work that an eviction does not undo.
    saved: int = 0
    #: When its present run began.
    since: int = 0
    admissions: set[AdmissionId] = field(default_factory=set)
    #: Number of its runs: an end that was foreseen for an earlier one is void.
    runs: int = 0


class _World:
    """The world of a simulation, changed as the controller's world is."""

    def __init__(self, snapshot: Snapshot, total_run_time: TotalRunTime, grace: int, last_id: int) -> None:
        self._snapshot = snapshot
        self._total_run_time = total_run_time
        self._grace = grace
        self._last_id = last_id
        self._now = snapshot.now
        self._nodes = snapshot.nodes
        self._pending: VersionedMap[WorkloadKey, Workload] = VersionedMap(snapshot.pending)
        self._holders: VersionedMap[WorkloadKey, Workload] = VersionedMap(snapshot.holders)
        self._admissions: VersionedMap[AdmissionId, Admission] = VersionedMap()
        self._claims: VersionedMap[WorkloadKey, Claim] = VersionedMap(snapshot.claims)
        self._ended: dict[AdmissionId, frozenset[int]] = {}
        self._moved: dict[NodeName, Resources] = {}
        self._lives: dict[WorkloadKey, _Life] = {}
        self._usage_history = UsageHistory()
        self._usage_history.begin(half_lives(snapshot.queues), snapshot.past_use.rows, snapshot.now)
        #: Heap of (second, workload or "", number of its run, admission or 0).
        self._events: list[tuple[int, WorkloadKey, int, int]] = []
        self._begin()

    def _begin(self) -> None:
        """Foresee the end of what holds seats."""
        for admission in sorted(rows_of(self._snapshot.admissions), key=lambda each: each.id):
            self._admissions.put(admission.id, replace(admission, started=True, ready=True))
            if admission.state is AdmissionState.OPEN:
                life = self._lives.setdefault(admission.workload, _Life(0, since=admission.opened_at))
                life.admissions.add(admission.id)
            else:
                heappush(self._events, (self._now + self._grace, admission.workload, -1, admission.id))
        for key, life in self._lives.items():
            about = self._holders.get(key) or self._snapshot.admissions[min(life.admissions)]
            life.total = self._total_run_time(about, max(0, self._now - life.since))
            heappush(self._events, (max(self._now + 1, life.since + life.total), key, 0, 0))
        for key, workload in self._pending.freeze().items():
            if workload.not_before > self._now:
                heappush(self._events, (workload.not_before, key, -1, 0))

    def next_event(self) -> int | None:
        """The second at which something happens. None if nothing ever does."""
        while self._events:
            second, key, run, _ = self._events[0]
            life = self._lives.get(key)
            if run < 0 or (life is not None and life.runs == run):
                return second
            heappop(self._events)
        return None

    def advance(self, now: int) -> None:
        """Time goes on to that second: what ends until then ends."""
        self._now = now
        while (second := self.next_event()) is not None and second <= now:
            _, key, run, number = heappop(self._events)
            if run >= 0:
                self._end(key)
            elif number and (admission := self._admissions.get(AdmissionId(number))) is not None:
                self._ended[admission.id] = frozenset(range(len(admission.seats)))

    def _end(self, key: WorkloadKey) -> None:
        for id_ in self._lives.pop(key).admissions:
            admission = self._admissions.get(id_)
            if admission is not None:
                self._ended[id_] = frozenset(range(len(admission.seats)))
        self._holders.pop(key)
        self._pending.pop(key)

    def freeze(self) -> Snapshot:
        """The input of the next decision."""
        if self._moved:
            self._nodes, self._moved = self._nodes.with_used(self._moved), {}
        return replace(
            self._snapshot,
            now=self._now,
            nodes=self._nodes,
            pending=self._pending.freeze(),
            admissions=self._admissions.freeze(),
            holders=self._holders.freeze(),
            claims=self._claims.freeze(),
            ended=self._ended,
            evictable={},
            started=(),
            ready=(),
            unbooked=(),
            past_use=self._usage_history.freeze(self._now),
        )

    def apply(self, plan: Plan, snapshot: Snapshot) -> None:
        """Carry a plan out."""
        before = snapshot.admissions
        self._ended = {}
        self._take_ports(plan, snapshot)
        ids = [AdmissionId(self._last_id + number) for number in range(1, len(plan.admits) + 1)]
        self._last_id += len(ids)
        users = {admit.workload: snapshot.pending[admit.workload].user for admit in plan.admits}
        changed = plan.changed_admissions(before, ids, users)
        for free in plan.frees:
            was, now = before[free.admission], changed[free.admission]
            self._move([was.seats[index] for index in free.seats], -1)
            self._usage_history.post((now,), before, self._now)
            if now.state is AdmissionState.CLOSED:
                self._admissions.pop(free.admission)
            else:
                self._admissions.put(free.admission, now)
        for key in plan.dropped:
            self._claims.pop(key)
        for evict in plan.evicts:
            self._evict(evict, before[evict.admission], changed[evict.admission])
        for claim in plan.claims:
            self._claims.put(claim.workload, claim)
        for id_ in ids:
            self._admit(replace(changed[id_], started=True, ready=True))

    def _admit(self, admission: Admission) -> None:
        key, id_ = admission.workload, admission.id
        workload = self._pending.get(key)
        assert workload is not None, f"{key} was admitted but did not wait"
        self._usage_history.post((admission,), {}, self._now)
        self._admissions.put(id_, admission)
        self._holders.put(key, workload)
        self._move(admission.seats, 1)
        life = self._lives.get(key)
        if life is None:
            life = self._lives[key] = _Life(self._total_run_time(workload, 0))
        if not life.admissions:
            life.since, life.runs = self._now, life.runs + 1
            heappush(self._events, (self._now + max(1, life.total - life.saved), key, life.runs, 0))
        life.admissions.add(id_)
        held = sum(len(self._seats_of(each)) for each in life.admissions)
        if held >= sum(pods.wanted_count() for pods in workload.pod_sets):
            self._pending.pop(key)

    def _seats_of(self, id_: AdmissionId) -> tuple[Seat, ...]:
        admission = self._admissions.get(id_)
        return () if admission is None else admission.holding()

    def _evict(self, evict: Evict, admission: Admission, evicting: Admission) -> None:
        """The workload waits again, with its work up to the last checkpoint; its pods go soon."""
        key, now = admission.workload, self._now
        if self._grace:
            self._admissions.put(admission.id, evicting)
            heappush(self._events, (now + self._grace, key, -1, admission.id))
        else:
            self._move(admission.holding(), -1)
            self._admissions.pop(admission.id)
            closed = replace(admission, ended=frozenset(range(len(admission.seats))))
            self._usage_history.post((closed,), {admission.id: admission}, now)
        holder, life = self._holders.get(key), self._lives.get(key)
        if life is not None:
            life.admissions.discard(admission.id)
            if not life.admissions:
                life.runs += 1
                checkpoint = None if holder is None else holder.checkpoint_interval
                ran = max(0, now - life.since)
                life.saved += ran // checkpoint * checkpoint if checkpoint else 0
        runs_on = life is not None and bool(life.admissions)
        if holder is not None:
            displaced = evict.displaces and not runs_on
            again = replace(
                holder,
                evictions=holder.evictions + displaced,
                waiting_since=now if displaced else holder.waiting_since,
                not_before=max(holder.not_before, evict.not_before),
            )
            self._pending.put(key, again)
            if self._grace or runs_on:
                self._holders.put(key, again)
            else:
                self._holders.pop(key)
            if again.not_before > now:
                heappush(self._events, (again.not_before, key, -1, 0))

    def _move(self, seats: list[Seat] | tuple[Seat, ...], times: int) -> None:
        for seat in seats:
            before = self._moved.get(seat.node, NOTHING)
            self._moved[seat.node] = before + seat.takes * times

    def _take_ports(self, plan: Plan, snapshot: Snapshot) -> None:
        """Host ports are taken and left. Few workloads have any."""
        moved: list[tuple[bool, NodeName, tuple[HostPort, ...]]] = []
        for free in plan.frees:
            admission = snapshot.admissions[free.admission]
            holder = self._snapshot.holders.get(admission.workload) or self._snapshot.pending.get(
                admission.workload
            )
            if holder is not None:
                seats = [admission.seats[index] for index in free.seats]
                moved += [(False, *each) for each in ports_of(holder, seats)]
        for admit in plan.admits:
            moved += [(True, *each) for each in ports_of(snapshot.pending[admit.workload], admit.seats)]
        if not moved:
            return
        noted = NotedPorts(self._nodes.ports)
        for is_taken, node, ports in moved:
            (noted.add if is_taken else noted.remove)(node, ports)
        self._nodes = self._nodes.with_ports(noted.by_node())

"""A place in the near future for a gang that cannot start now; what would delay it there stays off that place.

EASY backfilling (Lifka 1995; Mu'alem and Feitelson 2001), for gangs on nodes: the place is where the gang could
start soonest, as far as run times are declared. Where none are, a place counts as free as soon as it may be
cleared for the gang (``starvation.clearAfter``), so only work that could not be cleared by then is in the way.
Where nobody clears anything, it is where those run who passed the gang (``admission.engine.passed``).
When the place is free at last, smaller work that comes first in the order of the queue does not take it either.
Derived anew in every turn, never stored.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine import gangs, passed, reasons
from admission.engine.claims import per_node
from admission.engine.gangs import Need
from admission.engine.plan import Admit, Reason
from admission.engine.snapshot import Snapshot
from admission.engine.topology import Amounts
from admission.engine.trial import Columns, Trial
from admission.engine.victims import size_of
from queues.fairshare import below_deserved
from queues.quota import QueueTree
from queues.ranks import Candidate
from queues.usage import accounts, seats_by_flavor
from queues.workload import AdmissionId, AdmissionState, Workload, WorkloadKey

#: So many classes are asked, longest waiting first, for one that lacks room and nothing else.
_HEADS_ASKED = 8

#: Declared run times count as the next of these (seconds), so that workloads of one shape stay few classes.
_RUN_TIMES = (60, 300, 900, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 172800, 345600, 604800)


def run_time_class(workload: Workload) -> int | None:
    """The declared run time rounded up to one of few steps; None: unknown."""
    seconds = workload.run_time
    if seconds is None:
        return None
    step = bisect_left(_RUN_TIMES, seconds)
    return _RUN_TIMES[step] if step < len(_RUN_TIMES) else -(-seconds // 604800) * 604800


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Where and when the longest-starved gang is to start."""

    candidate: Candidate
    #: Seconds since the epoch at which its place is expected to be free, at the latest; None: nobody knows.
    at: int | None
    #: From when on (seconds since the epoch) a place may be cleared for it; None: never.
    clears: int | None
    #: Its nodes …
    columns: Columns
    #: … and (R, n) what of them, free now, nobody may hold at that time.
    withheld: Amounts
    #: The next second at which somebody should be gone: if he is not, all is reckoned anew. For ``Memo.until``.
    until: int | None

    def is_delayed_by(self, candidate: Candidate, now: int, trial: Trial) -> bool:
        """Whether somebody who is admitted now would be in the way, and has no right to be."""
        mine, other = self.candidate.workload, candidate.workload
        if other.key == mine.key or other.priority > mine.priority:
            return False
        if self.at is not None:
            run_time = run_time_class(other)
            if run_time is not None and now + run_time <= self.at:
                return False
            cleared = _clearable(other, now, mine, trial.tree)
            if self.clears is not None and max(self.clears, cleared) <= self.at:
                return False
        usage = trial.usage
        owed = below_deserved(usage, other.queue, candidate.accounts)
        return not owed or below_deserved(usage, mine.queue, self.candidate.accounts)


@dataclass(slots=True, eq=False)
class Backfill:
    """Admits around at most one reservation, and the place of one who can start now."""

    snapshot: Snapshot
    reservation: Reservation | None = None
    #: Who has waited longest, and fits since something was given back in this turn: for him until he is in.
    due: Reservation | None = None

    @classmethod
    def around(
        cls, snapshot: Snapshot, classes: Sequence[tuple[Candidate, Need]], trial: Trial, *, told: bool
    ) -> "Backfill":
        """Reserve for the longest-starved of these who lacks nothing but room, and for one before it who fits now.

        ``classes``: the first candidate of every (queue, shape) and what it lacks. ``trial`` is as before.
        ``told``: whether anybody's end is known, or somebody in them could settle where he cannot be cleared.
        """
        if not told:
            classes = [each for each in classes if passed.waits_in_vain(*each, trial)]
        gangs_ = [each for each in classes if not each[0].joins and not each[1].beside]
        gangs_.sort(key=lambda each: waits_since(each[0].workload))
        freed = any(snapshot.ended.values())
        due: Reservation | None = None
        for candidate, need in gangs_[:_HEADS_ASKED]:
            later = trial.fork()
            answer = gangs.admit(candidate.workload, need, later)
            if isinstance(answer, Admit):
                if freed and due is None:
                    due = _due(snapshot, candidate, answer, trial, later)
                    trial = later
            elif answer.code in (reasons.Code.NO_FIT, reasons.Code.TOPOLOGY_NO_FIT):
                place = _reserve(snapshot, candidate, need, trial, later) if told else None
                if place is None and passed.waits_in_vain(candidate, need, trial):
                    place = _of_those_who_passed(snapshot, candidate, need, trial)
                if told or place is not None:
                    return cls(snapshot, place, due)
        return cls(snapshot, due=due)

    @property
    def until(self) -> int | None:
        """When the answers may be others though nothing else changed; None: never."""
        return None if self.reservation is None else self.reservation.until

    def admit(self, candidate: Candidate, need: Need, trial: Trial) -> Admit | Reason:
        """As ``gangs.admit``, but off the reserved place for those who would delay whom it is for."""
        due = self.due
        if due is not None and _alike(due.candidate, candidate):
            # Nothing is reserved for others on its own place. In or not, its turn has come.
            self.due = None
            return gangs.admit(candidate.workload, need, trial)
        reserved = [
            each
            for each in (due, self.reservation)
            if each is not None and each.is_delayed_by(candidate, self.snapshot.now, trial)
        ]
        if not reserved:
            return gangs.admit(candidate.workload, need, trial)
        for each in reserved:
            trial.free[:, each.columns] -= each.withheld
            trial.changed(each.columns)
        answer = gangs.admit(candidate.workload, need, trial)
        for each in reserved:
            trial.free[:, each.columns] += each.withheld
            trial.changed(each.columns)
        if isinstance(answer, Admit):
            return answer
        # The reason is the one that holds without the reservation, if there is one.
        without = gangs.admit(candidate.workload, need, trial.fork())
        if isinstance(without, Reason):
            return without
        return reasons.would_delay(str(reserved[0].candidate.workload), reserved[0].at)


def _alike(one: Candidate, other: Candidate) -> bool:
    """Whether they are of one class, of which the first in the order of the queue goes for all."""
    return one.workload.queue == other.workload.queue and one.shape == other.shape


def _due(snapshot: Snapshot, candidate: Candidate, answer: Admit, trial: Trial, later: Trial) -> Reservation:
    """The place that one who fits gets if he is first. ``later``: the trial with him in it."""
    columns, _ = per_node(answer.seats, trial)
    withheld = trial.free[:, columns] - later.free[:, columns]
    return Reservation(candidate, snapshot.now, None, columns, withheld, snapshot.now)


def _of_those_who_passed(
    snapshot: Snapshot, candidate: Candidate, need: Need, trial: Trial
) -> Reservation | None:
    since, _, _ = waits_since(candidate.workload)
    found = passed.place(snapshot, candidate.workload, since, need, trial)
    return None if found is None else Reservation(candidate, None, None, *found, None)


def _reserve(
    snapshot: Snapshot, candidate: Candidate, need: Need, trial: Trial, later: Trial
) -> Reservation | None:
    """The soonest place of one who does not fit now. ``later`` is a fork of the trial to play on."""
    head = candidate.workload
    clear_after = trial.tree.policy(head.queue).clear_after
    is_gang = sum(len(each) for each in need.least.values()) > 1
    clears = (
        None if clear_after is None or not is_gang else max(snapshot.now, waits_since(head)[0] + clear_after)
    )
    ends = sorted(_ends(snapshot, head, clears, trial.tree))
    asked = 1
    gone = 0
    while gone < len(ends):
        # Twice as many each time: few of the many ends are needed as a rule, and each try costs a placement.
        reached = min(len(ends), gone + asked)
        while reached < len(ends) and ends[reached][0] == ends[reached - 1][0]:
            reached += 1
        _leave(snapshot, later, ends[gone:reached])
        if isinstance(gangs.admit(head, need, later), Admit):
            return _soonest(snapshot, candidate, need, trial, ends, gone, reached, clears)
        gone, asked = reached, asked * 2
    return None


def _soonest(
    snapshot: Snapshot,
    candidate: Candidate,
    need: Need,
    trial: Trial,
    ends: Sequence[tuple[int, AdmissionId]],
    low: int,
    high: int,
    clears: int | None,
) -> Reservation:
    """It does not fit when ``low`` of those who end first are gone, it does when ``high`` are."""
    times = sorted({end for end, _ in ends[low:high]})
    first, last = 0, len(times) - 1
    while first < last:
        middle = (first + last) // 2
        later = trial.fork()
        _leave(snapshot, later, [each for each in ends[:high] if each[0] <= times[middle]])
        if isinstance(gangs.admit(candidate.workload, need, later), Admit):
            last = middle
        else:
            first = middle + 1
    later = trial.fork()
    _leave(snapshot, later, [each for each in ends[:high] if each[0] <= times[first]])
    answer = gangs.admit(candidate.workload, need, later)
    assert isinstance(answer, Admit)
    columns, _ = per_node(answer.seats, trial)
    left = np.maximum(later.free[:, columns], 0)
    withheld = np.maximum(trial.free[:, columns] - left, 0)
    until = min((end for end, _ in ends if end > snapshot.now), default=times[first])
    return Reservation(candidate, times[first], clears, columns, withheld, until)


def _leave(snapshot: Snapshot, later: Trial, ends: Iterable[tuple[int, AdmissionId]]) -> None:
    for _, number in ends:
        admission = snapshot.admissions[number]
        gone = admission.ended | snapshot.ended.get(number, frozenset())
        seats = [seat for index, seat in enumerate(admission.seats) if index not in gone]
        later.give_back(admission.queue, accounts(seats_by_flavor(seats)), seats)


def _ends(
    snapshot: Snapshot, head: Workload, clears: int | None, tree: QueueTree
) -> Iterable[tuple[int, AdmissionId]]:
    """When running admissions are expected to be gone, those of which anything is known."""
    now = snapshot.now
    for number, admission in snapshot.admissions.items():
        if admission.state is not AdmissionState.OPEN or number in snapshot.evictable:
            yield now, number
            continue
        holder = snapshot.holders.get(admission.workload)
        if holder is None:
            continue
        known = []
        if holder.run_time is not None:
            known.append(_expected_end(admission.opened_at, max(1, holder.run_time), now))
        if clears is not None:
            since = min(now, admission.opened_at)
            cleared = _clearable(holder, since, head, tree)
            if cleared < _NEVER:
                known.append(max(clears, cleared))
        if known:
            yield min(known), number


def _expected_end(opened_at: int, run_time: int, now: int) -> int:
    """By what was declared; who is over his time already is expected to take as long again, and again."""
    end = opened_at + run_time
    while end <= now:
        run_time *= 2
        end = opened_at + run_time
    return end


_NEVER = 1 << 62


def _clearable(workload: Workload, admitted_at: int, head: Workload, tree: QueueTree) -> int:
    """From when on somebody admitted at that second may be cleared away for the head; a far future: never."""
    policy = tree.policy(workload.queue) if workload.queue in tree.paths else None
    if policy is None or not workload.preemptable or workload.priority > head.priority:
        return _NEVER
    # Only what is smaller is cleared away (admission.engine.rights).
    if workload.evictions >= (policy.max_evictions or 0) or _size(workload) >= _size(head):
        return _NEVER
    return admitted_at + max(policy.min_run_time or 0, workload.min_run_time, workload.cooldown)


def _size(workload: Workload) -> int:
    return sum(size_of([(pods.takes, 1)]) * len(pods.wanted()) for pods in workload.pod_sets)


def waits_since(workload: Workload) -> tuple[int, int, WorkloadKey]:
    """Sort key: who has waited longest comes first."""
    return workload.waiting_since or workload.created, workload.arrival, workload.key

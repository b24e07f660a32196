"""The soonest place of somebody who cannot start now, as far as it is known who will be gone by when.

Known is what was declared (``muster.dev/run-time`` and the like), and from when on somebody may be cleared away.
"""

from collections.abc import Iterable, Sequence

from admission.engine.backfill.reserved_space import NEVER, ReservedSpace, clearable, of_place
from admission.engine.nodes.host_ports import ports_of
from admission.engine.pending.waiting_time import is_gang, waits_since
from admission.engine.placement import gangs
from admission.engine.placement.need import MissingMembers
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import AdmissionState
from queues.order.policies import LineEntry
from queues.plan import Admit
from queues.quota.accounts import charges
from queues.quota.tree import QueueTree
from queues.workload import AdmissionId, Workload

#: What is to be kept, and the next second at which somebody should be gone: if he is not, all is reckoned anew.
Found = tuple[ReservedSpace, int]


def place(snapshot: Snapshot, candidate: LineEntry, need: MissingMembers, trial: Trial) -> Found | None:
    """The soonest place, and quota; None: too little is known."""
    head, later = candidate.workload, trial.fork()
    clear_after = trial.tree.policy(head.queue).clear_after
    clears = (
        None
        if clear_after is None or not is_gang(need)
        else max(snapshot.now, waits_since(head)[0] + clear_after)
    )
    ends = sorted(_ends(snapshot, head, clears, trial.tree))
    asked = 1
    gone = 0
    while gone < len(ends):
        # Twice as many each time: few of the many ends are needed as a rule, and each try costs a placement.
        reached = min(len(ends), gone + asked)
        while reached < len(ends) and ends[reached][0] == ends[reached - 1][0]:
            reached += 1
        leave(snapshot, later, [number for _, number in ends[gone:reached]])
        answer = gangs.admit(head, need, later)
        if isinstance(answer, Admit):
            times = sorted({end for end, _ in ends[gone:reached]})
            if len(times) > 1:
                later, answer = _narrowed(snapshot, candidate, need, trial, ends[:reached], times)
            until = min((end for end, _ in ends if end > snapshot.now), default=times[0])
            return of_place(candidate, trial, later, answer, at=times[0], clears=clears), until
        gone, asked = reached, asked * 2
    return None


def _narrowed(
    snapshot: Snapshot,
    candidate: LineEntry,
    need: MissingMembers,
    trial: Trial,
    ends: Sequence[tuple[int, AdmissionId]],
    times: list[int],
) -> tuple[Trial, Admit]:
    """The world at the first of these seconds at which it fits. At the last it does; of them only that one is left."""
    found: tuple[Trial, Admit] | None = None
    while len(times) > 1 or found is None:
        middle = (len(times) - 1) // 2
        later = trial.fork()
        leave(snapshot, later, [number for end, number in ends if end <= times[middle]])
        answer = gangs.admit(candidate.workload, need, later)
        if isinstance(answer, Admit):
            found = later, answer
            del times[middle + 1 :]
        else:
            del times[: middle + 1]
    return found


def leave(snapshot: Snapshot, later: Trial, numbers: Iterable[AdmissionId]) -> None:
    """These admissions are gone, with all they hold."""
    for number in numbers:
        admission = snapshot.admissions[number]
        seats = snapshot.still_held(admission)
        holder = snapshot.holders.get(admission.workload)
        ports = ports_of(holder, seats) if holder is not None else ()
        later.remove_seats(admission.queue, charges(seats), seats, ports)


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
            cleared = clearable(holder, min(now, admission.opened_at), head, tree)
            if cleared < NEVER:
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

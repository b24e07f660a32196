"""The soonest place of a gang that cannot start now, by the times at which running work is expected to be gone.

Known are run times that were declared (``muster.dev/run-time`` and the like), and from which second on work may be
cleared away for the gang.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from admission.engine.backfill.reserved_space import ClearingRule, FutureFit, ReservedSpace, fit_in
from admission.engine.nodes.host_ports import ports_of
from admission.engine.pending.waiting_time import is_gang, waits_since
from admission.engine.placement.need import MissingMembers
from admission.engine.preemption.protection import NEVER
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import AdmissionState
from queues.order.policies import LineEntry
from queues.quota.accounts import charges
from queues.quota.tree import QueueTree
from queues.versioned_map import rows_of
from queues.workload import AdmissionId, Workload


class SoonestPlace(NamedTuple):
    """A place in the future."""

    space: ReservedSpace
    #: The next second at which an admission should be gone: if it is not, the place has to be looked for again.
    until: int


class _ExpectedEnd(NamedTuple):
    """When an admission should be gone."""

    second: int
    admission: AdmissionId


@dataclass(frozen=True, slots=True, eq=False)
class _Departures:
    """Admissions that leave one after another, and the gang that waits for them."""

    snapshot: Snapshot
    trial: Trial
    gang: Workload
    need: MissingMembers
    #: The soonest first.
    ends: Sequence[_ExpectedEnd]

    def remove(self, world: Trial, ends: Iterable[_ExpectedEnd]) -> None:
        """Take admissions, with all they hold, out of a future world."""
        for number in (end.admission for end in ends):
            admission = self.snapshot.admissions[number]
            seats = self.snapshot.still_held(admission)
            holder = self.snapshot.holders.get(admission.workload)
            ports = ports_of(holder, seats) if holder is not None else ()
            world.remove_seats(admission.queue, charges(seats), seats, ports)

    def fit_at(self, second: int) -> FutureFit | None:
        """How the gang fits when all admissions that end by that second are gone."""
        world = self.trial.fork()
        self.remove(world, (end for end in self.ends if end.second <= second))
        return fit_in(world, self.gang, self.need)

    def earliest_fit(self, seconds: Sequence[int]) -> tuple[int, FutureFit]:
        """The first of these seconds at which the gang fits, and how. At the last one it does."""
        low, high = 0, len(seconds) - 1
        found: FutureFit | None = None
        while low < high or found is None:
            middle = (low + high) // 2
            fit = self.fit_at(seconds[middle])
            if fit is not None:
                found, high = fit, middle
            else:
                low = middle + 1
        return seconds[high], found


def soonest_place(
    snapshot: Snapshot, entry: LineEntry, need: MissingMembers, trial: Trial
) -> SoonestPlace | None:
    """The soonest place, and quota, of a gang. None: too little is known."""
    gang, world = entry.workload, trial.fork()
    clear_after = trial.tree.policy(gang.queue).clear_after
    clears_from = (
        None
        if clear_after is None or not is_gang(need)
        else max(snapshot.now, waits_since(gang)[0] + clear_after)
    )
    ends = sorted(_expected_ends(snapshot, gang, clears_from, trial.tree))
    departures = _Departures(snapshot, trial, gang, need, ends)
    gone, more = 0, 1
    while gone < len(ends):
        # Twice as many each time: few of the many ends are needed as a rule, and each try costs a placement.
        reached = min(len(ends), gone + more)
        while reached < len(ends) and ends[reached].second == ends[reached - 1].second:
            reached += 1
        departures.remove(world, ends[gone:reached])
        fit = fit_in(world, gang, need)
        if fit is not None:
            seconds = sorted({end.second for end in ends[gone:reached]})
            second = seconds[0]
            if len(seconds) > 1:
                second, fit = departures.earliest_fit(seconds)
            space = replace(ReservedSpace.of(entry, trial, fit), free_at=second, clears_from=clears_from)
            until = min((end.second for end in ends if end.second > snapshot.now), default=second)
            return SoonestPlace(space, until)
        gone, more = reached, more * 2
    return None


def _expected_ends(
    snapshot: Snapshot, gang: Workload, clears_from: int | None, tree: QueueTree
) -> Iterable[_ExpectedEnd]:
    """When running admissions should be gone, as far as anything is known."""
    now, rule = snapshot.now, ClearingRule(gang, tree)
    for admission in rows_of(snapshot.admissions):
        number = admission.id
        if admission.state is not AdmissionState.OPEN or number in snapshot.evictable:
            yield _ExpectedEnd(now, number)
            continue
        holder = snapshot.holders.get(admission.workload)
        if holder is None:
            continue
        known = []
        if holder.run_time is not None:
            known.append(_expected_end(admission.opened_at, max(1, holder.run_time), now))
        if clears_from is not None:
            clearable = rule.clearable_from(holder, min(now, admission.opened_at))
            if clearable < NEVER:
                known.append(max(clears_from, clearable))
        if known:
            yield _ExpectedEnd(min(known), number)


def _expected_end(opened_at: int, run_time: int, now: int) -> int:
    """By the declared run time; work that is over it is expected to take as long again, and again."""
    end = opened_at + run_time
    while end <= now:
        run_time *= 2
        end = opened_at + run_time
    return end

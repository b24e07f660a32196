"""A place in the near future for a gang that cannot start now; work that would delay the gang there stays off it.

EASY backfilling (Lifka 1995; Mu'alem and Feitelson 2001), for gangs on nodes: the place is where the gang could
start soonest, as far as run times are declared. Where none are, a place counts as free as soon as it may be
cleared for the gang (``starvation.clearAfter``), so only work that could not be cleared by then is in the way. Where no
place is cleared, it is where the work runs that overtook the gang (``admission.engine.backfill.departures``). When the
place is free at last, smaller work that comes first in the order of the queue does not take it either.

One gang keeps a place, with the quota that it needs of what limits on its path leave free: the one that has waited
longest. A gang that lacks quota keeps it also while its quota is cleared: what others get of it in each turn would
never be among what can be cleared. Derived again in every turn, never stored.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from admission.engine import reasons
from admission.engine.backfill.coming_room import ComingRoom
from admission.engine.backfill.departures import Departures, counting_period, expected_departures
from admission.engine.backfill.reserved_space import FutureFit, ReservedSpace, fit_in, limiting_queues
from admission.engine.forced_changes import OpenAdmissions
from admission.engine.pending.waiting_time import (
    LONG_WAIT,
    is_passed_over,
    soonest,
    starves_at,
    waits_since,
)
from admission.engine.placement import gangs
from admission.engine.placement.need import MissingMembers
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import Admission
from queues.order.policies import LineEntry
from queues.order.shares import below_deserved
from queues.plan import Admit, Reason
from queues.reason_codes import ReasonCode
from queues.versioned_map import rows_of
from queues.workload import AdmissionId, Workload

#: So many classes that lack room, and so many that lack quota, are asked, longest waiting first.
_HEADS_ASKED = 8


class LongestWaiting(NamedTuple):
    """The workload of a class that has waited longest."""

    entry: LineEntry
    #: What it lacks.
    need: MissingMembers
    #: Why no workload of the class could be admitted even alone. None if one may be.
    refused: Reason | None


@dataclass(slots=True, eq=False)
class Backfill:
    """The reservations of a turn, and admission around them."""

    snapshot: Snapshot
    #: In the order in which the workloads have waited that they are for: younger ones stay off.
    reservations: list[ReservedSpace] = field(default_factory=list)
    #: From this second on the answers may be others though nothing else changed. None if never.
    until: int | None = None

    @classmethod
    def reserving_for(
        cls,
        snapshot: Snapshot,
        heads: Iterable[LongestWaiting],
        trial: Trial,
        open_admissions: OpenAdmissions,
        *,
        admitted: Sequence[Admit] = (),
        ends_matter: bool,
    ) -> "Backfill":
        """Reserve for the longest waiting of these heads that lacks room or quota, and for one that fits now.

        ``trial`` is left unchanged. ``admitted``: in this turn so far; they will end like others. ``ends_matter``: the
        end of some running work is known, or work could settle where it cannot be cleared.
        """
        first = max(snapshot.admissions, default=0) + 1 if admitted else 0
        opened = [
            admit.opened(AdmissionId(first + number), snapshot.now) for number, admit in enumerate(admitted)
        ]
        search = _ReservationSearch(cls(snapshot), trial, open_admissions, opened, ends_matter)
        alone = [each for each in heads if not each.entry.joins and not each.need.seated]
        for head in sorted(alone, key=lambda each: waits_since(each.entry.workload)):
            if search.is_over:
                break
            search.reserve_for(head)
        return search.backfill

    def revisit_at(self, second: int | None) -> None:
        """Say that the answers may be others from a second on. None if they may not."""
        self.until = soonest(self.until, second)

    def admit(self, entry: LineEntry, need: MissingMembers, trial: Trial) -> Admit | Reason:
        """As ``gangs.admit``, but off what is reserved for workloads that this one would delay."""
        delayed = self._delayed_by(entry, trial)
        if not delayed:
            return gangs.admit(entry.workload, need, trial)
        for space in delayed:
            space.withhold(trial)
        answer = gangs.admit(entry.workload, need, trial)
        for space in delayed:
            space.release(trial)
        if isinstance(answer, Admit):
            return answer
        # The reason is the one that holds without the reservation, if there is one.
        without = gangs.admit(entry.workload, need, trial.fork())
        if isinstance(without, Reason):
            return without
        if delayed[0].comes_soon:
            return reasons.kept_together(str(delayed[0].entry.workload))
        # A second that is now would be another in each turn.
        at = delayed[0].free_at
        return reasons.would_delay(
            str(delayed[0].entry.workload),
            None if at is not None and at <= self.snapshot.now else at,
            delayed[0].why_delayed_by(entry.workload),
        )

    def keeps_off(self, entry: LineEntry, trial: Trial) -> bool:
        """Whether a workload must stay off what gets free, as it would delay one that has waited longer."""
        before = itertools.takewhile(lambda space: not _alike(space.entry, entry), self.reservations)
        return any(space.is_delayed_by(entry, self.snapshot.now, trial) for space in before)

    def keep_coming(self, coming: ComingRoom, entry: LineEntry, need: MissingMembers, trial: Trial) -> bool:
        """Keep what is free now for the head of the line, which lacks room, if it fits when what is leaving is gone.

        Whether it does; ``trial`` is left unchanged. If it has the reservation already, this one takes its place.
        """
        world = trial.fork()
        for space in self._delayed_by(entry, trial):
            space.withhold(world)
        fit = fit_in(coming.after(world), entry.workload, need)
        if fit is None:
            return False
        own = next(
            (index for index, space in enumerate(self.reservations) if _alike(space.entry, entry)), None
        )
        index = len(self.reservations) if own is None else own
        self.reservations[index : index + 1] = [replace(ReservedSpace.of(entry, world, fit), comes_soon=True)]
        return True

    def _delayed_by(self, entry: LineEntry, trial: Trial) -> list[ReservedSpace]:
        """Reservations that a workload must stay off. One that fits now ends when its own class is tried."""
        found = []
        for index, space in enumerate(self.reservations):
            # The first of a class in the order of the queue stands for all of it.
            if _alike(space.entry, entry):
                if space.fits_now:
                    del self.reservations[index]
                break
            if space.is_delayed_by(entry, self.snapshot.now, trial):
                found.append(space)
        return found


def _alike(one: LineEntry, other: LineEntry) -> bool:
    """Whether two workloads are of one class."""
    return one.workload.queue == other.workload.queue and one.shape == other.shape


class _ReservationSearch:
    """Reserves for one head after another, the longest waiting first."""

    def __init__(
        self,
        backfill: Backfill,
        trial: Trial,
        open_admissions: OpenAdmissions,
        opened: Sequence[Admission],
        ends_matter: bool,
    ) -> None:
        self.backfill = backfill
        #: Admissions that this turn opens: their seats are taken in the trial.
        self._opened = opened
        self._snapshot = backfill.snapshot
        self._open_admissions = open_admissions
        #: The world without what is reserved so far.
        self._trial = trial
        self._ends_matter = ends_matter
        #: Heads asked that lack room, and that lack quota.
        self._asked = self._asked_quota = 0
        #: A place is kept for a gang that waits; for one that fits now, or cannot be.
        self._has_place, self._has_fitting = False, not any(backfill.snapshot.ended.values())

    @property
    def is_over(self) -> bool:
        """True if no further head can get anything."""
        return self._has_place or (self._asked >= _HEADS_ASKED and self._asked_quota >= _HEADS_ASKED)

    def reserve_for(self, head: LongestWaiting) -> None:
        """Reserve what one head may have: a place, or nothing."""
        (entry, need, refused), now, tree = head, self._snapshot.now, self._trial.tree
        workload = entry.workload
        self._trial.progress.workload = workload.key
        passed_over, due = is_passed_over(workload, need, tree, now), starves_at(workload, need, tree)
        if need.of_gang and not passed_over:
            self.backfill.revisit_at(waits_since(workload)[0] + LONG_WAIT)
        if due is not None and due > now:
            self.backfill.revisit_at(due)
        # The queue uses less than it deserves of all that the gang asks.
        owed = passed_over and below_deserved(self._trial.usage, workload.queue, entry.accounts)
        if refused is not None and refused.code == ReasonCode.QUEUE_LIMIT:
            if self._ends_matter or passed_over or (due is not None and due <= now):
                self._reserve_for_quota(head, overtakers=passed_over)
            return
        if not (self._ends_matter or owed) or self._asked >= _HEADS_ASKED:
            return
        world = self._trial.fork()
        answer = gangs.admit(workload, need, world)
        if not isinstance(answer, Admit) and answer.code == ReasonCode.QUEUE_LIMIT:
            self._reserve_for_quota(head, overtakers=passed_over)
            return
        self._asked += 1
        if isinstance(answer, Admit):
            self._reserve_fitting(entry, FutureFit(world, answer))
        elif answer.code in (ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT):
            clears_from = self._clears_from(workload, need)
            self._reserve(entry, self._departures(entry, need, owed, self._every_admission), clears_from)

    def _reserve_fitting(self, entry: LineEntry, fit: FutureFit) -> None:
        """Keep what was freed in this turn from smaller work that is tried before the head."""
        if not self._has_fitting:
            now = self._snapshot.now
            space = replace(ReservedSpace.of(entry, self._trial, fit), free_at=now, fits_now=True)
            self._has_fitting, self._trial = True, fit.world
            self.backfill.reservations.append(space)

    def _reserve_for_quota(self, head: LongestWaiting, *, overtakers: bool) -> None:
        """Keep a place, and what limits leave free, for a head that lacks quota.

        Work that could be cleared stays off as well, since it would take the quota that is to be cleared.
        """
        entry, need, _ = head
        tree = self._trial.tree
        limits = limiting_queues(entry.workload.queue, tree)
        if self._asked_quota >= _HEADS_ASKED or not limits:
            return
        self._asked_quota += 1
        # Asked first: no other admissions use quota that these limits count.
        numbers = self._open_admissions.in_subtree(limits[-1], tree)
        under_limits = [*(self._snapshot.admissions[number] for number in numbers), *self._opened]
        if self._departures(entry, need, overtakers, under_limits).may_have_quota():
            self._reserve(entry, self._departures(entry, need, overtakers, self._every_admission), None)

    def _reserve(self, entry: LineEntry, departures: Departures, clears_from: int | None) -> None:
        place = departures.soonest_place()
        if place is not None:
            space = ReservedSpace.of(entry, self._trial, place.fit)
            self.backfill.reservations.append(replace(space, free_at=place.free_at, clears_from=clears_from))
            self._has_place = True

    @property
    def _every_admission(self) -> Iterable[Admission]:
        rows = rows_of(self._snapshot.admissions)
        return [*rows, *self._opened] if self._opened else rows

    def _departures(
        self, entry: LineEntry, need: MissingMembers, overtakers: bool, among: Iterable[Admission]
    ) -> Departures:
        """Those of these admissions that should be gone some time. ``overtakers``: as in ``expected_departures``."""
        snapshot, workload, trial, among = self._snapshot, entry.workload, self._trial, list(among)
        leaving = expected_departures(
            snapshot,
            workload,
            among,
            trial.tree,
            clears_from=self._clears_from(workload, need),
            overtakers=overtakers,
        )
        ends = [each.second for each in leaving if each.second is not None and each.second > snapshot.now]
        self.backfill.revisit_at(min(ends, default=None))
        before, until = counting_period(waits_since(workload)[0], snapshot.now)
        if overtakers and before is not None and any(each.opened_at >= before for each in among):
            self.backfill.revisit_at(until)
        return Departures.of(snapshot, workload, need, trial, leaving)

    def _clears_from(self, workload: Workload, need: MissingMembers) -> int | None:
        """The second from which on a place is cleared for the gang. None if never, or not within a week."""
        tree, now = self._trial.tree, self._snapshot.now
        due = starves_at(workload, need, tree)
        return None if due is None or is_passed_over(workload, need, tree, now) else max(now, due)

"""A place in the near future for a gang that cannot start now; work that would delay the gang there stays off it.

EASY backfilling (Lifka 1995; Mu'alem and Feitelson 2001), for gangs on nodes: the place is where the gang could
start soonest, as far as run times are declared. Where none are, a place counts as free as soon as it may be
cleared for the gang (``starvation.clearAfter``), so only work that could not be cleared by then is in the way
(``admission.engine.backfill.expected_ends``). Where no place is cleared, it is where the work runs that overtook the
gang (``admission.engine.backfill.passed_over``). When the place is free at last, smaller work that comes first in
the order of the queue does not take it either.

One gang keeps a place: the one that has waited longest of the gangs that lack room. Quota is kept for more gangs:
what they will need of what a limit on their path leaves free. That is also so where their quota is to be cleared
now: what others get of it in each turn would never be among what can be cleared. Where only quota is kept, only
admissions that use quota of the same limits count as leaving: they are few, and no others have it.
Derived again in every turn, never stored.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from admission.engine import reasons
from admission.engine.backfill.expected_ends import soonest_place
from admission.engine.backfill.passed_over import (
    deserved_suffices,
    has_quota_without,
    overtakers,
    overtakers_change_at,
    place_of_overtakers,
)
from admission.engine.backfill.reserved_space import FutureFit, ReservedSpace, limiting_queues
from admission.engine.forced_changes import OpenAdmissions
from admission.engine.pending.waiting_time import LONG_WAIT, is_passed_over, soonest, starves_at, waits_since
from admission.engine.placement import gangs
from admission.engine.placement.need import MissingMembers
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.order.policies import LineEntry
from queues.order.shares import below_deserved
from queues.plan import Admit, Reason
from queues.reason_codes import ReasonCode
from queues.versioned_map import rows_of
from queues.workload import AdmissionId, QueueName, Workload

#: So many classes are asked, longest waiting first, for one that lacks room and nothing else.
_HEADS_ASKED = 8

#: In so many queues quota is kept for the gang that has waited longest there.
_QUOTAS_KEPT = 4


class LongestWaiting(NamedTuple):
    """The workload of a class that has waited longest."""

    entry: LineEntry
    #: What it lacks.
    need: MissingMembers
    #: Why no workload of the class could be admitted even alone. None: one may be.
    refused: Reason | None


@dataclass(slots=True, eq=False)
class Backfill:
    """The reservations of a turn, and admission around them."""

    snapshot: Snapshot
    #: In the order in which the workloads have waited that they are for: younger ones stay off.
    reservations: list[ReservedSpace] = field(default_factory=list)
    #: From this second on the answers may be others though nothing else changed. None: never.
    until: int | None = None

    @classmethod
    def reserving_for(
        cls,
        snapshot: Snapshot,
        heads: Iterable[LongestWaiting],
        trial: Trial,
        open_admissions: OpenAdmissions,
        *,
        ends_matter: bool,
    ) -> "Backfill":
        """Reserve for the longest waiting of these heads that lacks nothing but room, and for one that fits now.

        And quota for heads that lack it. ``trial`` is left unchanged. ``ends_matter``: the end of some running work
        is known, or work could settle where it cannot be cleared.
        """
        search = _ReservationSearch(cls(snapshot), trial, open_admissions, ends_matter)
        alone = [each for each in heads if not each.entry.joins and not each.need.seated]
        for head in sorted(alone, key=lambda each: waits_since(each.entry.workload)):
            if search.is_over:
                break
            search.reserve_for(head)
        return search.backfill

    def revisit_at(self, second: int | None) -> None:
        """Say that the answers may be others from a second on. None: they may not."""
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
        return reasons.would_delay(str(delayed[0].entry.workload), delayed[0].free_at)

    def _delayed_by(self, entry: LineEntry, trial: Trial) -> list[ReservedSpace]:
        """Reservations that a workload must stay off. One that fits now ends when its own class is tried."""
        found = []
        for index, space in enumerate(self.reservations):
            # The first of a class in the order of the queue stands for all of it.
            if space.entry.workload.queue == entry.workload.queue and space.entry.shape == entry.shape:
                if space.fits_now:
                    del self.reservations[index]
                break
            if space.is_delayed_by(entry, self.snapshot.now, trial):
                found.append(space)
        return found


class _ReservationSearch:
    """Reserves for one head after another, the longest waiting first."""

    def __init__(
        self, backfill: Backfill, trial: Trial, open_admissions: OpenAdmissions, ends_matter: bool
    ) -> None:
        self.backfill = backfill
        self._snapshot = backfill.snapshot
        self._open_admissions = open_admissions
        #: The world without what is reserved so far.
        self._trial = trial
        self._ends_matter = ends_matter
        self._seats_ended = any(backfill.snapshot.ended.values())
        #: Heads asked for a place, and for quota alone.
        self._asked = self._asked_quota = 0
        #: A place is kept: for lack of room, for lack of quota, for a gang that fits now.
        self._for_room = self._for_quota = self._for_fitting = False
        #: Queues of which quota is kept, or none can be.
        self._quota_queues: set[QueueName] = set()

    @property
    def is_over(self) -> bool:
        """True if no further head can get anything."""
        return self._no_place_left and self._no_quota_left

    @property
    def _no_place_left(self) -> bool:
        return self._for_room or self._asked >= _HEADS_ASKED

    @property
    def _no_quota_left(self) -> bool:
        return self._asked_quota >= _HEADS_ASKED or len(self._quota_queues) >= _QUOTAS_KEPT

    def reserve_for(self, head: LongestWaiting) -> None:
        """Reserve what one head may have: a place, or quota, or nothing."""
        (entry, need, refused), now, tree = head, self._snapshot.now, self._trial.tree
        workload = entry.workload
        self._trial.progress.workload = workload.key
        due = starves_at(workload, need, tree)
        starved = due is not None and due <= now
        passed_over = is_passed_over(workload, need, tree, now)
        # The queue uses less than it deserves of all that the gang asks: then a place may be kept for it.
        owed = passed_over and below_deserved(self._trial.usage, workload.queue, entry.accounts)
        place = (self._ends_matter or owed) and not self._no_place_left
        quota = (self._ends_matter or starved or passed_over) and self._may_keep_quota(workload.queue)
        if quota and refused is not None and refused.code == ReasonCode.QUEUE_LIMIT:
            self._reserve_for_quota(entry, need, starved=starved, passed_over=passed_over)
            return
        # Quota alone is kept only for a head that may be admitted now, or lacked nothing but room for long.
        quota = quota and ((self._seats_ended and refused is None) or passed_over)
        if not place and not quota:
            return
        self._asked_quota += not place
        world = self._trial.fork()
        answer = gangs.admit(workload, need, world)
        if isinstance(answer, Admit):
            self._asked += place
            self._reserve_fitting(entry, FutureFit(world, answer), place=place)
        elif answer.code == ReasonCode.QUEUE_LIMIT:
            if quota:
                self._reserve_for_quota(entry, need, starved=starved, passed_over=passed_over)
        elif answer.code in (ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT):
            self._asked += place
            space = self._reserve_for_room(entry, need, owed=owed) if place else None
            if space is None and quota and passed_over:
                self._keep_quota(
                    self._place_of_overtakers(entry, need, among=self._under_its_limits(workload))
                )
        else:
            self._asked += place

    def _may_keep_quota(self, queue: QueueName) -> bool:
        """True if quota may be kept for one more head of this queue."""
        return (
            not self._no_quota_left
            and queue not in self._quota_queues
            and bool(limiting_queues(queue, self._trial.tree))
        )

    def _reserve_fitting(self, entry: LineEntry, fit: FutureFit, *, place: bool) -> None:
        """Keep what was freed in this turn from smaller work that is tried before the head."""
        if not self._seats_ended:
            return
        space = replace(ReservedSpace.of(entry, self._trial, fit), free_at=self._snapshot.now, fits_now=True)
        if place and not self._for_fitting:
            self._for_fitting, self._trial = True, fit.world
            self.backfill.reservations.append(space)
        elif not place:
            self._keep_quota(space)

    def _reserve_for_room(
        self, entry: LineEntry, need: MissingMembers, *, owed: bool
    ) -> ReservedSpace | None:
        """Keep a place for a head that lacks room. If nothing is known about it, no later head gets a place."""
        space = self._soonest_place(entry, need) if self._ends_matter else None
        if space is None and owed:
            space = self._place_of_overtakers(entry, need)
        self._for_room = self._ends_matter or space is not None
        if space is not None:
            self._keep(space)
        return space

    def _reserve_for_quota(
        self, entry: LineEntry, need: MissingMembers, *, starved: bool, passed_over: bool
    ) -> None:
        """Keep what limits on its path leave free for a head that lacks quota; for one head also its place."""
        workload, space = entry.workload, None
        self._quota_queues.add(workload.queue)
        if not self._for_quota:
            if self._ends_matter and not starved:
                space = self._soonest_place(entry, need)
            # Others may have its place until it has enough quota, but not for too long.
            long = self._snapshot.now - waits_since(workload)[0] >= LONG_WAIT
            if space is None and passed_over and long and deserved_suffices(workload, need, self._trial):
                space = self._place_of_overtakers(entry, need, clearing=starved)
        if space is not None:
            self._for_quota = True
            self._keep(space)
        elif starved or passed_over:
            among = self._under_its_limits(workload)
            self._keep_quota(self._place_of_overtakers(entry, need, among=among, clearing=starved))

    def _soonest_place(self, entry: LineEntry, need: MissingMembers) -> ReservedSpace | None:
        found = soonest_place(self._snapshot, entry, need, self._trial)
        if found is None:
            return None
        self.backfill.revisit_at(found.until)
        return found.space

    def _place_of_overtakers(
        self,
        entry: LineEntry,
        need: MissingMembers,
        *,
        among: Iterable[AdmissionId] | None = None,
        clearing: bool = False,
    ) -> ReservedSpace | None:
        """``among``: only these admissions leave; None: all. ``clearing``: as in ``overtakers``."""
        snapshot, workload = self._snapshot, entry.workload
        admissions = (
            rows_of(snapshot.admissions)
            if among is None
            else [snapshot.admissions[number] for number in among]
        )
        self.backfill.revisit_at(overtakers_change_at(snapshot, workload, admissions))
        if among is None and not self._may_have_quota(workload, need, clearing=clearing):
            return None
        leaving = overtakers(snapshot, workload, admissions, self._trial.tree, clearing=clearing)
        fit = place_of_overtakers(snapshot, workload, need, self._trial, leaving)
        return None if fit is None else ReservedSpace.of(entry, self._trial, fit)

    def _may_have_quota(self, workload: Workload, need: MissingMembers, *, clearing: bool) -> bool:
        """Whether the quota would do if all overtakers were gone: asked first, since few of them matter for it."""
        snapshot, trial = self._snapshot, self._trial
        if has_quota_without(snapshot, workload, need, trial, ()):
            return True
        admissions = [snapshot.admissions[number] for number in self._under_its_limits(workload)]
        leaving = overtakers(snapshot, workload, admissions, trial.tree, clearing=clearing)
        return has_quota_without(snapshot, workload, need, trial, leaving)

    def _under_its_limits(self, workload: Workload) -> Iterable[AdmissionId]:
        """Admissions that use quota which a limit on the workload's path counts; none if there is no limit."""
        tree = self._trial.tree
        limits = limiting_queues(workload.queue, tree)
        return self._open_admissions.in_subtree(limits[-1], tree) if limits else ()

    def _keep(self, space: ReservedSpace) -> None:
        self.backfill.reservations.append(space)
        self._trial = self._trial.fork()
        space.withhold(self._trial)

    def _keep_quota(self, space: ReservedSpace | None) -> None:
        """Keep only the quota of a place. None: there is no place."""
        if space is not None:
            self._quota_queues.add(space.entry.workload.queue)
            if space.quota:
                self._keep(space.quota_only())

"""A place in the near future for a gang that cannot start now; what would delay it there stays off that place.

EASY backfilling (Lifka 1995; Mu'alem and Feitelson 2001), for gangs on nodes: the place is where the gang could
start soonest, as far as run times are declared. Where none are, a place counts as free as soon as it may be
cleared for the gang (``starvation.clearAfter``), so only work that could not be cleared by then is in the way
(``admission.engine.backfill.expected_ends``). Where nobody clears anything, it is where those run who passed the gang
(``admission.engine.backfill.passed_over``). When the place is free at last, smaller work that comes first in the
order of the
queue does not take it either.

One gang keeps a place, the one that has waited longest of those who lack room. Quota is kept for more of them: of
what a limit on their path leaves free, what they will need. That is also so where their quota is to be cleared now:
what others get of it in each turn would never be among what can be cleared. Where only quota is kept, only those
count as leaving who use quota of the same limits: they are few, and no others have it.
Derived anew in every turn, never stored.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from admission.engine import reasons
from admission.engine.backfill import expected_ends
from admission.engine.backfill import passed_over as passed_over_module
from admission.engine.backfill.passed_over import has_less_than_its_share, holds_until, share_holds
from admission.engine.backfill.reserved_space import ReservedSpace, limits_on, of_place
from admission.engine.pending import waiting_time
from admission.engine.pending.waiting_time import starves_by, waits_since
from admission.engine.placement import gangs
from admission.engine.placement.need import MissingMembers
from admission.engine.settlement import OpenAdmissions
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.order.policies import LineEntry
from queues.plan import Admit, Reason
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, QueueName, Workload

#: So many classes are asked, longest waiting first, for one that lacks room and nothing else.
_HEADS_ASKED = 8

#: In so many queues quota is kept for the gang that has waited longest there.
_QUOTAS_KEPT = 4


class LongestWaiting(NamedTuple):
    """Who has waited longest of a class."""

    candidate: LineEntry
    #: What it lacks.
    need: MissingMembers
    #: Why nobody of the class could go in even alone; None: one may.
    refused: Reason | None


@dataclass(slots=True, eq=False)
class Backfill:
    """Admits around what is reserved, and the places of those who can start now."""

    snapshot: Snapshot
    #: In the order in which those have waited whom they are for: it is the younger who stays off.
    reservations: list[ReservedSpace] = field(default_factory=list)
    #: When the answers may be others though nothing else changed; None: never.
    until: int | None = None

    @classmethod
    def around(
        cls,
        snapshot: Snapshot,
        heads: Iterable[LongestWaiting],
        trial: Trial,
        possessions: OpenAdmissions,
        *,
        told: bool,
    ) -> "Backfill":
        """Reserve for the longest-starved of these who lacks nothing but room, and for one before it who fits now.

        And quota for those who lack it. ``trial`` is as before. ``told``: whether anybody's end is known, or somebody
        in them could settle where he cannot be cleared.
        """
        search = _Search(cls(snapshot), trial, possessions, told)
        alone = [each for each in heads if not each.candidate.joins and not each.need.seated_nodes]
        for head in sorted(alone, key=lambda each: waits_since(each.candidate.workload)):
            if search.over:
                break
            search.ask(head)
        return search.backfill

    def no_later_than(self, second: int | None) -> None:
        """The answers may be others from that second on; None: not by then."""
        if second is not None:
            self.until = second if self.until is None else min(self.until, second)

    def admit(self, candidate: LineEntry, need: MissingMembers, trial: Trial) -> Admit | Reason:
        """As ``gangs.admit``, but off what is reserved for those whom it would delay."""
        reserved = self._in_the_way_of(candidate, trial)
        if not reserved:
            return gangs.admit(candidate.workload, need, trial)
        for each in reserved:
            each.withhold(trial)
        answer = gangs.admit(candidate.workload, need, trial)
        for each in reserved:
            each.let_go(trial)
        if isinstance(answer, Admit):
            return answer
        # The reason is the one that holds without the reservation, if there is one.
        without = gangs.admit(candidate.workload, need, trial.fork())
        if isinstance(without, Reason):
            return without
        return reasons.would_delay(str(reserved[0].candidate.workload), reserved[0].at)

    def _in_the_way_of(self, candidate: LineEntry, trial: Trial) -> list[ReservedSpace]:
        found = []
        for number, each in enumerate(self.reservations):
            if _alike(each.candidate, candidate):
                if each.due:  # in or not, its turn has come
                    del self.reservations[number]
                break
            if each.is_delayed_by(candidate, self.snapshot.now, trial):
                found.append(each)
        return found


def _alike(one: LineEntry, other: LineEntry) -> bool:
    """Whether they are of one class, of which the first in the order of the queue goes for all."""
    return one.workload.queue == other.workload.queue and one.shape == other.shape


class _Search:
    """Who gets a reservation, asked one by one, the longest waiting first."""

    def __init__(self, backfill: Backfill, trial: Trial, possessions: OpenAdmissions, told: bool) -> None:
        self.backfill = backfill
        self._snapshot = backfill.snapshot
        self._possessions = possessions
        #: The world without what is reserved so far.
        self._trial = trial
        self._told = told
        self._freed = any(backfill.snapshot.ended.values())
        #: So many were asked for a place, so many for quota alone.
        self._asked = self._asked_quota = 0
        #: Somebody keeps a place who lacks room, somebody who lacks quota, somebody who fits.
        self._for_room = self._for_quota = self._due = False
        #: Queues of which quota is kept, or none can be.
        self._quotas: set[QueueName] = set()

    @property
    def over(self) -> bool:
        """Whether nobody can get anything any more."""
        return self._no_place_left and self._no_quota_left

    @property
    def _no_place_left(self) -> bool:
        return self._for_room or self._asked >= _HEADS_ASKED

    @property
    def _no_quota_left(self) -> bool:
        return self._asked_quota >= _HEADS_ASKED or len(self._quotas) >= _QUOTAS_KEPT

    def ask(self, head: LongestWaiting) -> None:
        """Reserve for one what there is to be reserved."""
        (candidate, need, refused), now, tree = head, self._snapshot.now, self._trial.tree
        workload = candidate.workload
        starved = starves_by(workload, need, tree, now)
        passed_over = waiting_time.is_passed_over(workload, need, tree, now)
        in_vain = passed_over and has_less_than_its_share(candidate, self._trial)
        place = (self._told or in_vain) and not self._no_place_left
        quota = (self._told or starved or passed_over) and self._may_keep_quota(workload.queue)
        if quota and refused is not None and refused.code == ReasonCode.QUEUE_LIMIT:
            self._lacks_quota(candidate, need, starved=starved, passed_over=passed_over)
            return
        # Of quota alone something is kept for those only who may go in now, or who lack nothing but room for long.
        quota = quota and ((self._freed and refused is None) or passed_over)
        if not place and not quota:
            return
        self._asked_quota += not place
        later = self._trial.fork()
        answer = gangs.admit(workload, need, later)
        if isinstance(answer, Admit):
            self._asked += place
            self._fits(candidate, later, answer, place=place)
        elif answer.code == ReasonCode.QUEUE_LIMIT:
            if quota:
                self._lacks_quota(candidate, need, starved=starved, passed_over=passed_over)
        elif answer.code in (ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT):
            self._asked += place
            found = self._lacks_room(candidate, need, in_vain=in_vain) if place else None
            if found is None and quota and passed_over:
                among = self._with_its_limits(workload)
                self._keep_quota(self._of_those_who_passed(candidate, need, among=among))
        else:
            self._asked += place

    def _may_keep_quota(self, queue: QueueName) -> bool:
        """Whether quota may be kept for one more of this queue."""
        return (
            not self._no_quota_left and queue not in self._quotas and bool(limits_on(queue, self._trial.tree))
        )

    def _fits(self, candidate: LineEntry, later: Trial, answer: Admit, *, place: bool) -> None:
        """Nobody smaller takes what was given back in this turn before it was asked."""
        if not self._freed:
            return
        found = of_place(candidate, self._trial, later, answer, at=self._snapshot.now, due=True)
        if place and not self._due:
            self._due, self._trial = True, later
            self.backfill.reservations.append(found)
        elif not place:
            self._keep_quota(found)

    def _lacks_room(
        self, candidate: LineEntry, need: MissingMembers, *, in_vain: bool
    ) -> ReservedSpace | None:
        """It keeps a place. If nothing is known about its own, nobody who came later has one."""
        found = self._soonest(candidate, need) if self._told else None
        if found is None and in_vain:
            found = self._of_those_who_passed(candidate, need)
        self._for_room = self._told or found is not None
        if found is not None:
            self._keep(found)
        return found

    def _lacks_quota(
        self, candidate: LineEntry, need: MissingMembers, *, starved: bool, passed_over: bool
    ) -> None:
        """It keeps of limits on its path what they leave free; one keeps its place, if that is not idle until then."""
        workload, found = candidate.workload, None
        self._quotas.add(workload.queue)
        if not self._for_quota:
            if self._told and not starved:
                found = self._soonest(candidate, need)
            if found is None and passed_over and self._keeps_place_for_quota(candidate, need):
                found = self._of_those_who_passed(candidate, need, starved=starved)
        if found is not None:
            self._for_quota = True
            self._keep(found)
        elif starved or passed_over:
            among = self._with_its_limits(workload)
            self._keep_quota(self._of_those_who_passed(candidate, need, among=among, starved=starved))

    def _keeps_place_for_quota(self, candidate: LineEntry, need: MissingMembers) -> bool:
        """Whether a gang that lacks quota has waited too long for others to have its place until it has enough."""
        since, _, _ = waits_since(candidate.workload)
        long = self._snapshot.now - since >= waiting_time.LONG_WAIT
        return long and share_holds(candidate.workload, need, self._trial)

    def _soonest(self, candidate: LineEntry, need: MissingMembers) -> ReservedSpace | None:
        found = expected_ends.place(self._snapshot, candidate, need, self._trial)
        if found is None:
            return None
        self.backfill.no_later_than(found[1])
        return found[0]

    def _of_those_who_passed(
        self,
        candidate: LineEntry,
        need: MissingMembers,
        *,
        among: Iterable[AdmissionId] | None = None,
        starved: bool = False,
    ) -> ReservedSpace | None:
        """``among``: only they leave; None: all. ``starved``: those who may be cleared away for it count with them."""
        snapshot, workload = self._snapshot, candidate.workload
        every = snapshot.admissions if among is None else list(among)
        self.backfill.no_later_than(holds_until(snapshot, workload, every))
        those = passed_over_module.those(snapshot, workload, every, self._trial.tree, cleared=starved)
        found = passed_over_module.place(snapshot, workload, need, self._trial, those)
        return None if found is None else of_place(candidate, self._trial, *found)

    def _with_its_limits(self, workload: Workload) -> Iterable[AdmissionId]:
        """Whoever uses quota that a limit on its path counts."""
        tree = self._trial.tree
        return self._possessions.in_subtree(limits_on(workload.queue, tree)[-1], tree)

    def _keep(self, found: ReservedSpace) -> None:
        self.backfill.reservations.append(found)
        self._trial = self._trial.fork()
        found.withhold(self._trial)

    def _keep_quota(self, found: ReservedSpace | None) -> None:
        """Of what was found, only the quota."""
        if found is not None:
            self._quotas.add(found.candidate.workload.queue)
            if found.books:
                self._keep(found.without_place())

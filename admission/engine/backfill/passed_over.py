"""A place for a gang that nobody makes room for: where those run who passed it.

Where nobody is evicted for a gang within a day and no run times are known, small work takes whatever gets free,
and a gang that needs a rack waits for days. So one whose queue has less than it deserves keeps the place that
should be free soonest. What has run for some time is expected to run for as long again: run times are
heavy-tailed. And only those count who were admitted after the gang came, so that a place is never kept for longer
than the gang has waited for it already, as far as that can be expected.

What is expected need not come, and who passes one place is the newest, and draws the gang there. So when it has
waited for two weeks, and then for four, eight and so on, those who come in later do not count any more until the
next of these times: it waits for those only who run at that moment, and they do end. Where places are cleared all
this holds for a gang as well whose place was not within a week.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from admission.engine.backfill.reserved_space import clearable, limits_on
from admission.engine.nodes.host_ports import ports_of
from admission.engine.nodes.table import Amounts
from admission.engine.pending.waiting_time import LONG_WAIT, waits_since
from admission.engine.placement import gangs
from admission.engine.placement import need as need_module
from admission.engine.placement.flavors import quota_hit
from admission.engine.placement.need import MissingMembers
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Columns, Trial
from queues.admissions import Admission, AdmissionState
from queues.order.policies import LineEntry
from queues.order.shares import below_deserved
from queues.plan import Admit
from queues.quota.accounts import Account, charges
from queues.quota.tree import QueueTree
from queues.workload import AdmissionId, PodSet, Workload


def has_less_than_its_share(candidate: LineEntry, trial: Trial) -> bool:
    """Whether its queue uses less than it deserves of all that is asked: then a place may be kept for it."""
    return below_deserved(trial.usage, candidate.workload.queue, candidate.accounts)


def share_holds(workload: Workload, need: MissingMembers, trial: Trial) -> bool:
    """Whether the share of its queue would hold it, if nobody else of the queue was there."""
    return all(
        units <= trial.tree.deserved(workload.queue, account)
        for account, units in need_module.member_charges(workload, need.minimum).items()
    )


def counted(since: int, now: int) -> tuple[int | None, int]:
    """Before which second those were admitted who count as having passed a gang; and until when that holds.

    ``since``: when it began to wait. None: all count.
    """
    step = 2 * LONG_WAIT
    if now - since < step:
        return None, since + step
    while now - since >= 2 * step:
        step *= 2
    return since + step, since + 2 * step


def holds_until(snapshot: Snapshot, workload: Workload, among: Iterable[AdmissionId]) -> int | None:
    """Until when, of these, those count as having passed a gang who do now; None: nobody else is there to count."""
    before, until = counted(waits_since(workload)[0], snapshot.now)
    if before is None:  # whoever comes until then counts then as well
        return None
    return until if any(snapshot.admissions[number].opened_at >= before for number in among) else None


def those(
    snapshot: Snapshot, workload: Workload, among: Iterable[AdmissionId], tree: QueueTree, *, cleared: bool
) -> list[Admission]:
    """Of these, who leaves already or passed a gang; who should be gone first is first.

    ``cleared``: those who may be cleared away for it now count with them.
    """
    since, _, _ = waits_since(workload)
    before, _ = counted(since, snapshot.now)
    leaving, found = [], []
    for number in among:
        admission = snapshot.admissions[number]
        if admission.state is not AdmissionState.OPEN or number in snapshot.evictable:
            leaving.append(admission)
        elif (since <= admission.opened_at and (before is None or admission.opened_at < before)) or (
            cleared and _may_be_cleared(snapshot, admission, workload, tree)
        ):
            found.append(admission)
    return sorted(leaving, key=_newest_first) + sorted(found, key=_newest_first)


def place(
    snapshot: Snapshot, workload: Workload, need: MissingMembers, trial: Trial, those: Iterable[Admission]
) -> tuple[Trial, Admit] | None:
    """The world in which a gang has its place, the first of those who passed it being gone, and its seats there.

    None: it would not fit either if all of them were gone.
    """
    passed = _Passed.by(snapshot, those, trial)
    low, high = passed.least(workload, need, trial), len(passed.ends)
    if low > high:
        return None
    # The estimate is what it takes as a rule, and never too high.
    found = passed.gone(low, workload, need, trial)
    if found is None:
        low, found = low + 1, passed.gone(high, workload, need, trial)
        while found is not None and low < high:
            middle = (low + high) // 2
            fits = passed.gone(middle, workload, need, trial)
            low, high, found = (low, middle, fits) if fits is not None else (middle + 1, high, found)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Passed:
    """Admissions that are newer than somebody's wait, those first that should end first; seat by seat."""

    snapshot: Snapshot
    admissions: Sequence[Admission]
    #: After so many of the seats each admission ends.
    ends: Sequence[int]
    columns: Columns
    #: (seats, R)
    takes: Amounts
    #: What each gives back to its queue, as far as that was asked, by index.
    books: dict[int, Mapping[Account, int]] = field(default_factory=dict)

    @classmethod
    def by(cls, snapshot: Snapshot, those: Iterable[Admission], trial: Trial) -> "_Passed":
        position = trial.layout.position
        admissions: list[Admission] = []
        ends, columns, takes = [], [], []
        for admission in those:
            seats = snapshot.still_held(admission)
            if not seats:
                continue
            for seat in seats:
                if seat.node in position:
                    columns.append(position[seat.node])
                    takes.append(trial.vector(seat.takes))
            admissions.append(admission)
            ends.append(len(columns))
        rows = np.array(takes) if takes else np.zeros((0, len(trial.free)), np.int64)
        return cls(snapshot, admissions, ends, np.array(columns, np.intp), rows)

    def least(self, workload: Workload, need: MissingMembers, trial: Trial) -> int:
        """At least so many must be gone, by quota and by what pods of one set ask for; more than there are: never."""
        wanted = {pods.name: pods for pods in workload.pod_sets}
        by_nodes = (
            self._least_for(wanted[name], len(ordinals), trial)
            for name, ordinals in need.minimum.items()
            if ordinals
        )
        return max(self._least_of_quota(workload, need, trial), *by_nodes)

    def _least_of_quota(self, workload: Workload, need: MissingMembers, trial: Trial) -> int:
        leasts = [
            need_module.member_charges(workload, each) for each in need_module.minimum_choices(workload, need)
        ]
        limits, paths = limits_on(workload.queue, trial.tree), trial.tree.paths
        later, least = trial.fork(), 0
        for index, admission in enumerate(self.admissions if limits else ()):
            if limits[-1] in paths.get(admission.queue, ()):
                if any(quota_hit(later, workload.queue, asked) is None for asked in leasts):
                    return least
                self._give_back(later, index)
                least = index + 1
        fits = any(quota_hit(later, workload.queue, asked) is None for asked in leasts)
        return least if fits else len(self.ends) + 1

    def _least_for(self, pods: PodSet, count: int, trial: Trial) -> int:
        mask = trial.layout.allowed(pods.nodes)
        low, high = 0, len(self.ends) + 1
        while low < high:
            middle = (low + high) // 2
            later = trial.fork()
            self._add(later, middle)
            if trial.layout.most_pods(later.pods_per_node(pods.takes, mask), pods.required_topology) >= count:
                high = middle
            else:
                low = middle + 1
        return low

    def gone(
        self, many: int, workload: Workload, need: MissingMembers, trial: Trial
    ) -> tuple[Trial, Admit] | None:
        """How it fits when so many of them are gone; None: it does not."""
        later = trial.fork()
        self._add(later, many)
        for index in range(many):
            self._give_back(later, index)
        if any(pods.ports for pods in workload.pod_sets):
            for admission in self.admissions[:many]:
                holder = self.snapshot.holders.get(admission.workload)
                later.ports.vacate(
                    ports_of(holder, self.snapshot.still_held(admission)) if holder is not None else ()
                )
        answer = gangs.admit(workload, need, later)
        return (later, answer) if isinstance(answer, Admit) else None

    def _give_back(self, later: Trial, index: int) -> None:
        """Its queue has its quota again."""
        admission, amounts = self.admissions[index], self.books.get(index)
        if amounts is None:
            amounts = self.books[index] = charges(self.snapshot.still_held(admission))
        later.usage.remove(admission.queue, amounts)

    def _add(self, later: Trial, many: int) -> None:
        """Their seats are free. More than there are: all."""
        seats = self.ends[min(many, len(self.ends)) - 1] if many and self.ends else 0
        np.add.at(later.free.T, self.columns[:seats], self.takes[:seats])


def _newest_first(admission: Admission) -> tuple[int, AdmissionId]:
    return -admission.opened_at, admission.id


def _may_be_cleared(snapshot: Snapshot, admission: Admission, workload: Workload, tree: QueueTree) -> bool:
    """Whether it may be cleared away for a starved gang now."""
    holder, since = snapshot.holders.get(admission.workload), min(snapshot.now, admission.opened_at)
    return holder is not None and clearable(holder, since, workload, tree) <= snapshot.now

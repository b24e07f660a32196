"""A place for a gang that is passed over: where the work runs that overtook it.

Where no work is evicted for a gang within a day and no run times are known, small work takes whatever gets free,
and a gang that needs a rack waits for days. So a gang of a queue that has less than it deserves keeps the place that
should be free soonest. What has run for some time is expected to run for as long again: run times are
heavy-tailed. And only admissions opened after the gang came count (they *overtook* it), so that a place is never
kept for longer than the gang has waited for it already, as far as that can be expected.

What is expected need not come, and an admission that takes another place is the newest, and draws the gang there.
So when the gang has waited for two weeks, and then for four, eight and so on, later admissions do not count any more
until the next of these times: the gang waits only for work that runs at that moment, and that does end. Where places
are cleared all this holds as well for a gang if its place was not cleared within a week.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from admission.engine.backfill.reserved_space import ClearingRule, FutureFit, fit_in, limiting_queues
from admission.engine.nodes.host_ports import ports_of
from admission.engine.nodes.table import Amounts
from admission.engine.pending.waiting_time import LONG_WAIT, waits_since
from admission.engine.placement.flavors import quota_hit
from admission.engine.placement.need import MissingMembers, member_charges, minimum_choices
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Columns, Trial
from queues.admissions import Admission, AdmissionState
from queues.quota.accounts import Account, charges
from queues.quota.tree import QueueTree
from queues.workload import AdmissionId, PodSet, Workload


def deserved_suffices(workload: Workload, need: MissingMembers, trial: Trial) -> bool:
    """True if what the queue deserves would hold the gang, were the queue empty."""
    return all(
        units <= trial.tree.deserved(workload.queue, account)
        for account, units in member_charges(workload, need.minimum).items()
    )


class CountingPeriod(NamedTuple):
    """Which admissions count as having overtaken a gang."""

    #: Only admissions opened before this second. None: all that were opened after the gang came.
    before: int | None
    #: This holds until that second.
    until: int


def counting_period(since: int, now: int) -> CountingPeriod:
    """Which admissions count for a gang that began to wait at some second."""
    step = 2 * LONG_WAIT
    if now - since < step:
        return CountingPeriod(None, since + step)
    while now - since >= 2 * step:
        step *= 2
    return CountingPeriod(since + step, since + 2 * step)


def overtakers_change_at(snapshot: Snapshot, workload: Workload, among: Iterable[Admission]) -> int | None:
    """The second from which on more of these admissions count as overtakers. None: all do that ever will."""
    period = counting_period(waits_since(workload)[0], snapshot.now)
    if period.before is None:  # what is admitted until then counts then as well
        return None
    later = any(admission.opened_at >= period.before for admission in among)
    return period.until if later else None


def overtakers(
    snapshot: Snapshot, workload: Workload, among: Iterable[Admission], tree: QueueTree, *, clearing: bool
) -> list[Admission]:
    """Admissions that leave already or overtook a gang, in the order in which they should be gone.

    ``clearing``: admissions that may be cleared away for the gang now count as well.
    """
    now, evictable, holders = snapshot.now, snapshot.evictable, snapshot.holders
    since, _, _ = waits_since(workload)
    before = counting_period(since, now).before
    rule = ClearingRule(workload, tree) if clearing else None
    leaving, found = [], []
    for admission in among:
        opened = admission.opened_at
        if admission.state is not AdmissionState.OPEN or admission.id in evictable:
            leaving.append(admission)
        elif (since <= opened and (before is None or opened < before)) or (
            rule is not None
            and (holder := holders.get(admission.workload)) is not None
            and rule.clearable_from(holder, min(now, opened)) <= now
        ):
            found.append(admission)
    return sorted(leaving, key=_newest_first) + sorted(found, key=_newest_first)


def _newest_first(admission: Admission) -> tuple[int, AdmissionId]:
    return -admission.opened_at, admission.id


def place_of_overtakers(
    snapshot: Snapshot,
    workload: Workload,
    need: MissingMembers,
    trial: Trial,
    leaving: Iterable[Admission],
) -> FutureFit | None:
    """How a gang fits when as few as possible of these admissions are gone, in their order.

    None: it does not fit even if all of them are gone.
    """
    departures = _Departures.of(snapshot, workload, need, trial, leaving)
    low, high = departures.fewest(), len(departures.seats_up_to)
    if low > high:
        return None
    # The estimate is what it takes as a rule, and never too high.
    found = departures.fit_after(low)
    if found is None:
        low, found = low + 1, departures.fit_after(high)
        while found is not None and low < high:
            middle = (low + high) // 2
            fit = departures.fit_after(middle)
            low, high, found = (low, middle, fit) if fit is not None else (middle + 1, high, found)
    return found


def has_quota_without(
    snapshot: Snapshot,
    workload: Workload,
    need: MissingMembers,
    trial: Trial,
    leaving: Iterable[Admission],
) -> bool:
    """Whether a gang has enough quota when these admissions are gone. ``leaving``: all that its limits count."""
    departures = _Departures.of(snapshot, workload, need, trial, leaving)
    return departures.fewest_by_quota() <= len(departures.admissions)


@dataclass(frozen=True, slots=True, eq=False)
class _Departures:
    """Admissions that leave one after another, and the gang that waits for them.

    (S,) has one entry for each of their seats, in that order.
    """

    snapshot: Snapshot
    workload: Workload
    need: MissingMembers
    trial: Trial
    #: Only admissions that hold a seat.
    admissions: Sequence[Admission]
    #: By admission: seats of all up to it.
    seats_up_to: Sequence[int]
    #: (S,)
    columns: Columns
    #: (S, R)
    takes: Amounts
    #: What each admission gives back to its queue, by index, as far as that was asked.
    _charges: dict[int, Mapping[Account, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        workload: Workload,
        need: MissingMembers,
        trial: Trial,
        leaving: Iterable[Admission],
    ) -> "_Departures":
        """Number the seats of these admissions."""
        position = trial.layout.position
        admissions: list[Admission] = []
        seats_up_to, columns, takes = [], [], []
        for admission in leaving:
            seats = snapshot.still_held(admission)
            if not seats:
                continue
            for seat in seats:
                if seat.node in position:
                    columns.append(position[seat.node])
                    takes.append(trial.vector(seat.takes))
            admissions.append(admission)
            seats_up_to.append(len(columns))
        rows = np.array(takes) if takes else np.zeros((0, len(trial.free)), np.int64)
        return cls(snapshot, workload, need, trial, admissions, seats_up_to, np.array(columns, np.intp), rows)

    def fewest(self) -> int:
        """Lower bound of admissions that must be gone, by quota and by nodes; above their number: all are too few."""
        wanted = {pods.name: pods for pods in self.workload.pod_sets}
        by_nodes = (
            self._fewest_by_nodes(wanted[name], len(ordinals))
            for name, ordinals in self.need.minimum.items()
            if ordinals
        )
        return max(self.fewest_by_quota(), *by_nodes)

    def fewest_by_quota(self) -> int:
        """Lower bound by quota alone."""
        tree, queue = self.trial.tree, self.workload.queue
        choices = [member_charges(self.workload, each) for each in minimum_choices(self.workload, self.need)]
        limits = limiting_queues(queue, tree)
        world, fewest = self.trial.fork(), 0
        for index, admission in enumerate(self.admissions if limits else ()):
            if limits[-1] in tree.paths.get(admission.queue, ()):
                if any(quota_hit(world, queue, asked) is None for asked in choices):
                    return fewest
                self._free_quota(world, index)
                fewest = index + 1
        fits = any(quota_hit(world, queue, asked) is None for asked in choices)
        return fewest if fits else len(self.admissions) + 1

    def _fewest_by_nodes(self, pods: PodSet, count: int) -> int:
        layout = self.trial.layout
        mask = layout.allowed(pods.nodes)
        low, high = 0, len(self.admissions) + 1
        while low < high:
            middle = (low + high) // 2
            world = self.trial.fork()
            self._free_nodes(world, middle)
            if layout.most_pods(world.pods_per_node(pods.takes, mask), pods.required_topology) >= count:
                high = middle
            else:
                low = middle + 1
        return low

    def fit_after(self, gone: int) -> FutureFit | None:
        """How the gang fits when so many admissions are gone. None: it does not."""
        world = self.trial.fork()
        self._free_nodes(world, gone)
        for index in range(gone):
            self._free_quota(world, index)
        if any(pods.ports for pods in self.workload.pod_sets):
            for admission in self.admissions[:gone]:
                holder = self.snapshot.holders.get(admission.workload)
                if holder is not None:
                    world.ports.vacate(ports_of(holder, self.snapshot.still_held(admission)))
        return fit_in(world, self.workload, self.need)

    def _free_quota(self, world: Trial, index: int) -> None:
        admission, amounts = self.admissions[index], self._charges.get(index)
        if amounts is None:
            amounts = self._charges[index] = charges(self.snapshot.still_held(admission))
        world.usage.remove(admission.queue, amounts)

    def _free_nodes(self, world: Trial, gone: int) -> None:
        """Free the seats of so many admissions; of all, if there are fewer."""
        seats = self.seats_up_to[min(gone, len(self.seats_up_to)) - 1] if gone and self.seats_up_to else 0
        np.add.at(world.free.T, self.columns[:seats], self.takes[:seats])

"""When running work should be gone, and what a gang needs of what it leaves.

Known are run times that were declared (``muster.dev/run-time`` and the like), and from which second on work may be
cleared away for the gang. Where neither holds, small work takes whatever gets free, and a gang that needs a rack waits
for days. So work that was admitted after the gang came (it *overtook* the gang) is expected to go as well: after all
that is known, and the newest first. Run times are heavy-tailed: what has run for some time will run for as long again.
A place is never kept so for longer than the gang has waited for it already, as far as that can be expected.

What is expected need not come, and an admission that takes another place is the newest, and draws the gang there.
So when the gang has waited for two weeks, and then for four, eight and so on, later admissions do not count any more
until the next of these times: the gang waits only for work that runs at that moment, and that does end.
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
from admission.engine.preemption.protection import NEVER
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Columns, Trial
from queues.admissions import Admission, AdmissionState
from queues.quota.accounts import Account, charges
from queues.quota.tree import QueueTree
from queues.workload import PodSet, Workload


class CountingPeriod(NamedTuple):
    """Which admissions count as having overtaken a gang."""

    #: Only admissions opened before this second. None for all that were opened after the gang came.
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


class Departure(NamedTuple):
    """An admission that should be gone."""

    #: When it should be gone. None if it overtook the gang, and nothing else is known.
    second: int | None
    admission: Admission


def expected_departures(
    snapshot: Snapshot,
    gang: Workload,
    among: Iterable[Admission],
    tree: QueueTree,
    *,
    clears_from: int | None,
    overtakers: bool,
) -> list[Departure]:
    """Those of these admissions that should be gone some time, in that order.

    ``clears_from``: the second from which on places are cleared for the gang; None if never. ``overtakers``: work that
    overtook the gang counts.
    """
    now, rule = snapshot.now, ClearingRule(gang, tree)
    since, _, _ = waits_since(gang)
    before = counting_period(since, now).before
    known, overtook = [], []
    for admission in among:
        opened, seconds = admission.opened_at, []
        if (
            admission.state is not AdmissionState.OPEN
            or admission.id in snapshot.evictable
            or admission.id in snapshot.leaving
        ):
            seconds.append(now)
        elif (holder := snapshot.workload_of(admission)) is not None:
            if holder.run_time is not None:
                seconds.append(_expected_end(opened, max(1, holder.run_time), now))
            if clears_from is not None:
                clearable = rule.clearable_from(holder, min(now, opened))
                if clearable < NEVER:
                    seconds.append(max(clears_from, clearable))
        if seconds:
            known.append((min(seconds), admission.id, admission))
        elif overtakers and since <= opened and (before is None or opened < before):
            overtook.append((-opened, admission.id, admission))
    return [
        *(Departure(second, admission) for second, _, admission in sorted(known)),
        *(Departure(None, admission) for _, _, admission in sorted(overtook)),
    ]


def _expected_end(opened_at: int, run_time: int, now: int) -> int:
    """By the declared run time; work that is over it is expected to take as long again, and again."""
    end = opened_at + run_time
    while end <= now:
        run_time *= 2
        end = opened_at + run_time
    return end


class SoonestPlace(NamedTuple):
    """How a gang fits when as few as possible have left."""

    fit: FutureFit
    #: The second at which these should be gone. None if unknown.
    free_at: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Departures:
    """Admissions that leave one after another, and the gang that waits for them.

    (S,) has one entry for each of their seats, in that order.
    """

    snapshot: Snapshot
    workload: Workload
    need: MissingMembers
    trial: Trial
    #: Only admissions that hold a seat.
    leaving: Sequence[Departure]
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
        leaving: Iterable[Departure],
    ) -> "Departures":
        """Number the seats of these admissions."""
        position = trial.layout.position
        held: list[Departure] = []
        seats_up_to, columns, takes = [], [], []
        for each in leaving:
            seats = snapshot.still_held(each.admission)
            if not seats:
                continue
            for seat in seats:
                if seat.node in position:
                    columns.append(position[seat.node])
                    takes.append(trial.vector(seat.takes))
            held.append(each)
            seats_up_to.append(len(columns))
        rows = np.array(takes) if takes else np.zeros((0, len(trial.free)), np.int64)
        return cls(snapshot, workload, need, trial, held, seats_up_to, np.array(columns, np.intp), rows)

    def soonest_place(self) -> SoonestPlace | None:
        """How the gang fits when as few as possible are gone. None if it does not fit even if all of them are."""
        low, high = self._fewest(), len(self.leaving)
        if low > high:
            return None
        # The estimate is what it takes as a rule, and never too high.
        found = self._fit_after(low)
        if found is None:
            low, found = low + 1, self._fit_after(high)
            while found is not None and low < high:
                middle = (low + high) // 2
                fit = self._fit_after(middle)
                low, high, found = (low, middle, fit) if fit is not None else (middle + 1, high, found)
        if found is None:
            return None
        return SoonestPlace(found, self.leaving[low - 1].second if low else self.snapshot.now)

    def may_have_quota(self) -> bool:
        """Whether there may be enough quota when all of them are gone."""
        return self._fewest_by_quota() <= len(self.leaving)

    def _fewest(self) -> int:
        """Lower bound of admissions that must be gone, by quota and by nodes; above their number: all are too few."""
        wanted = {pods.name: pods for pods in self.workload.pod_sets}
        by_nodes = (
            self._fewest_by_nodes(wanted[name], len(ordinals))
            for name, ordinals in self.need.minimum.items()
            if ordinals
        )
        return max(self._fewest_by_quota(), *by_nodes)

    def _fewest_by_quota(self) -> int:
        tree, queue = self.trial.tree, self.workload.queue
        choices = [member_charges(self.workload, each) for each in minimum_choices(self.workload, self.need)]
        limits = limiting_queues(queue, tree)
        world, fewest = self.trial.fork(), 0
        for index, (_, admission) in enumerate(self.leaving if limits else ()):
            if limits[-1] in tree.paths.get(admission.queue, ()):
                if any(quota_hit(world, queue, asked) is None for asked in choices):
                    return fewest
                self._free_quota(world, index)
                fewest = index + 1
        fits = any(quota_hit(world, queue, asked) is None for asked in choices)
        return fewest if fits else len(self.leaving) + 1

    def _fewest_by_nodes(self, pods: PodSet, count: int) -> int:
        layout = self.trial.layout
        mask = layout.allowed(pods.nodes)
        low, high = 0, len(self.leaving) + 1
        while low < high:
            middle = (low + high) // 2
            world = self.trial.fork()
            self._free_nodes(world, middle)
            room = world.room_for(pods, mask)
            if layout.most_pods(room, pods.required_topology) >= count:
                high = middle
            else:
                low = middle + 1
        return low

    def _fit_after(self, gone: int) -> FutureFit | None:
        """How the gang fits when so many admissions are gone. None if it does not."""
        world = self.trial.fork()
        self._free_nodes(world, gone)
        for index in range(gone):
            self._free_quota(world, index)
        if any(pods.has_node_limits or pods.has_rules for pods in self.workload.pod_sets):
            for _, admission in self.leaving[:gone]:
                holder = self.snapshot.workload_of(admission)
                if holder is not None:
                    world.ports.vacate(ports_of(holder, self.snapshot.still_held(admission)))
        return fit_in(world, self.workload, self.need)

    def _free_quota(self, world: Trial, index: int) -> None:
        admission, amounts = self.leaving[index].admission, self._charges.get(index)
        if amounts is None:
            amounts = self._charges[index] = charges(self.snapshot.still_held(admission))
        world.usage.remove(admission.queue, amounts)

    def _free_nodes(self, world: Trial, gone: int) -> None:
        """Free the seats of so many admissions; of all, if there are fewer."""
        seats = self.seats_up_to[min(gone, len(self.seats_up_to)) - 1] if gone and self.seats_up_to else 0
        np.add.at(world.free.T, self.columns[:seats], self.takes[:seats])

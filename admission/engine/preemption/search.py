"""Quick looks at whether victims could be enough: sums of what would be free, before any place is tried.

The search for victims for one class of refused workloads: equal shapes in one queue, in one flavor.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from admission.engine.claims import amounts_per_node
from admission.engine.nodes.host_ports import ports_of
from admission.engine.nodes.table import Mask
from admission.engine.pending.waiting_time import starves_at
from admission.engine.placement import gangs
from admission.engine.placement.need import MissingMembers, is_extended_resource, takes_of
from admission.engine.preemption.candidate_arrays import CandidateMask
from admission.engine.preemption.context import FailedRequest, PreemptionContext
from admission.engine.preemption.node_gains import domains, sites
from admission.engine.preemption.rules import PreemptionRights, ReclaimDepth, asks_of
from admission.engine.preemption.victim_set import Victim, VictimSet, take_gains
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.plan import Admit, Reason
from queues.quota.accounts import Account, charges, flavor_charges
from queues.resources import Resources
from queues.workload import NO_FLAVOR, FlavorName, PodSet, QueueName, Workload


@dataclass(frozen=True, slots=True, eq=False)
class VictimEstimate:
    """For so many pods of one shape: no is certain here, yes is not."""

    turn: PreemptionContext
    pods: PodSet
    count: int
    #: Where they may go.
    mask: Mask

    def may_fit(self, queue: QueueName, asked: Mapping[Account, int]) -> bool:
        """Whether no limit stands against it, and enough pods have room somewhere."""
        later = self.turn.later
        if later.usage.refusal(queue, asked) is not None:
            return False
        return int(later.pods_per_node(self.pods.takes, self.mask).sum()) >= self.count

    def enough(self, chosen: CandidateMask) -> bool:
        """Whether enough pods would have room if all of these were gone."""
        later = self.turn.later
        room = self.turn.roll.could_hold(chosen, later, later.vector(self.pods.takes), self.mask)
        return later.layout.most_pods(room, self.pods.required_topology) >= self.count

    def enough_by_shares(self, chosen: CandidateMask, rights: PreemptionRights, below: ReclaimDepth) -> bool:
        """Whether enough may be free, on nodes and below limits, when no queue loses more than it may."""
        if rights.starved or rights.by_share is not None:
            return True
        later, takes, tree = self.turn.later, self.pods.takes, rights.usage.tree
        path = tree.paths[rights.workload.queue]
        for account, units in rights.asked.items():
            if account.flavor != NO_FLAVOR or takes.get(account.resource) <= 0:
                continue
            freed = self.turn.roll.most_freed(chosen, rights, below, account)
            row = np.flatnonzero(later.vector(Resources({account.resource: 1})))
            free = np.maximum(later.free[row], 0) * self.mask
            short = takes[account.resource] * self.count - int(free.sum())
            if short > 0 and short > int(freed.sum()):
                return False
            for name in path:
                if tree.guarantees[name]:
                    break  # less of what is asked arrives further up
                limit = tree.capabilities[name].get(account)
                short = 0 if limit is None else rights.usage.counted(name, account) + units - limit
                if short > 0 and short > int(freed[self.turn.roll.excess.under(name)].sum()):
                    return False
        return True

    def needed(self, taken: Sequence[Victim]) -> Sequence[bool]:
        """For pods of one shape alone: with which of these back too few would have room."""
        later = self.turn.later
        request = later.vector(self.pods.takes)
        rows = np.flatnonzero(request)
        if self.pods.required_topology is not None or not len(rows):
            return [False] * len(taken)
        owners, columns, takes = [], [], []
        for place, each in enumerate(taken):
            on, amounts = amounts_per_node([seat for part in each.parts for seat in part.seats], later)
            owners += [place] * len(on)
            columns.append(on)
            takes.append(amounts)
        on = np.concatenate(columns)
        back = np.concatenate(takes, axis=1)[rows]
        room = later.pods_per_node(self.pods.takes, self.mask)
        left = np.maximum(0, (later.free[np.ix_(rows, on)] - back) // request[rows, None]).min(axis=0)
        lost = np.zeros(len(taken), np.int64)
        np.add.at(lost, np.array(owners, np.intp), room[on] - left * self.mask[on])
        certain: list[bool] = (room.sum() - lost < self.count).tolist()
        return certain


#: Among so many possible victims several orders of taking them are gone through, if nothing better was found.
_FEW = 64

#: How far others are brought below their shares, and whether gangs go that are larger than what is asked: the next
#: only if nothing came of the one before.
_WAYS = (
    (ReclaimDepth.NEVER, False),
    (ReclaimDepth.NEVER, True),
    (ReclaimDepth.NO_FARTHER, True),
    (ReclaimDepth.ANY, True),
)

#: So many single victims are tried for a single pod, the cheapest first.
_SINGLES_TRIED = 8


def may_clear(workload: Workload, need: MissingMembers, turn: PreemptionContext) -> bool:
    """Whether a gang has waited so long that a place is cleared for it, if there is anybody who could go."""
    if not starved_now(workload, need, turn) or not turn.has_singles:
        return False
    return turn.roll.has_single(smaller=asks_of(workload, need.minimum), priority=workload.priority)


def starved_now(workload: Workload, need: MissingMembers, turn: PreemptionContext) -> bool:
    """Whether a gang has waited so long that a place is cleared for it; single pods never have."""
    due = starves_at(workload, need, turn.trial.tree)
    return due is not None and _is_past(due, turn)


def waits_long(workload: Workload, turn: PreemptionContext) -> bool:
    """Whether others may be brought below their shares for it, as somebody's has to be where only gangs can go."""
    due = (workload.waiting_since or workload.created) + (
        turn.trial.tree.policy(workload.queue).clear_after or 0
    )
    return _is_past(due, turn)


def _is_past(due: int, turn: PreemptionContext) -> bool:
    """Whether that second has come; if not, the answer may be another from then on."""
    if due > turn.snapshot.now:
        turn.room.no_later_than(due)
    return due <= turn.snapshot.now


def plain_failure(turn: PreemptionContext, workload: Workload, need: MissingMembers) -> FailedRequest | None:
    """What it would tell about others if nobody could go for this one; None: nothing.

    Only pods of one shape without wishes, in a queue where age does not count, can be compared.
    """
    policy = turn.trial.tree.policy(workload.queue)
    if len(need.minimum) != 1 or need.seated_nodes or policy.within_queue == "lower-or-newer-equal":
        return None
    ((name, ordinals),) = need.minimum.items()
    pods = workload.pod_set(name)
    if pods is None or pods.required_topology or pods.partitions or pods.ports or pods.share is not None:
        return None
    long = waits_long(workload, turn)
    return FailedRequest(workload.queue, pods.nodes, pods.takes, len(ordinals), workload.priority, long)


def attempts_for(turn: PreemptionContext, workload: Workload, lacks: MissingMembers) -> "list[VictimSearch]":
    """One for each flavor of the queue, in its order."""
    need = replace(lacks, missing=lacks.minimum)
    pods = max(
        (pods for pods in workload.pod_sets if pods.name in need.minimum),
        key=lambda pods: (
            pods.required_topology is not None,
            asks_of(workload, {pods.name: need.minimum[pods.name]}),
            pods.name,
        ),
    )
    layout, count = turn.trial.layout, len(need.minimum[pods.name])
    attempts = []
    for flavor in turn.trial.tree.flavors(workload.queue) or (NO_FLAVOR,):
        mask = layout.allowed(pods.nodes)
        if flavor != NO_FLAVOR:
            mask = mask & layout.of_flavor(flavor)
        asked = flavor_charges({flavor: takes_of(workload, need.minimum)})
        attempt = VictimSearch(
            turn=turn,
            need=need,
            outlook=VictimEstimate(turn, pods, count, mask),
            asked=asked,
            contested=_contested(turn.later, workload, pods, count, mask, asked),
            size=asks_of(workload, need.minimum),
        )
        attempts.append(attempt)
    return attempts


def _contested(
    later: Trial, workload: Workload, pods: PodSet, count: int, mask: Mask, asked: Mapping[Account, int]
) -> dict[Account, int]:
    """What of that which is asked is limited or scarce; all devices if it cannot be told."""
    asked = {account: units for account, units in asked.items() if units > 0}
    scarce = {
        resource
        for resource in pods.takes
        if later.layout.most_pods(
            later.pods_per_node(Resources({resource: pods.takes[resource]}), mask), pods.required_topology
        )
        < count
    }
    found = {
        account: units
        for account, units in asked.items()
        if account.resource in scarce or later.usage.refusal(workload.queue, {account: units}) is not None
    }
    if found:
        return found
    devices = {account: units for account, units in asked.items() if is_extended_resource(account.resource)}
    return devices or asked


@dataclass(slots=True, eq=False)
class VictimSearch:
    """The search for one class."""

    turn: PreemptionContext
    need: MissingMembers
    #: The pod set that is hardest to place, how many of it, and where they may go.
    outlook: VictimEstimate
    asked: dict[Account, int]
    contested: dict[Account, int]
    size: int
    #: Single victims for single pods that were not tried yet, the cheapest first.
    _line: tuple[Iterator[int], ReclaimDepth] = (iter(()), ReclaimDepth.NEVER)
    _charges: dict[FlavorName, dict[Account, int]] = field(default_factory=dict)

    def rights(self, workload: Workload) -> PreemptionRights:
        """What the workload may do."""
        return PreemptionRights(
            workload=workload,
            usage=self.turn.later.usage,
            asked=self.contested,
            size=self.size,
            starved=may_clear(workload, self.need, self.turn),
        )

    def serve(self, workload: Workload) -> bool:
        """Make room for one. True: it has a claim now, or it fits when what leaves is gone."""
        if self.outlook.may_fit(workload.queue, self.asked) and isinstance(
            gangs.admit(workload, self.need, self.turn.later), Admit
        ):
            # What it takes of that which is leaving is not offered to the next.
            return True
        later, roll, rights = self.turn.later, self.turn.roll, self.rights(workload)
        single = self.outlook.count == 1 and len(self.need.minimum) == 1 and not self.need.seated_nodes
        search = VictimSet(later, self.turn.herd, rights, lambda: self._fits(workload), self.turn.gone)
        if single and self._one_for_one(search):
            return True
        long = waits_long(workload, self.turn)
        last = ReclaimDepth.ANY if long else ReclaimDepth.NO_FARTHER
        most = roll.allowed(rights, below=last, larger=True)
        if not most.any() or not self.outlook.enough(most):
            return False
        if single or self.outlook.enough_by_shares(most, rights, last):
            return self._by_ways(search, single=single, long=long)
        return False

    def _by_ways(self, search: VictimSet, *, single: bool, long: bool) -> bool:
        """Victims for one, in one way after another."""
        later, roll, rights = self.turn.later, self.turn.roll, search.rights
        workload = rights.workload
        before: tuple[ReclaimDepth, CandidateMask] | None = None
        for rights.below, larger in _WAYS if long else _WAYS[:-1]:
            chosen = roll.allowed(rights, below=rights.below, larger=larger)
            again = before is not None and before[0] is rights.below and bool((before[1] == chosen).all())
            if again or not chosen.any() or not self.outlook.enough(chosen):
                continue
            before = rights.below, chosen
            if single:
                request = later.vector(self.outlook.pods.takes)
                self._line = iter(roll.singles(chosen, later, request, self.outlook.mask)), rights.below
                if self._one_for_one(search):
                    return True
            if self.outlook.enough_by_shares(chosen, rights, rights.below) and self._choose(
                search, chosen, larger=larger
            ):
                search.spare(self.outlook.needed if len(self.need.minimum) == 1 else None)
                if self._promise(workload, search.taken):
                    return True
            search.put_all_back()
        return False

    def _one_for_one(self, search: VictimSet) -> bool:
        """The quick way for a single pod: the next cheapest single victim whose node has room then.

        The next of the class goes on where this one ends.
        """
        later, roll, workload = self.turn.later, self.turn.roll, search.rights.workload
        line, search.rights.below = self._line
        request, tried = later.vector(self.outlook.pods.takes), 0
        for index in line:
            column = int(roll.columns[roll.single[index]])
            takes = roll.takes[:, roll.single[index]]
            if roll.gone[index] or not (later.free[:, column] + takes >= request).all():
                continue
            if search.take(roll.units[index]):
                if self._promise(workload, search.taken, self._there(workload, column)):
                    return True
                search.put_all_back()
            if (tried := tried + 1) >= _SINGLES_TRIED:
                break
        return False

    def _choose(self, search: VictimSet, chosen: CandidateMask, *, larger: bool) -> bool:
        """Victims by place; of its own queue none more urgent than need be."""
        if not self._choose_among(search, chosen, larger=larger):
            return False
        own, roll = search.rights.workload.queue, self.turn.roll
        most = max((each.unit.order[2] for each in search.taken if each.unit.queue == own), default=None)
        if most is None:
            return True
        best, mine = list(search.taken), roll.of(own)
        for priority in np.unique(roll.priority[chosen & mine & (roll.priority < most)]).tolist():
            search.put_all_back()
            if self._choose_among(search, chosen & ~(mine & (roll.priority > priority)), larger=larger):
                return True
        search.put_all_back()
        for taken in best:
            search.take_again(taken)
        return True

    def _choose_among(self, search: VictimSet, chosen: CandidateMask, *, larger: bool) -> bool:
        later, roll = search.trial, self.turn.roll
        found = sites(later, self.outlook.pods, self.outlook.mask, roll, chosen)
        for gains, free in domains(later, self.outlook.pods, self.outlook.count, found):
            if take_gains(search, gains, self.outlook.count - free, roll, larger=larger) and (
                search.fits() or self._for_quota(search, chosen)
            ):
                return True
            search.put_all_back()
        return int(chosen.sum()) <= _FEW and search.in_best_order(roll.in_order(chosen))

    def _there(self, workload: Workload, column: int) -> tuple[Seat, ...] | None:
        """A seat on that node, taken; None: a limit stands against it, or the node has to be chosen with more care."""
        pods, later = self.outlook.pods, self.turn.later
        if pods.ports or pods.share is not None or pods.required_topology is not None:
            return None
        flavor = later.layout.flavors[column]
        charged = self._charges.get(flavor)
        if charged is None:
            charged = self._charges[flavor] = flavor_charges({flavor: pods.takes})
        if later.usage.refusal(workload.queue, charged) is not None:
            return None
        later.take(np.array([column], np.intp), np.ones(1, np.int64), pods.takes, workload.queue, charged)
        later.keep()
        (ordinal,) = self.need.minimum[pods.name]
        node = later.layout.names[column]
        return (Seat(pod_set=pods.name, ordinal=ordinal, node=node, flavor=flavor, takes=pods.takes),)

    def _fits(self, workload: Workload) -> bool:
        if not self.outlook.may_fit(workload.queue, self.asked):
            return False
        later = self.turn.later
        answer = gangs.admit(workload, self.need, later)
        if isinstance(answer, Reason):
            return False
        books, ports = charges(answer.seats), ports_of(workload, answer.seats)
        later.remove_seats(answer.queue, books, answer.seats, ports)
        return True

    def _for_quota(self, search: VictimSet, chosen: CandidateMask) -> bool:
        """There is room on nodes, perhaps, but a limit stands against it."""
        usage, queue, roll = search.trial.usage, search.rights.workload.queue, self.turn.roll
        progress = True
        while progress and (hit := usage.refusal(queue, self.asked)) is not None:
            progress = False
            for unit in roll.in_order(chosen & roll.using(hit.queue, hit.account)):
                if search.take(unit):
                    progress = True
                    if (hit := usage.refusal(queue, self.asked)) is None:
                        break
        return search.fits()

    def _promise(
        self, workload: Workload, taken: Sequence[Victim], there: tuple[Seat, ...] | None = None
    ) -> bool:
        """Enter evictions and the claim; False, and nothing done: it does not fit."""
        if there is None:
            admit = gangs.admit(workload, self.need, self.turn.later)
            if isinstance(admit, Reason):
                return False
            there = admit.seats
        self.turn.promise(workload, taken, there)
        return True

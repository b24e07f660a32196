"""The search for victims for one class of refused workloads, in one flavor.

Sums of what would be free come first: where they are too small, no place is tried. For a single pod the cheapest
single victim is tried first. Else the place is chosen, node by node or domain by domain, then the cheapest victims
there; first without bringing other queues below what they deserve, then, if need be, with it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from admission.engine.claims import amounts_per_node
from admission.engine.nodes.table import Mask
from admission.engine.pending.waiting_time import starves_at, waits_since
from admission.engine.placement import gangs
from admission.engine.placement.need import MissingMembers, is_extended_resource, takes_of
from admission.engine.placement.policy_answers import filtered, flavors_to_try
from admission.engine.preemption.candidate_arrays import CandidateMask
from admission.engine.preemption.candidates import most_alike
from admission.engine.preemption.context import FailedRequest, PreemptionContext
from admission.engine.preemption.node_gains import gains_by_domain, gains_by_node
from admission.engine.preemption.protection import NEVER
from admission.engine.preemption.rules import (
    PreemptionRights,
    ReclaimDepth,
    idle_accounts,
    size_of_members,
)
from admission.engine.preemption.victim_set import Victim, VictimSet, best_of, take_gains
from queues.admissions import Seat
from queues.plan import Admit
from queues.quota.accounts import Account, flavor_charges
from queues.resources import Resources
from queues.workload import NO_FLAVOR, FlavorName, PodSet, QueueName, Workload

#: Among so many candidates several orders of taking them are tried, if no place was found.
_FEW = 64

#: So many single victims are tried for a single pod, the cheapest first. Among so many it is looked for those that
#: leave fewer devices idle.
_SINGLES_TRIED = 8
_SINGLES_COMPARED = 256

#: So often other victims are looked for if those found free more than is needed; and so many that alone would do.
_SETS_TRIED = 3
_ALONE_TRIED = 8


#: Each depth is tried only if no victims were found with the one before.
_DEPTHS = (ReclaimDepth.NEVER, ReclaimDepth.NO_FARTHER, ReclaimDepth.ANY)


@dataclass(frozen=True, slots=True, eq=False)
class VictimEstimate:
    """Whether victims could be enough for so many pods of one shape. False is certain, True is not."""

    context: PreemptionContext
    pods: PodSet
    count: int
    #: Nodes that the pods may use.
    mask: Mask

    def may_fit(self, queue: QueueName, asked: Mapping[Account, int]) -> bool:
        """True if no limit refuses what is asked, and enough pods have room in the drained world as it is."""
        drained = self.context.drained
        if drained.usage.refusal(queue, asked) is not None:
            return False
        room = drained.room_for(self.pods, self.mask)
        return int(room.sum()) >= self.count

    def nodes_suffice(self, chosen: CandidateMask) -> bool:
        """True if enough pods would have room if all of these candidates were evicted."""
        drained = self.context.drained
        room = self.context.arrays.room_without(chosen, drained, self.pods, self.mask)
        return drained.layout.most_pods(room, self.pods.required_topology) >= self.count

    def needed(self, victims: Sequence[Victim]) -> Sequence[bool]:
        """For each victim: True if, without its eviction, too few pods would certainly have room."""
        drained = self.context.drained
        request = drained.vector(self.pods.takes)
        rows = np.flatnonzero(request)
        if self.pods.required_topology is not None or not len(rows):
            return [False] * len(victims)
        owners, columns, takes = [], [], []
        for index, victim in enumerate(victims):
            on, amounts = amounts_per_node(
                [seat for held in victim.admissions for seat in held.seats], drained
            )
            owners += [index] * len(on)
            columns.append(on)
            takes.append(amounts)
        on = np.concatenate(columns)
        back = np.concatenate(takes, axis=1)[rows]
        room = drained.room_for(self.pods, self.mask)
        left = np.maximum(0, (drained.free[np.ix_(rows, on)] - back) // request[rows, None]).min(axis=0)
        lost = np.zeros(len(victims), np.int64)
        np.add.at(lost, np.array(owners, np.intp), room[on] - left * self.mask[on])
        certain: list[bool] = (room.sum() - lost < self.count).tolist()
        return certain


def starves_now(workload: Workload, need: MissingMembers, context: PreemptionContext) -> bool:
    """True if a gang has waited so long that a place is cleared for it; single pods never starve."""
    due = starves_at(workload, need, context.trial.tree)
    return due is not None and _is_past(due, context)


def waited_long(workload: Workload, context: PreemptionContext) -> bool:
    """True if other queues may be brought below what they deserve, as must be where only gangs can be evicted."""
    clear_after = context.trial.tree.policy(workload.queue).clear_after or 0
    return _is_past((workload.waiting_since or workload.created) + clear_after, context)


def _is_past(due: int, context: PreemptionContext) -> bool:
    """True if that second has come. If not, the result is to be worked out again then."""
    if due > context.snapshot.now:
        context.revisit_at(due)
    return due <= context.snapshot.now


def failed_request(
    context: PreemptionContext, workload: Workload, need: MissingMembers
) -> FailedRequest | None:
    """What is known about larger requests if this one fails. None for nothing.

    Only pods of one shape without further wishes, in a queue where age does not count, can be compared.
    """
    policy = context.trial.tree.policy(workload.queue)
    if len(need.minimum) != 1 or need.seated or policy.within_queue == "lower-or-newer-equal":
        return None
    ((name, ordinals),) = need.minimum.items()
    pods = workload.pod_set(name)
    if pods is None or pods.required_topology or pods.partitions or pods.has_rules:
        return None
    if pods.has_node_limits or pods.needs_single_devices():
        return None
    return FailedRequest(pods, len(ordinals), workload.priority, waited_long(workload, context))


def searches_by_flavor(
    context: PreemptionContext, workload: Workload, need: MissingMembers
) -> "list[VictimSearch]":
    """One search for each flavor of the queue, in its order."""
    need = replace(need, missing=need.minimum)
    hardest = max(
        (pods for pods in workload.pod_sets if pods.name in need.minimum),
        key=lambda pods: (
            pods.required_topology is not None,
            size_of_members(workload, {pods.name: need.minimum[pods.name]}),
            pods.name,
        ),
    )
    layout, takes = context.trial.layout, takes_of(workload, need.minimum)
    searches = []
    flavors: Sequence[FlavorName] = (NO_FLAVOR,)
    if context.trial.tree.flavors(workload.queue):
        flavors = flavors_to_try(context.trial, workload, [hardest])
    for flavor in flavors:
        mask = layout.allowed(hardest.nodes)
        if context.trial.tree.policies(workload.queue).placement.filters:
            mask = mask & filtered(context.trial, workload, hardest)
        if flavor != NO_FLAVOR:
            mask = mask & layout.of_flavor(flavor)
        estimate = VictimEstimate(context, hardest, len(need.minimum[hardest.name]), mask)
        asked = flavor_charges({flavor: takes})
        searches.append(
            VictimSearch(
                context=context,
                need=need,
                estimate=estimate,
                asked=asked,
                contested=_contested(estimate, workload.queue, asked),
                size=size_of_members(workload, need.minimum),
                idle_accounts=idle_accounts(asked),
            )
        )
    return searches


def _contested(
    estimate: VictimEstimate, queue: QueueName, asked: Mapping[Account, int]
) -> dict[Account, int]:
    """What is asked and is limited or scarce; all devices if that is not known."""
    drained, pods = estimate.context.drained, estimate.pods
    asked = {account: units for account, units in asked.items() if units > 0}
    scarce = {
        resource
        for resource, units in pods.takes.items()
        if drained.layout.most_pods(
            drained.pods_per_node(Resources({resource: units}), estimate.mask), pods.required_topology
        )
        < estimate.count
    }
    found = {
        account: units
        for account, units in asked.items()
        if account.resource in scarce or drained.usage.refusal(queue, {account: units}) is not None
    }
    if found:
        return found
    devices = {account: units for account, units in asked.items() if is_extended_resource(account.resource)}
    return devices or asked


@dataclass(slots=True, eq=False)
class VictimSearch:
    """The search for one class."""

    context: PreemptionContext
    need: MissingMembers
    #: For the pod set that is hardest to place.
    estimate: VictimEstimate
    asked: dict[Account, int]
    #: What of that is limited or scarce.
    contested: dict[Account, int]
    size: int
    #: As ``PreemptionRights.idle_accounts``.
    idle_accounts: tuple[Account, ...]
    #: Candidates of one pod that, evicted, make room for one pod; not tried yet; the cheapest first. The next
    #: workload of the class goes on where the one before stopped.
    _singles: deque[int] = field(default_factory=deque)
    #: The depth that they are of.
    _singles_depth: ReclaimDepth = ReclaimDepth.NEVER
    #: Pods that had no room where the last set of victims was found; 0: it is not known.
    _short: int = 0
    _charges: dict[FlavorName, dict[Account, int]] = field(default_factory=dict)

    def make_room(self, workload: Workload) -> bool:
        """Make room for one workload. True: it has a claim now, or fits when everything that leaves is gone."""
        context, estimate = self.context, self.estimate
        if estimate.may_fit(workload.queue, self.asked):
            answer = gangs.admit(workload, self.need, context.drained)
            if isinstance(answer, Admit):
                context.claim_freed(workload, answer.seats)
                return True  # the seats stay taken, so the next workload is not offered them again
        has_waited = waited_long(workload, context)
        rights = PreemptionRights(
            workload=workload,
            usage=context.drained.usage,
            asked=self.contested,
            size=self.size,
            starved=starves_now(workload, self.need, context),
            owed_since=waits_since(workload)[0] if has_waited else NEVER,
            idle_accounts=self.idle_accounts,
        )
        victims = VictimSet(
            context.drained, context.candidates, rights, lambda: self._fits(workload), context.evicted
        )
        if self._is_single_pod and self._swap_single_pods(victims):
            return True
        depths = _DEPTHS if has_waited else _DEPTHS[:-1]
        rights.depth = depths[-1]
        own = context.arrays.of_own_queue(rights)
        return self._may_be_enough(rights, own) and any(self._found(victims, own, depth) for depth in depths)

    @property
    def _is_single_pod(self) -> bool:
        return self.estimate.count == 1 and len(self.need.minimum) == 1 and not self.need.seated

    def _may_be_enough(self, rights: PreemptionRights, own: CandidateMask) -> bool:
        """True if the candidates that are allowed could be enough together. False is certain, True is not.

        ``own``: those of the own queue.
        """
        arrays = self.context.arrays
        most = own & ~arrays.evicted
        if arrays.others_may_be_evicted(rights, most):
            most = arrays.allowed(rights, own)
        else:
            hit = rights.usage.refusal(rights.workload.queue, self.asked)
            if hit is not None and arrays.charged((hit.account,))[most, 0].sum() < hit.short:
                return False
        return bool(most.any()) and self.estimate.nodes_suffice(most)

    def _found(self, victims: VictimSet, own: CandidateMask, depth: ReclaimDepth) -> bool:
        """Look for victims that are allowed at one depth, ``own`` in the own queue. Without enough of them none are
        taken."""
        drained, arrays, rights = self.context.drained, self.context.arrays, victims.rights
        rights.depth = depth
        chosen = arrays.allowed(rights, own)
        if not chosen.any() or not self.estimate.nodes_suffice(chosen):
            return False
        if self._is_single_pod:
            singles = arrays.single_pods(chosen, drained, self.estimate.pods, self.estimate.mask)
            self._singles = deque(self._smaller_of_equals_first(singles, rights))
            self._singles_depth = depth
            if self._swap_single_pods(victims):
                return True
        if self._choose(victims, chosen):
            self._put_back_unneeded(victims)
            self._leave_fewer_idle(victims, chosen)
            if self._evict_and_claim(victims):
                return True
        victims.put_all_back()
        return False

    def _swap_single_pods(self, victims: VictimSet) -> bool:
        """The quick way for a single pod: the cheapest single victim with a node on which the pod fits then."""
        drained, arrays, workload = self.context.drained, self.context.arrays, victims.rights.workload
        victims.rights.depth = self._singles_depth
        request, tried = drained.vector(self.estimate.pods.takes), 0
        while self._singles and tried < _SINGLES_TRIED:
            index = self._singles.popleft()
            seat = arrays.seats.only[index]
            column, takes = int(arrays.seats.columns[seat]), arrays.seats.takes[:, seat]
            if arrays.evicted[index] or not (drained.free[:, column] + takes >= request).all():
                continue
            if victims.take(arrays.candidates[index]):
                if self._evict_and_claim(victims, self._take_seat(workload, column)):
                    return True
                victims.put_all_back()
            tried += 1
        return False

    def _smaller_of_equals_first(self, singles: Sequence[int], rights: PreemptionRights) -> Sequence[int]:
        """Single victims, the cheapest first; of those that cost about the same, those first that free less."""
        arrays, first = self.context.arrays, singles[:_SINGLES_COMPARED]
        freed = arrays.charged(rights.idle_accounts)[first].sum(axis=1).tolist()
        if len(set(freed)) < 2:
            return singles
        own, every = rights.workload.queue, [arrays.candidates[index] for index in first]
        lowest = min((each.priority for each in every if each.queue == own), default=0)
        priorities = [each.priority if each.queue == own else lowest for each in every]
        alike: list[list[int]] = []
        most, standing = -1, every[0].standing
        for number, candidate in enumerate(every):
            if candidate.cost > most or candidate.standing != standing:
                most, standing = most_alike(candidate.cost), candidate.standing
                alike.append([])
            alike[-1].append(number)
        order = [n for some in alike for n in sorted(some, key=lambda n: (priorities[n], freed[n], n))]
        return [*(first[number] for number in order), *singles[_SINGLES_COMPARED:]]

    def _put_back_unneeded(self, victims: VictimSet) -> None:
        victims.put_back_unneeded(self.estimate.needed if len(self.need.minimum) == 1 else None)

    def _leave_fewer_idle(self, victims: VictimSet, chosen: CandidateMask) -> None:
        """If victims free more than is needed, look for others whose lost work is about equal and that free less."""
        arrays, accounts, found = self.context.arrays, victims.rights.idle_accounts, [victims.found()]
        least = self._short * sum(self.estimate.pods.takes.get(account.resource) for account in accounts)
        if found[0].cost.freed <= least:
            return
        freed, alike = arrays.charged(accounts).sum(axis=1), self._no_worse(victims, chosen)
        for _ in range(_SETS_TRIED):
            largest = max(each.candidate.charged_in(accounts) for each in found[-1].victims)
            smaller = alike & (freed < largest)
            victims.put_all_back()
            if not (smaller.any() and self.estimate.nodes_suffice(smaller)):
                break
            if not self._choose_among(victims, smaller):
                break
            self._put_back_unneeded(victims)
            found.append(victims.found())
            if found[-1].cost.freed <= least:
                break
        victims.put_all_back()
        most = most_alike(min(each.cost.lost_work for each in found))
        alone = np.flatnonzero(alike & (freed >= least) & (freed < best_of(found).cost.freed)).tolist()
        alone = [index for index in alone if arrays.candidates[index].cost <= most]
        for index in sorted(alone, key=lambda index: (freed[index], index))[:_ALONE_TRIED]:
            if victims.take(arrays.candidates[index]) and victims.fits():
                found.append(victims.found())
                break
            victims.put_all_back()
        victims.take_best(found)

    def _no_worse(self, victims: VictimSet, chosen: CandidateMask) -> CandidateMask:
        """Those of the chosen candidates that by priority and protection may go as well as these victims.

        Not those whose pods are ending already: it is not known when they will have ended.
        """
        arrays, own = self.context.arrays, victims.rights.workload.queue
        leaving = self.context.snapshot.leaving
        mine = arrays.of_queue(own)
        priorities = [each.candidate.priority for each in victims.victims if each.candidate.queue == own]
        may = chosen & ~(mine & (arrays.priority > max(priorities))) if priorities else chosen & ~mine
        last = max(each.candidate.standing for each in victims.victims)
        for index in np.flatnonzero(may).tolist():
            candidate = arrays.candidates[index]
            stays = not any(held.admission.id in leaving for held in candidate.admissions)
            may[index] = stays and candidate.standing <= last
        return may

    def _choose(self, victims: VictimSet, chosen: CandidateMask) -> bool:
        """Take victims by place; of the own queue none of a higher priority than need be."""
        if not self._choose_among(victims, chosen):
            return False
        own, arrays = victims.rights.workload.queue, self.context.arrays
        priorities = [each.candidate.priority for each in victims.victims if each.candidate.queue == own]
        if not priorities:
            return True
        best, mine = list(victims.victims), arrays.of_queue(own)
        lower = chosen & mine & (arrays.priority < max(priorities))
        for priority in np.unique(arrays.priority[lower]).tolist():
            victims.put_all_back()
            up_to = chosen & ~(mine & (arrays.priority > priority))
            if self._choose_among(victims, up_to):
                return True
        victims.put_all_back()
        for victim in best:
            victims.take_again(victim)
        return True

    def _choose_among(self, victims: VictimSet, chosen: CandidateMask) -> bool:
        """Take victims in the cheapest domain where they are enough, or else, if candidates are few, anywhere."""
        estimate, arrays = self.estimate, self.context.arrays
        found = gains_by_node(victims.trial, estimate.pods, estimate.mask, arrays, chosen)
        for room, gains in gains_by_domain(victims.trial, estimate.pods, estimate.count, found):
            if take_gains(victims, gains, estimate.count - room, arrays) and (
                victims.fits() or self._take_for_quota(victims, chosen)
            ):
                self._short = max(0, estimate.count - room)
                return True
            victims.put_all_back()
        self._short = 0
        return int(chosen.sum()) <= _FEW and victims.take_cheapest(arrays.in_order(chosen))

    def _take_for_quota(self, victims: VictimSet, chosen: CandidateMask) -> bool:
        """Nodes have room, but a limit refuses the beneficiary: take victims below that limit."""
        usage, queue, arrays = victims.trial.usage, victims.rights.workload.queue, self.context.arrays
        progress = True
        while progress and (hit := usage.refusal(queue, self.asked)) is not None:
            progress = False
            for candidate in arrays.in_order(chosen & arrays.charged_below(hit.queue, hit.account)):
                if victims.take(candidate):
                    progress = True
                    if usage.refusal(queue, self.asked) is None:
                        break
        return victims.fits()

    def _take_seat(self, workload: Workload, column: int) -> tuple[Seat, ...] | None:
        """Take a seat on that node for a single pod. None if a limit refuses it, or if the node needs a closer look."""
        pods, drained = self.estimate.pods, self.context.drained
        if (
            pods.occupies
            or pods.has_rules
            or pods.needs_single_devices()
            or pods.required_topology is not None
        ):
            return None
        if drained.device_rows(pods) or drained.names_devices(pods.takes, np.array([column], np.intp)):
            return None
        flavor = drained.layout.flavors[column]
        charged = self._charges.get(flavor)
        if charged is None:
            charged = self._charges[flavor] = flavor_charges({flavor: pods.takes})
        if drained.usage.refusal(workload.queue, charged) is not None:
            return None
        drained.take(np.array([column], np.intp), np.ones(1, np.int64), pods.takes, workload.queue, charged)
        drained.keep()
        (ordinal,) = self.need.minimum[pods.name]
        return (drained.layout.seat(column, pods.name, ordinal, pods.takes),)

    def _fits(self, workload: Workload) -> bool:
        """True if the beneficiary fits the drained world as it is, which is left unchanged."""
        return (
            self.estimate.may_fit(workload.queue, self.asked)
            and gangs.refusal(workload, self.need, self.context.drained) is None
        )

    def _evict_and_claim(self, victims: VictimSet, seats: tuple[Seat, ...] | None = None) -> bool:
        """Evict the victims and claim the seats, chosen here if they are None. False: it does not fit after all."""
        workload = victims.rights.workload
        if seats is None:
            admit = gangs.admit(workload, self.need, self.context.drained)
            if not isinstance(admit, Admit):
                return False
            seats = admit.seats
        self.context.evict_and_claim(victims, seats)
        return True

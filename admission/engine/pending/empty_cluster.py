"""Gangs that can never be admitted as queues and nodes are: they would not fit if nothing else were there.

The nodes that exist are taken as if each were empty, healthy and open, and queues as if they used nothing. Only what is
certain counts: a gang of several pod sets is compared by sums. Asked once for each class, and again when queues, nodes,
flavors or topologies change. Where a cluster autoscaler is asked for nodes, more and other nodes may come; where a
flavor states the largest node that can be added, any number of nodes up to that size.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np

from admission.engine.nodes.capacity import Capacity, DomainShare
from admission.engine.nodes.node_filters import may_be_chosen
from admission.engine.nodes.table import Amounts, Mask, NodeTable
from admission.engine.pending import never_fits
from admission.engine.pending.classes import ClassRequest
from admission.engine.pending.domain_caps import caps_of, shared_caps, within_caps
from admission.engine.placement.domains import chain_of, levels_of, unknown_level
from admission.engine.placement.flavors import quota_hit
from admission.engine.placement.need import group_of
from admission.engine.trial import Trial
from queues.flavor_growth import FlavorGrowth, growth_of
from queues.plan import Reason
from queues.quota.accounts import Account, flavor_charges
from queues.quota.queue import ROOT, provisioning_rules
from queues.quota.tree import QueueTree
from queues.quota.usage import LimitHit, Usage, UserLimitHit, UserUse
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import NO_FLAVOR, FlavorName, PodSet, QueueName, Workload

_EVERY: Final = slice(None)
#: Reasons that ``EmptyCluster.refusal`` gives.
NEVER_FIT: Final = frozenset((ReasonCode.NEVER_FITS, ReasonCode.UNKNOWN_LEVEL))

#: Size of a part, and the level that it has to be in one domain of.
DomainPart = tuple[int, str]
_Hit = TypeVar("_Hit", LimitHit, UserLimitHit)


@dataclass(slots=True, eq=False)
class EmptyCluster:
    """The nodes of one table as if they were empty, and the queues of one tree as if they were idle."""

    #: The nodes and queues as they are.
    table: NodeTable
    tree: QueueTree
    trial: Trial
    #: Queues that use nothing; of the nodes nothing is known.
    quota: Usage
    users: UserUse
    #: (N,) nodes with unhealthy devices: how these are linked is not known.
    unhealthy: Mask
    #: Pods of one shape that the nodes take, in all or in the best domain of a level.
    _most: dict[Hashable, int] = field(default_factory=dict)
    _growth: dict[QueueName, tuple[FlavorGrowth, ...] | None] = field(default_factory=dict)
    #: Answers by what is asked: many workloads of one shape come and go one after another.
    _refusals: dict[Hashable, Reason | None] = field(default_factory=dict)

    @classmethod
    def of(cls, table: NodeTable, tree: QueueTree) -> "EmptyCluster":
        """The nodes of a table, emptied, and the queues of a tree."""
        emptied = table.emptied()
        flavors = {flavor: emptied.capacity(flavor) for flavor in sorted(set(table.layout.flavors)) if flavor}
        unhealthy = np.zeros(len(table), np.bool_)
        unhealthy[[table.layout.position[name] for name in table.unhealthy]] = True
        return cls(
            table,
            tree,
            trial=Trial.open(emptied, Usage(tree.over(emptied.capacity(), flavors))),
            quota=Usage(tree.over(None)),
            users=UserUse(tree),
            unhealthy=unhealthy,
        )

    def is_of(self, table: NodeTable, tree: QueueTree) -> bool:
        """Whether these nodes and queues are the same, but for what they use."""
        return tree is self.tree and table.differs_in_use_only(self.table)

    def refusal(self, workload: Workload, request: ClassRequest, *, refused: bool = False) -> Reason | None:
        """Why no workload of a class can ever be admitted. None if one may be, or if it holds seats already.

        ``refused``: cluster autoscalers add no nodes for it.
        """
        need = request.need
        if need.seated or not need.minimum:
            return None
        asked = (workload.queue, workload.user, workload.minimum, workload.pod_sets, refused)
        if asked not in self._refusals:
            self._refusals[asked] = self._beyond_limits(workload, request) or self._beyond_nodes(
                workload, request, refused=refused
            )
        return self._refusals[asked]

    def refusal_of_amounts(self, workload: Workload, asked: Resources) -> Reason | None:
        """Why a gang whose pods are not known can never use these amounts. None if it may.

        Quota that is held is of one flavor. Pods that are of different shapes may be of different flavors, so without
        it only what the flavors of the queue have together is certain, unless it has but one.
        """
        queue, flavors = workload.queue, self.quota.tree.flavors(workload.queue)
        in_one = workload.hold is not None or len(flavors) == 1
        choices = [flavor_charges({each: asked}) for each in (flavors if in_one else ()) or (NO_FLAVOR,)]
        if (reason := self._beyond_amounts(workload, choices)) is not None:
            return reason
        if (hit := _beyond_all_flavors(self.quota.tree, queue, asked)) is not None:
            return never_fits.beyond_quota(hit)
        if not len(self.trial.table) or self.trial.layout.growth or self._may_grow(queue) is None:
            return None
        hit = _common([self.trial.usage.refusal(queue, charges) for charges in choices])
        hit = hit or _beyond_all_flavors(self.trial.tree, queue, asked)
        if hit is None:
            return None
        return never_fits.beyond_all_nodes(hit) if hit.queue == ROOT else never_fits.beyond_quota(hit)

    # -- limits ----------------------------------------------------------------------------------------------

    def _beyond_amounts(self, workload: Workload, choices: Sequence[Mapping[Account, int]]) -> Reason | None:
        """What queues let a workload or its user use at most, of each of these choices."""
        queue = workload.queue
        hits = [self.quota.refusal(queue, charges) for charges in choices]
        if (hit := _common(hits)) is not None:
            return never_fits.beyond_quota(hit)
        of_user = [self.users.hit(queue, workload.user, charges) for charges in choices]
        return never_fits.beyond_user_limit(user_hit) if (user_hit := _common(of_user)) is not None else None

    def _beyond_limits(self, workload: Workload, request: ClassRequest) -> Reason | None:
        """What queues let the gang use at most."""
        queue = workload.queue
        if (reason := self._beyond_amounts(workload, request.minimum_charges)) is not None:
            return reason
        if not (flavors := self.quota.tree.flavors(queue)):
            return None
        for pods, count in _due(workload, request):
            in_flavors = [self._quota_in(flavor, queue, pods, count) for flavor in flavors]
            if (flavor_hit := _common(in_flavors)) is not None:
                return never_fits.beyond_quota(flavor_hit)
        return None

    def _quota_in(self, flavor: FlavorName, queue: QueueName, pods: PodSet, count: int) -> LimitHit | None:
        return self.quota.refusal(queue, flavor_charges({flavor: pods.takes * count}))

    # -- nodes -----------------------------------------------------------------------------------------------

    def _beyond_nodes(self, workload: Workload, request: ClassRequest, *, refused: bool) -> Reason | None:
        """What the nodes take at most."""
        for pods in workload.pod_sets:
            keys = [*levels_of(pods), *([pods.within] if pods.within else [])]
            if (unknown := unknown_level(self.trial.layout, keys)) is not None:
                return unknown
        growth = () if refused else self._may_grow(workload.queue)
        if not len(self.trial.table) or growth is None:
            return None
        reason = self._beyond_growing(workload, request, growth)
        if refused:
            return None if reason is None else never_fits.nodes_refused(reason)
        if reason is not None or self.trial.layout.growth:
            return reason
        return self._beyond_guarantees(workload, request)

    def _beyond_guarantees(self, workload: Workload, request: ClassRequest) -> Reason | None:
        """What other queues are guaranteed of nodes that have enough: it is kept from the gang."""
        if not self.trial.tree.idle[ROOT]:
            return None
        queue = workload.queue
        hits = [quota_hit(self.trial, queue, charges) for charges in request.minimum_charges]
        if (hit := _common(hits)) is not None:
            return never_fits.beyond_quota(hit)
        for pods, count in _due(workload, request):
            level = _level_of_all(pods)
            in_flavors = [
                quota_hit(self.trial, queue, flavor_charges({flavor: pods.takes * count}))
                for flavor in self.quota.tree.flavors(queue)
                if self._quota_in(flavor, queue, pods, count) is None
                and self._most_pods(pods, count, flavor, level) >= count
            ]
            if (flavor_hit := _common(in_flavors)) is not None:
                return never_fits.beyond_quota(flavor_hit)
        return None

    def _beyond_growing(
        self, workload: Workload, request: ClassRequest, growth: Sequence[FlavorGrowth]
    ) -> Reason | None:
        """What the nodes take at most, with all nodes that can be added."""
        queue, due = workload.queue, _due(workload, request)
        # Any number of nodes may come for these.
        unbound = {
            pods.name
            for pods, count in due
            if any(self._may_come(each, queue, pods, count) for each in growth)
        }
        bound = [(pods, count) for pods, count in due if pods.name not in unbound]
        for pods, count in bound:
            if (reason := self._alone(queue, pods, count)) is not None:
                return never_fits.beyond_growth(reason, pods, growth)
        if len(bound) > 1 and (reason := self._together(queue, bound)) is not None:
            return reason
        return self._of_any(workload, request) if request.has_choice and not growth else None

    def offered_nowhere(
        self, workload: Workload, request: ClassRequest, resource: str, *, refused: bool = False
    ) -> Reason | None:
        """Why a gang that asks for a resource which no node offers yet can never be admitted. None if it may be."""
        growth = () if refused else self._may_grow(workload.queue) or ()
        if not refused and not any(each.most(resource) for each in growth):
            return None
        for pods, _ in _due(workload, request):
            if pods.takes.get(resource) and not any(_takes(each, pods) for each in growth):
                reason = never_fits.beyond_growth(never_fits.offered_nowhere(pods, resource), pods, growth)
                return never_fits.nodes_refused(reason) if refused else reason
        return None

    def _may_grow(self, queue: QueueName) -> tuple[FlavorGrowth, ...] | None:
        """What can be added to the nodes of a queue. None for nodes of any size."""
        if queue not in self._growth:
            layout, tree = self.trial.layout, self.quota.tree
            self._growth[queue] = growth_of(
                tree.flavors(queue),
                layout.growth,
                asks=provisioning_rules(queue, tree.queues.get) is not None,
                described=NO_FLAVOR not in layout.flavors,
            )
        return self._growth[queue]

    def _may_come(self, growth: FlavorGrowth, queue: QueueName, pods: PodSet, count: int) -> bool:
        """Whether nodes can be added to a flavor until they hold so many pods of a set."""
        if not _takes(growth, pods):
            return False
        is_limited = growth.flavor in self.quota.tree.flavors(queue)
        return not is_limited or self._quota_in(growth.flavor, queue, pods, count) is None

    def _alone(self, queue: QueueName, pods: PodSet, count: int) -> Reason | None:
        """Why so many pods of one set have no place even alone."""
        level = _level_of_all(pods)
        scopes = [
            flavor
            for flavor in self.quota.tree.flavors(queue) or (None,)
            if flavor is None or self._quota_in(flavor, queue, pods, count) is None
        ]
        holds = [self._most_pods(pods, count, flavor, level) for flavor in scopes]
        if max(holds) >= count:
            return None
        mask = np.logical_or.reduce([self._mask(pods, flavor) for flavor in scopes])
        room, layout = self._room(pods, mask), self.trial.layout
        for cap in caps_of(layout, pods):
            if room.sum() >= count > within_caps(layout, room, [cap], level):
                return never_fits.beyond_cap(pods, count, cap, fit=max(holds))
        return never_fits.beyond_nodes(
            self.trial,
            pods,
            count,
            fit=max(holds),
            mask=mask,
            room=room,
            level=level,
            flavors=[flavor for flavor in scopes if flavor is not None],
        )

    def _mask(self, pods: PodSet, flavor: FlavorName | None) -> Mask:
        """(N,) nodes of a flavor (of any if None) for the pods, those included that they cannot use for now."""
        mask = self.trial.layout.allowed(pods.nodes.lasting())
        return mask if flavor is None else mask & self.trial.layout.of_flavor(flavor)

    def _room(self, pods: PodSet, mask: Mask) -> Amounts:
        """(N,) pods of a set that each node takes; 0 outside the mask."""
        trial = self.trial
        room = trial.room_on(trial.free, pods, _EVERY)
        if pods.in_one_island:
            unknown = self.unhealthy | ~trial.islands_are_told(pods.takes)
            room = np.where(unknown, trial.room_on(trial.free, _anywhere(pods), _EVERY), room)
        if pods.attached:
            room = np.minimum(room, trial.ports.attachable(pods.attached))
        return (np.minimum(room, 1) if pods.ports else room) * mask

    def _most_pods(self, pods: PodSet, count: int, flavor: FlavorName | None, level: str | None) -> int:
        """Pods of a set that nodes take together, or the best domain of a level; whole parts, where it is in parts."""
        parts, caps = _parts_of(pods, count), caps_of(self.trial.layout, pods)
        name = (
            pods.takes,
            pods.share,
            pods.in_one_island,
            pods.nodes,
            bool(pods.ports),
            pods.attached,
            flavor,
            level,
            parts,
            caps,
        )
        most = self._most.get(name)
        if most is None:
            room = self._room(pods, self._mask(pods, flavor))
            most = _most_in_parts(self.trial, room, level, parts)
            self._most[name] = most = (
                min(most, within_caps(self.trial.layout, room, caps, level)) if caps else most
            )
        return most

    def _together(self, queue: QueueName, due: Sequence[tuple[PodSet, int]]) -> Reason | None:
        """Why sets that would each have a place alone have none together, by sums."""
        groups: dict[tuple[bool, str], list[tuple[PodSet, int]]] = {}
        for pods, count in due:
            groups.setdefault(group_of(pods), []).append((pods, count))
        asked = [(group, _level_of_group(group)) for group in groups.values() if len(group) > 1]
        within = {pods.within for pods, _ in due if pods.within_required}
        asked.append((list(due), within.pop() if len(within) == 1 else None))
        for sets, level in asked:
            mask = np.logical_or.reduce([self._mask(pods, None) for pods, _ in sets])
            if flavors := self.quota.tree.flavors(queue):
                mask &= np.logical_or.reduce([self.trial.layout.of_flavor(each) for each in flavors])
            if (reason := never_fits.beyond_sums(self.trial, sets, mask, level)) is not None:
                return reason
        for cap, sets in shared_caps(self.trial.layout, due).items():
            room = np.sum([self._room(pods, self._mask(pods, None)) for pods, _ in sets], axis=0)
            count, fit = sum(count for _, count in sets), within_caps(self.trial.layout, room, [cap], None)
            if fit < count:
                return never_fits.beyond_cap(None, count, cap, fit=fit)
        return None

    def _of_any(self, workload: Workload, request: ClassRequest) -> Reason | None:
        """Why the sets of a gang that may start with members of any of them have too little room."""
        asked, fit = sum(map(len, request.need.minimum.values())), 0
        for pods in workload.pod_sets:
            missing = len(request.need.missing.get(pods.name, ()))
            flavors = self.quota.tree.flavors(workload.queue) or (None,)
            level = _level_of_all(pods)
            fit += min(missing, max(self._most_pods(pods, 1, flavor, level) for flavor in flavors))
        return never_fits.too_few_members(asked, fit) if fit < asked else None


def _beyond_all_flavors(tree: QueueTree, queue: QueueName, asked: Resources) -> LimitHit | None:
    """More than the flavors of a queue have together."""
    limits = tree.limits_above(queue)
    for resource, units in asked.items():
        most = [
            min(
                (each.limit for each in limits[Account(flavor, resource)] if each.limit is not None),
                default=units,
            )
            for flavor in tree.flavors(queue)
        ]
        if most and sum(most) < units:
            account = Account(NO_FLAVOR, resource)
            return LimitHit(queue=queue, account=account, limit=sum(most), used=0, kept=0, asked=units)
    return None


def _takes(growth: FlavorGrowth, pods: PodSet) -> bool:
    """Whether the largest node that can be added to a flavor takes a pod of a set."""
    return growth.holds(pods.takes) and may_be_chosen(pods.nodes.lasting(), growth.labels)


def _due(workload: Workload, request: ClassRequest) -> list[tuple[PodSet, int]]:
    """Pod sets, and how many pods of each have to start together, whatever other members complete the gang."""
    need = request.need
    minimum = {name: len(ordinals) for name, ordinals in need.minimum.items()}
    counts = need.set_minimums if request.has_choice else minimum
    return [(pods, counts[pods.name]) for pods in workload.pod_sets if counts.get(pods.name)]


def _common(hits: Sequence[_Hit | None]) -> _Hit | None:
    """The first of the limits, if every choice breaks one."""
    return hits[0] if hits and all(hit is not None for hit in hits) else None


def _level_of_all(pods: PodSet) -> str | None:
    """The level for which all pods of a set have to be in one domain. None for anywhere."""
    return pods.required_topology or (pods.within if pods.within_required else None)


def _level_of_group(sets: Iterable[tuple[PodSet, int]]) -> str | None:
    """The level for which sets that are placed together have to be in one domain. None for anywhere."""
    return next((pods.required_topology for pods, _ in sets if pods.required_topology), None)


def _parts_of(pods: PodSet, count: int) -> tuple[DomainPart, ...]:
    """The parts that so many pods make up, outermost first. Empty: there are none, or they are not whole."""
    parts = tuple(
        (part.size, part.level) for part in pods.partitions if part.required and part.level and part.size > 1
    )
    return parts if parts and count % parts[0][0] == 0 else ()


def _most_in_parts(trial: Trial, room: Amounts, level: str | None, parts: Sequence[DomainPart]) -> int:
    """Pods that all nodes take, or the best domain of a level, if each of these parts is in one domain of its level."""
    layout = trial.layout
    chain = chain_of(layout, [*([level] if level else []), *(key for _, key in parts)]) if parts else None
    if chain is None:
        return layout.most_pods(room, level)
    indices = {each.key: index for index, each in reversed(list(enumerate(chain)))}
    at = indices[level] if level else 0
    for _, key in parts:
        room = room * (chain[indices[key]].of >= 0)
    shares = tuple(DomainShare(size, indices[key]) for size, key in parts if indices[key] >= at)
    capacity = Capacity(chain, room, shares)
    return int(capacity.per_domain(at).max(initial=0)) if level else capacity.total()


def _anywhere(pods: PodSet) -> PodSet:
    """The pods with devices that may be linked in any way."""
    return replace(pods, in_one_island=False)

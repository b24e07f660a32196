"""What is to be seated, and the nodes that may be used for it.

Why pods of one set find no place: not in one domain of a level, not for whole parts, or no room at all.

All pods of one set in one search over the nodes: placed, held against the queue's books, taken in the trial.

Whoever asks has settled what those who sit already bind; here nobody sits yet, or it no longer matters.

Seats for pods of one pod set on nodes of a mask: topology, parts, those who sit already, the queue's books.

What is placed is taken in the trial piece by piece; whoever calls takes it back if the rest does not fit.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.capacity import Capacity, DomainShare
from admission.engine.nodes.demand import shape_of
from admission.engine.nodes.devices import taken
from admission.engine.nodes.fragmentation import UNTOUCHED_BIT
from admission.engine.nodes.table import Amounts, Layout, Mask
from admission.engine.placement.domain_search import DomainQuery, TopologyAssignment, assign_nodes
from admission.engine.placement.domains import (
    Chain,
    chain_of,
    domains_to_try,
    levels_of,
    not_in_one_domain,
    unknown_level,
)
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.plan import Reason
from queues.quota.accounts import Account, charges, flavor_charges, pod_charges
from queues.quota.usage import LimitHit
from queues.workload import NO_FLAVOR, DeviceShare, FlavorName, NodeName, Partition, PodSet, QueueName


@dataclass(frozen=True, slots=True, eq=False)
class PodSetRequest:
    """Ordinals of one pod set that need seats, and where its others sit."""

    pods: PodSet
    ordinals: Sequence[int]
    seated: Mapping[int, NodeName]
    #: Where members of other pod sets that go together with this one sit.
    companion_nodes: Sequence[NodeName] = ()


@dataclass(frozen=True, slots=True, eq=False)
class NodeScope:
    """Nodes that may be used, for whose queue, in which trial."""

    trial: Trial
    queue: QueueName
    #: (N,)
    mask: Mask
    #: Where equal names stand for equal masks in this trial: the name. None: it has none.
    cache_key: Hashable = None
    #: (N,) what it costs to put a pod on a node; None: all cost the same.
    cost: Amounts | None = None

    def narrowed(self, mask: Mask) -> "NodeScope":
        """Of these nodes those of the mask."""
        return replace(self, mask=self.mask & mask, cache_key=None)

    def usable(self, pods: PodSet) -> Mask:
        """(N,) those that the pods may use."""
        mask = self.mask & self.trial.layout.allowed(pods.nodes)
        return mask & self.trial.ports.free(pods.ports) if pods.ports else mask

    def pods_per_node(self, pods: PodSet) -> Amounts:
        """(N,) how many of the pods each node takes."""
        if pods.share is None:
            room = self.trial.pods_per_node(pods.takes, self.usable(pods))
        else:
            room = self.trial.pods_per_node(pods.beside_devices(), self.usable(pods))
            room = np.minimum(room, self.trial.shares_per_node(pods.share))
        return np.minimum(room, 1) if pods.ports else room


def no_domain_reason(
    where: NodeScope, pods: PodSet, key: str, count: int, partitions: Sequence[Partition]
) -> Reason:
    """Why so many pods are not in one domain of that level."""
    found = where.trial.layout.chain(key)
    assert found is not None
    chain, at = found
    return no_place_reason(
        where, pods, DomainQuery(count, where.pods_per_node(pods), chain, at, required=True), partitions
    )


def no_place_reason(
    where: NodeScope, pods: PodSet, ask: DomainQuery, partitions: Sequence[Partition]
) -> Reason:
    """Why there is no place: no room at all, none in one domain of a level, or not for whole parts."""
    level = ask.chain[ask.level]
    plain = Capacity(ask.chain, ask.room)
    if ask.parts:
        holds = plain.per_domain(ask.level).max(initial=0) if ask.required else plain.total()
        if holds >= ask.pods:
            part = partitions[0]
            rooms = ask.capacity.per_domain(ask.level) if ask.required else [ask.capacity.total()]
            return reasons.parts_no_fit(
                level=part.level,
                size=part.size,
                parts=ask.pods // part.size,
                fit=max(int(room) for room in rooms) // part.size,
                takes=pods.takes,
                inside=level.key if ask.required else None,
            )
    if ask.required:
        rooms = plain.per_domain(ask.level)
        best = int(rooms.argmax()) if len(rooms) else None
        return reasons.topology_no_fit(
            level=level.key,
            pods=ask.pods,
            takes=pods.takes,
            fit=0 if best is None else int(rooms[best]),
            domain=None if best is None else level.domains[best],
            domains=len(level.domains),
        )
    return _no_fit(where, pods, ask)


def _no_fit(where: NodeScope, pods: PodSet, ask: DomainQuery) -> Reason:
    layout = where.trial.layout
    chosen, tolerated = layout.chosen(pods.nodes), layout.tolerated(pods.nodes)
    usable = layout.usable
    rest = usable & chosen & tolerated
    free = where.trial.ports.free(pods.ports)
    excluded = {
        "not usable": ~usable,
        "not chosen by nodeSelector or affinity": usable & ~chosen,
        "with taints that are not tolerated": usable & chosen & ~tolerated,
        "of other flavors": rest & ~where.mask,
        "with the host port taken": rest & where.mask & ~free,
        "without room": rest & where.mask & free & (ask.room == 0),
    }
    return reasons.no_fit(
        pods=ask.pods,
        takes=pods.takes,
        fit=int(ask.room.sum()),
        nodes=len(where.trial.table),
        excluded={why: int(np.count_nonzero(nodes)) for why, nodes in excluded.items()},
    )


def seat_all(
    where: NodeScope,
    want: PodSetRequest,
    chain: Chain | None,
    key: str | None,
    partitions: Sequence[Partition],
) -> list[Seat] | Reason | LimitHit:
    """Seats for all the ordinals. ``key``: the level of the pod set, if that is not kept already.

    ``chain``: the topology that has all the levels; None: the first one will do.
    """
    pods = want.pods
    levels = chain or where.trial.layout.chains[0]
    indices = {level.key: index for index, level in reversed(list(enumerate(levels)))}
    parts = tuple(DomainShare(part.size, indices[part.level]) for part in partitions if part.size > 1)
    outside = [levels[part.at] for part in parts if (levels[part.at].of < 0).any()]
    if outside:  # a node in no domain of the level holds no part
        where = where.narrowed(np.logical_and.reduce([level.of >= 0 for level in outside]))
    measured = _measured(where, want, levels)
    ask = _ask(where, want, levels, indices[key] if key else None, parts, measured)
    found = assign_nodes(ask)
    if found is None:
        return no_place_reason(where, pods, ask, partitions)
    if pods.share is None:
        return _on_nodes(where, want, found)
    free = None if measured is None or pods.share.devices > 1 else measured[1][found.columns[0]]
    return _on_devices(where, want, found, pods.share, free if free is None else int(free))


def _ask(
    where: NodeScope,
    want: PodSetRequest,
    chain: Chain,
    level: int | None,
    parts: tuple[DomainShare, ...],
    measured: tuple[Amounts, Amounts] | None,
) -> DomainQuery:
    """What placement is asked. ``level``: index of the pod set's level; None: anywhere."""
    trial, pods = where.trial, want.pods
    required = level is not None and pods.required_topology is not None
    at = len(chain) - 1 if level is None else level
    known: list[Capacity] = []
    if where.cache_key is not None and not pods.ports and pods.share is None:
        named = (where.cache_key, pods.nodes)
        known.append(trial.pods_per_domain(pods.takes, chain, where.usable(pods), named))
    return DomainQuery(
        pods=len(want.ordinals),
        room=known[0].room if known else where.pods_per_node(pods),
        chain=chain,
        level=at,
        required=required,
        spread=trial.tree.placement(where.queue) == "spread",
        balanced=pods.balanced and level is not None,
        # A part around the level that holds all of them keeps itself.
        parts=tuple(part for part in parts if part.at >= at) if required else parts,
        score=trial.layout.score(pods.prefers),
        cost=where.cost if measured is None else measured[0],
        cost_is_fragmentation=measured is not None,
        capacities=known,
    )


def _measured(where: NodeScope, want: PodSetRequest, chain: Chain) -> tuple[Amounts, Amounts] | None:
    """For a single pod that may go anywhere: (N,) what each node costs, and what is free of the best device there.

    A node in a domain that is empty costs more than any other. None: packing alone decides.
    """
    trial, pods = where.trial, want.pods
    if trial.fragmentation is None or where.cost is not None or len(want.ordinals) > 1:
        return None
    shape = shape_of(pods)
    if shape is None or trial.tree.placement(where.queue) == "spread":
        return None
    cost, free = trial.fragmentation.costs(shape, trial.free)
    if len(chain) > 1:
        cost = cost + (trial.fragmentation.untouched(chain[-2], trial.free).astype(np.int64) << UNTOUCHED_BIT)
    return cost, free


def _on_nodes(where: NodeScope, want: PodSetRequest, found: TopologyAssignment) -> list[Seat] | LimitHit:
    """Seats on these nodes."""
    trial, pods, layout = where.trial, want.pods, where.trial.layout
    charged = charged_to(layout, found, pods)
    hit = trial.usage.refusal(where.queue, charged)
    if hit is not None:
        return hit
    if pods.ports:
        trial.take(found.columns, found.counts, pods.takes, where.queue, charged, pods.ports)
    else:
        trial.take(found.columns, found.counts, pods.takes, where.queue, charged)
    return [
        Seat(
            pod_set=pods.name,
            ordinal=ordinal,
            node=layout.names[column],
            flavor=layout.flavors[column],
            takes=pods.takes,
        )
        for ordinal, column in zip(want.ordinals, found.node_per_pod(), strict=True)
    ]


def _on_devices(
    where: NodeScope,
    want: PodSetRequest,
    found: TopologyAssignment,
    share: DeviceShare,
    free: int | None = None,
) -> list[Seat] | LimitHit:
    """Seats on devices of these nodes. ``free``: on one that has so many thousandths free."""
    trial, pods, layout = where.trial, want.pods, where.trial.layout
    devices = trial.devices[share.resource]
    part = devices.part(share)
    columns = found.columns.tolist()
    left = trial.free[:, found.columns].copy()
    before = left.copy()
    seats: list[Seat] = []
    ordinals = iter(want.ordinals)
    for index, (column, count) in enumerate(zip(columns, found.counts.tolist(), strict=True)):
        for _ in range(count):
            picked = devices.pick(left[:, index], int(part[column]), share.devices, free)
            takes = taken(pods.takes, share, int(part[column]), picked)
            left[:, index] -= trial.vector(takes)
            seats.append(
                Seat(
                    pod_set=pods.name,
                    ordinal=next(ordinals),
                    node=layout.names[column],
                    flavor=layout.flavors[column],
                    takes=takes,
                )
            )
    charged = charges(seats)
    hit = trial.usage.refusal(where.queue, charged)
    if hit is not None:
        return hit
    trial.take(
        found.columns, found.counts, pods.takes, where.queue, charged, pods.ports, exactly=before - left
    )
    return seats


def seats_for(where: NodeScope, want: PodSetRequest) -> list[Seat] | Reason:
    """Seats for all the ordinals, taken in the trial; else the reason, with nothing taken."""
    mark = where.trial.mark()
    layout = where.trial.layout
    while True:
        answer: list[Seat] | Reason | LimitHit = _seated(where, want)
        if isinstance(answer, list):
            return answer
        where.trial.undo(mark)
        if isinstance(answer, Reason):
            return answer
        if answer.account.flavor == NO_FLAVOR:
            return reasons.queue_limit(answer)
        # That flavor is used up; perhaps another is not.
        where = where.narrowed(~layout.of_flavor(answer.account.flavor))
        if not where.usable(want.pods).any():
            return reasons.queue_limit(answer)


def _seated(where: NodeScope, want: PodSetRequest) -> list[Seat] | Reason | LimitHit:
    pods, layout = want.pods, where.trial.layout
    unknown = unknown_level(layout, levels_of(pods))
    if unknown is not None:
        return unknown
    # Parts without a level join whole, and are anywhere.
    parts = tuple(part for part in pods.partitions if part.level)
    softest = [parts]
    if not all(part.required for part in parts):
        softest.append(tuple(part for part in parts if part.required))
    answer: list[Seat] | Reason | LimitHit | None = None
    mark = where.trial.mark()
    for partitions in softest:
        again = _with_parts(where, want, partitions)
        if isinstance(again, list):
            return again
        where.trial.undo(mark)
        answer = answer or again
    assert answer is not None
    return answer


def _with_parts(
    where: NodeScope, want: PodSetRequest, partitions: Sequence[Partition]
) -> list[Seat] | Reason | LimitHit:
    """Seats if these parts have to keep together."""
    pods, layout = want.pods, where.trial.layout
    key = pods.required_topology or pods.preferred_topology
    required = pods.required_topology is not None
    levels = [part.level for part in partitions]
    beside = [node for node in want.seated.values() if node in layout.position]
    if not beside and (not partitions or _whole(want.ordinals, partitions[0].size)):
        chain = chain_of(layout, [key, *levels] if key else levels)
        if chain is not None:
            return seat_all(where, want, chain, key, partitions)
    if key is None:
        return _part_by_part(where, want, partitions)
    if required and (reason := not_in_one_domain(layout, key, beside)) is not None:
        return reason
    answer: Reason | LimitHit | None = None
    mark = where.trial.mark()
    for mask in domains_to_try(layout, key, required, where.pods_per_node(pods), len(want.ordinals), beside):
        inside = where if mask is None else where.narrowed(mask)
        found = _part_by_part(inside, want, partitions)
        if isinstance(found, list):
            return found
        where.trial.undo(mark)
        if required and isinstance(found, Reason):
            found = no_domain_reason(inside if beside else where, pods, key, len(want.ordinals), partitions)
        answer = found
    return (
        answer if answer is not None else no_domain_reason(where, pods, key, len(want.ordinals), partitions)
    )


def _part_by_part(
    where: NodeScope, want: PodSetRequest, partitions: Sequence[Partition]
) -> list[Seat] | Reason | LimitHit:
    """Parts that lack members keep to where their others sit; whole ones go where there is room."""
    pods, layout = want.pods, where.trial.layout
    own = pods.required_topology or pods.preferred_topology
    levels = [part.level for part in partitions]
    chain = chain_of(layout, [own, *levels] if own else levels) or chain_of(layout, levels)
    if not partitions:
        return seat_all(where, want, chain, None, ())
    size, key = partitions[0].size, partitions[0].level
    parts: dict[int, list[int]] = {}
    for ordinal in want.ordinals:
        parts.setdefault(ordinal // size, []).append(ordinal)
    seats: list[Seat] = []
    whole: list[int] = []
    for number, ordinals in parts.items():
        if len(ordinals) == size:
            whole += ordinals
            continue
        held = {ordinal: node for ordinal, node in want.seated.items() if ordinal // size == number}
        answer = _broken_part(where, PodSetRequest(pods, ordinals, held), key, partitions[1:])
        if not isinstance(answer, list):
            return answer
        seats += answer
    if whole:
        answer = seat_all(where, PodSetRequest(pods, whole, {}), chain, None, partitions)
        if not isinstance(answer, list):
            return answer
        seats += answer
    return seats


def _broken_part(
    where: NodeScope, want: PodSetRequest, key: str, inner: Sequence[Partition]
) -> list[Seat] | Reason | LimitHit:
    """Some members of a part: in one domain of its level, the one where its others sit if there are any."""
    layout = where.trial.layout
    beside = [node for node in want.seated.values() if node in layout.position]
    if (reason := not_in_one_domain(layout, key, beside)) is not None:
        return reason
    mark = where.trial.mark()
    answer: Reason | LimitHit | None = None
    inside = where
    for mask in domains_to_try(layout, key, True, where.pods_per_node(want.pods), len(want.ordinals), beside):
        assert mask is not None
        inside = where.narrowed(mask)
        found = _part_by_part(inside, want, inner)
        if isinstance(found, list):
            return found
        where.trial.undo(mark)
        answer = found
    if isinstance(answer, LimitHit):
        return answer
    return no_domain_reason(inside if beside else where, want.pods, key, len(want.ordinals), ())


def _whole(ordinals: Sequence[int], size: int) -> bool:
    """Whether the ordinals are whole parts."""
    if len(ordinals) % size:
        return False
    counts: dict[int, int] = {}
    for ordinal in ordinals:
        counts[ordinal // size] = counts.get(ordinal // size, 0) + 1
    return all(count == size for count in counts.values())


def charged_to(layout: Layout, found: TopologyAssignment, pods: PodSet) -> Mapping[Account, int]:
    """The accounts that the pods on these nodes are posted to."""
    counts: dict[FlavorName, int] = {}
    for column, number in zip(found.columns.tolist(), found.counts.tolist(), strict=True):
        flavor = layout.flavors[column]
        counts[flavor] = counts.get(flavor, 0) + number
    if len(counts) == 1:
        return pod_charges(pods.takes, *next(iter(counts.items())))
    return flavor_charges({flavor: pods.takes * number for flavor, number in counts.items()})

"""Seats for pods of one pod set: topology, parts, seated members, the queue's limits; or why there is no place.

Seats are taken in the trial piece by piece; the caller undoes them if the rest does not fit.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.capacity import Capacity, DomainShare
from admission.engine.nodes.closed_nodes import closed_to, open_to
from admission.engine.nodes.demand import shape_of
from admission.engine.nodes.fragmentation import UNTOUCHED_BIT
from admission.engine.nodes.table import Amounts, Chain, Layout, Mask
from admission.engine.placement.device_seats import seats_on_devices, seats_on_nodes
from admission.engine.placement.domain_search import DomainQuery, assign_nodes
from admission.engine.placement.domains import (
    NodeScope,
    PodSetRequest,
    chain_of,
    domains_to_try,
    levels_of,
    not_in_one_domain,
    unknown_level,
)
from admission.engine.placement.pod_rules import kept_free, wished_cost
from admission.engine.placement.policy_answers import filtered
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.plan import Reason
from queues.quota.usage import LimitHit
from queues.reason_codes import ReasonCode
from queues.workload import (
    ANTI_AFFINITY,
    NO_FLAVOR,
    NO_RULES,
    HostPort,
    Partition,
    PodSet,
)

#: Nodes that a reason names of those that are left out for one cause.
_MOST_NAMED: Final = 3
#: Why a node is left out that would do otherwise.
_REFUSED: Final = "on which the stock scheduler refused its pods"


def seats_for(scope: NodeScope, request: PodSetRequest) -> list[Seat] | Reason:
    """Seats for all the ordinals, taken in the trial; else the reason, with nothing taken."""
    mark = scope.trial.mark()
    layout = scope.trial.layout
    while True:
        answer: list[Seat] | Reason | LimitHit = _seated(scope, request)
        if isinstance(answer, list):
            return answer
        scope.trial.undo(mark)
        if isinstance(answer, Reason):
            return answer
        if answer.account.flavor == NO_FLAVOR:
            return reasons.queue_limit(answer)
        # The quota of that flavor is used up; perhaps that of another is not.
        scope = scope.narrowed(~layout.of_flavor(answer.account.flavor))
        if not scope.usable(request.pods).any():
            return reasons.queue_limit(answer)


def _seated(scope: NodeScope, request: PodSetRequest) -> list[Seat] | Reason | LimitHit:
    pods, layout = request.pods, scope.trial.layout
    unknown = unknown_level(layout, levels_of(pods))
    if unknown is not None:
        return unknown
    # Parts without a level join whole, and are anywhere.
    parts = tuple(part for part in pods.partitions if part.level)
    required = tuple(part for part in parts if part.required)
    mark = scope.trial.mark()
    answer = _with_parts(scope, request, parts)
    if isinstance(answer, list) or required == parts:
        return answer
    scope.trial.undo(mark)
    softer = _with_parts(scope, request, required)
    return softer if isinstance(softer, list) else answer


def _with_parts(
    scope: NodeScope, request: PodSetRequest, partitions: Sequence[Partition]
) -> list[Seat] | Reason | LimitHit:
    """Seats where these parts have to keep together."""
    pods, layout = request.pods, scope.trial.layout
    key = pods.required_topology or pods.preferred_topology
    required = pods.required_topology is not None
    levels = [part.level for part in partitions]
    seated = [node for node in request.seated.values() if node in layout.position]
    size = partitions[0].size if partitions else 1
    in_part = Counter(ordinal // size for ordinal in request.ordinals) if partitions else Counter[int]()
    if not seated and all(count == size for count in in_part.values()):  # they make up whole parts
        chain = chain_of(layout, [key, *levels] if key else levels)
        if chain is not None:
            return seat_all(scope, request, chain, key, partitions)
    if key is None:
        return _part_by_part(scope, request, partitions)
    return _in_one_domain(scope, request, key, required, partitions)


def _in_one_domain(
    scope: NodeScope, request: PodSetRequest, key: str, required: bool, partitions: Sequence[Partition]
) -> list[Seat] | Reason | LimitHit:
    """In one domain of a level, that of the seated members if there are any; if it is only preferred, or anywhere."""
    pods, layout, count = request.pods, scope.trial.layout, len(request.ordinals)
    seated = [node for node in request.seated.values() if node in layout.position]
    if required and (reason := not_in_one_domain(layout, key, seated)) is not None:
        return reason
    answer: Reason | LimitHit | None = None
    inside, mark = scope, scope.trial.mark()
    for mask in domains_to_try(layout, key, required, scope.pods_per_node(pods), count, seated):
        inside = scope if mask is None else scope.narrowed(mask)
        found = _part_by_part(inside, request, partitions)
        if isinstance(found, list):
            return found
        scope.trial.undo(mark)
        answer = found
    if answer is None or (required and isinstance(answer, Reason)):
        return no_domain_reason(inside if seated else scope, pods, key, count)
    return answer


def _part_by_part(
    scope: NodeScope, request: PodSetRequest, partitions: Sequence[Partition]
) -> list[Seat] | Reason | LimitHit:
    """Parts with seated members keep to the domain of these; whole parts go where there is room."""
    pods, layout = request.pods, scope.trial.layout
    own = pods.required_topology or pods.preferred_topology
    levels = [part.level for part in partitions]
    chain = chain_of(layout, [own, *levels] if own else levels) or chain_of(layout, levels)
    if not partitions:
        return seat_all(scope, request, chain, None, ())
    size, key = partitions[0].size, partitions[0].level
    parts: dict[int, list[int]] = {}
    for ordinal in request.ordinals:
        parts.setdefault(ordinal // size, []).append(ordinal)
    seats: list[Seat] = []
    whole: list[int] = []
    for number, ordinals in parts.items():
        if len(ordinals) == size:
            whole += ordinals
            continue
        held = {ordinal: node for ordinal, node in request.seated.items() if ordinal // size == number}
        broken = PodSetRequest(pods, ordinals, held)
        answer = _in_one_domain(scope, broken, key, True, partitions[1:])
        if not isinstance(answer, list):
            return answer
        seats += answer
    if whole:
        answer = seat_all(scope, PodSetRequest(pods, whole, {}), chain, None, partitions)
        if not isinstance(answer, list):
            return answer
        seats += answer
    return seats


def seat_all(
    scope: NodeScope,
    request: PodSetRequest,
    chain: Chain | None,
    key: str | None,
    partitions: Sequence[Partition],
) -> list[Seat] | Reason | LimitHit:
    """Seats for all the ordinals in one search, without regard to seated members.

    ``chain``: the topology that has all the levels; None for any. ``key``: the level that the pod set asks for; None if
    it asks for none, or if the scope keeps it already.
    """
    pods = request.pods
    levels = chain or scope.trial.layout.chains[0]
    indices = {level.key: index for index, level in reversed(list(enumerate(levels)))}
    parts = tuple(DomainShare(part.size, indices[part.level]) for part in partitions if part.size > 1)
    outside = [levels[part.at] for part in parts if (levels[part.at].of < 0).any()]
    if outside:  # a node in no domain of the level holds no part
        scope = scope.narrowed(np.logical_and.reduce([level.of >= 0 for level in outside]))
    measured = _measured(scope, request, levels)
    query = _query(scope, request, levels, indices[key] if key else None, parts, measured)
    found = assign_nodes(query)
    if found is None:
        return no_place_reason(scope, pods, query, partitions)
    if pods.share is None:
        return seats_on_nodes(scope, request, found)
    free = None if measured is None or pods.share.devices > 1 else measured[1][found.columns[0]]
    return seats_on_devices(scope, request, found, None if free is None else int(free))


def _query(
    scope: NodeScope,
    request: PodSetRequest,
    chain: Chain,
    level: int | None,
    parts: tuple[DomainShare, ...],
    measured: tuple[Amounts, Amounts] | None,
) -> DomainQuery:
    """The query for the search. ``level``: index of the level that the pod set asks for; None for anywhere."""
    trial, pods = scope.trial, request.pods
    required = level is not None and pods.required_topology is not None
    at = len(chain) - 1 if level is None else level
    known: list[Capacity] = []
    placement = scope.placement
    # What a filter leaves depends on more than the key.
    cached = scope.cache_key is not None and not placement.filters
    if cached and not pods.has_node_limits and pods.share is None:
        named = (scope.cache_key, pods.nodes)
        known.append(trial.pods_per_domain(pods, chain, scope.usable(pods), named))
    return DomainQuery(
        pods=len(request.ordinals),
        room=known[0].room if known else scope.pods_per_node(pods),
        chain=chain,
        level=at,
        required=required,
        placement=placement,
        balanced=pods.balanced and level is not None,
        # A part around the level that holds all of them keeps itself.
        parts=tuple(part for part in parts if part.at >= at) if required else parts,
        score=scope.score(pods),
        cost=_cost(scope, pods) if measured is None else measured[0],
        cost_is_fragmentation=measured is not None,
        capacities=known,
    )


def _cost(scope: NodeScope, pods: PodSet) -> Amounts | None:
    """(N,) cost of a pod on each node; of equal nodes those cost least where the pods want to be."""
    if scope.cost is not None or pods.rules is NO_RULES:
        return scope.cost
    return wished_cost(scope.trial, pods)


def _measured(scope: NodeScope, request: PodSetRequest, chain: Chain) -> tuple[Amounts, Amounts] | None:
    """For a single pod that may go anywhere: (N,) cost by fragmentation, and (N,) what is free of the best device.

    Nodes in an empty domain cost more than all others. None if packing alone decides.
    """
    trial, pods = scope.trial, request.pods
    if trial.fragmentation is None or scope.cost is not None or len(request.ordinals) > 1:
        return None
    shape = shape_of(pods)
    if shape is None or scope.placement.evenly:
        return None
    cost, free = trial.fragmentation.costs(shape, trial.free)
    if len(chain) > 1:
        cost = cost + (trial.fragmentation.untouched(chain[-2], trial.free).astype(np.int64) << UNTOUCHED_BIT)
    return cost, free


def no_domain_reason(scope: NodeScope, pods: PodSet, key: str, count: int) -> Reason:
    """Why so many pods do not fit into one domain of a level."""
    chain, at = scope.trial.layout.levels[key]
    query = DomainQuery(count, scope.pods_per_node(pods), chain, at, required=True)
    return no_place_reason(scope, pods, query, ())


def no_place_reason(
    scope: NodeScope, pods: PodSet, query: DomainQuery, partitions: Sequence[Partition]
) -> Reason:
    """Why there is no place: too little room, too little in one domain of a level, or not for whole parts."""
    reason = _no_place_reason(scope, pods, query, partitions)
    layout = scope.trial.layout
    if reason.code in (ReasonCode.NO_FIT, ReasonCode.REFUSED):
        return reason  # which says itself why nodes are left out
    own = pods.nodes.with_refused()
    if own is pods.nodes and not layout.closed and layout.usable.all():
        return reason  # for none is
    tolerated = layout.usable & layout.tolerated(own)
    chosen = layout.chosen(pods.nodes)
    left_out = closed_to(pods.nodes, layout.closed, tolerated & chosen)
    left_out = _named(layout, {**_shut(scope, pods), **left_out})
    if own is not pods.nodes:
        left_out = {**left_out, _REFUSED: tolerated & layout.chosen(own) & ~chosen}
    return reasons.beside_left_out(reason, {why: int(nodes.sum()) for why, nodes in left_out.items()})


def _shut(scope: NodeScope, pods: PodSet) -> dict[str, Mask]:
    """(N,) nodes that take no pods now and would hold some of these if they were open and empty, by why."""
    trial, layout = scope.trial, scope.trial.layout
    if layout.usable.all():
        return {}
    tolerated = layout.lasting().tolerated(pods.nodes)
    mask = ~layout.usable & scope.mask & layout.chosen(pods.nodes) & tolerated
    mask &= trial.room_on(trial.table.allocatable, pods, slice(None)) > 0
    found: dict[str, Mask] = {}
    for column in np.flatnonzero(mask).tolist():
        why = layout.why_not[column] or "not usable"
        found.setdefault(why, np.zeros_like(mask))[column] = True
    return found


def _named(layout: Layout, left_out: Mapping[str, Mask]) -> dict[str, Mask]:
    """Nodes that are left out, by why and the names of the first of them."""
    named: dict[str, Mask] = {}
    for why, nodes in left_out.items():
        columns = np.flatnonzero(nodes).tolist()
        names: list[str] = [layout.names[column] for column in columns[:_MOST_NAMED]]
        more = len(columns) - len(names)
        named[f"{why}: {', '.join(names)}{f' and {more} more' if more else ''}"] = nodes
    return named


def _no_place_reason(
    scope: NodeScope, pods: PodSet, query: DomainQuery, partitions: Sequence[Partition]
) -> Reason:
    level = query.chain[query.level]
    plain = Capacity(query.chain, query.room)
    if query.parts:
        holds = plain.per_domain(query.level).max(initial=0) if query.required else plain.total()
        if holds >= query.pods:
            part = partitions[0]
            rooms = query.capacity.per_domain(query.level) if query.required else [query.capacity.total()]
            return reasons.parts_no_fit(
                level=part.level,
                size=part.size,
                parts=query.pods // part.size,
                fit=max(int(room) for room in rooms) // part.size,
                takes=pods.takes,
                inside=level.key if query.required else None,
            )
    if query.required:
        rooms = plain.per_domain(query.level)
        best = int(rooms.argmax()) if len(rooms) else None
        return reasons.topology_no_fit(
            level=level.key,
            pods=query.pods,
            takes=pods.takes,
            in_one_island=pods.in_one_island,
            fit=0 if best is None else int(rooms[best]),
            domain=None if best is None else level.domains[best],
            domains=len(level.domains),
        )
    return _no_fit(scope, pods, query)


def _unlinked(scope: NodeScope, pods: PodSet, no_room: Mask) -> tuple[Mask, Mask]:
    """(N,) of these nodes those that have room for such pods, but not with all their devices in one NVLink island; and
    those where that is not known."""
    if not pods.in_one_island:
        return np.zeros_like(no_room), np.zeros_like(no_room)
    trial = scope.trial
    by_amount = no_room & (trial.pods_per_node(pods.takes, no_room) > 0)
    told = trial.islands_are_told(pods.takes)
    return by_amount & told, by_amount & ~told


def _promised_to_others(trial: Trial, pods: PodSet, no_room: Mask) -> Mask:
    """(N,) of these nodes those that would have room for such a pod without what claims promise to others there."""
    if trial.withheld is None:
        return np.zeros_like(no_room)
    withheld, request = trial.withheld(), trial.vector(pods.takes)
    rows = np.flatnonzero(request)
    fits = (trial.free[rows] + withheld[rows] >= request[rows, None]).all(axis=0)
    return np.asarray(no_room & fits & (withheld > 0).any(axis=0))


def _taken(ports: Sequence[HostPort]) -> str:
    """What keeps pods with these host ports off the nodes of others."""
    if any(port.protocol == ANTI_AFFINITY for port in ports):
        return "with a pod that anti-affinity keeps apart" + (
            ", or the host port taken" if len(ports) > 1 else ""
        )
    return "with the host port taken"


def _no_fit(scope: NodeScope, pods: PodSet, query: DomainQuery) -> Reason:
    layout = scope.trial.layout
    own = pods.nodes.with_refused()
    tolerated = layout.tolerated(pods.nodes)
    chosen = reached = layout.chosen(own)
    if own.also:
        chosen = layout.chosen(replace(own, also=()))
    usable = layout.usable
    shut = _shut(scope, pods)
    unrefused = usable & reached & tolerated
    unclosed = unrefused if own is pods.nodes else unrefused & layout.chosen(pods.nodes)
    if unrefused.any() and not unclosed.any():
        return reasons.refused_everywhere(int(unrefused.sum()))
    rest = open_to(pods.nodes, layout.closed, unclosed)
    by_policy: dict[str, Mask] = {}
    if scope.placement.filters:
        chosen_by_policy = filtered(scope.trial, scope.workload, pods)
        by_policy = {f"left out by the placement {scope.placement.name}": rest & ~chosen_by_policy}
        rest = rest & chosen_by_policy
    free = scope.trial.ports.free(pods.ports)
    if (kept := kept_free(scope.trial, pods)) is not None:
        free &= kept
    attachable = scope.trial.ports.attachable(pods.attached) > 0
    no_room = rest & scope.mask & free & attachable & (query.room == 0)
    unlinked, untold = _unlinked(scope, pods, no_room)
    no_room &= ~unlinked & ~untold
    promised = _promised_to_others(scope.trial, pods, no_room)
    excluded = {
        "not usable": np.logical_and.reduce([~usable, *(~nodes for nodes in shut.values())]),
        **_named(layout, shut),
        "not chosen by nodeSelector or affinity": usable & ~chosen,
        "with taints that are not tolerated": usable & chosen & ~tolerated,
        "where their volumes cannot be used": usable & chosen & tolerated & ~reached,
        _REFUSED: unrefused & ~unclosed,
        **_named(layout, closed_to(pods.nodes, layout.closed, unclosed)),
        **by_policy,
        "of other flavors": rest & ~scope.mask,
        _taken(pods.ports): rest & scope.mask & ~free,
        "that can attach no more such volumes": rest & scope.mask & free & ~attachable,
        "that do not tell how NVLinks join their devices": untold,
        "without so many free devices in one NVLink island": unlinked,
        "kept for another workload": promised,
        "without room": no_room & ~promised,
    }
    return reasons.no_fit(
        pods=query.pods,
        takes=pods.takes,
        in_one_island=pods.in_one_island,
        fit=int(query.room.sum()),
        nodes=len(scope.trial.table),
        excluded={why: int(np.count_nonzero(nodes)) for why, nodes in excluded.items()},
    )

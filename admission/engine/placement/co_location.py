"""Pod sets that are placed together: a leader next to its workers, the tasks of a subgroup.

The set with most pods decides about domains; the others are its companions. A companion goes first, pod by pod, to
the node where it costs the larger set the least room (worked out exactly, parts included): so one companion pod finds
a place exactly if there is one. Where that fails the larger set is tried first. Of nodes that cost the same the
companion goes to one that the larger set can use too, unless that set then lies in more domains.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.capacity import DomainShare, losses
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Amounts, Layout, Mask
from admission.engine.placement.domains import (
    NodeScope,
    PodSetRequest,
    domains_to_try,
    levels_of,
    not_in_one_domain,
    renumber,
    unknown_level,
)
from admission.engine.placement.pod_set import seats_for
from queues.admissions import Seat
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import NodeName, PodSet

#: Companion pods that are placed one by one; more of them are placed at once.
_ONE_BY_ONE = 16


def seat_together(scope: NodeScope, requests: Sequence[PodSetRequest]) -> list[Seat] | Reason:
    """Seats for all requests, in one domain of the level they ask for; else the reason, with nothing taken."""
    if len(requests) == 1 and not requests[0].companion_nodes:
        return seats_for(scope, requests[0])
    required = next(
        (request.pods.required_topology for request in requests if request.pods.required_topology), None
    )
    key = required or next((request.pods.preferred_topology for request in requests), None)
    if key is None:
        return _in_turn(scope, requests)
    return in_one_domain(scope, requests, key, required is not None)


def in_one_domain(
    scope: NodeScope, requests: Sequence[PodSetRequest], key: str, required: bool
) -> list[Seat] | Reason:
    """Seats in one domain of a level, or (preferred) of the lowest wider level that holds all."""
    layout = scope.trial.layout
    unknown = unknown_level(layout, [key])
    if unknown is not None:
        return unknown
    seated = [node for request in requests for node in (*request.seated.values(), *request.companion_nodes)]
    if required and (reason := not_in_one_domain(layout, key, seated)) is not None:
        return reason
    answer: Reason | None = None
    for mask in common_domains(scope, requests, key, required, seated):
        found = _in_turn(scope if mask is None else scope.narrowed(mask), requests)
        if not isinstance(found, Reason):
            return found
        answer = found
    if not required and answer is not None:
        return answer
    if answer is not None and answer.code in (ReasonCode.QUEUE_LIMIT, ReasonCode.UNKNOWN_LEVEL):
        return answer
    return _refusal(scope, requests, key)


def common_domains(
    scope: NodeScope, requests: Sequence[PodSetRequest], key: str, required: bool, seated: Sequence[NodeName]
) -> Iterator[Mask | None]:
    """Masks of the domains that hold each request alone, the tightest for the largest request first."""
    layout = scope.trial.layout
    largest = max(requests, key=lambda request: (len(request.ordinals), request.pods.name))
    others = [
        (scope.pods_per_node(request.pods), len(request.ordinals))
        for request in requests
        if request is not largest
    ]
    asked = sum(scope.trial.vector(request.pods.takes) * len(request.ordinals) for request in requests)
    free = np.maximum(scope.trial.free, 0) * scope.mask
    for mask in domains_to_try(
        layout, key, required, scope.pods_per_node(largest.pods), len(largest.ordinals), seated
    ):
        if mask is None or (
            all(int(room[mask].sum()) >= count for room, count in others)
            and bool((free[:, mask].sum(axis=1) >= asked).all())
        ):
            yield mask


def _refusal(scope: NodeScope, requests: Sequence[PodSetRequest], key: str) -> Reason:
    for request in requests:  # the reason of a set that does not fit even alone says more
        mark = scope.trial.mark()
        pods = replace(request.pods, required_topology=key)
        alone = seats_for(scope, PodSetRequest(pods, request.ordinals, request.seated))
        scope.trial.undo(mark)
        if isinstance(alone, Reason):
            return alone
    sets = {request.pods.name: len(request.ordinals) for request in requests}
    return reasons.together_no_fit(level=key, sets=sets, domains=len(scope.trial.layout.level(key).domains))


def _in_turn(scope: NodeScope, requests: Sequence[PodSetRequest]) -> list[Seat] | Reason:
    *companions, largest = sorted(requests, key=lambda request: (len(request.ordinals), request.pods.name))
    mark = scope.trial.mark()
    answer = _beside(scope, companions, largest)
    if isinstance(answer, Reason):
        scope.trial.undo(mark)
        answer = _one_after_the_other(scope, [largest, *reversed(companions)])
        if isinstance(answer, Reason):
            scope.trial.undo(mark)
        return answer
    spans = _spans(scope, largest, answer)
    if not companions or spans[-1] == 1:
        return answer
    scope.trial.undo(mark)
    apart = _beside(scope, companions, largest, apart=True)
    if not isinstance(apart, Reason) and _spans(scope, largest, apart) < spans:
        return apart
    scope.trial.undo(mark)
    return _beside(scope, companions, largest)


def _spans(scope: NodeScope, request: PodSetRequest, seats: Sequence[Seat]) -> list[int]:
    """Number of domains of each level that the seats of one pod set lie in, outermost first."""
    layout = scope.trial.layout
    found = layout.chain(next(iter(levels_of(request.pods)), HOST))
    chain = layout.chains[0] if found is None else found[0]
    columns = [layout.position[seat.node] for seat in seats if seat.pod_set == request.pods.name]
    return [len(np.unique(level.of[columns])) for level in chain]


def _beside(
    scope: NodeScope, companions: Sequence[PodSetRequest], largest: PodSetRequest, *, apart: bool = False
) -> list[Seat] | Reason:
    """Companions first, where they cost the largest set least. ``apart``: rather on nodes that set cannot use."""
    seats: list[Seat] = []
    for request in companions:
        one_by_one = len(request.ordinals) <= _ONE_BY_ONE and not request.pods.partitions
        held: dict[int, NodeName] = dict(request.seated)
        found: list[Seat] = []
        for ordinals in [(ordinal,) for ordinal in request.ordinals] if one_by_one else [request.ordinals]:
            costed = _with_costs(scope, request.pods, largest.pods, apart)
            answer = seats_for(costed, PodSetRequest(request.pods, ordinals, held))
            if isinstance(answer, Reason):
                return answer
            found += answer
            held |= {each.ordinal: each.node for each in answer}
        seats += renumber(scope.trial.layout, request.pods, found) if one_by_one else found
    answer = seats_for(scope, largest)
    return answer if isinstance(answer, Reason) else seats + answer


def _one_after_the_other(scope: NodeScope, requests: Sequence[PodSetRequest]) -> list[Seat] | Reason:
    seats: list[Seat] = []
    for request in requests:
        answer = seats_for(scope, request)
        if isinstance(answer, Reason):
            return answer
        seats += answer
    return seats


def _with_costs(scope: NodeScope, companion: PodSet, largest: PodSet, apart: bool) -> NodeScope:
    """Costs of nodes: the room that the largest set loses there, then those it can use first (``apart``: last)."""
    layout = scope.trial.layout
    room = scope.pods_per_node(largest)
    after = np.minimum(scope.trial.pods_per_node_beside(largest.takes, companion.takes), room)
    if set(companion.ports) & set(largest.ports):
        after = np.zeros_like(room)
    lost = _lost(layout, room, after, largest)
    return replace(scope, cost=lost * 2 + ((after == 0) != apart))


def _lost(layout: Layout, room: Amounts, after: Amounts, pods: PodSet) -> Amounts:
    parts = [part for part in pods.partitions if part.required and part.level and part.size > 1]
    keys = {part.level for part in parts}
    for chain in layout.chains if parts else ():
        indices: Mapping[str, int] = {level.key: index for index, level in enumerate(chain)}
        if keys <= indices.keys():
            return losses(chain, room, after, [DomainShare(part.size, indices[part.level]) for part in parts])
    return room - after

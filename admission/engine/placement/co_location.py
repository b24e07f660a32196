"""Pod sets that are placed together: a leader beside its workers, the tasks of a subgroup.

The set with most pods decides about domains; the others are its companions. A companion goes first, pod by
pod, to the node where it costs the larger set the least room (worked out exactly, parts and all): so one
companion pod finds a place exactly if there is one. Where that fails the larger set is tried first. Of nodes
that cost the same it goes to one that the larger set can use too, unless that set then lies in more domains.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.capacity import DomainShare, losses
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Amounts, Layout, Mask
from admission.engine.placement.domains import (
    domains_to_try,
    levels_of,
    not_in_one_domain,
    renumber,
    unknown_level,
)
from admission.engine.placement.pod_set import NodeScope, PodSetRequest, seats_for
from queues.admissions import Seat
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import NodeName, PodSet

#: Companion pods that are placed one by one; more of them are placed at once.
_ONE_BY_ONE = 16


def seat_together(where: NodeScope, wants: Sequence[PodSetRequest]) -> list[Seat] | Reason:
    """Seats for all that is wanted, in one domain of the level they ask for; nothing is taken otherwise."""
    if len(wants) == 1 and not wants[0].companion_nodes:
        return seats_for(where, wants[0])
    required = next((want.pods.required_topology for want in wants if want.pods.required_topology), None)
    key = required or next((want.pods.preferred_topology for want in wants), None)
    if key is None:
        return _in_turn(where, wants)
    return in_one_domain(where, wants, key, required is not None)


def in_one_domain(
    where: NodeScope, wants: Sequence[PodSetRequest], key: str, required: bool
) -> list[Seat] | Reason:
    """In one domain of a level, or (preferred) of the lowest around it that holds all."""
    layout = where.trial.layout
    unknown = unknown_level(layout, [key])
    if unknown is not None:
        return unknown
    beside = [node for want in wants for node in (*want.seated.values(), *want.companion_nodes)]
    if required and (reason := not_in_one_domain(layout, key, beside)) is not None:
        return reason
    answer: Reason | None = None
    for mask in common_domains(where, wants, key, required, beside):
        found = _in_turn(where if mask is None else where.narrowed(mask), wants)
        if not isinstance(found, Reason):
            return found
        answer = found
    if not required and answer is not None:
        return answer
    if answer is not None and answer.code in (ReasonCode.QUEUE_LIMIT, ReasonCode.UNKNOWN_LEVEL):
        return answer
    return _refusal(where, wants, key)


def common_domains(
    where: NodeScope, wants: Sequence[PodSetRequest], key: str, required: bool, beside: Sequence[NodeName]
) -> Iterator[Mask | None]:
    """Domains of a level that hold each of the wants alone, the tightest for the largest of them first."""
    layout = where.trial.layout
    largest = max(wants, key=lambda want: (len(want.ordinals), want.pods.name))
    others = [(where.pods_per_node(want.pods), len(want.ordinals)) for want in wants if want is not largest]
    asked = sum(where.trial.vector(want.pods.takes) * len(want.ordinals) for want in wants)
    free = np.maximum(where.trial.free, 0) * where.mask
    for mask in domains_to_try(
        layout, key, required, where.pods_per_node(largest.pods), len(largest.ordinals), beside
    ):
        if mask is None or (
            all(int(room[mask].sum()) >= count for room, count in others)
            and bool((free[:, mask].sum(axis=1) >= asked).all())
        ):
            yield mask


def _refusal(where: NodeScope, wants: Sequence[PodSetRequest], key: str) -> Reason:
    layout = where.trial.layout
    for want in wants:  # one that does not even fit alone says it better
        mark = where.trial.mark()
        alone = seats_for(where, replace_topology(want, key))
        where.trial.undo(mark)
        if isinstance(alone, Reason):
            return alone
    found = layout.chain(key)
    assert found is not None
    sets = {want.pods.name: len(want.ordinals) for want in wants}
    return reasons.together_no_fit(level=key, sets=sets, domains=len(found[0][found[1]].domains))


def replace_topology(want: PodSetRequest, key: str) -> PodSetRequest:
    """The same want with that level required."""
    return PodSetRequest(replace(want.pods, required_topology=key), want.ordinals, want.seated)


def _in_turn(where: NodeScope, wants: Sequence[PodSetRequest]) -> list[Seat] | Reason:
    *companions, largest = sorted(wants, key=lambda want: (len(want.ordinals), want.pods.name))
    mark = where.trial.mark()
    answer = _beside(where, companions, largest)
    if isinstance(answer, Reason):
        where.trial.undo(mark)
        answer = _one_after_the_other(where, [largest, *reversed(companions)])
        if isinstance(answer, Reason):
            where.trial.undo(mark)
        return answer
    spans = _spans(where, largest, answer)
    if not companions or spans[-1] == 1:
        return answer
    where.trial.undo(mark)
    apart = _beside(where, companions, largest, apart=True)
    if not isinstance(apart, Reason) and _spans(where, largest, apart) < spans:
        return apart
    where.trial.undo(mark)
    return _beside(where, companions, largest)


def _spans(where: NodeScope, want: PodSetRequest, seats: Sequence[Seat]) -> list[int]:
    """How many domains of each level the seats of one pod set lie in, outermost first."""
    layout = where.trial.layout
    found = layout.chain(next(iter(levels_of(want.pods)), HOST))
    chain = layout.chains[0] if found is None else found[0]
    columns = [layout.position[seat.node] for seat in seats if seat.pod_set == want.pods.name]
    return [len(np.unique(level.of[columns])) for level in chain]


def _beside(
    where: NodeScope, companions: Sequence[PodSetRequest], largest: PodSetRequest, *, apart: bool = False
) -> list[Seat] | Reason:
    """Companions first, where they cost the largest set least. ``apart``: rather on nodes it cannot use."""
    seats: list[Seat] = []
    for want in companions:
        few = len(want.ordinals) <= _ONE_BY_ONE and not want.pods.partitions
        held: dict[int, NodeName] = dict(want.seated)
        found: list[Seat] = []
        for ordinals in [(ordinal,) for ordinal in want.ordinals] if few else [want.ordinals]:
            there = _with_costs(where, want.pods, largest.pods, apart)
            answer = seats_for(there, PodSetRequest(want.pods, ordinals, held))
            if isinstance(answer, Reason):
                return answer
            found += answer
            held |= {each.ordinal: each.node for each in answer}
        seats += renumber(where.trial.layout, want.pods, found) if few else found
    answer = seats_for(where, largest)
    return answer if isinstance(answer, Reason) else seats + answer


def _one_after_the_other(where: NodeScope, wants: Sequence[PodSetRequest]) -> list[Seat] | Reason:
    seats: list[Seat] = []
    for want in wants:
        answer = seats_for(where, want)
        if isinstance(answer, Reason):
            return answer
        seats += answer
    return seats


def _with_costs(where: NodeScope, companion: PodSet, largest: PodSet, apart: bool) -> NodeScope:
    """A node costs the room that the largest set loses there; of equal ones those it can use come first, or last."""
    layout = where.trial.layout
    room = where.pods_per_node(largest)
    after = np.minimum(where.trial.pods_per_node_beside(largest.takes, companion.takes), room)
    if set(companion.ports) & set(largest.ports):
        after = np.zeros_like(room)
    lost = _lost(layout, room, after, largest)
    return replace(where, cost=lost * 2 + ((after == 0) != apart))


def _lost(layout: Layout, room: Amounts, after: Amounts, pods: PodSet) -> Amounts:
    parts = [part for part in pods.partitions if part.required and part.level and part.size > 1]
    keys = {part.level for part in parts}
    for chain in layout.chains if parts else ():
        indices: Mapping[str, int] = {level.key: index for index, level in enumerate(chain)}
        if keys <= indices.keys():
            return losses(chain, room, after, [DomainShare(part.size, indices[part.level]) for part in parts])
    return room - after

"""Seats for pods of one pod set on nodes of a mask: topology, parts, those who sit already, the queue's books.

What is placed is taken in the trial piece by piece; whoever calls takes it back if the rest does not fit.
"""

from collections.abc import Sequence

from admission.engine import reasons
from admission.engine.at_once import seats_at_once
from admission.engine.domains import chain_of, levels_of, near, scattered, unknown_level
from admission.engine.no_place import no_domain
from admission.engine.plan import Reason
from admission.engine.wanted import Want, Where
from queues.admissions import Seat
from queues.quota.usage import LimitHit
from queues.workload import NO_FLAVOR, Partition


def seats_for(where: Where, want: Want) -> list[Seat] | Reason:
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
        where = where.only(~layout.of_flavor(answer.account.flavor))
        if not where.usable(want.pods).any():
            return reasons.queue_limit(answer)


def _seated(where: Where, want: Want) -> list[Seat] | Reason | LimitHit:
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


def _with_parts(where: Where, want: Want, partitions: Sequence[Partition]) -> list[Seat] | Reason | LimitHit:
    """Seats if these parts have to keep together."""
    pods, layout = want.pods, where.trial.layout
    key = pods.required_topology or pods.preferred_topology
    required = pods.required_topology is not None
    levels = [part.level for part in partitions]
    beside = [node for node in want.held.values() if node in layout.position]
    if not beside and (not partitions or _whole(want.ordinals, partitions[0].size)):
        chain = chain_of(layout, [key, *levels] if key else levels)
        if chain is not None:
            return seats_at_once(where, want, chain, key, partitions)
    if key is None:
        return _part_by_part(where, want, partitions)
    if required and (reason := scattered(layout, key, beside)) is not None:
        return reason
    answer: Reason | LimitHit | None = None
    mark = where.trial.mark()
    for mask in near(layout, key, required, where.room(pods), len(want.ordinals), beside):
        inside = where if mask is None else where.only(mask)
        found = _part_by_part(inside, want, partitions)
        if isinstance(found, list):
            return found
        where.trial.undo(mark)
        if required and isinstance(found, Reason):
            found = no_domain(inside if beside else where, pods, key, len(want.ordinals), partitions)
        answer = found
    return answer if answer is not None else no_domain(where, pods, key, len(want.ordinals), partitions)


def _part_by_part(
    where: Where, want: Want, partitions: Sequence[Partition]
) -> list[Seat] | Reason | LimitHit:
    """Parts that lack members keep to where their others sit; whole ones go where there is room."""
    pods, layout = want.pods, where.trial.layout
    own = pods.required_topology or pods.preferred_topology
    levels = [part.level for part in partitions]
    chain = chain_of(layout, [own, *levels] if own else levels) or chain_of(layout, levels)
    if not partitions:
        return seats_at_once(where, want, chain, None, ())
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
        held = {ordinal: node for ordinal, node in want.held.items() if ordinal // size == number}
        answer = _broken_part(where, Want(pods, ordinals, held), key, partitions[1:])
        if not isinstance(answer, list):
            return answer
        seats += answer
    if whole:
        answer = seats_at_once(where, Want(pods, whole, {}), chain, None, partitions)
        if not isinstance(answer, list):
            return answer
        seats += answer
    return seats


def _broken_part(
    where: Where, want: Want, key: str, inner: Sequence[Partition]
) -> list[Seat] | Reason | LimitHit:
    """Some members of a part: in one domain of its level, the one where its others sit if there are any."""
    layout = where.trial.layout
    beside = [node for node in want.held.values() if node in layout.position]
    if (reason := scattered(layout, key, beside)) is not None:
        return reason
    mark = where.trial.mark()
    answer: Reason | LimitHit | None = None
    inside = where
    for mask in near(layout, key, True, where.room(want.pods), len(want.ordinals), beside):
        assert mask is not None
        inside = where.only(mask)
        found = _part_by_part(inside, want, inner)
        if isinstance(found, list):
            return found
        where.trial.undo(mark)
        answer = found
    if isinstance(answer, LimitHit):
        return answer
    return no_domain(inside if beside else where, want.pods, key, len(want.ordinals), ())


def _whole(ordinals: Sequence[int], size: int) -> bool:
    """Whether the ordinals are whole parts."""
    if len(ordinals) % size:
        return False
    counts: dict[int, int] = {}
    for ordinal in ordinals:
        counts[ordinal // size] = counts.get(ordinal // size, 0) + 1
    return all(count == size for count in counts.values())

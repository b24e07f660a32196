"""Seats for gangs: whole or not at all; pods above the minimum join later, one by one.

Where a pod set is in parts, a part is a gang of its own: it joins whole.

Of an elastic gang the minimum is one admission, and what goes beyond it are further ones (elastic parts). An admission
is evicted whole, so the parts are what a gang can lose without its end. A pod each would be exact, but each part is a
row of the ledger: a gang has at most ``MOST_PARTS`` parts, larger ones if it has many pods.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.host_ports import ports_of
from admission.engine.nodes.table import Mask
from admission.engine.placement.co_location import common_domains
from admission.engine.placement.domains import (
    NodeScope,
    PodSetRequest,
    not_in_one_domain,
    renumber,
    unknown_level,
)
from admission.engine.placement.exact_search import exact_seats
from admission.engine.placement.flavors import quota_hit, seat
from admission.engine.placement.need import (
    FEW_SETS,
    MissingMembers,
    group_of,
    member_charges,
    minimum_choices,
    parts,
)
from admission.engine.placement.related_pods import have_rules, related_seats
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.kind_names import CAN_SHRINK
from queues.plan import Admit, Reason
from queues.quota.accounts import charges
from queues.reason_codes import ReasonCode
from queues.workload import NodeName, PodSet, Workload

#: Number of groups without a place that are moved to the front, each once.
_MOVES = 3


def admit(workload: Workload, need: MissingMembers, trial: Trial) -> Admit | Reason:
    """Seats for all missing members, else for the minimum of the gang, else the reason.

    A workload with a complete gang takes as many further seats as there are. Without seats nothing stays taken in
    the trial.
    """
    trial.progress.workload = workload.key
    seats = all_or_none(workload, need, need.missing, trial)
    if isinstance(seats, Reason):
        if need.complete:
            seats = _one_by_one(workload, need, trial) or seats
        elif need.minimum and need.minimum != need.missing:
            seats = all_or_none(workload, need, need.minimum, trial)
            if isinstance(seats, Reason):
                seats = other_members(workload, need, trial) or seats
    if isinstance(seats, Reason):
        return seats
    trial.keep()
    return Admit(
        workload=workload.key,
        namespace=workload.namespace,
        name=workload.name,
        queue=workload.queue,
        priority=workload.priority,
        generation=workload.generation,
        seats=tuple(seats),
        elastic=bool(need.seated),
        minimum=workload.gang_size(),
    )


def refusal(workload: Workload, need: MissingMembers, trial: Trial) -> Reason | None:
    """Why a workload gets no seats; None if it fits. The trial is left as it was."""
    answer = admit(workload, need, trial)
    if isinstance(answer, Reason):
        return answer
    ports = ports_of(workload, answer.seats)
    trial.remove_seats(answer.queue, charges(answer.seats), answer.seats, ports)
    return None


def refusal_of_first(workload: Workload, need: MissingMembers, trial: Trial) -> Reason | None:
    """Why the first members that would complete the gang, or all that it lacks, get no seats; None if they do.

    For a workload that has no place whichever of its members are chosen. The trial is left as it was.
    """
    mark = trial.mark()
    answer = all_or_none(workload, need, need.minimum or need.missing, trial)
    trial.undo(mark)
    return answer if isinstance(answer, Reason) else None


def all_or_none(
    workload: Workload, need: MissingMembers, ordinals: Mapping[str, tuple[int, ...]], trial: Trial
) -> list[Seat] | Reason:
    """Seats for all of these members, taken in the trial; else the reason, with nothing taken."""
    if not ordinals:
        return reasons.nothing_missing()
    asked = member_charges(workload, ordinals)
    hit = quota_hit(trial, workload.queue, asked)
    if hit is not None:
        return reasons.queue_limit(hit)
    if (of_user := trial.user_hit(workload, asked)) is not None:
        return reasons.use_per_user(of_user)
    groups = _groups(workload, need, ordinals)
    for pods in workload.pod_sets:
        if pods.within is not None:
            return _in_one_domain(workload, need, groups, trial, pods.within, pods.within_required)
    return _all_groups(workload, groups, trial, None)


def _all_groups(
    workload: Workload, groups: Sequence[Sequence[PodSetRequest]], trial: Trial, inside: Mask | None
) -> list[Seat] | Reason:
    """Groups in the order written, else the hardest first; a group that finds no place is then moved to the front."""
    if have_rules(groups):
        return _with_rules(workload, groups, trial, inside)
    answer: list[Seat] | Reason = []
    mark = trial.mark()
    moves = _MOVES if len(groups) <= FEW_SETS else 0
    for hardest in (False, True):
        order = _hardest_first(groups, trial) if hardest else list(groups)
        before = set[int]()
        while True:
            answer, stopped = _in_turn(workload, order, trial, inside)
            if not isinstance(answer, Reason):
                return _in_order(answer)
            trial.undo(mark)
            if len(groups) == 1 or not _enough_for_all(groups, trial, inside):
                return answer
            if stopped == 0 or id(order[stopped]) in before or len(before) == moves:
                break
            before.add(id(order[stopped]))
            order = [order[stopped], *order[:stopped], *order[stopped + 1 :]]
        if stopped == 0:
            break  # the first group has no place even alone
    if any(request.pods.attached for requests in groups for request in requests):
        found = related_seats(trial, workload, groups, inside)
        return answer if isinstance(found, Reason) else _in_order(found)
    return exact_seats(workload, groups, trial, inside) or answer


def _with_rules(
    workload: Workload, groups: Sequence[Sequence[PodSetRequest]], trial: Trial, inside: Mask | None
) -> list[Seat] | Reason:
    """Seats where rules about other pods are met. A reason without them goes first: it says what else is missing."""
    answer = related_seats(trial, workload, groups, inside)
    if not isinstance(answer, Reason):
        return _in_order(answer)
    mark = trial.mark()
    without, _ = _in_turn(workload, groups, trial, inside)
    trial.undo(mark)
    return without if isinstance(without, Reason) else answer


def _enough_for_all(groups: Sequence[Sequence[PodSetRequest]], trial: Trial, inside: Mask | None) -> bool:
    """Whether the nodes together have as much free as all groups ask."""
    asked = sum(
        trial.vector(request.pods.takes) * len(request.ordinals)
        for requests in groups
        for request in requests
    )
    free = np.maximum(trial.free, 0) * (trial.layout.usable if inside is None else inside)
    return bool((free.sum(axis=1) >= asked).all())


def _in_turn(
    workload: Workload, groups: Sequence[Sequence[PodSetRequest]], trial: Trial, inside: Mask | None
) -> tuple[list[Seat] | Reason, int]:
    """Seats for all groups, and the number of groups seated; or the reason of the first one without seats."""
    seats: list[Seat] = []
    for number, requests in enumerate(groups):
        answer = seat(trial, workload, requests, inside)
        if isinstance(answer, Reason):
            return answer, number
        seats += answer
    return seats, len(groups)


def _in_one_domain(
    workload: Workload,
    need: MissingMembers,
    groups: Sequence[Sequence[PodSetRequest]],
    trial: Trial,
    key: str,
    required: bool,
) -> list[Seat] | Reason:
    """All groups in one domain of the level that the whole workload asks for; if not required, or in a wider one."""
    unknown = unknown_level(trial.layout, [key])
    if unknown is not None:
        return unknown
    seated = [node for nodes in need.seated.values() for node in nodes.values()]
    if required and (reason := not_in_one_domain(trial.layout, key, seated)) is not None:
        return reason
    every = NodeScope(trial, workload, trial.layout.usable)
    requests = [request for group in groups for request in group]
    answer: Reason | None = None
    for mask in common_domains(every, requests, key, required, seated):
        found = _all_groups(workload, groups, trial, mask)
        if not isinstance(found, Reason):
            return found
        answer = found
    if answer is not None and (not required or answer.code == ReasonCode.QUEUE_LIMIT):
        return answer
    return reasons.together_no_fit(
        level=key,
        sets={request.pods.name: len(request.ordinals) for request in requests},
        domains=len(trial.layout.level(key).domains),
    )


def _groups(
    workload: Workload, need: MissingMembers, ordinals: Mapping[str, tuple[int, ...]]
) -> list[list[PodSetRequest]]:
    """Requests of the pod sets that lack members, grouped by what is placed together."""
    groups: dict[tuple[bool, str], list[PodSetRequest]] = {}
    for pods in workload.pod_sets:
        if pods.name in ordinals:
            request = PodSetRequest(
                pods, ordinals[pods.name], need.seated.get(pods.name, {}), _companions(workload, need, pods)
            )
            groups.setdefault(group_of(pods), []).append(request)
    return list(groups.values())


def _companions(workload: Workload, need: MissingMembers, pods: PodSet) -> tuple[NodeName, ...]:
    """Nodes of seated members of the other pod sets that are placed together with this one."""
    if pods.together is None or not need.seated:
        return ()
    return tuple(
        node
        for each in workload.pod_sets
        if each.together == pods.together and each is not pods
        for node in need.seated.get(each.name, {}).values()
    )


def _one_by_one(
    workload: Workload, need: MissingMembers, trial: Trial, most: int | None = None
) -> list[Seat]:
    """Seats for as many further members as possible, in order; of a part all or none.

    ``most``: so many are enough; None to take all.
    """
    seats: list[Seat] = []
    held = {name: dict(nodes) for name, nodes in need.seated.items()}
    for pods in workload.pod_sets:
        missing = need.missing.get(pods.name, ())
        left = len(missing) if most is None else max(0, most - len(seats))
        lacking = replace(need, seated=held)
        if pods.partitions:
            found = _part_by_part(workload, lacking, pods, left, trial)
        else:
            found = _first_ones(workload, lacking, pods, missing[:left], trial)
        seats += found
        held.setdefault(pods.name, {}).update({each.ordinal: each.node for each in found})
    return _in_order(seats)


def _part_by_part(
    workload: Workload, need: MissingMembers, pods: PodSet, most: int, trial: Trial
) -> list[Seat]:
    """Seats for the parts that find a place; after one that completes ``most`` members no more."""
    seats: list[Seat] = []
    held = {name: dict(nodes) for name, nodes in need.seated.items()}
    for ordinals in parts(pods, need.missing.get(pods.name, ())):
        if len(seats) >= most:
            break
        answer = all_or_none(workload, replace(need, seated=held), {pods.name: ordinals}, trial)
        if not isinstance(answer, Reason):
            seats += answer
            held.setdefault(pods.name, {}).update({each.ordinal: each.node for each in answer})
    return seats


def _first_ones(
    workload: Workload, need: MissingMembers, pods: PodSet, ordinals: Sequence[int], trial: Trial
) -> list[Seat]:
    """Seats for as many of these members as find a place, from the first.

    Tried for all, then for one, two, four and so on: one placement for each of thousands would take seconds.
    """
    fits, too_many, count = 0, len(ordinals) + 1, len(ordinals)
    mark = trial.mark()
    while fits + 1 < too_many:
        answer = all_or_none(workload, need, {pods.name: tuple(ordinals[:count])}, trial)
        if isinstance(answer, Reason):
            too_many = count
        elif count + 1 == too_many:
            return answer
        else:
            trial.undo(mark)
            fits = count
        count = min(max(1, 2 * fits), (fits + too_many) // 2)
    if not fits:
        return []
    answer = all_or_none(workload, need, {pods.name: tuple(ordinals[:fits])}, trial)
    return [] if isinstance(answer, Reason) else answer


def other_members(workload: Workload, need: MissingMembers, trial: Trial) -> list[Seat]:
    """Seats for a gang that meets its minimum with other members than the first ones. Empty: there are none."""
    others = minimum_choices(workload, need)[1:]
    for ordinals in others:
        seats = all_or_none(workload, need, ordinals, trial)
        if not isinstance(seats, Reason):
            return seats
    alone = all(pods.together is None for pods in workload.pod_sets)
    return _as_many_as_needed(workload, need, trial) if others and alone else []


def _as_many_as_needed(workload: Workload, need: MissingMembers, trial: Trial) -> list[Seat]:
    """Seats for what the sets' own minimums require, then for any other members until the gang is complete; or none."""
    mark = trial.mark()
    due = {name: need.missing[name][:count] for name, count in need.set_minimums.items() if count}
    seats = all_or_none(workload, need, due, trial) if due else []
    if isinstance(seats, Reason):
        return []
    held = {name: dict(nodes) for name, nodes in need.seated.items()}
    for each in seats:
        held.setdefault(each.pod_set, {})[each.ordinal] = each.node
    rest = {name: ordinals[need.set_minimums[name] :] for name, ordinals in need.missing.items()}
    count = sum(len(ordinals) for ordinals in need.minimum.values()) - len(seats)
    more = _one_by_one(workload, replace(need, missing=rest, seated=held), trial, count)
    if len(more) < count:
        trial.undo(mark)
        return []
    found = [*seats, *more]
    for pods in workload.pod_sets if not need.seated else ():
        if not pods.partitions:
            mine = [each for each in found if each.pod_set == pods.name]
            found = [each for each in found if each.pod_set != pods.name]
            found += renumber(trial.layout, pods, mine)
    return _in_order(found)


def _hardest_first(groups: Sequence[Sequence[PodSetRequest]], trial: Trial) -> list[Sequence[PodSetRequest]]:
    """Required topology first, then preferred, then the pods that fit on the fewest places, then by name."""

    def hardness(requests: Sequence[PodSetRequest]) -> tuple[bool, bool, int, str]:
        sets = [request.pods for request in requests]
        return (
            all(pods.required_topology is None for pods in sets),
            all(pods.preferred_topology is None for pods in sets),
            min(
                int(
                    trial.pods_per_node(
                        pods.takes, trial.layout.allowed(pods.nodes), pods.in_one_island
                    ).sum()
                )
                for pods in sets
            ),
            sets[0].name,
        )

    return sorted(groups, key=hardness)


def _in_order(seats: Iterable[Seat]) -> list[Seat]:
    return sorted(seats, key=lambda seat: (seat.pod_set, seat.ordinal))


#: Elastic parts of one gang: a reclaim takes at most a sixteenth of what is above the minimum more than it needs.
MOST_PARTS: Final = 16


def in_parts(admit: Admit, workload: Workload, need: MissingMembers, admissions: int) -> list[Admit]:
    """The same seats as the minimum of the gang and elastic parts; of a gang that has its minimum, as parts.

    ``need``: what the workload lacked; ``admissions``: how many it has. The first one is the gang, and is taken before
    the others. Only the one given: the gang is not elastic, or its pods can only be removed together.
    """
    seats = {(seat.pod_set, seat.ordinal): seat for seat in admit.seats}
    core = {(name, ordinal) for name, ordinals in need.minimum.items() for ordinal in ordinals}
    begins = bool(core)
    if workload.kind not in CAN_SHRINK or not core < seats.keys() or begins == bool(need.seated):
        return [admit]
    above = [
        [seats[pods.name, ordinal] for ordinal in ordinals]
        for pods in workload.pod_sets
        for ordinals in parts(
            pods, _ordinals(need.missing.get(pods.name, ()), pods.name, seats.keys() - core)
        )
    ]
    room = max(1, MOST_PARTS - max(0, admissions - 1))
    joining = [replace(admit, seats=tuple(part), elastic=True) for part in _chunks(above, room)]
    if not begins:
        return joining
    first = tuple(seat for seat in admit.seats if (seat.pod_set, seat.ordinal) in core)
    return [replace(admit, seats=first), *joining]


def _ordinals(missing: Sequence[int], name: str, seated: set[tuple[str, int]]) -> list[int]:
    return [ordinal for ordinal in missing if (name, ordinal) in seated]


def _chunks(units: Sequence[Sequence[Seat]], most: int) -> Iterator[list[Seat]]:
    """These units in order, in at most so many parts of equally many units; the last one may be smaller.

    Of parts of two sizes victims that are taken one by one could be more than need be.
    """
    size = -(-len(units) // most)
    for begin in range(0, len(units), size):
        yield [seat for unit in units[begin : begin + size] for seat in unit]

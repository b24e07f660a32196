"""A gang is seated whole or not at all; what is above its minimum joins later, one by one.

Where a pod set is in parts, a part is a gang of its own: it joins whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.table import Mask
from admission.engine.placement.co_location import common_domains
from admission.engine.placement.domains import not_in_one_domain as scattered_over
from admission.engine.placement.domains import renumber, unknown_level
from admission.engine.placement.flavors import quota_hit, seat
from admission.engine.placement.need import MissingMembers, group_of, member_charges, minimum_choices, parts
from admission.engine.placement.pod_set import NodeScope, PodSetRequest
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.plan import Admit, Reason
from queues.reason_codes import ReasonCode
from queues.workload import NodeName, PodSet, Workload

#: So many groups that found no place are moved to the front, each once.
_MOVES = 3


def admit(workload: Workload, lacks: MissingMembers, trial: Trial) -> Admit | Reason:
    """Seats for everything that is missing, else for the least that makes a gang, else the reason.

    A workload whose gang is complete takes what it can get. Nothing stays taken in the trial unless seats
    come back.
    """
    seats = all_or_none(workload, lacks, lacks.missing, trial)
    if isinstance(seats, Reason):
        if lacks.complete:
            seats = _one_by_one(workload, lacks, trial) or seats
        elif lacks.minimum and lacks.minimum != lacks.missing:
            seats = all_or_none(workload, lacks, lacks.minimum, trial)
            if isinstance(seats, Reason):
                seats = other_members(workload, lacks, trial) or seats
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
        elastic=bool(lacks.seated_nodes),
    )


def all_or_none(
    workload: Workload, lacks: MissingMembers, ordinals: Mapping[str, tuple[int, ...]], trial: Trial
) -> list[Seat] | Reason:
    """Seats for all of these members, taken in the trial; else the reason, with nothing taken."""
    if not ordinals:
        return reasons.nothing_missing()
    hit = quota_hit(trial, workload.queue, member_charges(workload, ordinals))
    if hit is not None:
        return reasons.queue_limit(hit)
    groups = _groups(workload, lacks, ordinals)
    around = next((pods for pods in workload.pod_sets if pods.within is not None), None)
    if around is None:
        return _all(workload, groups, trial, None)
    return _within(workload, lacks, groups, trial, around)


def _all(
    workload: Workload, groups: Sequence[Sequence[PodSetRequest]], trial: Trial, inside: Mask | None
) -> list[Seat] | Reason:
    """Group after group as written, else the hardest first; a group that found no place then goes before all."""
    answer: list[Seat] | Reason = []
    mark = trial.mark()
    for hardest in (False, True):
        order = _hardest_first(groups, trial) if hardest else list(groups)
        before = set[int]()
        while True:
            answer, stopped = _one_after_another(workload, order, trial, inside)
            if not isinstance(answer, Reason):
                return sorted(answer, key=lambda each: (each.pod_set, each.ordinal))
            trial.undo(mark)
            if len(groups) == 1 or not _enough_for_all(groups, trial, inside):
                return answer
            if stopped == 0 or id(order[stopped]) in before or len(before) == _MOVES:
                break
            before.add(id(order[stopped]))
            order = [order[stopped], *order[:stopped], *order[stopped + 1 :]]
        if stopped == 0:
            break  # it has no place even alone
    return answer


def _enough_for_all(groups: Sequence[Sequence[PodSetRequest]], trial: Trial, inside: Mask | None) -> bool:
    """Whether as much is free as all ask together, wherever it is."""
    asked = sum(trial.vector(want.pods.takes) * len(want.ordinals) for wants in groups for want in wants)
    free = np.maximum(trial.free, 0) * (trial.layout.usable if inside is None else inside)
    return bool((free.sum(axis=1) >= asked).all())


def _one_after_another(
    workload: Workload, groups: Sequence[Sequence[PodSetRequest]], trial: Trial, inside: Mask | None
) -> tuple[list[Seat] | Reason, int]:
    """Seats for all, and how many groups have some; or the reason of the first that has none."""
    seats: list[Seat] = []
    for number, wants in enumerate(groups):
        answer = seat(trial, workload.queue, wants, inside)
        if isinstance(answer, Reason):
            return answer, number
        seats += answer
    return seats, len(groups)


def _within(
    workload: Workload,
    lacks: MissingMembers,
    groups: Sequence[Sequence[PodSetRequest]],
    trial: Trial,
    around: PodSet,
) -> list[Seat] | Reason:
    """All groups in one domain of the level that holds for the whole workload, or as close to it as possible."""
    key = around.within
    assert key is not None
    unknown = unknown_level(trial.layout, [key])
    if unknown is not None:
        return unknown
    beside = [node for nodes in lacks.seated_nodes.values() for node in nodes]
    if around.within_required and (reason := scattered_over(trial.layout, key, beside)) is not None:
        return reason
    every = NodeScope(trial, workload.queue, trial.layout.usable)
    wants = [want for group in groups for want in group]
    answer: Reason | None = None
    for mask in common_domains(every, wants, key, around.within_required, beside):
        found = _all(workload, groups, trial, mask)
        if not isinstance(found, Reason):
            return found
        answer = found
    if answer is not None and (not around.within_required or answer.code == ReasonCode.QUEUE_LIMIT):
        return answer
    found_level = trial.layout.chain(key)
    assert found_level is not None
    return reasons.together_no_fit(
        level=key,
        sets={want.pods.name: len(want.ordinals) for want in wants},
        domains=len(found_level[0][found_level[1]].domains),
    )


def _groups(
    workload: Workload, lacks: MissingMembers, ordinals: Mapping[str, tuple[int, ...]]
) -> list[list[PodSetRequest]]:
    """Pod sets that are placed together, each with what it lacks."""
    groups: dict[tuple[bool, str], list[PodSetRequest]] = {}
    for pods in workload.pod_sets:
        if pods.name in ordinals:
            want = PodSetRequest(
                pods, ordinals[pods.name], lacks.seated.get(pods.name, {}), _companions(workload, lacks, pods)
            )
            groups.setdefault(group_of(pods), []).append(want)
    return list(groups.values())


def _companions(workload: Workload, lacks: MissingMembers, pods: PodSet) -> tuple[NodeName, ...]:
    """Nodes of seated members of the other pod sets that go together with this one."""
    if pods.together is None:
        return ()
    return tuple(
        node
        for each in workload.pod_sets
        if each.together == pods.together and each is not pods
        for node in lacks.seated_nodes.get(each.name, ())
    )


def _one_by_one(
    workload: Workload, lacks: MissingMembers, trial: Trial, most: int | None = None
) -> list[Seat]:
    """As many further members as get a seat, in order, each on its own; of a part all or none.

    ``most``: so many are enough.
    """
    seats: list[Seat] = []
    held = {name: dict(nodes) for name, nodes in lacks.seated.items()}
    for pods in workload.pod_sets:
        for ordinals in parts(pods, lacks.missing.get(pods.name, ())):
            if most is not None and len(seats) >= most:
                break
            now = replace(
                lacks, seated=held, seated_nodes={name: tuple(nodes.values()) for name, nodes in held.items()}
            )
            answer = all_or_none(workload, now, {pods.name: ordinals}, trial)
            if isinstance(answer, Reason):
                if not pods.partitions:
                    break
                continue
            seats += answer
            held.setdefault(pods.name, {}).update({each.ordinal: each.node for each in answer})
    return sorted(seats, key=lambda each: (each.pod_set, each.ordinal))


def other_members(workload: Workload, lacks: MissingMembers, trial: Trial) -> list[Seat]:
    """Seats for a gang whose minimum is met by other members than the first; [] = there are none."""
    others = minimum_choices(workload, lacks)[1:]
    for ordinals in others:
        seats = all_or_none(workload, lacks, ordinals, trial)
        if not isinstance(seats, Reason):
            return seats
    alone = all(pods.together is None for pods in workload.pod_sets)
    return _as_many_as_needed(workload, lacks, trial) if others and alone else []


def _as_many_as_needed(workload: Workload, lacks: MissingMembers, trial: Trial) -> list[Seat]:
    """Those that are due, then whoever else gets a seat, until there are enough; else nobody."""
    mark = trial.mark()
    due = {name: lacks.missing[name][:count] for name, count in lacks.set_minimums.items() if count}
    seats = all_or_none(workload, lacks, due, trial) if due else []
    if isinstance(seats, Reason):
        return []
    held = {name: dict(nodes) for name, nodes in lacks.seated.items()}
    for each in seats:
        held.setdefault(each.pod_set, {})[each.ordinal] = each.node
    rest = {name: ordinals[lacks.set_minimums[name] :] for name, ordinals in lacks.missing.items()}
    count = sum(len(ordinals) for ordinals in lacks.minimum.values()) - len(seats)
    more = _one_by_one(workload, replace(lacks, missing=rest, seated=held), trial, count)
    if len(more) < count:
        trial.undo(mark)
        return []
    found = [*seats, *more]
    for pods in workload.pod_sets if not lacks.seated_nodes else ():
        if not pods.partitions:
            mine = [each for each in found if each.pod_set == pods.name]
            found = [each for each in found if each.pod_set != pods.name]
            found += renumber(trial.layout, pods, mine)
    return sorted(found, key=lambda each: (each.pod_set, each.ordinal))


def _hardest_first(groups: Sequence[Sequence[PodSetRequest]], trial: Trial) -> list[Sequence[PodSetRequest]]:
    """Required topology first, then preferred, then those with the fewest places, then by name."""

    def hardness(wants: Sequence[PodSetRequest]) -> tuple[bool, bool, int, str]:
        sets = [want.pods for want in wants]
        return (
            all(pods.required_topology is None for pods in sets),
            all(pods.preferred_topology is None for pods in sets),
            min(
                int(trial.pods_per_node(pods.takes, trial.layout.allowed(pods.nodes)).sum()) for pods in sets
            ),
            sets[0].name,
        )

    return sorted(groups, key=hardness)

"""A gang is seated whole or not at all; what is above its minimum joins later, one by one.

Where a pod set is in parts, a part is a gang of its own: it joins whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from admission.engine import reasons
from admission.engine.charges import posted
from admission.engine.domains import scattered as scattered_over
from admission.engine.domains import unknown_level
from admission.engine.flavors import quota_hit, seat
from admission.engine.plan import Admit, Evict, Reason
from admission.engine.ports import ports_of
from admission.engine.ranks import in_order
from admission.engine.snapshot import Snapshot
from admission.engine.together import domains
from admission.engine.topology import Mask
from admission.engine.trial import Trial
from admission.engine.wanted import Want, Where
from queues.account import Account
from queues.resources import Resources, total
from queues.usage import accounts, seats_by_flavor
from queues.workload import NO_FLAVOR, Admission, AdmissionState, NodeName, PodSet, Seat, Workload

#: So many groups that found no place are moved to the front, each once.
_MOVES = 3


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """What a workload lacks."""

    #: Ordinals without a seat, by pod set.
    missing: Mapping[str, tuple[int, ...]]
    #: Those that make the gang complete together; {} = it is complete.
    least: Mapping[str, tuple[int, ...]]
    #: So many pods short of the minimum even if every missing ordinal gets a seat.
    short: int
    #: Nodes of the seats it has, by pod set.
    beside: Mapping[str, tuple[NodeName, ...]]
    #: The same by ordinal.
    held: Mapping[str, Mapping[int, NodeName]] = field(default_factory=dict)
    #: Of ``least`` so many are due by the pod sets' own minimums; the rest may be members of other sets as well.
    due: Mapping[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the gang has its minimum, so that any single further member is welcome."""
        return not self.least and not self.short


def need(workload: Workload, seats: Sequence[Seat]) -> Need:
    """What is missing beyond the seats that the workload holds. Pods that are done count as present."""
    held: dict[str, dict[int, NodeName]] = {}
    for each in seats:
        held.setdefault(each.pod_set, {})[each.ordinal] = each.node
    missing: dict[str, tuple[int, ...]] = {}
    present: dict[str, int] = {}
    for pods in workload.pod_sets:
        mine = held.get(pods.name, {})
        missing[pods.name] = tuple(ordinal for ordinal in pods.wanted() if ordinal not in mine)
        present[pods.name] = pods.count - len(missing[pods.name])
    least: dict[str, int] = {}
    short = 0
    for pods in workload.pod_sets:
        lacking = max(0, _minimum(pods) - present[pods.name])
        least[pods.name] = _whole_parts(pods, missing[pods.name], lacking)
        short += max(0, lacking - least[pods.name])
    due = dict(least)
    # A workload without any minimum still starts with one pod, not with none.
    lacking = max(workload.minimum, 1) - sum(present.values()) - sum(least.values())
    for pods in workload.pod_sets:
        before = least[pods.name]
        least[pods.name] = _whole_parts(pods, missing[pods.name], before + max(0, lacking))
        lacking -= least[pods.name] - before
    return Need(
        missing={name: ordinals for name, ordinals in missing.items() if ordinals},
        least={name: missing[name][:count] for name, count in least.items() if count},
        short=max(short, lacking, 0),
        beside={name: tuple(nodes.values()) for name, nodes in held.items()},
        held=held,
        due=due,
    )


def _minimum(pods: PodSet) -> int:
    parts = (part.minimum * part.size for part in pods.partitions)
    return max(pods.minimum, *parts) if pods.partitions else pods.minimum


def _whole_parts(pods: PodSet, missing: Sequence[int], count: int) -> int:
    """So many of the missing ordinals are at least ``count``, or all, and do not end inside a part."""
    count = min(count, len(missing))
    if count and pods.partitions:
        size = pods.partitions[0].size
        while count < len(missing) and missing[count] // size == missing[count - 1] // size:
            count += 1
    return count


def admit(workload: Workload, lacks: Need, trial: Trial) -> Admit | Reason:
    """Seats for everything that is missing, else for the least that makes a gang, else the reason.

    A workload whose gang is complete takes what it can get. Nothing stays taken in the trial unless seats
    come back.
    """
    seats = _together(workload, lacks, lacks.missing, trial)
    if isinstance(seats, Reason):
        if lacks.complete:
            seats = _one_by_one(workload, lacks, trial) or seats
        elif lacks.least and lacks.least != lacks.missing:
            seats = _together(workload, lacks, lacks.least, trial)
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
        elastic=bool(lacks.beside),
    )


def asked(workload: Workload, ordinals: Mapping[str, Sequence[int]]) -> Mapping[Account, int]:
    """What these ordinals ask for, over all flavors."""
    if len(workload.pod_sets) == 1:
        (pods,) = workload.pod_sets
        return posted(pods.takes, NO_FLAVOR, len(ordinals.get(pods.name, ())))
    return accounts({NO_FLAVOR: takes_of(workload, ordinals)})


def takes_of(workload: Workload, ordinals: Mapping[str, Sequence[int]]) -> Resources:
    """What these ordinals take together."""
    return total(pods.takes * len(ordinals.get(pods.name, ())) for pods in workload.pod_sets)


def _together(
    workload: Workload, lacks: Need, ordinals: Mapping[str, tuple[int, ...]], trial: Trial
) -> list[Seat] | Reason:
    """All of them or none."""
    if not ordinals:
        return reasons.nothing_missing()
    hit = quota_hit(trial, workload.queue, asked(workload, ordinals))
    if hit is not None:
        return reasons.queue_limit(hit)
    groups = _groups(workload, lacks, ordinals)
    around = next((pods for pods in workload.pod_sets if pods.within is not None), None)
    if around is None:
        return _all(workload, groups, trial, None)
    return _within(workload, lacks, groups, trial, around)


def _all(
    workload: Workload, groups: Sequence[Sequence[Want]], trial: Trial, inside: Mask | None
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


def _enough_for_all(groups: Sequence[Sequence[Want]], trial: Trial, inside: Mask | None) -> bool:
    """Whether as much is free as all ask together, wherever it is."""
    asked = sum(trial.request(want.pods.takes) * len(want.ordinals) for wants in groups for want in wants)
    free = np.maximum(trial.free, 0) * (trial.layout.usable if inside is None else inside)
    return bool((free.sum(axis=1) >= asked).all())


def _one_after_another(
    workload: Workload, groups: Sequence[Sequence[Want]], trial: Trial, inside: Mask | None
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
    workload: Workload, lacks: Need, groups: Sequence[Sequence[Want]], trial: Trial, around: PodSet
) -> list[Seat] | Reason:
    """All groups in one domain of the level that holds for the whole workload, or as close to it as possible."""
    key = around.within
    assert key is not None
    unknown = unknown_level(trial.layout, [key])
    if unknown is not None:
        return unknown
    beside = [node for nodes in lacks.beside.values() for node in nodes]
    if around.within_required and (reason := scattered_over(trial.layout, key, beside)) is not None:
        return reason
    every = Where(trial, workload.queue, trial.layout.usable)
    wants = [want for group in groups for want in group]
    answer: Reason | None = None
    for mask in domains(every, wants, key, around.within_required, beside):
        found = _all(workload, groups, trial, mask)
        if not isinstance(found, Reason):
            return found
        answer = found
    if answer is not None and (not around.within_required or answer.code == reasons.Code.QUEUE_LIMIT):
        return answer
    found_level = trial.layout.chain(key)
    assert found_level is not None
    return reasons.together_no_fit(
        level=key,
        sets={want.pods.name: len(want.ordinals) for want in wants},
        domains=len(found_level[0][found_level[1]].domains),
    )


def _groups(workload: Workload, lacks: Need, ordinals: Mapping[str, tuple[int, ...]]) -> list[list[Want]]:
    """Pod sets that are placed together, each with what it lacks."""
    groups: dict[tuple[bool, str], list[Want]] = {}
    for pods in workload.pod_sets:
        if pods.name in ordinals:
            want = Want(
                pods, ordinals[pods.name], lacks.held.get(pods.name, {}), _companions(workload, lacks, pods)
            )
            groups.setdefault(_group_of(pods), []).append(want)
    return list(groups.values())


def _group_of(pods: PodSet) -> tuple[bool, str]:
    """What names the pod sets that go together with this one, and it."""
    return (True, pods.together) if pods.together is not None else (False, pods.name)


def _companions(workload: Workload, lacks: Need, pods: PodSet) -> tuple[NodeName, ...]:
    """Nodes of seated members of the other pod sets that go together with this one."""
    if pods.together is None:
        return ()
    return tuple(
        node
        for each in workload.pod_sets
        if each.together == pods.together and each is not pods
        for node in lacks.beside.get(each.name, ())
    )


def _one_by_one(workload: Workload, lacks: Need, trial: Trial, most: int | None = None) -> list[Seat]:
    """As many further members as get a seat, in order, each on its own; of a part all or none.

    ``most``: so many are enough.
    """
    seats: list[Seat] = []
    held = {name: dict(nodes) for name, nodes in lacks.held.items()}
    for pods in workload.pod_sets:
        for ordinals in _units(pods, lacks.missing.get(pods.name, ())):
            if most is not None and len(seats) >= most:
                break
            now = replace(
                lacks, held=held, beside={name: tuple(nodes.values()) for name, nodes in held.items()}
            )
            answer = _together(workload, now, {pods.name: ordinals}, trial)
            if isinstance(answer, Reason):
                if not pods.partitions:
                    break
                continue
            seats += answer
            held.setdefault(pods.name, {}).update({each.ordinal: each.node for each in answer})
    return sorted(seats, key=lambda each: (each.pod_set, each.ordinal))


def leasts(workload: Workload, lacks: Need) -> list[Mapping[str, tuple[int, ...]]]:
    """Ordinals that make the gang complete, in several ways: ``least`` first, then more of each other pod set.

    Only what is due by the sets' own minimums is in all of them. Empty: the gang is complete.
    """
    found = [lacks.least] if lacks.least else []
    count = sum(len(ordinals) for ordinals in lacks.least.values())
    if count == sum(lacks.due.values()) or len(lacks.missing) < 2 or lacks.least == lacks.missing:
        return found
    groups: dict[tuple[bool, str], list[PodSet]] = {}
    for pods in workload.pod_sets:
        groups.setdefault(_group_of(pods), []).append(pods)
    for first in groups.values():
        # Sets that go together are in the order in which they are written: no workers without their leader.
        sets = [*first, *(pods for pods in workload.pod_sets if pods not in first)]
        taken = dict(lacks.due)
        for pods in sets:
            lacking, missing, due = (
                count - sum(taken.values()),
                lacks.missing.get(pods.name, ()),
                taken[pods.name],
            )
            taken[pods.name] = _whole_parts(pods, missing, due + max(0, lacking))
        one = {
            pods.name: lacks.missing[pods.name][: taken[pods.name]]
            for pods in workload.pod_sets
            if taken[pods.name]
        }
        if one not in found:
            found.append(one)
    return found


def ways(workload: Workload, lacks: Need) -> list[Need]:
    """What is lacking, once for each choice of members that would make the gang complete."""
    others = leasts(workload, lacks)[1:]
    return [lacks, *(replace(lacks, least=least) for least in others)]


def other_members(workload: Workload, lacks: Need, trial: Trial) -> list[Seat]:
    """Seats for a gang whose minimum is met by other members than the first; [] = there are none."""
    others = leasts(workload, lacks)[1:]
    for ordinals in others:
        seats = _together(workload, lacks, ordinals, trial)
        if not isinstance(seats, Reason):
            return seats
    alone = all(pods.together is None for pods in workload.pod_sets)
    return _as_many_as_needed(workload, lacks, trial) if others and alone else []


def _as_many_as_needed(workload: Workload, lacks: Need, trial: Trial) -> list[Seat]:
    """Those that are due, then whoever else gets a seat, until there are enough; else nobody."""
    mark = trial.mark()
    due = {name: lacks.missing[name][:count] for name, count in lacks.due.items() if count}
    seats = _together(workload, lacks, due, trial) if due else []
    if isinstance(seats, Reason):
        return []
    held = {name: dict(nodes) for name, nodes in lacks.held.items()}
    for each in seats:
        held.setdefault(each.pod_set, {})[each.ordinal] = each.node
    rest = {name: ordinals[lacks.due[name] :] for name, ordinals in lacks.missing.items()}
    count = sum(len(ordinals) for ordinals in lacks.least.values()) - len(seats)
    more = _one_by_one(workload, replace(lacks, missing=rest, held=held), trial, count)
    if len(more) < count:
        trial.undo(mark)
        return []
    found = [*seats, *more]
    for pods in workload.pod_sets if not lacks.beside else ():
        if not pods.partitions:
            mine = [each for each in found if each.pod_set == pods.name]
            found = [each for each in found if each.pod_set != pods.name]
            found += in_order(trial.layout, pods, mine)
    return sorted(found, key=lambda each: (each.pod_set, each.ordinal))


def _units(pods: PodSet, missing: Sequence[int]) -> Iterator[tuple[int, ...]]:
    start = 0
    while start < len(missing):
        end = _whole_parts(pods, missing, start + 1)
        yield tuple(missing[start:end])
        start = end


def _hardest_first(groups: Sequence[Sequence[Want]], trial: Trial) -> list[Sequence[Want]]:
    """Required topology first, then preferred, then those with the fewest places, then by name."""

    def hardness(wants: Sequence[Want]) -> tuple[bool, bool, int, str]:
        sets = [want.pods for want in wants]
        return (
            all(pods.required_topology is None for pods in sets),
            all(pods.preferred_topology is None for pods in sets),
            min(int(trial.room(pods.takes, trial.layout.allowed(pods.nodes)).sum()) for pods in sets),
            sets[0].name,
        )

    return sorted(groups, key=hardness)


def taken_back(
    snapshot: Snapshot, refused: Iterable[tuple[Workload, Need]], trial: Trial
) -> tuple[Evict, ...]:
    """The first refused gang that lost members and can start again whole, taken back; () = there is none.

    Pods that sit bind those that are missing to their domain and flavor, where there may be no room. The gang is
    taken back only if all of it, its own seats free, fits now: so it starts again at once. One in a turn, since
    two may count on the same place. The trial is as before afterwards.
    """
    for workload, lacks in refused:
        if lacks.least and lacks.beside:
            own = sorted(
                (each for each in snapshot.admissions.values() if each.workload == workload.key),
                key=lambda each: each.id,
            )
            if _fits_anew(workload, own, trial):
                message = (
                    "it lost members, and there is no room for others where it runs; it starts again whole"
                )
                code = reasons.Code.TAKEN_BACK
                return tuple(Evict(admission=each.id, code=code, message=message) for each in own)
    return ()


def _fits_anew(workload: Workload, own: Sequence[Admission], trial: Trial) -> bool:
    """Whether the whole gang has a place once its seats are free."""
    if not all(each.started and each.state is AdmissionState.OPEN for each in own):
        return False  # before it has fully started a gang goes back anyway
    if any(each.generation != workload.generation for each in own):
        return False  # it did not lose members, it asks for more
    books = [accounts(seats_by_flavor(each.holding())) for each in own]
    for admission, amounts in zip(own, books, strict=True):
        seats = admission.holding()
        trial.give_back(admission.queue, amounts, seats, ports_of(workload, seats))
    mark = trial.mark()
    whole = need(workload, ())
    found = _together(workload, whole, whole.missing, trial)
    if isinstance(found, Reason):
        found = _together(workload, whole, whole.least, trial)
    trial.undo(mark)
    for admission, amounts in zip(own, books, strict=True):
        held = admission.holding()
        trial.hold_again(admission.queue, amounts, held, ports_of(workload, held))
    return not isinstance(found, Reason)

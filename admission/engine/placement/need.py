"""Which members of a gang lack a seat, which of them complete it, and what their pods take."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from queues.admissions import Seat
from queues.quota.accounts import Account, flavor_charges, pod_charges
from queues.resources import CPU, MEMORY, PODS, Resources, in_bytes, is_device, total
from queues.workload import NO_FLAVOR, NodeName, PodSet, Workload

#: Pod sets of a gang for which orders and choices of members are tried one after another; with more, few of them:
#: each costs as much as the gang has sets.
FEW_SETS: Final = 8

#: Microseconds for one attempt at one pod set, for each of its pods, and for a workload of many sets at the least.
_PER_SET: Final = 300
_PER_POD: Final = 14
_MANY_SETS: Final = 250_000
#: For a workload whose pods have rules about other pods, at the least: several ways are tried.
_WITH_RULES: Final = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class MissingMembers:
    """What a workload lacks, by pod set."""

    #: Ordinals without a seat.
    missing: Mapping[str, tuple[int, ...]]
    #: Of these the ordinals that together complete the gang. Empty: it is complete.
    minimum: Mapping[str, tuple[int, ...]]
    #: Pods that are missing for the minimum even if every missing ordinal gets a seat.
    shortfall: int
    #: Nodes of the seats that the workload holds, by ordinal.
    seated: Mapping[str, Mapping[int, NodeName]] = field(default_factory=dict)
    #: How many of ``minimum`` the pod sets' own minimums require; the rest may be members of other sets as well.
    set_minimums: Mapping[str, int] = field(default_factory=dict)
    #: Whether more than one pod has to start at a time.
    of_gang: bool = field(init=False)

    def __post_init__(self) -> None:
        # Asked of each class in each turn.
        object.__setattr__(self, "of_gang", sum(len(each) for each in self.minimum.values()) > 1)

    @property
    def complete(self) -> bool:
        """Whether the gang has its minimum, so that any single further member is welcome."""
        return not self.minimum and not self.shortfall


def missing_members(workload: Workload, seats: Sequence[Seat]) -> MissingMembers:
    """What is missing beyond the seats that the workload holds. Pods that are done count as present."""
    seated: dict[str, dict[int, NodeName]] = {}
    for each in seats:
        seated.setdefault(each.pod_set, {})[each.ordinal] = each.node
    missing: dict[str, tuple[int, ...]] = {}
    present: dict[str, int] = {}
    for pods in workload.pod_sets:
        mine = seated.get(pods.name, {})
        missing[pods.name] = tuple(ordinal for ordinal in pods.wanted() if ordinal not in mine)
        present[pods.name] = pods.count - len(missing[pods.name])
    minimum: dict[str, int] = {}
    shortfall = 0
    for pods in workload.pod_sets:
        required = max(0, _minimum(pods) - present[pods.name])
        minimum[pods.name] = _whole_parts(pods, missing[pods.name], required)
        shortfall += max(0, required - minimum[pods.name])
    set_minimums = dict(minimum)
    # A workload without any minimum still starts with one pod, not with none.
    rest = max(workload.minimum, 1) - sum(present.values()) - sum(minimum.values())
    for pods in workload.pod_sets:
        before = minimum[pods.name]
        minimum[pods.name] = _whole_parts(pods, missing[pods.name], before + max(0, rest))
        rest -= minimum[pods.name] - before
    return MissingMembers(
        missing={name: ordinals for name, ordinals in missing.items() if ordinals},
        minimum={name: missing[name][:count] for name, count in minimum.items() if count},
        shortfall=max(shortfall, rest, 0),
        seated=seated,
        set_minimums=set_minimums,
    )


def minimum_choices(workload: Workload, need: MissingMembers) -> list[Mapping[str, tuple[int, ...]]]:
    """Choices of ordinals that complete the gang: ``minimum`` first, then with more of each other pod set.

    What the sets' own minimums require is in all of them. Empty: the gang is complete. At most two of many sets.
    """
    choices = [need.minimum] if need.minimum else []
    count = sum(len(ordinals) for ordinals in need.minimum.values())
    if count == sum(need.set_minimums.values()) or len(need.missing) < 2 or need.minimum == need.missing:
        return choices
    groups: dict[tuple[bool, str], list[PodSet]] = {}
    for pods in workload.pod_sets:
        groups.setdefault(group_of(pods), []).append(pods)
    groups_of = {pods.name: group for group, sets in groups.items() for pods in sets}
    most = len(groups) + 1 if len(groups) <= FEW_SETS else 2
    in_parts = any(pods.partitions for pods in workload.pod_sets)
    for group, first in groups.items():
        if not in_parts and all(_is_whole(pods, need) for pods in first):
            continue  # first or not, it gets all that it lacks, and the others what they get in ``minimum``
        # Sets that go together are in the order in which they are written: no workers without their leader.
        sets = [*first, *(pods for pods in workload.pod_sets if groups_of[pods.name] != group)]
        taken = dict(need.set_minimums)
        rest = count - sum(taken.values())
        for pods in sets:
            missing, before = need.missing.get(pods.name, ()), taken[pods.name]
            taken[pods.name] = _whole_parts(pods, missing, before + max(0, rest))
            rest -= taken[pods.name] - before
        choice = {
            pods.name: need.missing[pods.name][: taken[pods.name]]
            for pods in workload.pod_sets
            if taken[pods.name]
        }
        if choice not in choices:
            choices.append(choice)
            if len(choices) == most:
                break
    return choices


def _is_whole(pods: PodSet, need: MissingMembers) -> bool:
    """Whether all that a pod set lacks is among the members that complete the gang."""
    return len(need.minimum.get(pods.name, ())) == len(need.missing.get(pods.name, ()))


def need_choices(workload: Workload, need: MissingMembers) -> list[MissingMembers]:
    """What is lacking, once for each choice of members that would complete the gang."""
    return [need, *(replace(need, minimum=choice) for choice in minimum_choices(workload, need)[1:])]


def attempt_cost(workload: Workload, need: MissingMembers) -> int:
    """Microseconds, roughly, that it may take to find no place for a workload where room is scattered on 1,000 nodes.

    Pod sets are tried in several orders, once for all that is missing and once for each choice of a smaller gang. Of
    many sets fewer orders and choices are tried; these cost no less than what was measured for sixty sets.
    """
    sets = len(need.missing)
    pods = sum(len(ordinals) for ordinals in need.missing.values())
    if any(each.has_rules for each in workload.pod_sets):
        return max(_WITH_RULES, 4 * (_PER_SET * sets + _PER_POD * pods))
    if sets > FEW_SETS:
        return max(_MANY_SETS, 4 * (_PER_SET * sets + _PER_POD * pods))
    if sets <= 1:
        return _PER_SET
    attempts = 1 if need.minimum == need.missing else 2 + sets
    return min(2 * sets, FEW_SETS) * attempts * (_PER_SET * sets + _PER_POD * pods)


def parts(pods: PodSet, missing: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """These ordinals one by one, or part by part where the set is in parts."""
    start = 0
    while start < len(missing):
        end = _whole_parts(pods, missing, start + 1)
        yield tuple(missing[start:end])
        start = end


def group_of(pods: PodSet) -> tuple[bool, str]:
    """What names the pod sets that are placed together with this one."""
    return (True, pods.together) if pods.together is not None else (False, pods.name)


def _minimum(pods: PodSet) -> int:
    parts = (part.minimum * part.size for part in pods.partitions)
    return max(pods.minimum, *parts) if pods.partitions else pods.minimum


def _whole_parts(pods: PodSet, missing: Sequence[int], count: int) -> int:
    """The number of missing ordinals, from the first, that is at least ``count``, or all, and ends no part inside."""
    count = min(count, len(missing))
    if count and pods.partitions:
        size = pods.partitions[0].size
        while count < len(missing) and missing[count] // size == missing[count - 1] // size:
            count += 1
    return count


def member_charges(workload: Workload, ordinals: Mapping[str, Sequence[int]]) -> Mapping[Account, int]:
    """What these ordinals ask for, over all flavors."""
    if len(workload.pod_sets) == 1:
        (pods,) = workload.pod_sets
        return pod_charges(pods.takes, NO_FLAVOR, len(ordinals.get(pods.name, ())))
    return flavor_charges({NO_FLAVOR: takes_of(workload, ordinals)})


def takes_of(workload: Workload, ordinals: Mapping[str, Sequence[int]]) -> Resources:
    """What these ordinals take together."""
    return total(pods.takes * len(ordinals[pods.name]) for pods in workload.pod_sets if pods.name in ordinals)


def size_of(takes: Iterable[tuple[Resources, int]]) -> int:
    """The size of so many pods of these shapes together, as ``size_of_pod``; at least 1."""
    return max(1, sum(size_of_pod(each) * pods for each, pods in takes))


@lru_cache(maxsize=4096)
def size_of_pod(takes: Resources) -> int:
    """The size of one pod: thousandths of a CPU, and 16 times the units of its devices."""
    return sum(
        units if name == CPU else 16 * units
        for name, units in takes.items()
        if name == CPU or is_extended_resource(name)
    )


@lru_cache(maxsize=4096)
def is_extended_resource(resource: str) -> bool:
    """Whether nodes offer it by a device plugin. Single devices are part of their resource."""
    return resource not in (CPU, MEMORY, PODS) and not in_bytes(resource) and not is_device(resource)

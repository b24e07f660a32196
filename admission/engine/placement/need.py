"""Which members of a gang lack a seat, and what their pods cost in devices and quota."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from queues.admissions import Seat
from queues.quota.accounts import Account, flavor_charges, pod_charges
from queues.resources import CPU, MEMORY, PODS, Resources, in_bytes, total
from queues.workload import NO_FLAVOR, NodeName, PodSet, Workload


@dataclass(frozen=True, slots=True, eq=False)
class MissingMembers:
    """What a workload lacks."""

    #: Ordinals without a seat, by pod set.
    missing: Mapping[str, tuple[int, ...]]
    #: Those that make the gang complete together; {} = it is complete.
    minimum: Mapping[str, tuple[int, ...]]
    #: So many pods short of the minimum even if every missing ordinal gets a seat.
    shortfall: int
    #: Nodes of the seats it has, by pod set.
    seated_nodes: Mapping[str, tuple[NodeName, ...]]
    #: The same by ordinal.
    seated: Mapping[str, Mapping[int, NodeName]] = field(default_factory=dict)
    #: Of ``least`` so many are due by the pod sets' own minimums; the rest may be members of other sets as well.
    set_minimums: Mapping[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the gang has its minimum, so that any single further member is welcome."""
        return not self.minimum and not self.shortfall


def missing_members(workload: Workload, seats: Sequence[Seat]) -> MissingMembers:
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
    return MissingMembers(
        missing={name: ordinals for name, ordinals in missing.items() if ordinals},
        minimum={name: missing[name][:count] for name, count in least.items() if count},
        shortfall=max(short, lacking, 0),
        seated_nodes={name: tuple(nodes.values()) for name, nodes in held.items()},
        seated=held,
        set_minimums=due,
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


def minimum_choices(workload: Workload, lacks: MissingMembers) -> list[Mapping[str, tuple[int, ...]]]:
    """Ordinals that make the gang complete, in several ways: ``least`` first, then more of each other pod set.

    Only what is due by the sets' own minimums is in all of them. Empty: the gang is complete.
    """
    found = [lacks.minimum] if lacks.minimum else []
    count = sum(len(ordinals) for ordinals in lacks.minimum.values())
    if count == sum(lacks.set_minimums.values()) or len(lacks.missing) < 2 or lacks.minimum == lacks.missing:
        return found
    groups: dict[tuple[bool, str], list[PodSet]] = {}
    for pods in workload.pod_sets:
        groups.setdefault(group_of(pods), []).append(pods)
    for first in groups.values():
        # Sets that go together are in the order in which they are written: no workers without their leader.
        sets = [*first, *(pods for pods in workload.pod_sets if pods not in first)]
        taken = dict(lacks.set_minimums)
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


def need_choices(workload: Workload, lacks: MissingMembers) -> list[MissingMembers]:
    """What is lacking, once for each choice of members that would make the gang complete."""
    others = minimum_choices(workload, lacks)[1:]
    return [lacks, *(replace(lacks, minimum=least) for least in others)]


def member_charges(workload: Workload, ordinals: Mapping[str, Sequence[int]]) -> Mapping[Account, int]:
    """What these ordinals ask for, over all flavors."""
    if len(workload.pod_sets) == 1:
        (pods,) = workload.pod_sets
        return pod_charges(pods.takes, NO_FLAVOR, len(ordinals.get(pods.name, ())))
    return flavor_charges({NO_FLAVOR: takes_of(workload, ordinals)})


def takes_of(workload: Workload, ordinals: Mapping[str, Sequence[int]]) -> Resources:
    """What these ordinals take together."""
    return total(pods.takes * len(ordinals.get(pods.name, ())) for pods in workload.pod_sets)


def group_of(pods: PodSet) -> tuple[bool, str]:
    """What names the pod sets that go together with this one, and it."""
    return (True, pods.together) if pods.together is not None else (False, pods.name)


def parts(pods: PodSet, missing: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """These ordinals one by one, or part by part where the set is in parts."""
    start = 0
    while start < len(missing):
        end = _whole_parts(pods, missing, start + 1)
        yield tuple(missing[start:end])
        start = end


def size_of(takes: Iterable[tuple[Resources, int]]) -> int:
    """How much so many pods of these shapes are together, devices counted 16 times as much as CPUs; at least 1."""
    return max(1, sum(size_of_pod(each) * pods for each, pods in takes))


def size_of_pod(takes: Resources) -> int:
    """The size of one pod: its CPUs in thousandths, and 16 times its devices."""
    return sum(
        units if name == CPU else 16 * units
        for name, units in takes.items()
        if name == CPU or is_extended_resource(name)
    )


def is_extended_resource(resource: str) -> bool:
    """Whether it is an extended resource."""
    return resource not in (CPU, MEMORY, PODS) and not in_bytes(resource)

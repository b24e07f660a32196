"""Subgroups of a PodGroup (Volcano's ``subGroupPolicy``): members that start together, in one domain. Pure.

Members with equal values of ``matchLabelKeys`` are one subgroup; where there are no such keys, so many members
(``subGroupSize``) in the order of their ordinals are. A subgroup joins whole; ``minSubGroups`` of them are part
of what has to start, complete ones first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from admission.facts.workloads import SubGroup, WorkloadFact
from queues.workload import Partition, PodSet


def in_subgroups(sets: Sequence[PodSet], fact: WorkloadFact) -> tuple[PodSet, ...]:
    """The pod sets of a group with what its subgroups, and the level for the whole, ask of them."""
    if fact.group.within is not None:
        required, level = fact.group.within
        sets = [replace(pods, within=level, within_required=required) for pods in sets]
    if not fact.group.subgroups:
        return tuple(sets)
    groups: dict[str, list[PodSet]] = {}
    for pods in sets:
        groups.setdefault(pods.name.partition("+")[2], []).append(pods)
    minimums = _minimums(groups, fact.group.subgroups)
    found: list[PodSet] = []
    for name, members in groups.items():
        policy = _policy(name, fact.group.subgroups)
        found += members if policy is None else _as_group(name, members, policy, minimums.get(name, 0))
    order = {pods.name: index for index, pods in enumerate(sets)}
    return tuple(sorted(found, key=lambda pods: order[pods.name]))


def _policy(name: str, policies: Sequence[SubGroup]) -> SubGroup | None:
    """The entry that a subgroup is of."""
    if not name:
        return None
    return next((each for each in policies if name == each.name or name.startswith(f"{each.name}.")), None)


def _minimums(groups: Mapping[str, Sequence[PodSet]], policies: Sequence[SubGroup]) -> dict[str, int]:
    """How many pods of each subgroup have to start. Those that do not exist are asked of the last one."""
    minimums: dict[str, int] = {}
    for policy in policies:
        mine = {name: _size(sets) for name, sets in groups.items() if _policy(name, policies) is policy}
        first = sorted(mine, key=lambda name: (mine[name] < policy.size, name))
        if not policy.minimum or not first:
            continue
        if not policy.keys:
            minimums[first[0]] = policy.minimum * policy.size
            continue
        for name in first[: policy.minimum]:
            minimums[name] = max(policy.size, mine[name])
        minimums[first[-1]] = minimums.get(first[-1], 0) + policy.size * max(0, policy.minimum - len(first))
    return minimums


def _as_group(name: str, sets: Sequence[PodSet], policy: SubGroup, minimum: int) -> list[PodSet]:
    required, level = policy.level or (False, "")
    if not policy.keys and policy.size > 1:
        part = Partition(size=policy.size, level=level, required=required)
        return _sharing(minimum, [replace(pods, partitions=(part, *pods.partitions)) for pods in sets])
    if len(sets) == 1:
        # Alone it is one part, so that it joins whole.
        part = Partition(size=max(policy.size, sets[0].count), level=level, required=required)
        return _sharing(minimum, [replace(sets[0], partitions=(part, *sets[0].partitions))])
    return _sharing(
        minimum,
        [
            replace(
                pods,
                together=name,
                required_topology=pods.required_topology or (level if level and required else None),
                preferred_topology=pods.preferred_topology or (level if level and not required else None),
            )
            for pods in sets
        ],
    )


def _sharing(minimum: int, sets: Sequence[PodSet]) -> list[PodSet]:
    """The sets share the minimum of their subgroup; what is lacking is asked of the last."""
    shared = []
    for pods in sets:
        share = minimum if pods is sets[-1] else min(minimum, len(pods.wanted()))
        minimum -= share
        shared.append(replace(pods, minimum=max(pods.minimum, share)))
    return shared


def _size(sets: Sequence[PodSet]) -> int:
    return sum(len(pods.wanted()) for pods in sets)

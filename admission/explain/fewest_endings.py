"""The fewest admissions that would have to end to let a pending workload in.

The engine decides without the admissions that hold most of what the workload asks, and then without fewer of them:
each that is left is needed. Then smaller sets are tried: fewer admissions first, then smaller ones.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations, islice

from admission.engine.placement.need import size_of_pod
from admission.engine.snapshot import Snapshot
from admission.explain.what_if import WhatIf
from queues.admissions import Admission, AdmissionState
from queues.plan import Admit
from queues.resources import NOTHING, Resources
from queues.workload import AdmissionId, NodeName, WorkloadKey

#: Admissions that may end, and those among them that are found to be needed or not.
_LIKELY = 512
_NEEDED = 48
#: Admissions that are tried alone, and sets that are tried.
_ALONE = 24
_SETS = 48

#: Seconds: counts as the time left of a workload that declared no run time.
FOREVER = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Endings:
    """Admissions that would let a workload in by ending."""

    admissions: tuple[AdmissionId, ...]
    #: Domain of the required level that the workload then gets, as "rack r1"; "": no level is required.
    domain: str


def fewest_endings(what_if: WhatIf) -> Endings | None:
    """The fewest admissions that a bounded number of tries finds. None if no ends let the workload in."""
    gangs = _Gangs.of(what_if.snapshot)
    likely = sorted(
        (each.id for each in _open_admissions(what_if.snapshot)),
        key=lambda each: (-_relevance(what_if, each), time_left(what_if.snapshot, each), each),
    )
    found = _needed(what_if, likely[:_LIKELY], gangs)
    if found is None:
        return None
    ending, admit = found
    for candidate in map(gangs.ended_with, _smaller_sets(likely, len(ending))):
        if len(candidate) < len(ending) and (smaller := _admit_without(what_if, candidate)) is not None:
            ending, admit = candidate, smaller
            break
    for candidate in map(gangs.ended_with, _sets_of_smaller_ones(what_if, ending)):
        if len(candidate) <= len(ending) and (smaller := _admit_without(what_if, candidate)) is not None:
            ending, admit = candidate, smaller
            break
    return Endings(admissions=tuple(sorted(ending)), domain=_domain(what_if, admit))


def time_left(snapshot: Snapshot, number: AdmissionId) -> int:
    """Seconds until its workload has run as long as it declared. ``FOREVER``: it declared no run time."""
    admission = snapshot.admissions[number]
    holder = snapshot.holders.get(admission.workload)
    if holder is None or holder.run_time is None:
        return FOREVER
    return max(0, admission.opened_at + holder.run_time - snapshot.now)


@dataclass(frozen=True, slots=True)
class _Gangs:
    """Gangs with several admissions: the first one is the minimum, without which the others do not go on."""

    #: All admissions of a gang, by the first.
    all_of: Mapping[AdmissionId, frozenset[AdmissionId]]

    @classmethod
    def of(cls, snapshot: Snapshot) -> "_Gangs":
        by_workload: dict[WorkloadKey, list[AdmissionId]] = {}
        for each in _open_admissions(snapshot):
            by_workload.setdefault(each.workload, []).append(each.id)
        several = (numbers for numbers in by_workload.values() if len(numbers) > 1)
        return cls({numbers[0]: frozenset(numbers) for numbers in several})

    def ended_with(self, ending: Iterable[AdmissionId]) -> frozenset[AdmissionId]:
        """These admissions, and those that end with them."""
        ending = frozenset(ending)
        return ending.union(*(self.all_of.get(each, ()) for each in ending))


def _needed(
    what_if: WhatIf, likely: list[AdmissionId], gangs: _Gangs
) -> tuple[frozenset[AdmissionId], Admit] | None:
    """Of these admissions the first that are enough, without those that are not needed. None if all are too few.

    The last of the fewest first ones that are enough is needed; with it those before it are asked again.
    """
    admit = _admit_without(what_if, gangs.ended_with(likely))
    if admit is None:
        return None
    needed, rest = list[AdmissionId](), likely
    for _ in range(_NEEDED):
        # The last one is left out first: of a gang on many nodes nearly all are needed.
        too_few, enough, middle = -1, len(rest), len(rest) - 1
        while enough - too_few > 1:
            fewer = _admit_without(what_if, gangs.ended_with((*needed, *rest[:middle])))
            if fewer is None:
                too_few = middle
            else:
                admit, enough = fewer, middle
            middle = (too_few + enough) // 2
        if not enough:
            rest = []
            break
        needed, rest = [*needed, rest[enough - 1]], rest[: enough - 1]
    return gangs.ended_with((*needed, *rest)), admit


def _smaller_sets(likely: list[AdmissionId], size: int) -> Iterator[Collection[AdmissionId]]:
    """Sets of fewer than ``size`` admissions: the smallest sets first, then admissions that hold much."""
    sets = (
        combinations(likely[: _ALONE if count == 1 else 2 * _ALONE // (count + 1)], count)
        for count in range(1, size)
    )
    return islice(chain.from_iterable(sets), _SETS)


def _sets_of_smaller_ones(
    what_if: WhatIf, ending: frozenset[AdmissionId]
) -> Iterator[frozenset[AdmissionId]]:
    """As many admissions, one of them replaced by a smaller one: the largest first, by the smallest."""
    sizes = {each.id: _size(each) for each in _open_admissions(what_if.snapshot)}
    others = sorted(sizes.keys() - ending, key=lambda each: (sizes[each], each))
    swaps = (
        (ending - {large}) | {small}
        for large in sorted(ending, key=lambda each: (-sizes[each], each))
        for small in others
        if sizes[small] < sizes[large]
    )
    return islice(swaps, _ALONE)


def _size(admission: Admission) -> int:
    """What ends with an admission, in the measure of ``size_of_pod``."""
    return sum(size_of_pod(seat.takes) for seat in admission.holding())


def _open_admissions(snapshot: Snapshot) -> Iterable[Admission]:
    return (each for _, each in sorted(snapshot.admissions.items()) if each.state is AdmissionState.OPEN)


def _relevance(what_if: WhatIf, number: AdmissionId) -> int:
    """Pods of the workload that fit into what the admission holds node by node, in thousandths."""
    on_nodes: dict[NodeName, Resources] = {}
    for seat in what_if.snapshot.admissions[number].holding():
        on_nodes[seat.node] = on_nodes.get(seat.node, NOTHING) + seat.takes
    return max(
        sum(_part(held, pods.takes) for held in on_nodes.values()) for pods in what_if.workload.pod_sets
    )


def _part(held: Resources, takes: Resources) -> int:
    """Thousandths of pods that fit into what is held, by the scarcest resource."""
    return min((1000 * held.get(name) // units for name, units in takes.items() if units), default=0)


def _admit_without(what_if: WhatIf, ended: Collection[AdmissionId]) -> Admit | None:
    after = what_if.without(ended)
    return what_if.outcome(admissions=after.admissions, nodes=after.nodes).admit


def _domain(what_if: WhatIf, admit: Admit) -> str:
    layout = what_if.snapshot.nodes.layout
    for pods in what_if.workload.pod_sets:
        chain_of = layout.chain(pods.required_topology) if pods.required_topology else None
        node: NodeName | None = next((seat.node for seat in admit.seats if seat.pod_set == pods.name), None)
        if chain_of is not None and node is not None:
            level = chain_of[0][chain_of[1]]
            domain = int(level.of[layout.position[node]])
            return f"{level.key.rpartition('/')[2]} {level.domains[domain]}"
    return ""

"""Whose end lets a workload in: the fewest admissions, each answer tried before it is told."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations

from admission.endings import fewest_endings, remaining
from admission.engine.plan import Admit, Reason
from admission.trying import Outcome, Trying
from queues.admissions import AdmissionState
from queues.workload import AdmissionId, NodeName

#: Rough answers that are put together until the workload goes in: a limit first, say, and room then.
_ROUNDS = 6
#: So many who run are tried alone, and so many sets, where the rough answer names more.
_ALONE = 24
_SETS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Endings:
    """Admissions, and the domain of a required level that the workload then gets; "" = no level is required."""

    admissions: tuple[AdmissionId, ...]
    where: str


def fewest(trying: Trying, refused: Reason | None) -> Endings | None:
    """The fewest, as far as a bounded number of tries tells; None: no end would do."""
    found = _enough(trying, refused)
    if found is None:
        return None
    ends, admit = found
    for number in sorted(ends, key=lambda each: _lasting(trying, each), reverse=True)[:_SETS]:
        if len(ends) > 1 and (now := _goes_in(trying, ends - {number})) is not None:
            ends, admit = ends - {number}, now
    for fewer in _smaller(trying, len(ends)):
        if (now := _goes_in(trying, fewer)) is not None:
            ends, admit = frozenset(fewer), now
            break
    return Endings(admissions=tuple(sorted(ends)), where=_where(trying, admit))


def _enough(trying: Trying, refused: Reason | None) -> tuple[frozenset[AdmissionId], Admit] | None:
    """Rough answers one upon the other: when those are gone, who has to go still?"""
    ends: frozenset[AdmissionId] = frozenset()
    for _ in range(_ROUNDS):
        if refused is None:
            return None
        more = fewest_endings(trying.without(ends), trying.workload, trying.need(), trying.tree, refused)
        if not more:
            break
        ends |= more
        outcome = _outcome(trying, ends)
        if outcome.admit is not None:
            return ends, outcome.admit
        refused = outcome.reason
    every = frozenset(_running(trying))
    admit = _goes_in(trying, every) if ends < every and len(every) <= _ALONE else None
    return None if admit is None else (every, admit)


def _smaller(trying: Trying, size: int) -> Iterator[Collection[AdmissionId]]:
    """Sets of fewer than ``size``, the smallest first, those that hold much before others."""
    likely = sorted(
        _running(trying), key=lambda each: (-_matters(trying, each), _lasting(trying, each), each)
    )
    tries = 0
    for fewer in range(1, size):
        for some in combinations(likely[: _ALONE if fewer == 1 else 2 * _ALONE // (fewer + 1)], fewer):
            tries += 1
            if tries > _SETS:
                return
            yield some


def _running(trying: Trying) -> list[AdmissionId]:
    admissions = trying.world.admissions
    return [each for each in sorted(admissions) if admissions[each].state is AdmissionState.OPEN]


def _matters(trying: Trying, number: AdmissionId) -> int:
    """Pods of the workload that would fit into what it holds, in thousandths, by the scarcest resource."""
    held = trying.world.admissions[number].holds()
    sets = [pods.takes for pods in trying.workload.pod_sets]
    return max(
        (min((1000 * held.get(name) // units for name, units in takes.items() if units), default=0))
        for takes in sets
    )


def _lasting(trying: Trying, number: AdmissionId) -> int:
    left = remaining(trying.world, trying.world.admissions[number])
    return 1 << 40 if left is None else left


def _outcome(trying: Trying, ends: Collection[AdmissionId]) -> Outcome:
    then = trying.without(ends)
    return trying.outcome(admissions=then.admissions, nodes=then.nodes)


def _goes_in(trying: Trying, ends: Collection[AdmissionId]) -> Admit | None:
    return _outcome(trying, ends).admit


def _where(trying: Trying, admit: Admit) -> str:
    layout = trying.world.nodes.layout
    for pods in trying.workload.pod_sets:
        chain = layout.chain(pods.required_topology) if pods.required_topology else None
        node: NodeName | None = next((seat.node for seat in admit.seats if seat.pod_set == pods.name), None)
        if chain is not None and node is not None:
            level = chain[0][chain[1]]
            domain = int(level.of[layout.position[node]])
            return f"{level.key.rpartition('/')[2]} {level.domains[domain]}"
    return ""

"""Whose end lets a workload in: the fewest admissions, each answer tried before it is told.

Whose end would make room for a workload: few admissions, worked out roughly. ``fewest`` tries the answer.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.table import Amounts, Mask, NodeTable
from admission.engine.placement.need import MissingMembers
from admission.engine.snapshot import Snapshot
from admission.explain.what_if import WhatIf, WhatIfOutcome
from queues.admissions import Admission, AdmissionState
from queues.plan import Admit, Reason
from queues.quota.accounts import Account, charges
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, Workload

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


def fewest(trying: WhatIf, refused: Reason | None) -> Endings | None:
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


def _enough(trying: WhatIf, refused: Reason | None) -> tuple[frozenset[AdmissionId], Admit] | None:
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


def _smaller(trying: WhatIf, size: int) -> Iterator[Collection[AdmissionId]]:
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


def _running(trying: WhatIf) -> list[AdmissionId]:
    admissions = trying.world.admissions
    return [each for each in sorted(admissions) if admissions[each].state is AdmissionState.OPEN]


def _matters(trying: WhatIf, number: AdmissionId) -> int:
    """Pods of the workload that would fit into what it holds, in thousandths, by the scarcest resource."""
    held = trying.world.admissions[number].holds()
    sets = [pods.takes for pods in trying.workload.pod_sets]
    return max(
        (min((1000 * held.get(name) // units for name, units in takes.items() if units), default=0))
        for takes in sets
    )


def _lasting(trying: WhatIf, number: AdmissionId) -> int:
    left = remaining(trying.world, trying.world.admissions[number])
    return 1 << 40 if left is None else left


def _outcome(trying: WhatIf, ends: Collection[AdmissionId]) -> WhatIfOutcome:
    then = trying.without(ends)
    return trying.outcome(admissions=then.admissions, nodes=then.nodes)


def _goes_in(trying: WhatIf, ends: Collection[AdmissionId]) -> Admit | None:
    return _outcome(trying, ends).admit


def _where(trying: WhatIf, admit: Admit) -> str:
    layout = trying.world.nodes.layout
    for pods in trying.workload.pod_sets:
        chain = layout.chain(pods.required_topology) if pods.required_topology else None
        node: NodeName | None = next((seat.node for seat in admit.seats if seat.pod_set == pods.name), None)
        if chain is not None and node is not None:
            level = chain[0][chain[1]]
            domain = int(level.of[layout.position[node]])
            return f"{level.key.rpartition('/')[2]} {level.domains[domain]}"
    return ""


#: Seconds; of those who declared no run time.
_FOREVER = 1 << 40


def fewest_endings(
    world: Snapshot, workload: Workload, lacks: MissingMembers, tree: QueueTree, refused: Reason
) -> frozenset[AdmissionId]:
    """Admissions whose end might help against this refusal; none: no end would."""
    if refused.code == ReasonCode.QUEUE_LIMIT and refused.facts["queue"] != ROOT:
        return _below_limit(world, tree, refused.facts)
    if refused.code in (ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT, ReasonCode.QUEUE_LIMIT):
        return _room(world, workload, lacks)
    return frozenset()


def _below_limit(world: Snapshot, tree: QueueTree, facts: Mapping[str, object]) -> frozenset[AdmissionId]:
    """Out of the queue whose limit it is, enough to come down by what is too much."""
    queue, over = QueueName(str(facts["queue"])), facts["over"]
    account = Account(facts["flavor"], facts["resource"])  # type: ignore[arg-type]
    assert isinstance(over, int)
    held: list[tuple[int, AdmissionId]] = []
    for admission in _running_admissions(world):
        if queue in tree.paths.get(admission.queue, ()):
            units = charges(admission.holding()).get(account, 0)
            if units:
                held.append((units, admission.id))
    enough = sorted(each for each in held if each[0] >= over)
    if enough:
        return frozenset({enough[0][1]})
    chosen: set[AdmissionId] = set()
    for units, number in sorted(held, key=lambda each: (-each[0], each[1])):
        chosen.add(number)
        over -= units
        if over <= 0:
            return frozenset(chosen)
    return frozenset()


def _running_admissions(world: Snapshot) -> Iterable[Admission]:
    return (each for _, each in sorted(world.admissions.items()) if each.state is AdmissionState.OPEN)


def remaining(world: Snapshot, admission: Admission) -> int | None:
    """Seconds until it has run as long as it declared; None: it declared nothing."""
    holder = world.holders.get(admission.workload)
    if holder is None or holder.run_time is None:
        return None
    return max(0, admission.opened_at + holder.run_time - world.now)


def holding(table: NodeTable, takes: Resources, mask: Mask, *, empty: bool = False) -> Amounts:
    """(N,) how many such pods each node holds now, or if nothing was on it; 0 outside the mask."""
    room = table.allocatable if empty else table.allocatable - table.used
    pods = np.full(len(table), 1 << 31, np.int64)
    for name, units in takes.items():
        row = table.resources.index(name) if name in table.resources else None
        pods = np.minimum(pods, room[row] // units if row is not None else 0)
    return np.maximum(pods, 0) * mask


@dataclass(frozen=True, slots=True)
class _Offer:
    """What one node gives when some admissions end there."""

    node: int
    pods: int
    ends: frozenset[AdmissionId]


def _room(world: Snapshot, workload: Workload, lacks: MissingMembers) -> frozenset[AdmissionId]:
    """Where the fewest have to end for those who start together; without a required level all nodes are one place."""
    sitting = _sitting(world)
    chosen: frozenset[AdmissionId] = frozenset()
    for pods in workload.pod_sets:
        wanted = 1 if lacks.complete and pods.name in lacks.missing else len(lacks.minimum.get(pods.name, ()))
        more = _for_pods(world, pods, wanted, sitting, chosen)
        if more is None:
            return frozenset()
        chosen |= more
    return chosen


def _sitting(world: Snapshot) -> dict[NodeName, list[tuple[AdmissionId, Resources]]]:
    sitting: dict[NodeName, dict[AdmissionId, Resources]] = {}
    for admission in _running_admissions(world):
        for seat in admission.holding():
            here = sitting.setdefault(seat.node, {})
            here[admission.id] = here.get(admission.id, Resources()) + seat.takes
    return {node: list(here.items()) for node, here in sitting.items()}


def _for_pods(
    world: Snapshot,
    pods: PodSet,
    wanted: int,
    sitting: Mapping[NodeName, Sequence[tuple[AdmissionId, Resources]]],
    gone: frozenset[AdmissionId],
) -> frozenset[AdmissionId] | None:
    lasting = {
        number: _FOREVER if (left := remaining(world, each)) is None else left
        for number, each in world.admissions.items()
    }
    table, layout = world.nodes, world.nodes.layout
    mask = layout.allowed(pods.nodes)
    offers: list[list[_Offer]] = []
    for column in range(len(table)):
        offers.append([])
        if not mask[column]:
            continue
        room = table.allocatable[:, column] - table.used[:, column]
        amounts = dict(zip(table.resources, room.tolist(), strict=True))
        offers[column] = _offers(column, amounts, pods.takes, sitting.get(layout.names[column], ()), gone)
    found = layout.chain(pods.required_topology)
    if pods.required_topology is None or found is None:
        return _pick(np.arange(len(table)), offers, wanted, lasting)
    chain, at = found
    level = chain[at]
    best: tuple[tuple[int, int], frozenset[AdmissionId]] | None = None
    for domain in range(len(level.domains)):
        ends = _pick(level.members(domain), offers, wanted, lasting)
        if ends is None:
            continue
        rank = (len(ends), max((lasting[each] for each in ends), default=0))
        if best is None or rank < best[0]:
            best = (rank, ends)
    return None if best is None else best[1]


def _offers(
    column: int,
    free: dict[str, int],
    takes: Resources,
    sitting: Sequence[tuple[AdmissionId, Resources]],
    gone: frozenset[AdmissionId],
) -> list[_Offer]:
    """How many pods the node takes as more and more of those on it end, the largest first."""
    ends: set[AdmissionId] = set()
    for number, held in sitting:
        if number in gone:
            free = {name: units + held.get(name) for name, units in free.items()}
    made = [_Offer(column, _holds(free, takes), frozenset())]
    staying = [each for each in sitting if each[0] not in gone]
    staying.sort(
        key=lambda each: (-sum(min(each[1].get(name), units) for name, units in takes.items()), each[0])
    )
    for number, held in staying:
        free = {name: units + held.get(name) for name, units in free.items()}
        ends.add(number)
        holds = _holds(free, takes)
        if holds > made[-1].pods:
            made.append(_Offer(column, holds, frozenset(ends)))
    return made


def _holds(free: Mapping[str, int], takes: Resources) -> int:
    return max(0, min((free.get(name, 0) // units for name, units in takes.items()), default=1 << 31))


def _pick(
    columns: NDArray[np.intp],
    offers: Sequence[Sequence[_Offer]],
    wanted: int,
    lasting: Mapping[AdmissionId, int],
) -> frozenset[AdmissionId] | None:
    """Ends until so many pods have room: first what is free anyway, then the most pods for the fewest ends."""
    here = [offers[column] for column in columns.tolist() if offers[column]]
    room = sum(each[0].pods for each in here)
    ends: set[AdmissionId] = set()
    steps = sorted(
        ((more.pods - each[0].pods, more) for each in here for more in each[1:]),
        key=lambda step: (
            Fraction(len(step[1].ends), step[0]),
            len(step[1].ends),
            max(lasting[each] for each in step[1].ends),
            step[1].node,
        ),
    )
    given: dict[int, int] = {}
    for gain, step in steps:
        if room >= wanted:
            break
        already = given.get(step.node, 0)
        if gain > already:
            room += gain - already
            given[step.node] = gain
            ends |= step.ends
    return frozenset(ends) if room >= wanted else None

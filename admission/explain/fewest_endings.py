"""The fewest admissions that would have to end to let a pending workload in.

An estimate names few admissions, by amounts alone (``_estimate``). ``fewest_endings`` then lets the engine decide
without them, adds what is refused next, and tries smaller sets: fewer admissions first, then smaller ones.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from admission.engine.placement.need import size_of_pod
from admission.engine.snapshot import Snapshot
from admission.explain.what_if import WhatIf, WhatIfOutcome
from queues.admissions import Admission, AdmissionState
from queues.plan import Admit, Reason
from queues.quota.accounts import Account, charges
from queues.quota.queue import ROOT
from queues.reason_codes import ReasonCode
from queues.resources import NOTHING, Resources
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, WorkloadKey

#: Estimates that are joined until the workload is admitted: first for a limit, say, and then for room.
_ROUNDS = 6
#: Admissions that are tried alone, and sets that are tried, where the estimate names more.
_ALONE = 24
_SETS = 48

#: Seconds: counts as the time left of a workload that declared no run time.
_FOREVER = 1 << 40

#: Admissions with seats on a node, and what they hold there.
Occupants = Sequence[tuple[AdmissionId, Resources]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endings:
    """Admissions that would let a workload in by ending."""

    admissions: tuple[AdmissionId, ...]
    #: Domain of the required level that the workload then gets, as "rack r1"; "": no level is required.
    domain: str


def fewest_endings(what_if: WhatIf, refused: Reason | None) -> Endings | None:
    """The fewest admissions that a bounded number of tries finds. None if no ends let the workload in."""
    gangs = _Gangs.of(what_if.snapshot)
    found = _sufficient(what_if, refused, gangs)
    if found is None:
        return None
    ending, admit = found
    # Of a gang the minimum first: once it goes on, its parts may end one by one.
    for number in sorted(ending, key=lambda each: (-_time_left(what_if.snapshot, each), each))[:_SETS]:
        fewer = gangs.ended_with(ending - {number})
        if 0 < len(fewer) < len(ending) and (smaller := _admit_without(what_if, fewer)) is not None:
            ending, admit = fewer, smaller
    for candidate in map(gangs.ended_with, _smaller_sets(what_if, len(ending))):
        if len(candidate) < len(ending) and (smaller := _admit_without(what_if, candidate)) is not None:
            ending, admit = candidate, smaller
            break
    for candidate in map(gangs.ended_with, _sets_of_smaller_ones(what_if, ending)):
        if len(candidate) <= len(ending) and (smaller := _admit_without(what_if, candidate)) is not None:
            ending, admit = candidate, smaller
            break
    return Endings(admissions=tuple(sorted(ending)), domain=_domain(what_if, admit))


def time_left(snapshot: Snapshot, admission: Admission) -> int | None:
    """Seconds until the workload has run as long as it declared. None if it declared no run time."""
    holder = snapshot.holders.get(admission.workload)
    if holder is None or holder.run_time is None:
        return None
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


def _sufficient(
    what_if: WhatIf, refused: Reason | None, gangs: _Gangs
) -> tuple[frozenset[AdmissionId], Admit] | None:
    """Estimates joined until the workload is admitted: after each, the next refusal is estimated."""
    ending: frozenset[AdmissionId] = frozenset()
    for _ in range(_ROUNDS):
        if refused is None:
            return None
        more = _estimate(what_if, what_if.without(ending), refused)
        if not more:
            break
        ending = gangs.ended_with(ending | more)
        outcome = _outcome_without(what_if, ending)
        if outcome.admit is not None:
            return ending, outcome.admit
        refused = outcome.reason
    every = frozenset(each.id for each in _open_admissions(what_if.snapshot))
    admit = _admit_without(what_if, every) if ending < every and len(every) <= _ALONE else None
    return None if admit is None else (every, admit)


def _smaller_sets(what_if: WhatIf, size: int) -> Iterator[Collection[AdmissionId]]:
    """Sets of fewer than ``size`` admissions: the smallest sets first, then admissions that hold much."""
    likely = sorted(
        (each.id for each in _open_admissions(what_if.snapshot)),
        key=lambda each: (-_relevance(what_if, each), _time_left(what_if.snapshot, each), each),
    )
    tries = 0
    for count in range(1, size):
        for candidate in combinations(likely[: _ALONE if count == 1 else 2 * _ALONE // (count + 1)], count):
            tries += 1
            if tries > _SETS:
                return
            yield candidate


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
    """Pods of the workload that fit into what the admission holds, in thousandths, by the scarcest resource."""
    held = what_if.snapshot.admissions[number].holds()
    requests = [pods.takes for pods in what_if.workload.pod_sets]
    return max(
        min((1000 * held.get(name) // units for name, units in takes.items() if units), default=0)
        for takes in requests
    )


def _time_left(snapshot: Snapshot, number: AdmissionId) -> int:
    left = time_left(snapshot, snapshot.admissions[number])
    return _FOREVER if left is None else left


def _outcome_without(what_if: WhatIf, ended: Collection[AdmissionId]) -> WhatIfOutcome:
    after = what_if.without(ended)
    return what_if.outcome(admissions=after.admissions, nodes=after.nodes)


def _admit_without(what_if: WhatIf, ended: Collection[AdmissionId]) -> Admit | None:
    return _outcome_without(what_if, ended).admit


def _domain(what_if: WhatIf, admit: Admit) -> str:
    layout = what_if.snapshot.nodes.layout
    for pods in what_if.workload.pod_sets:
        chain = layout.chain(pods.required_topology) if pods.required_topology else None
        node: NodeName | None = next((seat.node for seat in admit.seats if seat.pod_set == pods.name), None)
        if chain is not None and node is not None:
            level = chain[0][chain[1]]
            domain = int(level.of[layout.position[node]])
            return f"{level.key.rpartition('/')[2]} {level.domains[domain]}"
    return ""


# ── the estimate ────────────────────────────────────────────────────────────────────────────────────────────


def _estimate(what_if: WhatIf, snapshot: Snapshot, refused: Reason) -> frozenset[AdmissionId]:
    """Admissions of the snapshot that might answer this refusal by ending; empty: none would."""
    if refused.code == ReasonCode.QUEUE_LIMIT and refused.facts["queue"] != ROOT:
        account = Account(refused.facts["flavor"], refused.facts["resource"])
        return _for_limit(what_if, snapshot, refused.facts["queue"], account, refused.facts["over"])
    if refused.code in (ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT, ReasonCode.QUEUE_LIMIT):
        return _for_room(what_if, snapshot)
    return frozenset()


def _for_limit(
    what_if: WhatIf, snapshot: Snapshot, queue: QueueName, account: Account, over: int
) -> frozenset[AdmissionId]:
    """Admissions below the queue that hold at least ``over`` of the account: one if one is enough."""
    held: list[tuple[int, AdmissionId]] = []
    for admission in _open_admissions(snapshot):
        if queue in what_if.tree.paths.get(admission.queue, ()):
            units = charges(admission.holding()).get(account, 0)
            if units:
                held.append((units, admission.id))
    enough = min((each for each in held if each[0] >= over), default=None)
    if enough is not None:
        return frozenset({enough[1]})
    ending: set[AdmissionId] = set()
    for units, number in sorted(held, key=lambda each: (-each[0], each[1])):
        ending.add(number)
        over -= units
        if over <= 0:
            return frozenset(ending)
    return frozenset()


@dataclass(frozen=True, slots=True)
class _Costs:
    """What the end of each admission costs: how much ends, and how long it takes at most."""

    sizes: Mapping[AdmissionId, int]
    left: Mapping[AdmissionId, int]

    @classmethod
    def of(cls, snapshot: Snapshot) -> "_Costs":
        return cls(
            sizes={number: _size(each) for number, each in snapshot.admissions.items()},
            left={number: _time_left(snapshot, number) for number in snapshot.admissions},
        )

    def key(self, ending: Collection[AdmissionId]) -> tuple[int, int, int]:
        """Sort key of a set: the fewest first, then the smallest, then those that end soonest."""
        size = sum(self.sizes[each] for each in ending)
        return len(ending), size, max((self.left[each] for each in ending), default=0)


@dataclass(frozen=True, slots=True)
class _Offer:
    """Pods that one node has room for once some admissions have ended."""

    column: int
    pods: int
    ending: frozenset[AdmissionId]


def _for_room(what_if: WhatIf, snapshot: Snapshot) -> frozenset[AdmissionId]:
    """Admissions that by ending make room for the members that start together; empty: not even all of them do."""
    missing, occupants = what_if.missing(), _occupants(snapshot)
    ending: frozenset[AdmissionId] = frozenset()
    for pods in what_if.workload.pod_sets:
        is_extra = missing.complete and pods.name in missing.missing
        wanted = 1 if is_extra else len(missing.minimum.get(pods.name, ()))
        more = _for_pods(snapshot, pods, wanted, occupants, ending)
        if more is None:
            return frozenset()
        ending |= more
    return ending


def _occupants(snapshot: Snapshot) -> dict[NodeName, Occupants]:
    by_node: dict[NodeName, dict[AdmissionId, Resources]] = {}
    for admission in _open_admissions(snapshot):
        for seat in admission.holding():
            held = by_node.setdefault(seat.node, {})
            held[admission.id] = held.get(admission.id, NOTHING) + seat.takes
    return {node: list(held.items()) for node, held in by_node.items()}


def _for_pods(
    snapshot: Snapshot,
    pods: PodSet,
    wanted: int,
    occupants: Mapping[NodeName, Occupants],
    ended: frozenset[AdmissionId],
) -> frozenset[AdmissionId] | None:
    """Ends for ``wanted`` pods of a set, in one domain if a level is required. None if there is never enough room."""
    costs = _Costs.of(snapshot)
    table, layout = snapshot.nodes, snapshot.nodes.layout
    allowed = layout.allowed(pods.nodes)
    offers: list[list[_Offer]] = []
    for column in range(len(table)):
        offers.append([])
        if not allowed[column]:
            continue
        free = table.allocatable[:, column] - table.used[:, column]
        amounts = dict(zip(table.resources, free.tolist(), strict=True))
        offers[column] = _offers(column, amounts, pods.takes, occupants.get(layout.names[column], ()), ended)
    found = layout.chain(pods.required_topology) if pods.required_topology else None
    if found is None:
        return _cheapest(np.arange(len(table)), offers, wanted, costs)
    chain, at = found
    level = chain[at]
    best: tuple[tuple[int, int, int], frozenset[AdmissionId]] | None = None
    for domain in range(len(level.domains)):
        ending = _cheapest(level.members(domain), offers, wanted, costs)
        if ending is None:
            continue
        cost = costs.key(ending)
        if best is None or cost < best[0]:
            best = (cost, ending)
    return None if best is None else best[1]


def _offers(
    column: int, free: dict[str, int], takes: Resources, occupants: Occupants, ended: frozenset[AdmissionId]
) -> list[_Offer]:
    """Room on a node: as it is, as each of its occupants ends alone, and as more and more of them end, the largest
    first. Free amounts are without ``ended``."""
    for number, held in occupants:
        if number in ended:
            free = {name: units + held.get(name) for name, units in free.items()}
    offers = [_Offer(column, _room(free, takes), frozenset())]
    staying = [each for each in occupants if each[0] not in ended]
    staying.sort(
        key=lambda each: (-sum(min(each[1].get(name), units) for name, units in takes.items()), each[0])
    )
    for number, held in reversed(staying):
        pods = _room({name: units + held.get(name) for name, units in free.items()}, takes)
        if pods > offers[0].pods:
            offers.append(_Offer(column, pods, frozenset({number})))
    ending: set[AdmissionId] = set()
    for number, held in staying:
        free = {name: units + held.get(name) for name, units in free.items()}
        ending.add(number)
        pods = _room(free, takes)
        if len(ending) > 1 and pods > offers[-1].pods:
            offers.append(_Offer(column, pods, frozenset(ending)))
    return offers


def _room(free: Mapping[str, int], takes: Resources) -> int:
    return max(0, min((free.get(name, 0) // units for name, units in takes.items()), default=1 << 31))


def _cheapest(
    columns: NDArray[np.intp],
    offers: Sequence[Sequence[_Offer]],
    wanted: int,
    costs: _Costs,
) -> frozenset[AdmissionId] | None:
    """Ends until ``wanted`` pods have room: free room first, then the most pods for the fewest and smallest ends."""
    here = [offers[column] for column in columns.tolist() if offers[column]]
    room = sum(each[0].pods for each in here)
    # More room than is wanted is worth nothing.
    short = max(1, wanted - room)
    steps = sorted(
        ((offer.pods - each[0].pods, offer) for each in here for offer in each[1:]),
        key=lambda step: (
            Fraction(len(step[1].ending), min(step[0], short)),
            *costs.key(step[1].ending),
            step[1].column,
        ),
    )
    ending: set[AdmissionId] = set()
    gained: dict[int, int] = {}
    for gain, offer in steps:
        if room >= wanted:
            break
        before = gained.get(offer.column, 0)
        if gain > before:
            room += gain - before
            gained[offer.column] = gain
            ending |= offer.ending
    return frozenset(ending) if room >= wanted else None

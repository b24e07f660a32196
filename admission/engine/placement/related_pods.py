"""Seats for gangs whose pods have rules about other pods: spread, pod affinity and anti-affinity.

Pods are put onto nodes one by one in an order in which each finds its rules met, as kube-scheduler binds them, and so
that the rules of all are met in the end, in whatever order it gets to them. The first way down is greedy; where it ends
early, others are tried, up to a number of steps. Any other gang is placed as a whole (``pod_set``).
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.host_ports import NodePorts, colliding
from admission.engine.nodes.table import Amounts, Mask
from admission.engine.placement.device_seats import seats_on_devices, seats_on_nodes
from admission.engine.placement.domain_search import TopologyAssignment
from admission.engine.placement.domains import (
    NodeScope,
    PodSetRequest,
    chain_of,
    levels_of,
    not_in_one_domain,
    unknown_level,
)
from admission.engine.placement.pod_rules import Codes, RuleBoard, is_one_per_host
from admission.engine.placement.policy_answers import flavors_to_try
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.plan import Reason
from queues.quota.usage import LimitHit
from queues.workload import NO_FLAVOR, FlavorName, PodSet, Workload

#: Pods that are put onto a node beyond one for each of the gang, before the search gives up.
MOST_STEPS: Final = 1500
#: The more nodes, the fewer steps: each costs time in proportion to them.
_NODES_STEPS: Final = 200_000
_FEWEST_STEPS: Final = 100

_WORD: Final = 2**64 - 1

#: Name of a domain that several pods share, and (N,) domain of each node.
Shared = tuple[Hashable, Codes]


class _Part(NamedTuple):
    """A part of a pod set (``Partition``)."""

    pod_set: str
    size: int
    number: int


@dataclass(slots=True, eq=False)
class _Unit:
    """Pods of one pod set that are interchangeable: those of its innermost part, or all."""

    request: PodSetRequest
    ordinals: Sequence[int]
    #: (N,) nodes that they may use at all.
    mask: Mask
    #: (N,) how many of them each node takes, rules aside.
    room: Amounts
    #: (R,)
    asks: Amounts
    #: Domains in which they are together, and with pods of other units.
    shared: tuple[Shared, ...]
    #: (N,) the higher the better, of what is preferred about nodes.
    score: Amounts
    columns: list[int] = field(default_factory=list)

    @property
    def pods(self) -> PodSet:
        """The pod set."""
        return self.request.pods

    @property
    def left(self) -> int:
        """Number of pods without a node."""
        return len(self.ordinals) - len(self.columns)


def _mixed(number: int) -> int:
    """A number of 64 bits for a number, as if at random (splitmix64): sums of them distinguish sets."""
    number = (number + 0x9E3779B97F4A7C15) & _WORD
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _WORD
    return number ^ number >> 31


def have_rules(groups: Sequence[Sequence[PodSetRequest]]) -> bool:
    """Whether the place of one of these pods may depend on the places of others, other than by host ports."""
    sets = [request.pods for requests in groups for request in requests]
    if not any(pods.has_rules for pods in sets):
        return False
    return len(sets) > 1 or not is_one_per_host(sets[0])


def related_seats(
    trial: Trial, workload: Workload, groups: Sequence[Sequence[PodSetRequest]], inside: Mask | None
) -> list[Seat] | Reason:
    """Seats for all groups, taken in the trial; else the reason, with nothing taken.

    ``groups``: pod sets that are placed together. ``inside``: (N,) nodes that may be used; None for all.
    """
    every = np.ones(len(trial.table), np.bool_) if inside is None else inside
    for requests in groups:
        if (reason := _unusable_level(trial, requests)) is not None:
            return reason
    mark = trial.mark()
    while True:
        search = _Search(trial, workload, groups, every)
        if not search.run():
            return search.reason()
        answer = search.seats(NodeScope(trial, workload, every))
        if not isinstance(answer, LimitHit):
            return answer
        trial.undo(mark)
        every = every & ~trial.layout.of_flavor(answer.account.flavor)
        if answer.account.flavor == NO_FLAVOR or not every.any():
            return reasons.queue_limit(answer)


def _unusable_level(trial: Trial, requests: Sequence[PodSetRequest]) -> Reason | None:
    for request in requests:
        if (reason := unknown_level(trial.layout, levels_of(request.pods))) is not None:
            return reason
        key = request.pods.required_topology
        seated = [*request.seated.values(), *request.companion_nodes]
        if key is not None and (reason := not_in_one_domain(trial.layout, key, seated)) is not None:
            return reason
    return None


class _Search:
    """Nodes for the pods of a gang."""

    def __init__(
        self, trial: Trial, workload: Workload, groups: Sequence[Sequence[PodSetRequest]], mask: Mask
    ) -> None:
        self._trial, self._workload = trial, workload
        self._free = trial.free.copy()
        requests = [request for of_group in groups for request in of_group]
        #: Flavors in the order to try; None if any node will do.
        self._flavors: tuple[FlavorName, ...] | None = None
        if trial.tree.flavors(workload.queue):
            self._flavors = flavors_to_try(trial, workload, [request.pods for request in requests])
        self._flavor_rank = self._flavor_ranks()
        self._units = [
            unit
            for number, requests in enumerate(groups)
            for request in requests
            for unit in self._units_of(number, request, mask & (self._flavor_rank >= 0))
        ]
        self._board = RuleBoard(trial, [unit.pods for unit in self._units])
        #: Domains of names that are chosen, each with the number of pods that chose it.
        self._chosen: dict[Hashable, tuple[int, int]] = self._seated_domains()
        self._seen: set[int] = set()
        #: The volumes that nodes attach, with those of pods that have a node; None if no pod has any.
        self._attached = sorted({port for unit in self._units for port in unit.pods.attached}, key=repr)
        self._volumes = trial.ports.copy() if self._attached else None
        self._state = 0
        self._steps = self._most_steps()
        #: What the search got to at best: pods with a node, and why one more has none.
        self._most = -1
        self._why: Reason | None = None

    def _most_steps(self) -> int:
        """Pods that may be put onto nodes before the search gives up: none without room, and one way down where no
        other can succeed."""
        pods = sum(len(unit.ordinals) for unit in self._units)
        if any(int(unit.room.sum()) < unit.left for unit in self._units):
            return 0
        if any(self._domains_needed(index, unit.mask) is not None for index, unit in enumerate(self._units)):
            return pods
        return pods + min(MOST_STEPS, max(_FEWEST_STEPS, _NODES_STEPS // max(1, len(self._trial.table))))

    def run(self) -> bool:
        """Look for nodes. True: all pods have one."""
        stack = [self._choices()]
        moves: list[tuple[int, int]] = []
        while stack:
            if not any(unit.left for unit in self._units):
                if self._holds_in_the_end():
                    return True
                choice = None
            else:
                choice = next(stack[-1], None)
            if choice is None or self._steps <= 0:
                if self._steps <= 0:
                    return False
                stack.pop()
                if moves:
                    self._take_back(*moves.pop())
                elif not stack:
                    return False
                continue
            self._steps -= 1
            self._put(*choice)
            if self._state in self._seen:
                self._take_back(*choice)
                continue
            self._seen.add(self._state)
            moves.append(choice)
            stack.append(self._choices())
        return False

    def reason(self) -> Reason:
        """Why not all pods have a node."""
        return self._why or self._refusal(0, max(0, self._most))

    def seats(self, scope: NodeScope) -> list[Seat] | Reason | LimitHit:
        """Seats on the nodes that were found, taken in the trial; or the limit that they would break."""
        seats: list[Seat] = []
        for unit in self._units:
            columns, counts = np.unique(np.array(unit.columns, np.intp), return_counts=True)
            found = TopologyAssignment(columns, counts.astype(np.int64))
            request = PodSetRequest(unit.pods, unit.ordinals, unit.request.seated)
            seat = seats_on_nodes if unit.pods.share is None else seats_on_devices
            answer = seat(scope, request, found)
            if not isinstance(answer, list):
                return answer
            seats += answer
        return seats

    # ── pods on nodes ───────────────────────────────────────────────────────────────────────────────────────────

    def _put(self, index: int, column: int) -> None:
        self._move(index, column, 1)
        self._units[index].columns.append(column)

    def _take_back(self, index: int, column: int) -> None:
        self._move(index, column, -1)
        self._units[index].columns.pop()

    def _move(self, index: int, column: int, change: int) -> None:
        unit = self._units[index]
        self._free[:, column] -= change * unit.asks
        unit.room[column] -= change
        self._board.put(index, column, change)
        if self._volumes is not None and unit.pods.attached:
            noted = [NodePorts(self._trial.layout.names[column], unit.pods.attached)]
            (self._volumes.occupy if change > 0 else self._volumes.vacate)(noted)
        for name, of in unit.shared:
            domain, pods = self._chosen.get(name, (int(of[column]), 0))
            if pods + change:
                self._chosen[name] = (domain, pods + change)
            else:
                del self._chosen[name]
        self._state = (self._state + change * _mixed(index << 32 | column)) & _WORD

    def _with_room(self, index: int) -> Mask:
        """(N,) nodes that have room for one more pod of a unit, rules aside."""
        unit = self._units[index]
        rows = np.flatnonzero(unit.asks)
        mask = (unit.room > 0) & (self._free[rows] >= unit.asks[rows, None]).all(axis=0)
        for name, of in unit.shared:
            domain = self._chosen.get(name)
            mask &= of >= 0 if domain is None else of == domain[0]
        if self._volumes is not None and unit.pods.attached:
            mask &= self._volumes.attachable(unit.pods.attached) > 0
        for other in self._units if unit.pods.ports else ():
            if other.columns and colliding(unit.pods.ports, other.pods.ports):
                mask[other.columns] = False
        return mask

    def _allowed(self, index: int) -> Mask:
        """(N,) nodes that one more pod of a unit may have as things stand."""
        mask = self._with_room(index)
        allowed = self._board.rules[index].allowed()
        return mask if allowed is None else mask & allowed

    def _is_lost(self, index: int) -> bool:
        """Whether more pods elsewhere cannot give a unit another node, as they may where it lacks only pods near it or
        in other domains."""
        return not (self._with_room(index) & self._board.rules[index].not_ruled_out()).any()

    def _choices(self) -> Iterator[tuple[int, int]]:
        """Moves from where the search is, the best first: a unit, and the column of a node."""
        allowed = {index: self._allowed(index) for index, unit in enumerate(self._units) if unit.left}
        open_units = [index for index in allowed if allowed[index].any()]
        stuck = [index for index in allowed if index not in open_units and self._is_lost(index)]
        if stuck or not open_units:
            placed = sum(len(unit.columns) for unit in self._units)
            if placed > self._most:
                self._most, self._why = placed, self._refusal((stuck or list(allowed))[0], placed)
            return
        # Those with the fewest nodes first.
        open_units.sort(key=lambda index: (int(allowed[index].sum()), index))
        for index in open_units:
            tried: set[Hashable] = set()
            for column in self._ordered(index, allowed[index]):
                alike = self._likeness(column)
                if alike not in tried:
                    tried.add(alike)
                    yield index, column

    def _ordered(self, index: int, allowed: Mask) -> list[int]:
        """Columns in the order in which they are tried."""
        unit, rules = self._units[index], self._board.rules[index]
        columns = np.flatnonzero(allowed)
        room = np.where(allowed, unit.room, 0)
        placement = self._trial.tree.policies(self._workload.queue).placement
        keys: list[Amounts] = [columns, placement.domain_keys(room[columns])]
        keys.append(-self._near_others(unit)[columns])
        wished = rules.score()
        if wished is not None:
            keys.append(-wished[columns])
        keys += [spread.counts.on_nodes(spread.counts.pods)[columns] for spread in rules.spread]
        keys.append(-unit.score[columns])
        domains = [of for name, of in unit.shared if name not in self._chosen and of is not self._flavor_rank]
        domains += [counts.of for counts in rules.near] if rules.is_first() else []
        for of in domains:
            holds = self._held_by(of[columns], room[columns], unit)
            keys += [holds, (holds < unit.left).astype(np.int64)]
        ranks = self._flavor_rank[columns]
        keys += [ranks, (self._held_by(ranks, room[columns], unit) < unit.left).astype(np.int64)]
        found: list[int] = columns[np.lexsort(keys)].tolist()
        return found

    def _held_by(self, domains: Codes, room: Amounts, unit: _Unit) -> Amounts:
        """Of nodes in these domains, with room for so many pods of a unit each: what the domain of each holds."""
        sums = np.bincount(domains, weights=np.minimum(room, len(unit.ordinals)))
        return sums[domains].astype(np.int64)

    def _near_others(self, unit: _Unit) -> Amounts:
        """(N,) in how many levels of its topology a node is together with pods that have a node."""
        layout = self._trial.layout
        near = np.zeros(len(layout.names), np.int64)
        columns = [column for other in self._units for column in other.columns[-1:]]
        for level in chain_of(layout, levels_of(unit.pods)) or layout.chains[0]:
            for column in columns:
                near += (level.of >= 0) & (level.of == level.of[column])
        return near

    def _likeness(self, column: int) -> Hashable:
        """What distinguishes a node from others as far as anything of this gang depends on it."""
        domains = []
        for counts in self._board.touching():
            domain = int(counts.of[column])
            alone = domain >= 0 and int((counts.of == domain).sum()) == 1
            pods = int(counts.pods[domain]) if domain >= 0 else 0
            domains.append((-2 if alone else domain, pods, bool(counts.counts[column])))
        units = tuple(
            (bool(unit.mask[column]), int(unit.room[column]), int(unit.score[column])) for unit in self._units
        )
        shared = tuple(int(of[column]) for unit in self._units for _, of in unit.shared)
        flavor = int(self._flavor_rank[column])
        volumes = () if self._volumes is None else self._volumes.volumes_on(column, self._attached)
        return self._free[:, column].tobytes(), tuple(domains), units, shared, flavor, volumes

    def _holds_in_the_end(self) -> bool:
        """Whether the rules of each pod are met with all others where they are, in whatever order they are bound."""
        for index, unit in enumerate(self._units):
            if not unit.pods.has_rules:
                continue
            for column in set(unit.columns):
                self._board.put(index, column, -1)
                allowed = self._board.rules[index].allowed()
                self._board.put(index, column, 1)
                if allowed is not None and not allowed[column]:
                    return self._is_wrong(index)
        waiting = self._board.left_waiting(
            [(index, Counter(unit.columns)) for index, unit in enumerate(self._units)]
        )
        return waiting is None or self._is_wrong(waiting)

    def _is_wrong(self, index: int) -> bool:
        """Keep the refusal of a unit as the reason if there is none; False."""
        if self._why is None:
            self._most, self._why = 0, self._refusal(index, 0)
        return False

    # ── what is asked ───────────────────────────────────────────────────────────────────────────────────────────

    def _units_of(self, group: int, request: PodSetRequest, mask: Mask) -> Iterator[_Unit]:
        pods, layout = request.pods, self._trial.layout
        scope = NodeScope(self._trial, self._workload, mask)
        room = scope.pods_per_node(pods)
        score = scope.score(pods)
        parts = [part for part in pods.partitions if part.level and part.required]
        size = parts[-1].size if parts else max(1, len(request.ordinals))
        by_part: dict[int, list[int]] = {}
        for position, ordinal in enumerate(request.ordinals):
            by_part.setdefault(ordinal // size if parts else position // size, []).append(ordinal)
        whole: list[Shared] = [] if self._flavors is None else [(("flavor", group), self._flavor_rank)]
        if pods.required_topology is not None:
            name = ("all", group if pods.together is not None else pods.name)
            whole.append((name, layout.level(pods.required_topology).of))
        for ordinals in by_part.values():
            shared = [
                (_Part(pods.name, part.size, ordinals[0] // part.size), layout.level(part.level).of)
                for part in parts
            ]
            yield _Unit(
                request=request,
                ordinals=ordinals,
                mask=mask,
                # Shared by all units of the set: a pod of one takes room of the others.
                room=room,
                asks=self._trial.vector(pods.takes),
                shared=(*whole, *shared),
                score=np.zeros(len(mask), np.int64) if score is None else score,
            )

    def _seated_domains(self) -> dict[Hashable, tuple[int, int]]:
        """Domains that members with seats are in."""
        chosen: dict[Hashable, tuple[int, int]] = {}
        position = self._trial.layout.position
        for unit in self._units:
            for name, of in unit.shared:
                nodes = [
                    node
                    for ordinal, node in unit.request.seated.items()
                    if not isinstance(name, _Part)
                    or name == _Part(name.pod_set, name.size, ordinal // name.size)
                ]
                if not isinstance(name, _Part):
                    nodes += unit.request.companion_nodes
                columns = [position[node] for node in nodes if node in position]
                if columns and of[columns[0]] >= 0:
                    chosen[name] = (int(of[columns[0]]), 1)
        return chosen

    def _flavor_ranks(self) -> Codes:
        """(N,) place of each node's flavor among those of the queue; -1: it may not be used. Without flavors: 0."""
        if self._flavors is None:
            return np.zeros(len(self._trial.table), np.int64)
        ranks = {flavor: rank for rank, flavor in enumerate(self._flavors)}
        return np.array([ranks.get(flavor, -1) for flavor in self._trial.layout.flavors], np.int64)

    # ── why not ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _refusal(self, index: int, placed: int) -> Reason:
        unit, trial = self._units[index], self._trial
        usable = trial.layout.allowed(unit.pods.nodes)
        room = unit.mask & usable & (unit.room > 0)
        rows = np.flatnonzero(unit.asks)
        room &= (self._free[rows] >= unit.asks[rows, None]).all(axis=0)
        excluded: dict[str, int] = {
            "not to be used by these pods": int((~usable).sum()),
            "of other flavors": int((usable & ~unit.mask).sum()),
            "without room": int((usable & unit.mask & ~room).sum()),
        }
        left, by_rules = room, dict[str, int]()
        for why, refused in self._board.rules[index].refusals():
            by_rules[why] = by_rules.get(why, 0) + int((left & refused).sum())
            left = left & ~refused
        domains = self._domains_needed(index, usable & unit.mask)
        return reasons.rules_no_fit(
            pods=sum(len(each.ordinals) for each in self._units),
            takes=unit.pods.takes,
            fit=placed,
            nodes=len(trial.table),
            excluded=excluded,
            by_rules=by_rules,
            domains=domains,
        )

    def _domains_needed(self, index: int, usable: Mask) -> tuple[str, int, int] | None:
        """Where pods keep off one another: the label key, domains that they need, and those that have room."""
        unit = self._units[index]
        names = {port.ip for port in unit.pods.counted}
        room = usable & (self._trial.room_for(unit.pods, usable) > 0)
        for rule, counts in zip(unit.pods.rules.apart, self._board.rules[index].apart, strict=True):
            if rule.pods.name not in names:
                continue
            own: Mapping[int, int] = dict.fromkeys(counts.of[unit.columns].tolist(), 1)
            taken = [
                domain
                for domain in np.unique(counts.of[room & (counts.of >= 0)]).tolist()
                if counts.pods[domain] - own.get(domain, 0) > 0
            ]
            fitting = len(np.unique(counts.of[room & (counts.of >= 0)])) - len(taken)
            if fitting < len(unit.ordinals):
                return rule.key, len(unit.ordinals), fitting
        return None

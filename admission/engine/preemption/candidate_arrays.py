"""Candidates as arrays: which may be evicted at all, and whether that could ever be enough, for all at a time.

The plain form is ``PreemptionRights.rule``, asked for one candidate after another. The arrays leave out no candidate
that it allows; they may include some that it does not, so it is asked again before a candidate becomes a victim.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.host_ports import NodePorts
from admission.engine.nodes.table import Amounts, Mask
from admission.engine.preemption.candidates import Candidate, VictimCandidates
from admission.engine.preemption.rules import PreemptionRights, ReclaimDepth
from admission.engine.trial import Columns, Trial
from queues.quota.accounts import Account
from queues.quota.usage import Usage
from queues.resources import Resources
from queues.workload import AdmissionId, HostPort, NodeName, PodSet, QueueName

#: More than any queue or candidate has.
_NO_LIMIT = 1 << 62

#: Bound of what a queue can be above or below its share: guarantees that no node could keep add up without end.
_LARGEST_EXCESS = 1 << 61


class LosableAmounts(NamedTuple):
    """What queues may lose to one beneficiary."""

    #: (Q,) queues that may lose anything.
    queues: Mask
    #: (Q, A) units of each account that is asked which one victim may hold at most.
    most: Amounts


class QueueExcess:
    """What some queues, and all above them, count beyond what they deserve; it follows the books.

    (Q,) has one entry for each queue given, in that order; (A,) one for each account asked.
    """

    def __init__(self, queues: Sequence[QueueName], usage: Usage) -> None:
        """``usage``: its ``dirty_queues`` are read and emptied here, so nothing else may read it."""
        tree = usage.tree
        self._usage = usage
        paths = [tree.paths[queue][::-1] for queue in queues]
        self._row_of = {
            name: row for row, name in enumerate(dict.fromkeys(n for path in paths for n in path))
        }
        #: (Q, L) row of the queue at each level of the path, root first; -1: the path is shorter.
        self._levels = np.full((len(paths), max(map(len, paths), default=0)), -1, np.intp)
        for index, path in enumerate(paths):
            self._levels[index, : len(path)] = [self._row_of[name] for name in path]
        self._depth = np.array([len(path) - 1 for path in paths], np.intp)
        #: (Q,) the deepest level with ``reclaimable: false``; 0: there is none.
        self._not_reclaimable = np.array(
            [
                max(
                    (depth for depth, name in enumerate(path) if not tree.queues[name].reclaimable), default=0
                )
                for path in paths
            ],
            np.intp,
        )
        self._ancestor_levels: dict[QueueName, NDArray[np.intp]] = {}
        self._excess_of: dict[tuple[Account, ...], Amounts] = {}

    def ancestor_level(self, own: QueueName) -> NDArray[np.intp]:
        """(Q,) level of the lowest common ancestor of each queue and this one."""
        known = self._ancestor_levels.get(own)
        if known is None:
            path = [self._row_of.get(name, -2) for name in self._usage.tree.paths[own][::-1]]
            levels = self._levels.shape[1]
            mine = np.array((path + [-2] * levels)[:levels], np.intp)
            same = np.logical_and.accumulate(self._levels == mine, axis=1)
            known = self._ancestor_levels[own] = same.sum(axis=1) - 1
        return known

    def losable(self, own: QueueName, asked: tuple[Account, ...], depth: ReclaimDepth) -> LosableAmounts:
        """What each queue may lose to this one, as ``PreemptionRights`` has it.

        Every lender below the common ancestor must be above what it deserves of some account that is asked.
        """
        excess, ancestor = self._excess(asked), self.ancestor_level(own)
        above: Mask = np.asarray((excess > 0).any(axis=1))
        bound = excess if depth is ReclaimDepth.NEVER else 2 * excess
        most_of_row = np.where((excess > 0) & (depth is not ReclaimDepth.ANY), bound, _NO_LIMIT)
        queues = self.reclaimable(own)
        most = np.full((len(ancestor), len(asked)), _NO_LIMIT, np.int64)
        keeping = self._kept_beyond_deserved(asked)
        below_keeping = np.zeros(len(ancestor), np.bool_)
        for level in range(1, self._levels.shape[1]):
            rows = self._levels[:, level]
            counts = (level > ancestor) & (rows >= 0) & ~below_keeping
            queues &= ~counts | above[rows]
            np.minimum(most, most_of_row[rows], out=most, where=counts[:, None])
            below_keeping |= counts & keeping[rows]
        return LosableAmounts(queues, most)

    def _kept_beyond_deserved(self, asked: tuple[Account, ...]) -> Mask:
        """(rows,) queues that nodes which are kept idle for them bring above what they deserve."""
        found = np.zeros(len(self._row_of), np.bool_)
        for name in self._usage.keeping & self._row_of.keys():
            found[self._row_of[name]] = self._usage.is_kept_beyond_deserved(name, asked)
        return found

    def reclaimable(self, own: QueueName) -> Mask:
        """(Q,) queues that are all ``reclaimable`` below their common ancestor with this one."""
        ancestor = self.ancestor_level(own)
        return np.asarray(
            (ancestor < self._depth)
            & (ancestor < len(self._usage.tree.paths[own]) - 1)
            & (self._not_reclaimable <= ancestor)
        )

    def in_subtree(self, name: QueueName) -> Mask:
        """(Q,) which of the queues are this one or below it."""
        return np.asarray((self._levels == self._row_of.get(name, -2)).any(axis=1))

    def _excess(self, asked: tuple[Account, ...]) -> Amounts:
        """(rows, A) by the books as they are now."""
        dirty = self._usage.dirty_queues
        if dirty:
            names = [name for name in dirty if name in self._row_of]
            rows = [self._row_of[name] for name in names]
            for accounts, known in self._excess_of.items():
                known[rows] = self._read(names, accounts)
            dirty.clear()
        if asked not in self._excess_of:
            self._excess_of[asked] = self._read(list(self._row_of), asked)
        return self._excess_of[asked]

    def _read(self, names: Sequence[QueueName], asked: tuple[Account, ...]) -> Amounts:
        usage, tree = self._usage, self._usage.tree
        amounts = [
            max(-_LARGEST_EXCESS, min(usage.counted(name, each) - tree.deserved(name, each), _LARGEST_EXCESS))
            for name in names
            for each in asked
        ]
        return np.array(amounts, np.int64).reshape(len(names), len(asked))


CandidateMask = NDArray[np.bool_]


class CandidateSeats:
    """Seats of candidates on known nodes, in the order of the candidates; those of an elastic part are its own only.

    (C,) has one entry for each candidate, (S,) one for each seat, (R,) one for each resource.
    """

    def __init__(self, candidates: Sequence[Candidate], trial: Trial) -> None:
        """``trial``: any one over the nodes; what is free in it does not count."""
        position = trial.layout.position
        columns, owners, shape_of_seat, only = list[int](), list[int](), list[int](), list[int]()
        shapes: dict[Resources, int] = {}
        #: Host ports and volumes of the pods in seats; most have none.
        self.ports: dict[int, tuple[HostPort, ...]] = {}
        for index, candidate in enumerate(candidates):
            first = len(columns)
            for held in candidate.freed_alone:
                taken = _by_node(held.ports) if held.ports else None
                for seat in held.seats:
                    if (column := position.get(seat.node)) is not None:
                        if taken and (of_node := taken.get(seat.node)):
                            self.ports[len(columns)] = of_node.pop()
                        columns.append(column)
                        owners.append(index)
                        shape_of_seat.append(shapes.setdefault(seat.takes, len(shapes)))
            only.append(first if candidate.pods == 1 and len(columns) > first else -1)
        #: (S,) column of the node, and index of the candidate.
        self.columns = np.array(columns, np.intp)
        self.owners = np.array(owners, np.intp)
        takes = [trial.vector(shape) for shape in shapes] or [np.zeros(len(trial.free), np.int64)]
        #: (R, S) what each seat takes.
        self.takes = np.stack(takes, axis=1)[:, np.array(shape_of_seat, np.intp)]
        #: (C,) the seat of a candidate of one pod; -1: it has more pods, or its node is unknown.
        self.only = np.array(only, np.intp)


def _by_node(ports: Sequence[NodePorts]) -> dict[NodeName, list[tuple[HostPort, ...]]]:
    """One entry for each seat of a pod set with any, the last of a node first."""
    taken: dict[NodeName, list[tuple[HostPort, ...]]] = {}
    for place in reversed(ports):
        taken.setdefault(place.node, []).append(place.ports)
    return taken


class CandidateArrays:
    """All candidates of a turn, those of a queue side by side.

    (C,) has one entry for each candidate, (S,) one for each seat on a known node, (Q,) one for each queue. Most turns
    find no candidate that may be evicted, so what is asked about only then is worked out when it is asked for first:
    the seats, and the order in which candidates are chosen.
    """

    def __init__(self, found: VictimCandidates, trial: Trial) -> None:
        """``trial``: the world in which victims are chosen."""
        self.candidates: list[Candidate] = []
        self._slices: dict[QueueName, slice] = {}
        for queue, of_queue in sorted(found.of_queue.items()):
            self._slices[queue] = slice(len(self.candidates), len(self.candidates) + len(of_queue))
            self.candidates += of_queue
        every = self.candidates
        self.excess = QueueExcess(list(self._slices), trial.usage)
        sizes = [len(of_queue) for _, of_queue in sorted(found.of_queue.items())]
        #: (C,) index of the queue of each candidate.
        self._queue_of = np.repeat(np.arange(len(sizes)), sizes)
        self.priority = np.array([each.priority for each in every], np.int64)
        self._arrival = np.array([each.workload.arrival for each in every], np.int64)
        self._size = np.array([each.size for each in every], np.int64)
        self._pods = np.array([each.pods for each in every], np.int64)
        self._rests = np.array([each.rests for each in every], np.bool_)
        wishing = np.array([each.protected_in_queue for each in every], np.bool_)
        self._protected_in_queue = wishing | self._rests
        #: (C,) start of those that only owners may have which waited before it; of all others no second is too early.
        self._started = np.full(len(every), _NO_LIMIT + 1, np.int64)
        for index in np.flatnonzero(self._rests).tolist():
            if every[index].whole:
                self._started[index] = every[index].started
        self._keeps_quota = np.array([each.keeps_quota for each in every], np.bool_)
        self._keeps_for_a_time = np.array([each.keeps_for_a_time for each in every], np.bool_)
        #: (C,) evicted in this turn already.
        self.evicted = np.zeros(len(every), np.bool_)
        self._charged: dict[tuple[Account, ...], Amounts] = {}
        self._trial = trial

    @cached_property
    def seats(self) -> CandidateSeats:
        """Seats of all candidates."""
        return CandidateSeats(self.candidates, self._trial)

    @cached_property
    def seats_by_node(self) -> Columns:
        """(S,) seats by node, on each node in the order in which their candidates are chosen."""
        owners = self.seats.owners
        return np.lexsort((np.arange(len(owners)), self._rank[owners], self.seats.columns))

    @cached_property
    def cost_per_pod(self) -> Amounts:
        """(C,) cost of a candidate ÷ its pods, as ``Candidate.cost_per_pod``."""
        return np.array([each.cost_per_pod for each in self.candidates], np.int64)

    @cached_property
    def _rank(self) -> Amounts:
        """(C,) position in the order in which candidates are chosen."""
        keys = [each.sort_key for each in self.candidates]
        rank = np.empty(len(keys), np.int64)
        rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return rank

    @cached_property
    def _of_admission(self) -> dict[AdmissionId, list[int]]:
        """Indices of the candidates that an admission belongs to."""
        indices: dict[AdmissionId, list[int]] = {}
        for index, candidate in enumerate(self.candidates):
            for held in candidate.admissions:
                indices.setdefault(held.admission.id, []).append(index)
        return indices

    def mark_evicted(self, admissions: Sequence[AdmissionId]) -> None:
        """Leave out from now on the candidates that these admissions belong to."""
        for number in admissions:
            for index in self._of_admission.get(number, ()):
                self.evicted[index] = True

    def allowed(self, rights: PreemptionRights, own: CandidateMask) -> CandidateMask:
        """(C,) candidates that may be evicted by queue, priority, size and excess of their queue, as the books are now.

        Also those of other queues that may be evicted only when victims of the own queue are gone. ``own``: those of
        the own queue.
        """
        policy, chosen = rights.usage.tree.policy(rights.workload.queue), own.copy()
        if policy.reclaim != "never":
            chosen |= self._reclaimable(rights, own_victims=bool(chosen.any()))
        if rights.starved:
            chosen |= self._single_pods(rights) & self._clearable(rights)
        if (here := self._slices.get(rights.workload.queue)) is not None:
            chosen[here] &= ~self._protected_in_queue[here]
        chosen &= ~self.evicted
        return chosen

    def others_may_be_evicted(self, rights: PreemptionRights, own: CandidateMask) -> bool:
        """False: no victim of another queue is ever allowed, even if these candidates of the own queue are gone."""
        queue, asked, tree = rights.workload.queue, tuple(rights.asked), rights.usage.tree
        if rights.starved or tree.policy(queue).borrow_max_priority is not None:
            return True
        gone = self.charged(asked)[own].sum(axis=0).tolist()
        return rights.within_deserved(tree.paths[queue][:-1], dict(zip(asked, gone, strict=True)))

    def of_own_queue(self, rights: PreemptionRights) -> CandidateMask:
        """(C,) candidates of the own queue that may be evicted, or were in this turn."""
        chosen = np.zeros(len(self.candidates), np.bool_)
        here = self._slices.get(rights.workload.queue)
        if here is None:
            return chosen
        policy, priority = rights.usage.tree.policy(rights.workload.queue), rights.workload.priority
        within = policy.within_queue or "never"
        may = self._single_pods(rights, here) if rights.starved else chosen[here]
        if within != "never":
            may |= self.priority[here] < priority
        if within == "lower-or-newer-equal":
            may |= (self.priority[here] == priority) & (self._arrival[here] > rights.workload.arrival)
        chosen[here] = may & ~self._protected_in_queue[here]
        return chosen

    def _single_pods(self, rights: PreemptionRights, which: slice = slice(None)) -> CandidateMask:
        """(c,) candidates of one pod, smaller than the beneficiary and of no higher priority."""
        small = (self._size[which] < rights.size) & (self._pods[which] == 1) & ~self._rests[which]
        return np.asarray((self.priority[which] <= rights.workload.priority) & small)

    def _reclaimable(self, rights: PreemptionRights, *, own_victims: bool) -> CandidateMask:
        """(C,) candidates that may be evicted to give back lent quota.

        ``own_victims``: victims of the own queue may bring it within what it deserves.
        """
        workload, asked = rights.workload, tuple(rights.asked)
        policy = rights.usage.tree.policy(workload.queue)
        losable = self.excess.losable(workload.queue, asked, rights.depth)
        lower, most = self.priority < workload.priority, policy.borrow_max_priority
        charged = self.charged(asked)
        owned = losable.queues
        if not own_victims:
            owned = owned & self._by_ancestor(rights, owned, rights.within_deserved)
        may: CandidateMask = owned[self._queue_of]
        if most is not None:
            may |= losable.queues[self._queue_of] & lower & (self.priority <= most)
        may &= charged.any(axis=1) & (charged <= losable.most[self._queue_of]).all(axis=1)
        may &= ~self._keeps_quota
        may &= self._started > rights.owed_since
        if self._keeps_for_a_time.any():
            owed = self._by_ancestor(rights, losable.queues, rights.is_owed)
            may &= ~self._keeps_for_a_time | owed[self._queue_of]
        if policy.reclaim == "lower-priority":
            may &= lower
        return may

    def _clearable(self, rights: PreemptionRights) -> CandidateMask:
        """(C,) candidates of queues in which a place may be cleared."""
        queue = rights.workload.queue
        may: CandidateMask = self.excess.reclaimable(queue)[self._queue_of]
        may[self._slices.get(queue, slice(0))] = True
        return may

    def _by_ancestor(
        self, rights: PreemptionRights, queues: CandidateMask, holds: Callable[[tuple[QueueName, ...]], bool]
    ) -> CandidateMask:
        """(Q,) whether something holds for the beneficiary's side of the common ancestor with each of these queues."""
        ancestor = self.excess.ancestor_level(rights.workload.queue)
        path = rights.usage.tree.paths[rights.workload.queue]
        answer = np.zeros(len(path), np.bool_)
        for level in np.unique(ancestor[queues]).tolist():
            answer[level] = holds(path[: len(path) - 1 - level])
        return answer[ancestor]

    def charged(self, accounts: tuple[Account, ...]) -> Amounts:
        """(C, A) units of these accounts that each candidate is charged."""
        known = self._charged.get(accounts)
        if known is None:
            row_of: dict[int, list[int]] = {}
            rows = []
            for candidate in self.candidates:
                row = None
                for held in candidate.admissions:
                    one = row_of.get(id(held.charges))
                    if one is None:
                        one = row_of[id(held.charges)] = [held.charges.get(each, 0) for each in accounts]
                    row = one if row is None else [a + b for a, b in zip(row, one, strict=True)]
                rows.append(row or [0] * len(accounts))
            known = self._charged[accounts] = np.array(rows, np.int64).reshape(len(rows), len(accounts))
        return known

    def of_queue(self, queue: QueueName) -> CandidateMask:
        """(C,) the candidates of a queue."""
        mask = np.zeros(len(self.candidates), np.bool_)
        mask[self._slices.get(queue, slice(0))] = True
        return mask

    def charged_below(self, name: QueueName, account: Account) -> CandidateMask:
        """(C,) candidates of a queue and of all below it that are charged anything of an account."""
        return self.excess.in_subtree(name)[self._queue_of] & (self.charged((account,))[:, 0] > 0)

    def room_without(self, chosen: CandidateMask, trial: Trial, pods: PodSet, mask: Mask) -> Amounts:
        """(N,) pods of that shape that would fit if all of these candidates were evicted, or more."""
        room, request = trial.room_for(pods, mask), trial.vector(pods.takes)
        seats = np.flatnonzero(chosen[self.seats.owners])
        columns, rows = self.seats.columns[seats], np.flatnonzero(request)
        gaining = np.flatnonzero(np.bincount(columns, minlength=len(room)))
        if len(rows):
            free = trial.free[rows]
            for index, row in enumerate(rows.tolist()):
                np.add.at(free[index], columns, self.seats.takes[row, seats])
            most = (free[:, gaining] // request[rows, None]).min(axis=0)
            room[gaining] = np.maximum(most, 0) * mask[gaining]
        return room

    def single_pods(self, chosen: CandidateMask, trial: Trial, pods: PodSet, mask: Mask) -> list[int]:
        """Candidates of one pod that alone, evicted, make room for one pod of that shape, the cheapest first."""
        request = trial.vector(pods.takes)
        indices = np.flatnonzero(chosen & (self.seats.only >= 0))
        seats = self.seats.only[indices]
        columns = self.seats.columns[seats]
        fits = mask[columns]
        for row in np.flatnonzero(request).tolist():
            fits &= trial.free[row, columns] + self.seats.takes[row, seats] >= request[row]
        indices, seats, columns = indices[fits], seats[fits], columns[fits]
        if trial.device_rows(pods):
            fits = trial.room_on(trial.free[:, columns] + self.seats.takes[:, seats], pods, columns) > 0
            indices = indices[fits]
        return self._by_rank(indices)

    def in_order(self, chosen: CandidateMask) -> list[Candidate]:
        """These candidates, the cheapest first."""
        return [self.candidates[index] for index in self._by_rank(np.flatnonzero(chosen))]

    def _by_rank(self, indices: NDArray[np.intp]) -> list[int]:
        ordered: list[int] = indices[np.argsort(self._rank[indices])].tolist()
        return ordered

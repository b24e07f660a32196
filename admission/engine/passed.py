"""A place for a gang that nobody makes room for: where those run who passed it.

Where nobody is evicted for a gang within a day and no run times are known, small work takes whatever gets free,
and a gang that needs a rack waits for days. So one whose queue has less than it deserves keeps the place that
should be free soonest. What has run for some time is expected to run for as long again: run times are
heavy-tailed. And only those count who were admitted after the gang came, so that a place is never kept for longer
than the gang has waited for it already, as far as that can be expected. Neither the place nor whether there is
one depends on what time it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine import gangs
from admission.engine.claims import per_node
from admission.engine.gangs import Need
from admission.engine.plan import Admit
from admission.engine.snapshot import Snapshot
from admission.engine.topology import Amounts
from admission.engine.trial import Columns, Trial
from queues.fairshare import below_deserved
from queues.precedence import gives_way
from queues.quota import QueueTree
from queues.ranks import Candidate
from queues.usage import accounts, seats_by_flavor
from queues.workload import Admission, AdmissionState, PodSet, QueueName, Seat, Workload


def nobody_makes_room(tree: QueueTree, queue: QueueName) -> bool:
    """Whether gangs of a queue have no place cleared for them, or only after more than a day."""
    return queue in tree.paths and not gives_way(tree.policy(queue))


def waits_in_vain(candidate: Candidate, need: Need, trial: Trial) -> bool:
    """Whether a place is to be kept for somebody: a gang, of a queue that has less than it deserves."""
    queue = candidate.workload.queue
    return (
        sum(len(each) for each in need.least.values()) > 1
        and nobody_makes_room(trial.tree, queue)
        and below_deserved(trial.usage, queue, candidate.accounts)
    )


def place(
    snapshot: Snapshot, workload: Workload, since: int, need: Need, trial: Trial
) -> tuple[Columns, Amounts] | None:
    """Nodes, and (R, n) what of them, free now, is to be kept for a gang that waits since that second.

    None: it would not fit either if all were gone who were admitted after it came.
    """
    passed = _Passed.since(snapshot, since, trial)
    low, high = passed.least(workload, need, trial), len(passed.ends)
    if low > high:
        return None
    # The estimate is what it takes as a rule, and never too high.
    found = passed.gone(low, workload, need, trial)
    if found is None:
        low, found = low + 1, passed.gone(high, workload, need, trial)
        while found is not None and low < high:
            middle = (low + high) // 2
            fits = passed.gone(middle, workload, need, trial)
            low, high, found = (low, middle, fits) if fits is not None else (middle + 1, high, found)
    if found is None:
        return None
    later, answer = found
    columns, _ = per_node(answer.seats, trial)
    left = np.maximum(later.free[:, columns], 0)
    return columns, np.maximum(trial.free[:, columns] - left, 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Passed:
    """Admissions that are newer than somebody's wait, those first that should end first; seat by seat."""

    admissions: Sequence[tuple[Admission, tuple[Seat, ...]]]
    #: After so many of the seats each admission ends.
    ends: Sequence[int]
    columns: Columns
    #: (seats, R)
    takes: Amounts

    @classmethod
    def since(cls, snapshot: Snapshot, since: int, trial: Trial) -> "_Passed":
        found = [
            each for each in snapshot.admissions.values() if each.opened_at >= since or _goes(snapshot, each)
        ]
        found.sort(key=lambda each: (not _goes(snapshot, each), -each.opened_at, each.id))
        position = trial.layout.position
        admissions, ends, columns, takes = [], [], [], []
        for admission in found:
            gone = admission.ended | snapshot.ended.get(admission.id, frozenset())
            seats = tuple(seat for index, seat in enumerate(admission.seats) if index not in gone)
            if not seats:
                continue
            for seat in seats:
                if seat.node in position:
                    columns.append(position[seat.node])
                    takes.append(trial.request(seat.takes))
            admissions.append((admission, seats))
            ends.append(len(columns))
        none = np.zeros((0, len(trial.free)), np.int64)
        return cls(admissions, ends, np.array(columns, np.intp), np.array(takes) if takes else none)

    def least(self, workload: Workload, need: Need, trial: Trial) -> int:
        """At least so many must be gone, by what pods of one set ask for; more than there are: it never fits."""
        wanted = {pods.name: pods for pods in workload.pod_sets}
        return max(
            self._least_for(wanted[name], len(ordinals), trial)
            for name, ordinals in need.least.items()
            if ordinals
        )

    def _least_for(self, pods: PodSet, count: int, trial: Trial) -> int:
        found = trial.layout.chain(pods.required_topology) if pods.required_topology is not None else None
        mask = trial.layout.allowed(pods.nodes)
        low, high = 0, len(self.ends) + 1
        while low < high:
            middle = (low + high) // 2
            later = trial.fork()
            self._add(later, middle)
            room = later.room(pods.takes, mask)
            most = room.sum() if found is None else found[0][found[1]].sums(room).max(initial=0)
            if most >= count:
                high = middle
            else:
                low = middle + 1
        return low

    def gone(self, many: int, workload: Workload, need: Need, trial: Trial) -> tuple[Trial, Admit] | None:
        """How it fits when so many of them are gone; None: it does not."""
        later = trial.fork()
        self._add(later, many)
        for admission, seats in self.admissions[:many]:
            later.usage.remove(admission.queue, accounts(seats_by_flavor(seats)))
        answer = gangs.admit(workload, need, later)
        return (later, answer) if isinstance(answer, Admit) else None

    def _add(self, later: Trial, many: int) -> None:
        """Their seats are free. More than there are: all."""
        seats = self.ends[min(many, len(self.ends)) - 1] if many and self.ends else 0
        np.add.at(later.free.T, self.columns[:seats], self.takes[:seats])


def _goes(snapshot: Snapshot, admission: Admission) -> bool:
    return admission.state is not AdmissionState.OPEN or admission.id in snapshot.evictable

"""Who is left out because too many wait in a queue, or of one user."""

from collections import Counter

from admission.engine import reasons
from admission.engine.classes import Entry
from admission.engine.plan import Reason
from queues.quota.tree import QueueTree
from queues.workload import QueueName, Workload, WorkloadKey


class Crowds:
    """Queues that consider only so many waiting workloads at a time, of all or of each user, by arrival.

    Workloads whose gang is complete, or that hold seats, do not count.
    """

    def __init__(self, tree: QueueTree) -> None:
        limited = {
            name
            for name, queue in tree.queues.items()
            if queue.max_pending is not None or queue.max_pending_per_user is not None
        }
        self._tree = tree
        #: Limited queues on the way up, by queue, nearest first.
        self._above = {
            name: tuple(each for each in path if each in limited) for name, path in tree.paths.items()
        }
        self._counted: dict[QueueName, dict[WorkloadKey, Entry]] = {name: {} for name in limited}
        self._beyond: dict[QueueName, dict[WorkloadKey, Reason]] = {name: {} for name in limited}
        self._touched: set[QueueName] = set()

    def add(self, entry: Entry) -> None:
        """Somebody who may be tried waits."""
        for name in self._over(entry):
            self._counted[name][entry.candidate.workload.key] = entry
            self._touched.add(name)

    def remove(self, entry: Entry) -> None:
        """That one does not wait any more."""
        for name in self._over(entry):
            self._counted[name].pop(entry.candidate.workload.key, None)
            self._beyond[name].pop(entry.candidate.workload.key, None)
            self._touched.add(name)

    def _over(self, entry: Entry) -> tuple[QueueName, ...]:
        above = self._above.get(entry.candidate.workload.queue, ())
        return () if not above or entry.candidate.joins or entry.wants.need.beside else above

    def cut(self) -> list[tuple[Entry, Reason | None]]:
        """Who is left out from now on, and why, or (None) left out no more."""
        moved: dict[WorkloadKey, Entry] = {}
        for name in self._touched:
            before, after = self._beyond[name], self._out(name)
            self._beyond[name] = after
            for key in before.keys() ^ after.keys():
                moved[key] = self._counted[name][key]
            for key in after:  # sorted in anew meanwhile
                if self._counted[name][key].rank is not None:
                    moved[key] = self._counted[name][key]
        self._touched.clear()
        answers: list[tuple[Entry, Reason | None]] = []
        for key, entry in moved.items():
            above = self._above[entry.candidate.workload.queue]
            reason = next((self._beyond[name][key] for name in above if key in self._beyond[name]), None)
            if reason is not None or entry.rank is None:
                answers.append((entry, reason))
        return answers

    def _out(self, name: QueueName) -> dict[WorkloadKey, Reason]:
        queue, counted = self._tree.queues[name], self._counted[name]
        limit, of_user = queue.max_pending, queue.max_pending_per_user
        if of_user is None and limit is not None and len(counted) <= limit:
            return {}
        out: dict[WorkloadKey, Reason] = {}
        users: Counter[str] = Counter()
        waiting = sorted((each.candidate.workload for each in counted.values()), key=_by_arrival)
        for place, workload in enumerate(waiting):
            users[workload.user] += 1
            if limit is not None and place >= limit:
                out[workload.key] = reasons.pending_limit(queue=name, limit=limit)
            elif of_user is not None and workload.user and users[workload.user] > of_user:
                out[workload.key] = reasons.user_limit(queue=name, limit=of_user, user=workload.user)
        return out


def _by_arrival(workload: Workload) -> tuple[int, WorkloadKey]:
    return workload.arrival, workload.key

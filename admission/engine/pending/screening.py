"""Who could go in at all as things stand at the start of a turn, were it alone.

Within a turn nothing is given back, so who cannot go in now is refused at once and need not be tried: a class
whose queue is at a limit, and a kind whose pods do not fit on the nodes. What is said of a class is worked out
again when the books of its queue changed, what is said of a kind when free amounts changed.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.host_ports import ports_of
from admission.engine.nodes.table import Amounts, NodeTable
from admission.engine.pending.classes import PlacementClass, WorkloadClass
from admission.engine.pending.pending import PendingWorkloads
from admission.engine.placement import gangs
from admission.engine.placement.flavors import quota_hit
from admission.engine.trial import Trial
from queues.plan import Admit, Reason
from queues.quota.accounts import charges, flavor_charges
from queues.quota.queue import ROOT
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import FlavorName, NodeFilter, PodSet, QueueName


@dataclass(slots=True, eq=False)
class Screening:
    """What was found out about nodes; kept from turn to turn as long as they stay the same."""

    _free: Amounts | None = None
    _table: NodeTable | None = None
    #: The most pods of one shape that fit, in all or into the best domain of a level.
    _most: dict[tuple[Resources, NodeFilter, FlavorName | None, str | None], int] = field(
        default_factory=dict
    )

    def update(
        self, waiting: PendingWorkloads, touched: Iterable[QueueName], trial: Trial
    ) -> list[WorkloadClass]:
        """Bring every class up to date. Returns those about which something else is to be said."""
        news: list[WorkloadClass] = []
        nodes_changed = not self._same_nodes(trial)
        for batch in waiting.dirty_classes:
            if batch.dirty_limit and batch.class_queue.candidates:
                _ask_queue(batch, trial)
                waiting.starving.update(batch)
                batch.dirty_limit = False
        for queue in leaf_queues(waiting, touched):
            for batch in waiting.classes.get(queue, {}).values():
                _ask_queue(batch, trial)
                waiting.starving.update(batch)
                batch.placement_class.dirty_reason |= bool(batch.placement_class.flavors)
                news.append(batch)
        for kind in waiting.placement_classes.values():
            if nodes_changed:
                kind.dirty_reason = True
            if kind.open_classes and kind.dirty_reason:
                before, kind.reason = kind.reason, _unless_equal(kind.reason, self._ask_nodes(kind, trial))
                kind.dirty_reason = False
                news += kind.open_classes
                if _is_limit(before) or _is_limit(kind.reason):
                    for batch in kind.open_classes:
                        waiting.starving.update(batch)
        return news

    def _same_nodes(self, trial: Trial) -> bool:
        """Whether free amounts are what they were at the last look."""
        before, table = self._table, trial.table
        same = (
            before is not None
            and self._free is not None
            and before.layout is table.layout
            and before.resources == table.resources
            and (before is table or _same_but_used(before, table))
            and np.array_equal(self._free, trial.free)
        )
        if not same:
            self._free = trial.free.copy()
            self._most.clear()
        self._table = table
        return same

    def _ask_nodes(self, kind: PlacementClass, trial: Trial) -> Reason | None:
        """Why not even one of the kind fits; None: one may."""
        if self._may_fit(kind, trial):
            return None
        batch = next(iter(kind.open_classes))
        workload = batch.class_queue.candidates[0].workload if batch.class_queue.candidates else kind.workload
        answer = gangs.admit(workload, kind.wants.need, trial)
        if isinstance(answer, Admit):  # it fits after all, and nothing was to be taken yet
            books, ports = charges(answer.seats), ports_of(workload, answer.seats)
            trial.remove_seats(answer.queue, books, answer.seats, ports)
            return None
        return answer

    def _may_fit(self, kind: PlacementClass, trial: Trial) -> bool:
        need = kind.wants.need
        sets = kind.workload.pod_sets
        if need.complete:
            return any(self._fits(pods, 1, kind, trial) for pods in sets if pods.name in need.missing)
        due = (
            need.set_minimums
            if kind.wants.has_choice
            else {name: len(each) for name, each in need.minimum.items()}
        )
        if not all(self._fits(pods, due[pods.name], kind, trial) for pods in sets if due.get(pods.name)):
            return False
        if not kind.wants.has_choice:
            return True
        enough = sum(len(each) for each in need.minimum.values())
        return sum(self._at_most(pods, kind, trial) for pods in sets) >= enough

    def _at_most(self, pods: PodSet, kind: PlacementClass, trial: Trial) -> int:
        """How many of one pod set could have a place if there were no others."""
        missing = len(kind.wants.need.missing.get(pods.name, ()))
        return bisect_left(range(1, missing + 1), True, key=lambda n: not self._fits(pods, n, kind, trial))

    def _fits(self, pods: PodSet, count: int, kind: PlacementClass, trial: Trial) -> bool:
        """Whether so many could have a place if there were no other pod sets."""
        seated = pods.name in kind.wants.need.seated_nodes
        level = None if seated else pods.required_topology
        if not kind.flavors:
            return self._most_pods(pods, None, level, trial) >= count
        queue, takes = kind.workload.queue, pods.takes * count
        return any(
            quota_hit(trial, queue, flavor_charges({flavor: takes})) is None
            and self._most_pods(pods, flavor, level, trial) >= count
            for flavor in kind.flavors
        )

    def _most_pods(self, pods: PodSet, flavor: FlavorName | None, level: str | None, trial: Trial) -> int:
        name = (pods.takes, pods.nodes, flavor, level)
        most = self._most.get(name)
        if most is None:
            mask = trial.layout.allowed(pods.nodes)
            if flavor is not None:
                mask = mask & trial.layout.of_flavor(flavor)
            room = trial.pods_per_node(pods.takes, mask)
            if level is None:
                most = int(room.sum())
            else:
                found = trial.layout.chain(level)
                sums = np.zeros(0) if found is None else found[0][found[1]].sums(room)
                most = int(sums.max()) if len(sums) else 0
            self._most[name] = most
        return most


def leaf_queues(waiting: PendingWorkloads, touched: Iterable[QueueName]) -> set[QueueName]:
    """Queues in which somebody waits and whose path was touched so that a limit may be another one."""
    tree = waiting.tree
    names = {name for name in touched if name in tree.paths}
    if not tree.idle[ROOT]:
        # The cluster as a whole is no limit to a queue unless guarantees are kept from it.
        names.discard(ROOT)
    found: set[QueueName] = set()
    stack = list(names)
    while stack:
        name = stack.pop()
        below = tree.children.get(name, ())
        if not below and name in waiting.classes:
            found.add(name)
        stack += below
    return found


def _ask_queue(batch: WorkloadClass, trial: Trial) -> None:
    """Whether the queue lets one of them in now."""
    if batch.blocked is not None:
        return
    hits = [quota_hit(trial, batch.queue, each) for each in batch.wants.minimum_charges]
    hit = hits[0] if all(hits) and hits else None
    limit = None if hit is None else reasons.queue_limit(hit)
    batch.queue_limit = _unless_equal(batch.queue_limit, limit)
    if batch.queue_limit is None:
        batch.placement_class.open_classes[batch] = None
    else:
        batch.placement_class.open_classes.pop(batch, None)


def _is_limit(reason: Reason | None) -> bool:
    return reason is not None and reason.code == ReasonCode.QUEUE_LIMIT


def _unless_equal(before: Reason | None, after: Reason | None) -> Reason | None:
    """An equal reason stays the same object."""
    return before if before == after else after


def _same_but_used(before: NodeTable, after: NodeTable) -> bool:
    return before.allocatable is after.allocatable and (
        before.ports is after.ports or before.ports == after.ports
    )

"""Classes that could not be admitted at the start of a turn even alone.

Nothing is freed within a turn, so what cannot be admitted now is refused at once and need not be tried: classes of
queues at a limit, and placement classes with pods that do not fit on the nodes. The first is worked out again when
the use of the class's queue changed, the second when free amounts changed.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.table import Amounts, NodeTable
from admission.engine.pending.classes import PlacementClass, WorkloadClass
from admission.engine.pending.pending import PendingWorkloads
from admission.engine.placement import gangs
from admission.engine.placement.flavors import quota_hit
from admission.engine.placement.need import member_charges
from admission.engine.placement.pod_rules import awaits_others
from admission.engine.trial import Trial
from queues.plan import Reason
from queues.quota.accounts import flavor_charges
from queues.quota.queue import ROOT
from queues.resources import Resources
from queues.workload import DeviceShare, FlavorName, NodeFilter, PodSet, QueueName


@dataclass(slots=True, eq=False)
class Screening:
    """What was found out about the nodes; kept from turn to turn as long as they stay the same."""

    #: Free amounts and nodes of the last turn; None if this is the first.
    _free: Amounts | None = None
    _table: NodeTable | None = None
    #: What claims held of them; None if there was no claim.
    _withheld: Amounts | None = None
    #: The most pods of one shape that fit, in all or into the best domain of a level.
    _most: dict[
        tuple[Resources, DeviceShare | None, bool, NodeFilter, FlavorName | None, str | None], int
    ] = field(default_factory=dict)

    def ask_queues(
        self, pending: PendingWorkloads, dirty_queues: Iterable[QueueName], trial: Trial
    ) -> list[WorkloadClass]:
        """Bring up to date which classes their queues could admit. Returns classes that may have another reason now."""
        dirty: list[WorkloadClass] = []
        for each in pending.dirty_classes:
            if each.dirty_queue_limit and each.class_queue.candidates:
                _ask_queue(each, trial)
                each.dirty_queue_limit = False
        for queue in leaf_queues(pending, dirty_queues):
            for each in pending.classes.get(queue, {}).values():
                _ask_queue(each, trial)
                each.placement_class.dirty_reason |= bool(each.placement_class.flavors)
                dirty.append(each)
        return dirty

    def ask_nodes(
        self, pending: PendingWorkloads, trial: Trial, left_out: Collection[WorkloadClass]
    ) -> list[WorkloadClass]:
        """The same for nodes, without what is asked for by classes that are ``left_out`` only."""
        dirty: list[WorkloadClass] = []
        nodes_changed = not self._same_nodes(trial) or pending.quota_is_held
        for placement in pending.placement_classes.values():
            if nodes_changed:
                placement.dirty_reason = True
            if placement.dirty_reason and self._note_awaited(placement, trial):
                dirty += _classes_of(placement, pending)
            if placement.dirty_reason and any(each not in left_out for each in placement.open_classes):
                placement.reason = _unless_equal(placement.reason, self._ask_nodes(placement, trial))
                placement.dirty_reason = False
                dirty += placement.open_classes
        return dirty

    def _note_awaited(self, placement: PlacementClass, trial: Trial) -> bool:
        """Bring up to date whether pods of others have to come first. True if it is another answer than before."""
        before, need = placement.awaits_others, placement.request.need
        due = need.minimum or need.missing
        sets = placement.workload.pod_sets
        placement.awaits_others = any(pods.rules.near for pods in sets if pods.name in due) and awaits_others(
            trial, sets
        )
        return placement.awaits_others != before

    def _same_nodes(self, trial: Trial) -> bool:
        """Whether free amounts, and what claims hold of them, are what they were in the last turn."""
        before, table = self._table, trial.table
        withheld = None if trial.withheld is None else trial.withheld()
        as_before = withheld is self._withheld is None or (
            withheld is not None and self._withheld is not None and np.array_equal(withheld, self._withheld)
        )
        self._withheld = withheld
        same = (
            before is not None
            and self._free is not None
            and before.differs_in_use_only(table)
            and bool((self._free == trial.free).all())
        )
        if not same:
            self._free = trial.free.copy()
            self._most.clear()
        self._table = table
        return same and as_before

    def _ask_nodes(self, placement: PlacementClass, trial: Trial) -> Reason | None:
        """Why not even one workload of a placement class fits; None if one may."""
        trial.progress.workload = placement.workload.key
        if not placement.awaits_others and self.may_fit(placement, trial):
            return None
        members = next(iter(placement.open_classes)).class_queue.candidates
        workload = members[0].workload if members else placement.workload
        return gangs.refusal_of_first(workload, placement.request.need, trial)

    def may_fit(self, placement: PlacementClass, trial: Trial) -> bool:
        """A quick check by sums: no is certain, yes is not."""
        request, need = placement.request, placement.request.need
        sets = placement.workload.pod_sets
        if need.complete:
            return any(self._fits(pods, 1, placement, trial) for pods in sets if pods.name in need.missing)
        minimum = {name: len(each) for name, each in need.minimum.items()}
        due = need.set_minimums if request.has_choice else minimum
        if not all(self._fits(pods, due[pods.name], placement, trial) for pods in sets if due.get(pods.name)):
            return False
        if not request.has_choice:
            return True
        return sum(self._at_most(pods, placement, trial) for pods in sets) >= sum(minimum.values())

    def _at_most(self, pods: PodSet, placement: PlacementClass, trial: Trial) -> int:
        """How many of one pod set could have a place if there were no others."""
        missing = len(placement.request.need.missing.get(pods.name, ()))
        counts = range(1, missing + 1)
        return bisect_left(counts, True, key=lambda count: not self._fits(pods, count, placement, trial))

    def _fits(self, pods: PodSet, count: int, placement: PlacementClass, trial: Trial) -> bool:
        """Whether so many could have a place if there were no other pod sets."""
        seated = pods.name in placement.request.need.seated
        level = None if seated else pods.required_topology
        if not placement.flavors:
            return self._most_pods(pods, None, level, trial) >= count
        queue, takes = placement.workload.queue, pods.takes * count
        return any(
            quota_hit(trial, queue, flavor_charges({flavor: takes})) is None
            and self._most_pods(pods, flavor, level, trial) >= count
            for flavor in placement.flavors
        )

    def _most_pods(self, pods: PodSet, flavor: FlavorName | None, level: str | None, trial: Trial) -> int:
        name = (pods.takes, pods.share, pods.in_one_island, pods.nodes, flavor, level)
        most = self._most.get(name)
        if most is None:
            mask = trial.layout.allowed(pods.nodes)
            if flavor is not None:
                mask = mask & trial.layout.of_flavor(flavor)
            room = trial.room_for(pods, mask)
            most = self._most[name] = trial.layout.most_pods(room, level)
        return most


def leaf_queues(pending: PendingWorkloads, dirty_queues: Iterable[QueueName]) -> set[QueueName]:
    """Queues with pending workloads in or below these: a limit of theirs may have another answer."""
    tree = pending.tree
    names = {name for name in dirty_queues if name in tree.paths}
    if not (tree.idle[ROOT] or pending.quota_is_held or tree.queues[ROOT].max_per_user):
        # The cluster as a whole is no limit to a queue unless guarantees or held quota are kept from it.
        names.discard(ROOT)
    found: set[QueueName] = set()
    stack = list(names)
    while stack:
        name = stack.pop()
        below = tree.children.get(name, ())
        if not below and name in pending.classes:
            found.add(name)
        stack += below
    return found


def _classes_of(placement: PlacementClass, pending: PendingWorkloads) -> list[WorkloadClass]:
    classes = (each for of_queue in pending.classes.values() for each in of_queue.values())
    return [each for each in classes if each.placement_class is placement]


def _ask_queue(workload_class: WorkloadClass, trial: Trial) -> None:
    """Work out whether the queue could admit one workload of the class now."""
    if workload_class.blocked is not None:
        return
    charges_of_choices = workload_class.request.minimum_charges
    hits = [quota_hit(trial, workload_class.queue, each) for each in charges_of_choices]
    hit = hits[0] if all(hits) and hits else None
    limit = None if hit is None else reasons.queue_limit(hit)
    workload_class.queue_limit = _unless_equal(workload_class.queue_limit, limit)
    workload_class.user_limit = _unless_equal(workload_class.user_limit, _user_limit(workload_class, trial))
    if workload_class.queue_limit is None and workload_class.user_limit is None:
        workload_class.placement_class.open_classes[workload_class] = None
    else:
        workload_class.placement_class.open_classes.pop(workload_class, None)


def _user_limit(workload_class: WorkloadClass, trial: Trial) -> Reason | None:
    """Why the user of a class may use no more; None if they may, or no queue limits it. Its members are of one user."""
    candidates, request = workload_class.class_queue.candidates, workload_class.request
    if not candidates:
        return None
    workload = candidates[0].workload
    # What is short of one member has no minimum to meet.
    choices = request.minimum_charges or [
        member_charges(workload, {name: ordinals[:1]}) for name, ordinals in request.need.missing.items()
    ]
    hits = [trial.user_hit(workload, each) for each in choices]
    hit = hits[0] if hits and all(hits) else None
    return None if hit is None else reasons.use_per_user(hit)


def _unless_equal(before: Reason | None, after: Reason | None) -> Reason | None:
    """An equal reason stays the same object."""
    return before if before == after else after

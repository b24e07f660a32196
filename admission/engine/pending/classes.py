"""Classes of pending workloads, and the one answer that each of them gets.

A workload class is all workloads of one shape in one queue (equivalence classes, as other schedulers say): they get
one answer. A placement class is all workload classes that get one answer from the nodes.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from admission.engine import reasons
from admission.engine.pending.waiting_time import passed_over_from, soonest, starves_at, waits_since
from admission.engine.placement.need import (
    MissingMembers,
    attempt_cost,
    member_charges,
    minimum_choices,
    missing_members,
)
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.order.line import ClassQueue
from queues.order.policies import LineEntry, Rank, devices
from queues.plan import Reason
from queues.quota.access import AccessRefusal
from queues.quota.accounts import Account
from queues.quota.tree import QueueTree
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import FlavorName, QueueName, Workload, WorkloadKey

#: Refusals for lack of what others hold: evictions, and seats that come back, may help against them.
FOR_LACK_OF_ROOM: Final = (ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT, ReasonCode.QUEUE_LIMIT)


@dataclass(frozen=True, slots=True, eq=False)
class ClassRequest:
    """What a workload lacks and asks for: the same for all workloads of one shape that hold no seat."""

    need: MissingMembers
    asked: Resources
    #: Accounts of what is asked, over all flavors.
    accounts: tuple[Account, ...]
    #: What the gang asks at the least, by choice of its members. Empty: the gang is complete.
    minimum_charges: tuple[Mapping[Account, int], ...]
    #: Whole devices that the gang needs to start: its size in the order of its queue.
    devices: int

    @classmethod
    def of(cls, workload: Workload, held: Sequence[Seat]) -> "ClassRequest":
        """What is asked beyond the seats that the workload holds."""
        need = missing_members(workload, held)
        asked = member_charges(workload, need.missing)
        takes = Resources({account.resource: units for account, units in asked.items()})
        choices = tuple(member_charges(workload, each) for each in minimum_choices(workload, need))
        return cls(need, takes, tuple(asked), choices, devices(workload))

    @property
    def has_choice(self) -> bool:
        """Whether the gang's minimum can be met by more than one choice of members."""
        return len(self.minimum_charges) > 1


@dataclass(slots=True, eq=False)
class PodShapes:
    """The pods of workloads that hold no seat. Workloads with equal pods share one object."""

    name: Hashable
    request: ClassRequest
    #: Number of workloads that ask for them.
    workload_count: int = 0
    _names: dict[Hashable, Hashable] = field(default_factory=dict)

    def shared(self, name: Hashable) -> Hashable:
        """An equal name of a class of such workloads, the same one for all its members."""
        return self._names.setdefault(name, name)

    def forget_names(self) -> None:
        """No workload asks for these pods any more. The names refer to this object."""
        self._names.clear()


@dataclass(slots=True, eq=False)
class PlacementClass:
    """Workload classes that get one answer from the nodes."""

    name: Hashable
    request: ClassRequest
    #: One of the workloads: all ask for the same pods.
    workload: Workload
    flavors: tuple[FlavorName, ...]
    #: Classes that no queue limit blocks at the start of the turn.
    open_classes: dict["WorkloadClass", None] = field(default_factory=dict)
    class_count: int = 0
    #: Why the nodes cannot take even one of the workloads at the start of the turn; None if they may.
    reason: Reason | None = None
    dirty_reason: bool = True
    #: Whether pods of others have to come before one of the workloads has a place. None of the line waits for that.
    awaits_others: bool = False
    #: Of an attempt: see ``admission.engine.placement.need.attempt_cost``.
    cost: int = field(init=False)

    def __post_init__(self) -> None:
        self.cost = attempt_cost(self.workload, self.request.need)


class ClassAnswer(msgspec.Struct, frozen=True, eq=False):
    """One reason for several workloads of a queue. The same object as long as neither changes.

    A struct because a turn makes one for each class behind another one: without Python code.
    """

    queue: QueueName
    reason: Reason
    #: In the order in which they would be tried.
    members: Sequence[LineEntry]
    #: What each of them lacks.
    need: MissingMembers

    def workloads(self) -> Iterator[WorkloadKey]:
        """Keys of the members."""
        return (each.workload.key for each in self.members)


@dataclass(slots=True, eq=False)
class WorkloadClass:
    """Workloads of one shape in one queue, and why they wait."""

    name: Hashable
    #: The workloads, in the order of the queue.
    class_queue: ClassQueue
    request: ClassRequest
    placement_class: PlacementClass
    #: Why none of the workloads is admitted until queues or nodes change; None if one may be.
    blocked: Reason | None
    #: Why the queue admits none of them at the start of the turn; None if it may admit one.
    queue_limit: Reason | None = None
    dirty_queue_limit: bool = True
    #: Why none of the workloads is admitted while their user uses so much; None if one may be. No other workload waits
    #: for it.
    user_limit: Reason | None = None
    #: The last answer, kept as long as reason and members stay the same.
    answer: ClassAnswer | None = None
    _longest_waiting: LineEntry | None = None
    _starves_from: int | None = None

    @property
    def queue(self) -> QueueName:
        """Where the workloads wait."""
        return self.class_queue.queue

    @property
    def is_considered(self) -> bool:
        """Whether any member was not admitted in this turn, and no other workload has to come or to end for it that
        its queue does not wait for."""
        is_passed = self.user_limit is not None or self.placement_class.awaits_others
        return self.blocked is None and not is_passed and self.waits

    @property
    def waits(self) -> bool:
        """Whether any member was not admitted in this turn."""
        return self.class_queue.taken < len(self.class_queue.candidates)

    def longest_waiting(self) -> LineEntry:
        """The member that has waited longest."""
        if self._longest_waiting is None:
            members = self.class_queue.candidates
            self._longest_waiting = min(members, key=lambda each: waits_since(each.workload))
        return self._longest_waiting

    def starves_from(self, tree: QueueTree) -> int | None:
        """From which second on its longest waiting member counts as passed over, or has places cleared.

        None if never.
        """
        if self._starves_from is None and self.request.need.of_gang:
            workload, need = self.longest_waiting().workload, self.request.need
            passed_over, due = passed_over_from(workload, need, tree), starves_at(workload, need, tree)
            self._starves_from = soonest(passed_over, due)
        return self._starves_from

    def screened_out(self) -> Reason | None:
        """Why no member could be admitted even alone; None if one could."""
        return self.queue_limit or self.placement_class.reason

    def members_changed(self) -> None:
        """Forget what was worked out from the members."""
        self.answer = self._longest_waiting = self._starves_from = None

    def answer_with(self, reason: Reason) -> ClassAnswer:
        """The answer for the members that were not admitted, with this reason."""
        known = self.answer
        if known is None or known.reason is not reason:
            members = tuple(self.class_queue.rest()) if known is None else known.members
            known = self.answer = ClassAnswer(self.queue, reason, members, self.request.need)
        return known


@dataclass(slots=True, eq=False)
class PendingWorkload:
    """One pending workload, and where it is sorted in."""

    line_entry: LineEntry
    #: The workload as the snapshot has it: its priority may be higher than what counts in its queue.
    source: Workload
    request: ClassRequest
    #: None if the workload holds seats.
    pod_shapes: PodShapes | None
    #: None if the workload waits for a reason of its own.
    workload_class: WorkloadClass | None = None
    #: Place in the class; None if left out for now.
    rank: Rank | None = None
    #: Closures and flavors whose nodes its pods may use.
    enters: tuple[str, ...] = ()

    @property
    def workload(self) -> Workload:
        """The workload, with the priority that counts."""
        return self.line_entry.workload


class ClassAnswers(Mapping[WorkloadKey, Reason]):
    """The reason of every pending workload that was not admitted. Read as a mapping it is sorted by workload.

    ``classes`` is what it is made of: a reader of many turns looks at the new answers only.
    """

    __slots__ = ("_index", "_size", "classes", "overlap", "own_reasons")

    def __init__(
        self,
        classes: Mapping[WorkloadClass, ClassAnswer],
        own_reasons: Mapping[WorkloadKey, Reason],
        overlap: int = 0,
    ) -> None:
        """``overlap``: number of workloads with a reason of their own that are in a class as well."""
        #: By class; a workload is in one of them at most.
        self.classes = classes
        #: Reasons of single workloads; they go before that of the class.
        self.own_reasons = own_reasons
        self.overlap = overlap
        self._index: dict[WorkloadKey, Reason] | None = None
        self._size: int | None = None

    def _all(self) -> dict[WorkloadKey, Reason]:
        if self._index is None:
            index: dict[WorkloadKey, Reason] = {}
            for answer in self.classes.values():
                index.update(dict.fromkeys(answer.workloads(), answer.reason))
            index.update(self.own_reasons)
            self._index = {key: index[key] for key in sorted(index)}
        return self._index

    def __getitem__(self, key: WorkloadKey) -> Reason:
        return self._all()[key]

    def __iter__(self) -> Iterator[WorkloadKey]:
        return iter(self._all())

    def __len__(self) -> int:
        if self._size is None:
            members = sum(len(each.members) for each in self.classes.values())
            self._size = members + len(self.own_reasons) - self.overlap
        return self._size

    def __repr__(self) -> str:
        return repr(self._all())


def obstacle(workload: Workload, now: int) -> Reason | None:
    """What is wrong with the workload itself, or its backoff; None if it may be tried."""
    if workload.obstacle is not None:
        return Reason(code=workload.obstacle.code, message=workload.obstacle.message)
    if workload.not_before > now:
        return reasons.backoff(workload.not_before)
    return None


def blocked_reason(
    workload: Workload, request: ClassRequest, trial: Trial, not_allowed: AccessRefusal | None
) -> Reason | None:
    """Why no workload of a class is admitted until queues, namespaces or nodes change; None if one may be.

    ``not_allowed``: why the namespace of the workload may not use the queue.
    """
    return (
        _queue_is_unusable(trial.tree, workload.queue)
        or _not_allowed(workload, not_allowed)
        or _queue_is_stopped(trial.tree, workload.queue)
        or (None if _replaces_lost_pods(request.need) else budget_refusal(trial.tree, workload.queue))
        or _unknown_resource(request.asked, trial)
        or _gang_refused(workload, request.need, trial.tree)
    )


def queue_refusal(tree: QueueTree, queue: QueueName) -> Reason | None:
    """Why a queue takes no workload at all now; None if it takes some."""
    return _queue_is_unusable(tree, queue) or _queue_is_stopped(tree, queue) or budget_refusal(tree, queue)


def budget_refusal(tree: QueueTree, queue: QueueName) -> Reason | None:
    """Why a queue admits nothing more until its month is over; None if no budget on its path is used up."""
    spent = tree.budget_spent(queue)
    return None if spent is None else reasons.budget_spent(queue, spent)


def new_work_refusal(tree: QueueTree, workload: Workload) -> Reason | None:
    """Why a workload that holds nothing is not admitted for the first time; None if it may be, or was before."""
    if workload.was_admitted or (hold := tree.hold(workload.queue)) is None:
        return None
    return reasons.queue_on_hold(workload.queue, hold)


def _queue_is_unusable(tree: QueueTree, queue: QueueName) -> Reason | None:
    if queue not in tree.queues or tree.queues[queue].removed:
        return reasons.unknown_queue(queue)
    if not tree.leaf(queue):
        return reasons.queue_not_leaf(queue, tree.children[queue])
    if not tree.usable(queue):
        return reasons.queue_broken(queue, tree.problems[queue])
    return None


def _not_allowed(workload: Workload, refusal: AccessRefusal | None) -> Reason | None:
    return None if refusal is None else reasons.not_allowed(workload.queue, workload.namespace, refusal)


def _queue_is_stopped(tree: QueueTree, queue: QueueName) -> Reason | None:
    if (closed := tree.closed(queue)) is not None:
        return reasons.queue_closed(queue, closed)
    if (paused := tree.paused(queue)) is not None:
        return reasons.queue_paused(queue, paused)
    if (problem := tree.policies(queue).holding) is not None:
        return reasons.plugin_not_usable(queue, problem)
    return None


def _replaces_lost_pods(need: MissingMembers) -> bool:
    """Whether a gang that runs lacks pods of its minimum: without them it does not go on."""
    return bool(need.seated) and not need.complete


def _unknown_resource(asked: Resources, trial: Trial) -> Reason | None:
    resource = trial.unknown_resource(asked)
    if resource is None or not len(trial.table):
        return None
    offered = [
        name for name, row in zip(trial.table.resources, trial.table.allocatable, strict=True) if row.any()
    ]
    return reasons.unknown_resource(resource, offered)


def _gang_refused(workload: Workload, need: MissingMembers, tree: QueueTree) -> Reason | None:
    if need.shortfall:
        minimum = max(workload.minimum, sum(pods.minimum for pods in workload.pod_sets))
        return reasons.not_enough_pods(exist=minimum - need.shortfall, minimum=minimum)
    if not need.missing:
        return reasons.nothing_missing()
    limit = tree.max_gang(workload.queue)
    if limit is not None and (pods := sum(each.count for each in workload.pod_sets)) > limit[1]:
        return reasons.gang_too_large(queue=limit[0], limit=limit[1], pods=pods)
    return None

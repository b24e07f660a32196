"""What a workload lacks and asks for, and what keeps it out whatever the nodes and books are.

Why everybody waits, kept by class: one reason for all workloads of one shape in one queue.

Workloads of one shape in one queue, which get one answer; and what such classes share.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from admission.engine import reasons
from admission.engine.pending.waiting_time import waits_since
from admission.engine.placement import need as need_module
from admission.engine.placement.need import MissingMembers
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.order.line import ClassQueue
from queues.order.policies import LineEntry, Rank
from queues.plan import Reason
from queues.quota.accounts import Account
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import FlavorName, QueueName, Workload, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RefusedClass:
    """Candidates of one queue and one shape that were refused together."""

    #: In the order in which they would be tried.
    members: Sequence[LineEntry]
    #: What each of them lacks.
    need: MissingMembers
    reason: Reason


@dataclass(frozen=True, slots=True, eq=False)
class ClassRequest:
    """What a workload lacks and asks for: the same for all of one shape that hold no seat."""

    need: MissingMembers
    asked: Resources
    accounts: tuple[Account, ...]
    #: What its gang asks at the least, over all flavors, with these or those members; () if it is complete.
    minimum_charges: tuple[Mapping[Account, int], ...]

    @classmethod
    def of(cls, workload: Workload, held: Sequence[Seat]) -> "ClassRequest":
        """Beyond the seats that are held."""
        need = need_module.missing_members(workload, held)
        asked = need_module.member_charges(workload, need.missing)
        takes = Resources({account.resource: units for account, units in asked.items()})
        leasts = tuple(
            need_module.member_charges(workload, each) for each in need_module.minimum_choices(workload, need)
        )
        return cls(need, takes, tuple(asked), leasts)

    @property
    def has_choice(self) -> bool:
        """Whether the gang's minimum can be met by more than one choice of members."""
        return len(self.minimum_charges) > 1


def obstacle(workload: Workload, now: int) -> Reason | None:
    """What is wrong with the workload itself, or that it has to wait for its time."""
    if workload.obstacle is not None:
        code, message = workload.obstacle
        return Reason(code=code, message=message)
    if workload.not_before > now:
        return reasons.backoff(workload.not_before)
    return None


def blocked_reason(workload: Workload, wants: ClassRequest, trial: Trial) -> Reason | None:
    """What keeps all of a class out until queues or nodes are other ones."""
    return (
        _queue_refuses(trial.tree, workload.queue)
        or _nobody_has(wants.asked, trial)
        or _gang_refused(workload, wants.need, trial.tree)
    )


def _nobody_has(asked: Resources, trial: Trial) -> Reason | None:
    resource = trial.unknown_resource(asked)
    if resource is None or not len(trial.table):
        return None
    offered = [
        name for name, row in zip(trial.table.resources, trial.table.allocatable, strict=True) if row.any()
    ]
    return reasons.unknown_resource(resource, offered)


def _queue_refuses(tree: QueueTree, queue: QueueName) -> Reason | None:
    if queue not in tree.queues:
        return reasons.unknown_queue(queue)
    if not tree.leaf(queue):
        return reasons.queue_not_leaf(queue, tree.children[queue])
    if not tree.usable(queue):
        return reasons.queue_broken(queue, tree.problems[queue])
    if (closed := tree.closed(queue)) is not None:
        return reasons.queue_closed(queue, closed)
    if (paused := tree.paused(queue)) is not None:
        return reasons.queue_paused(queue, paused)
    return None


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


@dataclass(frozen=True, slots=True, eq=False)
class ClassAnswer:
    """One reason for several workloads of a queue. The same object as long as neither changes."""

    queue: QueueName
    reason: Reason
    members: Sequence[LineEntry]

    def workloads(self) -> Iterator[WorkloadKey]:
        """Whom it is about."""
        return (each.workload.key for each in self.members)


class ClassAnswers(Mapping[WorkloadKey, Reason]):
    """The reason of every workload that waits. Read as a mapping it is sorted by workload.

    ``classes`` is what it is made of: whoever follows many turns looks at those that are new.
    """

    __slots__ = ("_index", "_size", "classes", "overlap", "singles")

    def __init__(
        self,
        classes: Mapping[Hashable, ClassAnswer],
        own_reasons: Mapping[WorkloadKey, Reason],
        overlap: int = 0,
    ) -> None:
        """``overlap``: how many of the singles are in a class as well."""
        #: By class; a workload is in one of them at most.
        self.classes = classes
        #: Reasons of workloads for themselves; they count before that of the class.
        self.singles = own_reasons
        self.overlap = overlap
        self._index: dict[WorkloadKey, Reason] | None = None
        self._size: int | None = None

    def _all(self) -> dict[WorkloadKey, Reason]:
        if self._index is None:
            index: dict[WorkloadKey, Reason] = {}
            for verdict in self.classes.values():
                index.update(dict.fromkeys(verdict.workloads(), verdict.reason))
            index.update(self.singles)
            self._index = {key: index[key] for key in sorted(index)}
        return self._index

    def __getitem__(self, key: WorkloadKey) -> Reason:
        return self._all()[key]

    def __iter__(self) -> Iterator[WorkloadKey]:
        return iter(self._all())

    def __len__(self) -> int:
        if self._size is None:
            members = sum(len(each.members) for each in self.classes.values())
            self._size = members + len(self.singles) - self.overlap
        return self._size

    def __repr__(self) -> str:
        return repr(self._all())


@dataclass(slots=True, eq=False)
class PodShapes:
    """The pods of workloads that hold no seat. Equal ones are the same object."""

    name: Hashable
    wants: ClassRequest
    #: So many workloads ask for them.
    workload_count: int = 0


@dataclass(slots=True, eq=False)
class PlacementClass:
    """Classes that get one answer from the nodes."""

    name: Hashable
    wants: ClassRequest
    #: One of them: all ask for the same pods.
    workload: Workload
    flavors: tuple[FlavorName, ...]
    #: Classes whose queues let them in as things stand at the start of the turn.
    open_classes: dict["WorkloadClass", None] = field(default_factory=dict)
    #: So many classes are of this kind.
    class_count: int = 0
    #: Why not even one goes in at the start of the turn; None: it may.
    reason: Reason | None = None
    #: Whether that has to be worked out anew.
    dirty_reason: bool = True


@dataclass(slots=True, eq=False)
class WorkloadClass:
    """A class: workloads of one shape in one queue, and why they wait."""

    name: Hashable
    class_queue: ClassQueue
    wants: ClassRequest
    placement_class: PlacementClass
    #: Why none of them will go in until queues or nodes are other ones.
    blocked: Reason | None
    #: Why the queue lets none of them in at the start of this turn.
    queue_limit: Reason | None = None
    #: Whether that has to be worked out anew.
    dirty_limit: bool = True
    #: The last answer, kept as long as it and the members stay the same.
    answer: ClassAnswer | None = None
    _refused: RefusedClass | None = None
    #: Who of them has waited longest, once that was asked.
    _longest_waiting: LineEntry | None = None

    @property
    def queue(self) -> QueueName:
        """Where they wait."""
        return self.class_queue.queue

    @property
    def waits(self) -> bool:
        """Whether somebody was not admitted."""
        return self.class_queue.taken < len(self.class_queue.candidates)

    def longest_waiting(self) -> LineEntry:
        """Who of them has waited longest."""
        if self._longest_waiting is None:
            self._longest_waiting = min(
                self.class_queue.candidates, key=lambda each: waits_since(each.workload)
            )
        return self._longest_waiting

    def screened_out(self) -> Reason | None:
        """Why none of them could go in even alone."""
        return self.queue_limit or self.placement_class.reason

    def answer_with(self, reason: Reason) -> ClassAnswer:
        """This is why those of them wait who were not admitted."""
        known = self.answer
        if known is None or known.reason is not reason:
            members = tuple(self.class_queue.rest()) if known is None else known.members
            known = self.answer = ClassAnswer(self.queue, reason, members)
        return known

    def as_refused(self) -> RefusedClass:
        """The last answer, for those who could make room."""
        verdict, known = self.answer, self._refused
        assert verdict is not None
        if known is None or known.reason is not verdict.reason or known.members is not verdict.members:
            known = RefusedClass(members=verdict.members, need=self.wants.need, reason=verdict.reason)
            self._refused = known
        return known


@dataclass(slots=True, eq=False)
class PendingWorkload:
    """One workload that waits."""

    line_entry: LineEntry
    wants: ClassRequest
    #: None: it holds seats.
    pod_shapes: PodShapes | None
    #: None: it waits for a reason of its own.
    workload_class: WorkloadClass | None = None
    #: Its place in the class; None: it is left out for now.
    rank: Rank | None = None

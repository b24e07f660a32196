"""Which pending workloads are tried in a turn, and why the others are not."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from admission.engine import gangs, reasons
from admission.engine.gangs import Need
from admission.engine.plan import Reason
from admission.engine.reservation import run_time_class
from admission.engine.settlement import Seats
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.ordering import Candidate
from queues.quota import Account, QueueTree
from queues.resources import Resources
from queues.workload import QueueName, Seat, Workload, WorkloadKey


@dataclass(slots=True, eq=False)
class Wants:
    """What a workload lacks and asks for: the same for all of one shape that hold no seat."""

    need: Need
    asked: Resources
    accounts: tuple[Account, ...]

    @classmethod
    def of(cls, workload: Workload, held: Sequence[Seat]) -> "Wants":
        """Beyond the seats that are held."""
        need = gangs.need(workload, held)
        asked = gangs.asked(workload, need.missing)
        takes = Resources({account.resource: units for account, units in asked.items()})
        return cls(need, takes, tuple(asked))


@dataclass(slots=True, eq=False)
class Prepared:
    """A workload made ready for the line; as long as it holds no seat this depends on nothing else."""

    candidate: Candidate
    wants: Wants
    #: Held seats when it was prepared, so it is good for that turn only.
    seated: bool


@dataclass(slots=True, eq=False)
class Field:
    """Who is tried, who is not, and until when that stays so."""

    candidates: list[Candidate] = field(default_factory=list)
    reasons: dict[WorkloadKey, Reason] = field(default_factory=dict)
    prepared: dict[WorkloadKey, Prepared] = field(default_factory=dict)
    #: The next second at which somebody's backoff ends; None: nobody is backing off.
    until: int | None = None

    def need(self, candidate: Candidate) -> Need:
        """What a candidate lacks."""
        return self.prepared[candidate.workload.key].wants.need


def sort_out(snapshot: Snapshot, seats: Seats, trial: Trial, known: Mapping[WorkloadKey, Prepared]) -> Field:
    """Every pending workload becomes a candidate or gets its reason. ``known``: prepared in earlier turns."""
    field_ = Field()
    verdicts: dict[QueueName, Reason | None] = {}
    missing: dict[Resources, Reason | None] = {}
    shapes: dict[Hashable, Wants] = {}
    for key, workload in snapshot.pending.items():
        prepared = known.get(key)
        held = seats.held.get(key, ())
        if prepared is None or held or prepared.seated or prepared.candidate.workload is not workload:
            prepared = _prepare(workload, held, shapes)
        field_.prepared[key] = prepared
        if workload.queue not in verdicts:
            verdicts[workload.queue] = _queue_refuses(trial.tree, workload.queue)
        asked = prepared.wants.asked
        if asked not in missing:
            missing[asked] = _nobody_has(asked, trial)
        reason = _obstacle(workload, snapshot.now)
        if reason is not None and reason.code == reasons.Code.BACKOFF:
            field_.until = min(workload.not_before, field_.until or workload.not_before)
        if reason is None and key in seats.leaving:
            reason = reasons.draining(seats.leaving[key])
        reason = (
            reason
            or verdicts[workload.queue]
            or missing[asked]
            or _gang_refused(workload, prepared.wants.need, trial.tree)
        )
        if reason is None:
            field_.candidates.append(prepared.candidate)
        else:
            field_.reasons[key] = reason
    _cut_to_pending_limits(field_, trial.tree)
    return field_


def _prepare(workload: Workload, held: Sequence[Seat], shapes: dict[Hashable, Wants]) -> Prepared:
    # Without seats the answer depends on the shape only; with seats also on where they are.
    shape: Hashable = workload.key if held else _shape(workload)
    if (wants := shapes.get(shape)) is None:
        wants = shapes[shape] = Wants.of(workload, held)
    candidate = Candidate(workload=workload, shape=shape, joins=wants.need.complete, accounts=wants.accounts)
    return Prepared(candidate, wants, bool(held))


def _shape(workload: Workload) -> Hashable:
    """Equal for those who get the same answer: they ask the same, and are as much in the way of others."""
    lasts = (run_time_class(workload), workload.preemptable, workload.min_run_time, workload.cooldown)
    return workload.minimum, workload.pod_sets, workload.priority, workload.evictions, lasts


def _nobody_has(asked: Resources, trial: Trial) -> Reason | None:
    resource = trial.unknown(asked)
    if resource is None or not len(trial.table):
        return None
    offered = [
        name for name, row in zip(trial.table.resources, trial.table.allocatable, strict=True) if row.any()
    ]
    return reasons.unknown_resource(resource, offered)


def _obstacle(workload: Workload, now: int) -> Reason | None:
    if workload.obstacle is not None:
        code, message = workload.obstacle
        return Reason(code=code, message=message)
    if workload.not_before > now:
        return reasons.backoff(workload.not_before)
    return None


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


def _gang_refused(workload: Workload, need: Need, tree: QueueTree) -> Reason | None:
    if need.short:
        minimum = max(workload.minimum, sum(pods.minimum for pods in workload.pod_sets))
        return reasons.not_enough_pods(wanted=minimum - need.short, minimum=minimum)
    if not need.missing:
        return reasons.nothing_missing()
    limit = tree.max_gang(workload.queue)
    if limit is not None and (pods := sum(each.count for each in workload.pod_sets)) > limit[1]:
        return reasons.gang_too_large(queue=limit[0], limit=limit[1], pods=pods)
    return None


def _cut_to_pending_limits(field_: Field, tree: QueueTree) -> None:
    """Of the workloads that wait for their gang, only so many per queue are considered, by arrival."""
    limited = [name for name, queue in sorted(tree.queues.items()) if queue.max_pending is not None]
    for name in limited:
        waiting = [
            each
            for each in field_.candidates
            if not each.joins and name in tree.paths[each.workload.queue] and not field_.need(each).beside
        ]
        limit = tree.queues[name].max_pending or 0
        waiting.sort(key=lambda each: (each.workload.arrival, each.workload.key))
        beyond = {each.workload.key for each in waiting[limit:]}
        if beyond:
            reason = reasons.pending_limit(queue=name, limit=limit)
            field_.reasons |= dict.fromkeys(beyond, reason)
            field_.candidates = [each for each in field_.candidates if each.workload.key not in beyond]

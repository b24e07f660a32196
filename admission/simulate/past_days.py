"""The work of the last days, simulated with the queues and nodes of today: as it was, and with changes. Pure.

A simulation knows of each workload what the ledger has recorded: when it came, in which queue, with which priority,
what its seats took, and for how long it ran. Time begins with the first of the days.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from admission.engine.snapshot import Snapshot
from admission.simulate.gang_trace import START, Case, TraceJob
from admission.simulate.gangs import Simulation
from admission.simulate.queue_figures import AskedUnits, QueueFigures, QueueRecorder
from queues.plan import Reason
from queues.quota.accounts import Account
from queues.quota.decayed_usage import NO_PAST
from queues.quota.tree import QueueTree
from queues.reason_codes import ReasonCode
from queues.recorded.past_work import PastStay, PastWorkload
from queues.resources import GPU, NOTHING, Resources, is_device, total
from queues.workload import NO_FLAVOR, PodSet, QueueName, Workload, WorkloadKey

#: Workloads of one simulation. A cluster that is full all the time takes longest: time is bounded by its own limit.
MOST_WORKLOADS: Final = 5000
#: No evicted job goes on where it was: checkpoints are not recorded.
_NO_CHECKPOINT: Final = 10**9
#: Work that runs when the days begin comes first, and what waits then a second later.
_RUNS, _WAITS = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDays:
    """What is simulated."""

    #: Seconds since the epoch.
    since: int
    until: int
    jobs: tuple[TraceJob, ...]
    #: Workloads that ran when the days began: they did not wait in them.
    not_counted: frozenset[WorkloadKey]
    #: Seconds from arrival to first start, as recorded, of all others that started.
    waits: Mapping[WorkloadKey, int]
    #: The same days as they were recorded.
    recorded: Mapping[QueueName, QueueFigures]
    #: Workloads that are left out: their queue is not there any more.
    without_queue: int
    resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """Workloads of a queue that had not started when the days ended, all for the same reason."""

    queue: QueueName
    workloads: int
    code: ReasonCode
    #: Of the first of them.
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One simulation of the days."""

    queues: Mapping[QueueName, QueueFigures]
    #: As in ``PastDays``, of all workloads that started.
    waits: Mapping[WorkloadKey, int]
    #: By queue, the most workloads first.
    not_started: tuple[NotStarted, ...] = ()


def emptied(snapshot: Snapshot) -> Snapshot:
    """The queues and nodes of a turn, without any work on them."""
    table = snapshot.nodes
    used = {name: NOTHING - table[name][1] for name in table.layout.names}
    return Snapshot(
        now=START,
        queues=snapshot.queues,
        nodes=replace(table.with_used(used).with_ports({}), layout=table.layout.closing(())),
        pending={},
        admissions={},
        namespaces=snapshot.namespaces,
        past_use=NO_PAST,
    )


def past_days(work: Sequence[PastWorkload], newest: Snapshot, since: int, until: int) -> PastDays:
    """The days as a case. ``newest``: the last turn: it knows more of what runs and waits now than the ledger does."""
    there = [each for each in work if each.queue in newest.queues]
    ran = {each.key for each in work}
    waiting = [each for key, each in newest.pending.items() if key not in ran and each.queue in newest.queues]
    known = {**newest.pending, **newest.holders}
    resource = _resource(there)
    deserved = deserved_of(emptied(newest), resource)
    usual = _usual_run(there, until)
    drafts = [_draft(each, known.get(each.key), since, until) for each in there]
    drafts += [_waiting_draft(each, usual, _came(each, newest) - since) for each in waiting]
    drafts.sort(key=lambda draft: (draft.submitted, draft.order, draft.workload.key))
    jobs = tuple(
        TraceJob(
            workload=replace(draft.workload, arrival=number),
            submitted=draft.submitted,
            duration=draft.duration,
        )
        for number, draft in enumerate(drafts, start=1)
    )
    ran_before = {each.key for each in there if each.stays[0].opened <= since}
    return PastDays(
        since=since,
        until=until,
        jobs=jobs,
        not_counted=frozenset(ran_before),
        waits={
            each.key: each.stays[0].opened - max(each.arrived, since)
            for each in there
            if each.key not in ran_before
        },
        recorded=_recorded(
            there,
            [(_came(each, newest), each) for each in waiting],
            (since, until),
            QueueRecorder(deserved, frozenset(ran_before)),
            resource,
        ),
        without_queue=len(work) - len(there),
        resource=resource,
    )


def replayed(days: PastDays, ground: Snapshot) -> Iterator[Replayed | int]:
    """Simulate the days; gives the second of each turn as it goes, and at last the outcome. ``ground``: emptied."""
    case = Case(
        name="the last days",
        nodes=ground.nodes,
        queues=ground.queues,
        jobs=days.jobs,
        checkpoint=_NO_CHECKPOINT,
        namespaces=ground.namespaces,
    )
    end = days.until - days.since
    recorder = QueueRecorder(deserved_of(ground, days.resource), days.not_counted)
    asked = {job.workload.key: _asked(job.workload, days.resource) for job in days.jobs}
    comes = iter(days.jobs)
    coming = next(comes, None)
    reasons: Mapping[WorkloadKey, Reason] = {}
    for snapshot, plan in Simulation(case, ground.queues).turns():
        now = snapshot.now - START
        if now >= end:  # what runs to the end ends in it only because no more is known of it
            break
        while coming is not None and coming.submitted <= now:
            recorder.arrive(coming.submitted, coming.workload.key, asked[coming.workload.key])
            coming = next(comes, None)
        for evict in plan.evicts:
            recorder.end(now, snapshot.admissions[evict.admission].workload, evicted=True)
        for free in plan.frees:
            recorder.end(now, snapshot.admissions[free.admission].workload)
        for admit in plan.admits:
            recorder.start(now, admit.workload)
        reasons = plan.reasons
        yield now
    queues = recorder.close(end)
    not_started = _not_started(days.jobs, recorder.waits, reasons)
    yield Replayed(queues=queues, waits=recorder.waits, not_started=not_started)


def _not_started(
    jobs: Iterable[TraceJob], started: Container[WorkloadKey], reasons: Mapping[WorkloadKey, Reason]
) -> tuple[NotStarted, ...]:
    """What waits when the days end, with the reasons of the last turn."""
    found: dict[tuple[QueueName, ReasonCode], NotStarted] = {}
    for job in jobs:
        workload, reason = job.workload, reasons.get(job.workload.key)
        if reason is None or workload.key in started:
            continue
        place = (workload.queue, reason.code)
        first = found.get(place)
        found[place] = NotStarted(
            queue=workload.queue,
            workloads=1 if first is None else first.workloads + 1,
            code=reason.code,
            message=reason.message if first is None else first.message,
        )
    return tuple(sorted(found.values(), key=lambda each: (-each.workloads, each.queue, each.code)))


def deserved_of(ground: Snapshot, resource: str) -> dict[QueueName, int]:
    """What each queue deserves of a resource."""
    tree = QueueTree.build(ground.queues, ground.nodes.capacity())
    return {name: tree.deserved(name, Account(NO_FLAVOR, resource)) for name in tree.paths}


@dataclass(frozen=True, slots=True)
class _Draft:
    submitted: int
    order: int
    workload: Workload
    duration: int


def _draft(each: PastWorkload, known: Workload | None, since: int, until: int) -> _Draft:
    """A workload that ran. Its run time is that of its longest stay: an evicted one begins anew."""
    stays = merged(each.stays)
    ran_before = stays[0].opened <= since
    submitted = _RUNS if ran_before else max(each.arrived - since, _WAITS)
    duration = max(
        max(1, (stay.ended if stay.ended is not None else until) - max(stay.opened, since)) for stay in stays
    )
    sets = tuple(PodSet(name=pods.pod_set, count=pods.count, takes=pods.takes) for pods in each.pods)
    seats = sum(pods.count for pods in each.pods)
    workload = Workload(
        key=each.key,
        namespace=each.namespace,
        name=each.name,
        queue=each.queue,
        priority=each.priority,
        arrival=0,
        created=START + submitted,
        waiting_since=START + submitted,
        minimum=min(each.minimum or seats, seats),
        pod_sets=_as_known(known, sets),
        generation="1",
        user=each.user,
    )
    return _Draft(submitted, stays[0].opened if ran_before else each.arrival, workload, duration)


def _as_known(known: Workload | None, sets: tuple[PodSet, ...]) -> tuple[PodSet, ...]:
    """The pod sets as the last turn has them, with their topology and nodes, if they are those that ran."""
    if known is None:
        return sets
    there = {each.name: each for each in known.pod_sets}
    if {each.name for each in sets} != set(there) or len(sets) != len(there):
        return sets
    return tuple(
        replace(there[each.name], count=each.count, ordinals=(), done=frozenset(), minimum=0) for each in sets
    )


def _came(each: Workload, newest: Snapshot) -> int:
    """When a workload that waits began to; where that is not known, it has just come."""
    return each.waiting_since or each.created or newest.now


def _waiting_draft(each: Workload, seconds: Mapping[QueueName, int], came: int) -> _Draft:
    """A workload that has never run: it would run as long as its queue's do in the middle, or as it declares.
    ``came``: seconds after the beginning."""
    submitted = max(came, _WAITS)
    workload = replace(
        each,
        created=START + submitted,
        waiting_since=START + submitted,
        not_before=0,
        obstacle=None,
        hold=None,
        evictions=0,
    )
    return _Draft(submitted, each.arrival, workload, each.run_time or seconds.get(each.queue, 3600))


def _usual_run(work: Iterable[PastWorkload], until: int) -> dict[QueueName, int]:
    """Seconds that the work of each queue ran, in the middle."""
    by_queue: dict[QueueName, list[int]] = {}
    for each in work:
        stay = merged(each.stays)[-1]
        ended = until if stay.ended is None else stay.ended
        by_queue.setdefault(each.queue, []).append(max(1, ended - stay.opened))
    return {queue: sorted(found)[len(found) // 2] for queue, found in by_queue.items()}


def merged(stays: Sequence[PastStay]) -> list[PastStay]:
    """Stays of a workload as one where they overlap: members that joined later are one gang with the first ones."""
    found: list[PastStay] = []
    for stay in stays:
        last = found[-1] if found else None
        if last is None or (last.ended is not None and stay.opened >= last.ended):
            found.append(stay)
            continue
        ended = None if last.ended is None or stay.ended is None else max(last.ended, stay.ended)
        found[-1] = PastStay(last.opened, ended, last.evicted or stay.evicted)
    return found


def _recorded(
    work: Sequence[PastWorkload],
    waiting: Sequence[tuple[int, Workload]],
    span: tuple[int, int],
    recorder: QueueRecorder,
    resource: str,
) -> dict[QueueName, QueueFigures]:
    """Figures of what really happened."""
    since, until = span
    events: list[tuple[int, int, int, WorkloadKey, bool]] = []
    asked: dict[WorkloadKey, AskedUnits] = {}
    for number, each in enumerate(work):
        asked[each.key] = AskedUnits(
            each.queue, sum(one.takes.get(resource) * one.count for one in each.pods)
        )
        events.append((max(0, each.arrived - since), 1, number, each.key, False))
        for stay in merged(each.stays):
            if stay.ended is not None and stay.ended <= since:
                continue
            events.append((max(0, stay.opened - since), 2, number, each.key, False))
            if stay.ended is not None:
                events.append((min(stay.ended, until) - since, 0, number, each.key, stay.evicted))
    for came, one in waiting:
        asked[one.key] = _asked(one, resource)
        events.append((max(0, came - since), 1, len(work), one.key, False))
    for at, what, _, key, evicted in sorted(events):
        if what == 1:
            recorder.arrive(at, key, asked[key])
        elif what == 2:
            recorder.start(at, key)
        else:
            recorder.end(at, key, evicted=evicted)
    return recorder.close(until - since)


def _asked(workload: Workload, resource: str) -> AskedUnits:
    units = sum(each.takes.get(resource) * each.count for each in workload.pod_sets)
    return AskedUnits(workload.queue, units)


def _resource(work: Iterable[PastWorkload]) -> str:
    """The resource that figures are about: GPUs, or the device that was asked for most; CPU where there is none."""
    asked: Resources = total(pods.takes * pods.count for each in work for pods in each.pods)
    devices = [name for name in asked if "/" in name and not is_device(name)]
    if GPU in devices or not devices:
        return GPU if GPU in devices else "cpu"
    return max(devices, key=lambda name: (asked.get(name), name))

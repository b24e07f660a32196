"""The outcome of one turn, for metrics, logs and statuses, and the decision behind it."""

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

from admission.apply import Applied
from admission.engine.memo import QueueBooks
from admission.engine.snapshot import Snapshot
from admission.facts.changes import Change, FactKind
from admission.facts.cluster import QueueFact
from admission.figures.gang_waits import GangWait
from queues.admissions import Admission, AdmissionState
from queues.plan import Admit, Evict, Plan
from queues.reason_codes import ReasonCode
from queues.resources import WHOLE, Resources, is_device
from queues.slices import slices
from queues.workload import AdmissionId, QueueName, Workload, WorkloadKey

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Stage(StrEnum):
    """Stages of a gang between its creation and its last binding."""

    #: The object's creation to the commit of its admission.
    ADMITTED = "created_to_admitted"
    #: The commit to the hand-over of its last pod to the stock scheduler.
    RELEASED = "admitted_to_released"
    #: The commit to the binding of its last pod.
    BOUND = "admitted_to_bound"
    #: The commit to the moment from which its pods are ready together.
    READY = "admitted_to_ready"


class EvictionCost(NamedTuple):
    """Admissions that were evicted for one reason."""

    admissions: int = 0
    #: Device-seconds since their starts or last checkpoints.
    lost: int = 0


def evictions_of(evicts: Iterable[Evict], snapshot: Snapshot) -> dict[ReasonCode, EvictionCost]:
    """Evictions and the work that they cost, by reason. Declared checkpoints count; without devices it is 0."""
    found: dict[ReasonCode, EvictionCost] = {}
    for evict in evicts:
        admission = snapshot.admissions.get(evict.admission)
        if admission is None:
            continue
        before = found.get(evict.code, EvictionCost())
        found[evict.code] = EvictionCost(before.admissions + 1, before.lost + lost_work(admission, snapshot))
    return found


def lost_work(admission: Admission, snapshot: Snapshot) -> int:
    """Device-seconds that an eviction costs now: since the start, or the last declared checkpoint."""
    holder = snapshot.holders.get(admission.workload) or snapshot.pending.get(admission.workload)
    interval = None if holder is None else holder.checkpoint_interval
    ran = max(0, snapshot.now - admission.opened_at)
    devices = sum(_devices(seat.takes) for seat in admission.holding())
    return devices * (ran % interval if interval else ran) // WHOLE


def devices_of(workload: Workload) -> int:
    """Devices that all pods of a workload ask for together, rounded up."""
    units = sum(_devices(pods.takes) * pods.wanted_count() for pods in workload.pod_sets)
    return -(-units // WHOLE)


def _devices(takes: Resources) -> int:
    """Thousandths of devices, of the resource that a pod takes most of."""
    return max((units for name, units in takes.items() if "/" in name and not is_device(name)), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReport:
    """What one turn did: metrics, logs and statuses read it."""

    #: Seconds since the epoch.
    now: int
    changes: int = 0
    freeze_seconds: float = 0.0
    decide_seconds: float = 0.0
    apply_seconds: float = 0.0
    admitted: int = 0
    adopted: int = 0
    freed: int = 0
    evicted: int = 0
    dropped: int = 0
    #: Admissions that were evicted, and the work that they lose, by reason.
    evictions: Mapping[ReasonCode, EvictionCost] = field(default_factory=dict)
    #: Queues as they are after it; None if nothing was decided yet.
    books: QueueBooks | None = None
    nodes_usable: int = 0
    #: Workloads that a step of the turn fails on, and decisions of this term that failed so far.
    set_aside: int = 0
    failed_decisions: int = 0
    #: Seconds that gangs and admissions took to come to a stage.
    stages: Mapping[Stage, Sequence[float]] = field(default_factory=dict)
    #: Those of ``Stage.ADMITTED``, with queue and size.
    waits: Sequence[GangWait] = ()
    #: Workloads that may need a write to their objects.
    dirty_workloads: AbstractSet[WorkloadKey] = frozenset()
    applied: Applied | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A snapshot and the plan decided on it, to be saved or repeated."""

    snapshot: Snapshot
    plan: Plan
    #: Workloads left out because the engine fails on them, each with the error.
    culprits: Mapping[WorkloadKey, Exception] = field(default_factory=dict)


async def log_applied(applied: Applied, admissions: Mapping[AdmissionId, Admission]) -> None:
    """One line for each gang that was admitted, adopted, evicted, freed or dropped, whatever elastic parts it has.

    ``admissions``: the ones that the plan was decided on.
    """
    async for lines in slices(_lines(applied, admissions)):
        for message, about in lines:
            _log.info(message, extra=about)


def _lines(
    applied: Applied, admissions: Mapping[AdmissionId, Admission]
) -> Iterator[tuple[str, dict[str, object]]]:
    for opened in _by(applied.admitted, lambda each: each[1].workload):
        seats: dict[str, object] = {"seats": sum(len(admit.seats) for _, admit in opened)}
        yield "admitted", _about(*opened[0]) | seats
    for id_, adopt in applied.adopted:
        yield "adopted", _about(id_, adopt.admit) | {"seats": len(adopt.admit.seats)}
    for evict, *_ in _by(applied.evicted, lambda each: (admissions[each.admission].workload, each.code)):
        cause = {"code": evict.code, "why": evict.message}
        yield "evicting", _about(evict.admission, admissions[evict.admission]) | cause
    closed = [each for each in applied.admissions if each.state is AdmissionState.CLOSED]
    for freed in _by(closed, lambda each: each.workload):
        yield "freed", _about(freed[0].id, freed[0]) | {"seats": sum(len(each.seats) for each in freed)}
    for key, reason in applied.dropped.items():
        about: dict[str, object] = {"workload": str(key), "code": reason.code, "why": reason.message}
        yield "not admitted by the ledger", about


def _by(found: Iterable[T], key: Callable[[T], Hashable]) -> Iterable[list[T]]:
    """In their order, those with equal keys together."""
    groups: dict[Hashable, list[T]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    return groups.values()


def _about(id_: AdmissionId, of: Admit | Admission) -> dict[str, object]:
    return {"workload": f"{of.namespace}/{of.name}", "queue": of.queue, "admission": id_}


def log_queue_changes(changes: Sequence[Change], queues: Mapping[QueueName, QueueFact]) -> None:
    """One line for each queue that has another spec, or is new or gone. ``queues``: as they were before."""
    for change in changes:
        if change.kind is not FactKind.QUEUE:
            continue
        before = queues.get(QueueName(change.key))
        match change.fact:
            case QueueFact() as fact:
                if before is None or before.queue.generation != fact.queue.generation:
                    what = "queue changed" if before is not None else "queue created"
                    extra = {"by": fact.changed_by or "unknown", "generation": fact.queue.generation}
                    _log.info(what, extra={"queue": change.key, **extra})
            case None if before is not None:
                _log.info("queue deleted", extra={"queue": change.key})

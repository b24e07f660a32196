"""What the objects of the cluster should say about themselves, worked out from the world."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from admission.reconcile.status import QueueStatusFacts, StatusWanted, queue_status
from admission.workloads.state import WorkloadState
from admission.world.world import World
from queues.admissions import AdmissionState
from queues.api.kinds import queue_object
from queues.plan import Reason
from queues.resources import NOTHING, Resources
from queues.workload import QueueName


def _reason(world: World, portrait: WorkloadState) -> Reason | None:
    reason = world.reasons.get(portrait.key) if portrait.lacking else None
    displaced = world.displacements.get(portrait.key)
    if reason is None or displaced is None:
        return reason
    return replace(reason, message=displaced.appended_to(reason.message))


def queue_statuses(world: World) -> Iterator[StatusWanted]:
    """The status of every queue, counted from all workloads."""
    allocated: dict[QueueName, Resources] = {}
    for admission in world.admissions.values():
        allocated[admission.queue] = allocated.get(admission.queue, NOTHING) + admission.holds()
    counts: Counter[tuple[QueueName, str]] = Counter()
    for portrait in world.portraits.values():
        counts[portrait.workload.queue, _standing(portrait)] += 1
    problems = world.queue_problems()
    for name, fact in sorted(world.queues.items()):
        yield queue_status(
            QueueStatusFacts(
                ref=queue_object(name, fact.uid),
                closed=fact.queue.closed,
                broken=problems.get(name),
                allocated=allocated.get(name, NOTHING),
                pending=counts[name, "pending"],
                inqueue=counts[name, "inqueue"],
                running=counts[name, "running"],
                completed=counts[name, "completed"],
            )
        )


def _standing(portrait: WorkloadState) -> str:
    if portrait.over:
        return "completed"
    open_ = [
        place.admission for place in portrait.occupancies if place.admission.state is AdmissionState.OPEN
    ]
    if not open_:
        return "pending" if portrait.lacking else "completed"
    return "running" if any(admission.started for admission in open_) else "inqueue"

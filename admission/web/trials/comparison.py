"""A comparison as the read API shows it."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from admission.trials.comparison import Compared, QueueDifference, WorkloadDifference
from queues.read_api import trials as bodies
from queues.read_api.bodies import ReasonBody
from queues.read_api.quantities import quantities
from queues.resources import show

#: Workloads, and lines about queues, that are shown.
MOST_WORKLOADS: Final = 200
MOST_QUEUE_LINES: Final = 500


def comparison_body(
    found: Compared, notes: Sequence[str], warnings: Sequence[str] = ()
) -> bodies.ComparisonBody:
    """The comparison; the most disturbing changes first."""
    counts = Counter(str(each.what) for each in found.differences)
    order = {what: place for place, what in enumerate(_ORDER)}
    ordered = sorted(found.differences, key=lambda each: order[str(each.what)])
    return bodies.ComparisonBody(
        changes=tuple(notes),
        warnings=tuple(warnings),
        counts={what: counts[what] for what in _ORDER if counts[what]},
        workloads=tuple(map(_workload, ordered[:MOST_WORKLOADS])),
        queues=tuple(map(_queue, found.queues[:MOST_QUEUE_LINES])),
        at_rest=found.at_rest,
    )


_ORDER: Final = ("stops", "shrinks", "restarts", "waits", "starts", "grows", "stays")


def _workload(each: WorkloadDifference) -> bodies.DifferenceBody:
    workload, reason = each.workload, each.reason
    return bodies.DifferenceBody(
        what=str(each.what),
        kind=str(workload.kind),
        namespace=workload.namespace,
        name=workload.name,
        queue=workload.queue,
        priority=workload.priority,
        pods=sum(pods.wanted_count() for pods in workload.pod_sets),
        asks=quantities(workload.asks()),
        reason=None if reason is None else ReasonBody(code=reason.code, message=reason.message),
        beneficiary=None if each.beneficiary is None else str(each.beneficiary),
    )


def _queue(each: QueueDifference) -> bodies.QueueDifferenceBody:
    before, after = (show(each.resource, units) if each.resource else "" for units in each.used)
    return bodies.QueueDifferenceBody(
        queue=each.queue,
        resource=each.resource,
        used_before=before,
        used_after=after,
        waiting_before=each.waiting[0],
        waiting_after=each.waiting[1],
    )

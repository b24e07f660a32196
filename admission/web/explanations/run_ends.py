"""When admissions end at the latest, by ``access.maxRunTime`` of their queue and those above it."""

from collections.abc import Sequence

import msgspec

from admission.web import bodies
from queues.admissions import Admission, AdmissionState
from queues.quota.tree import QueueTree
from queues.text_format import rfc3339


def with_ends(
    told: Sequence[bodies.AdmissionBody], admissions: Sequence[Admission], tree: QueueTree
) -> tuple[bodies.AdmissionBody, ...]:
    """The admissions of one workload with the time at which the open ones end: all of them with the oldest of them."""
    open_ = {each.id: each for each in admissions if each.state is AdmissionState.OPEN}
    first = min(open_.values(), key=lambda each: (each.opened_at, each.id), default=None)
    limit = None if first is None else tree.run_limit(first.queue)
    if first is None or limit is None:
        return tuple(told)
    ends = rfc3339(limit.end(first.opened_at))
    return tuple(msgspec.structs.replace(each, ends=ends) if each.id in open_ else each for each in told)

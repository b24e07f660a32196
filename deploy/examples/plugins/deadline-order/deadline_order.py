"""An order by deadline: what has to start first to be done in time is tried first.

A workload says its deadline as ``policy.muster.dev/deadline``: a time such as ``2026-12-01T08:00:00Z``.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from queues.plugins.interface import OrderPolicy
from queues.workload import Workload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = 3600


class Deadline(OrderPolicy):
    """By the latest start: the deadline less the declared run time."""

    name = "deadline"
    version = "1"
    counted_by = "deadline"
    #: No sum of factors states this order.
    terms = None

    class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """Of work that states no deadline: hours after its creation. Of work that declares no run time: hours."""

        hours_without_deadline: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 720
        hours_without_run_time: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 24

    def urgency(self, workload: Workload) -> int:
        """The second (since the epoch) at which it has to start."""
        deadline = _seconds(workload.hint("deadline"))
        if deadline is None:
            deadline = workload.created + self.parameters.hours_without_deadline * _HOUR
        run_time = workload.run_time
        if run_time is None:
            run_time = self.parameters.hours_without_run_time * _HOUR
        return deadline - run_time


def _seconds(text: str | None) -> int | None:
    """A time in seconds since the epoch; None if there is none, or if it cannot be read."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return since // timedelta(seconds=1)

"""Limits of users, gangs and run times (``spec.access``) as the read API shows them."""

from collections.abc import Iterable

import msgspec

from queues.api.model import seconds_of
from queues.api.quota.access_limits import PER_USER, access_limits_of, field_of
from queues.api.quota.quota_document import Spec
from queues.read_api import bodies
from queues.sql.read.rows import QueueLine
from queues.workload import QueueName


def with_access_limits(
    shown: Iterable[bodies.QueueBody], lines: Iterable[QueueLine]
) -> tuple[bodies.QueueBody, ...]:
    """Queues with the limits that they state themselves."""
    stated = {line.name: stated_access_limits(line.document.get("spec") or {}) for line in lines}
    return tuple(
        body
        if (found := stated.get(QueueName(body.name))) is None
        else msgspec.structs.replace(body, access_limits=found)
        for body in shown
    )


def stated_access_limits(spec: Spec) -> bodies.AccessLimitsBody | None:
    """The limits that a queue states. None if it states none. What cannot be read is left out."""
    stated = access_limits_of(spec)
    start = field_of(PER_USER) + "["
    seconds = seconds_of(stated.get(field_of("maxRunTime"), ""))
    found = bodies.AccessLimitsBody(
        max_run_time_seconds=int(seconds) if seconds else None,
        max_per_user={
            field.removeprefix(start).removesuffix("]"): text
            for field, text in stated.items()
            if field.startswith(start)
        },
        max_gang=_count(stated.get(field_of("maxGang"))),
        max_pending=_count(stated.get(field_of("maxPending"))),
        max_pending_per_user=_count(stated.get(field_of("maxPendingPerUser"))),
    )
    return None if found == bodies.AccessLimitsBody() else found


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None

"""When pending workloads should start, as it is shown at some time."""

from typing import TypeVar

import msgspec

from queues.read_api.bodies import ExpectedLine, ExpectedStartBody

Start = TypeVar("Start", bound=ExpectedStartBody)


def told_at(start: Start, now: str) -> Start:
    """The same as it is to be shown at this time (RFC 3339), which is later than when it was worked out: no part of an
    interval is in the past. A forecast is kept for minutes where there is much to simulate."""
    if start.never or start.earliest >= now:
        return start
    if start.latest is None or start.latest >= now:
        return msgspec.structs.replace(start, earliest=now)
    return msgspec.structs.replace(start, earliest=now, latest=None, overdue_since=start.latest)


def start_of(line: ExpectedLine) -> ExpectedStartBody:
    """The line without the names of its workload."""
    return msgspec.convert(line, ExpectedStartBody, from_attributes=True)

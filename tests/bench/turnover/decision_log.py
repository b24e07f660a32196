"""When Muster admitted workloads and gave their seats back, from the log of the leader."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Final

from tests.bench.documents import NAMESPACE

_LINE: Final = re.compile(
    r"(?P<time>\d\d:\d\d:\d\d\.\d{3}) INFO +admission\.turn_report: (?P<what>admitted|freed)  .*"
    rf"workload={NAMESPACE}/g(?P<gang>\d+)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLog:
    """By gang, in seconds since the epoch."""

    admitted: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    #: When the last of its seats was given back.
    freed: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))


def decisions(lines: Iterable[str], started: float) -> DecisionLog:
    """What a log on a console says, that began at most a day after a moment."""
    log = DecisionLog()
    begin = datetime.fromtimestamp(started, UTC)
    for line in lines:
        if found := _LINE.match(line):
            clock = time.fromisoformat(found["time"])
            moment = datetime.combine(begin.date(), clock, UTC)
            if moment < begin - timedelta(seconds=1):
                moment += timedelta(days=1)
            of = log.admitted if found["what"] == "admitted" else log.freed
            of[int(found["gang"])].append(moment.timestamp())
    return log

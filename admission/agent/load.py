"""How busy and how hot the devices of a node are, in three steps: for policies that score nodes. Pure.

Telemetry changes all the time, and what an agent writes costs the API server on every node. So a step counts once it
has held for a minute, and a node's steps are written at most once in ten minutes.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from admission.agent.readings import NodeReading

#: Seconds for which a step has to hold, and between two changes of what is reported.
HOLDS: Final = 60
BETWEEN_REPORTS: Final = 600

#: From which per cent (the mean of all devices), and from which degrees (the hottest one), a step is medium, and high.
_UTILISATION: Final = (30, 70)
_TEMPERATURE: Final = (65, 80)


class Step(StrEnum):
    """How high something is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Load(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The steps of a node's devices. None: no device says it."""

    utilisation: Step | None = None
    temperature: Step | None = None


class LoadState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is reported, and what was seen since. Times are seconds since the epoch."""

    reported: Load = Load()
    #: When that changed last.
    reported_at: int = 0
    seen: Load = Load()
    #: 0: nothing was seen yet.
    seen_since: int = 0

    def after(self, readings: Sequence[NodeReading], now: float) -> "LoadState":
        """The state with these readings. A clock that was set back begins both times again."""
        second, seen = int(now), load_of(readings)
        goes_on = seen == self.seen and self.seen_since
        since = min(self.seen_since, second) if goes_on else second
        state = replace(self, seen=seen, seen_since=since, reported_at=min(self.reported_at, second))
        is_due = second - since >= HOLDS and second - state.reported_at >= BETWEEN_REPORTS
        return (
            replace(state, reported=seen, reported_at=second) if seen != self.reported and is_due else state
        )

    def remembered(self) -> "LoadState":
        """What an agent that starts again goes on from: the same until something else is reported."""
        return LoadState(reported=self.reported, reported_at=self.reported_at)


def load_of(readings: Iterable[NodeReading]) -> Load:
    """The steps of all devices of a node as they are read."""
    told = [device.telemetry for reading in readings for device in reading.devices if not device.lost]
    use = [each.utilisation for each in told if each.utilisation is not None]
    heat = [each.temperature for each in told if each.temperature is not None]
    return Load(
        utilisation=_step(sum(use) // len(use), _UTILISATION) if use else None,
        temperature=_step(max(heat), _TEMPERATURE) if heat else None,
    )


def _step(value: int, bounds: tuple[int, int]) -> Step:
    medium, high = bounds
    return Step.HIGH if value >= high else Step.MEDIUM if value >= medium else Step.LOW

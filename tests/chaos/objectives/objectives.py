"""What a run says of the objectives (docs/reference/slos.md): how long nothing was admitted, how fast decisions were.

Stricter than the alerts are: admission counts as away from the moment at which the next turn was due, and not only
after a minute. Times that are minutes in the product are seconds in a run (``tests.chaos.replicas.short_times``), by a
factor of three for leases up to twenty for the longest pauses: as told here all of them count twenty times.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

import msgspec

from tests.chaos.drawn.pace import PACE
from tests.chaos.history import Fault, History, TurnEnd

#: Seconds of the product in one of a run at pace 1.
SCALE: Final = 20.0
#: Seconds between two turns at most, at pace 1 (``MUSTER_TURN_AT_LEAST_EVERY_SECONDS``).
TURN_EVERY: Final = 0.5
#: So many of them may pass without a turn: a machine that does other things too is not punctual.
_MISSED: Final = 2.0
#: The objectives: share of the time, seconds of a decision, seconds until admission is back.
AVAILABLE, DECISION, RECOVERY = 0.999, 1.0, 300.0
_MONTH: Final = 30 * 86_400.0
#: What is noted and is no fault: ends of faults, what is only told, and what has yet to strike.
_NONE: Final = frozenset({"healed", "continue", "died", "strike-write", "strike-commit"})


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run. Times in seconds at pace 1, not scaled."""

    #: From the first turn's end to rest.
    watched: float = 0.0
    #: Of it: without a turn though one was due.
    away: float = 0.0
    faults: int = 0
    #: The longest time away, by the fault before it.
    recoveries: dict[str, float] = {}
    #: Seconds of each decision, as the clock on the wall tells them.
    decisions: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A time in which no turn ended though one was due."""

    #: Seconds since the run began.
    since: float
    seconds: float
    #: The fault that was carried out last before its end; "": there was none.
    fault: str


def measured(history: History, pace: float = PACE) -> Measured:
    """What a history says. ``pace``: of its run."""
    turns = sorted(history.turns, key=lambda turn: turn.at)
    if not turns:
        return Measured()
    recoveries: dict[str, float] = {}
    outages = list(outages_of(turns, history.faults, pace))
    for outage in outages:
        recoveries[outage.fault] = max(recoveries.get(outage.fault, 0.0), round(outage.seconds / pace, 3))
    return Measured(
        watched=round((turns[-1].at - turns[0].at) / pace, 3),
        away=round(sum(outage.seconds for outage in outages) / pace, 3),
        faults=sum(fault.name not in _NONE for fault in history.faults),
        recoveries=recoveries,
        decisions=tuple(round(turn.decided_in, 5) for turn in turns if turn.decided_in),
    )


def outages_of(turns: Sequence[TurnEnd], faults: Iterable[Fault], pace: float) -> list[Outage]:
    """``turns``: by their times. A run ends with a turn: it has come to rest."""
    causes = sorted((fault for fault in faults if fault.name not in _NONE), key=lambda fault: fault.at)
    every, found = TURN_EVERY * pace, []
    for one, following in itertools.pairwise(turns):
        if following.at - one.at > _MISSED * every:
            before = [fault.name for fault in causes if fault.at < following.at]
            outage = Outage(
                since=one.at + every,
                seconds=following.at - one.at - every,
                fault=before[-1] if before else "",
            )
            found.append(outage)
    return found


@dataclass(slots=True)
class Totals:
    """Of many runs."""

    watched: float = 0.0
    away: float = 0.0
    faults: int = 0
    recoveries: dict[str, float] = field(default_factory=dict)
    decisions: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, runs: Iterable[Measured]) -> "Totals":
        total = cls()
        for run in runs:
            total.watched += run.watched
            total.away += run.away
            total.faults += run.faults
            for fault, seconds in run.recoveries.items():
                total.recoveries[fault] = max(total.recoveries.get(fault, 0.0), seconds)
            total.decisions += run.decisions
        return total

    @property
    def decision_p99(self) -> float:
        """Seconds in which 99 % of the decisions were made; 0: there were none."""
        ordered = sorted(self.decisions)
        return ordered[ceil(0.99 * len(ordered)) - 1] if ordered else 0.0

    @property
    def longest(self) -> tuple[str, float]:
        """The longest recovery, scaled, and the fault before it."""
        if not self.recoveries:
            return "", 0.0
        fault, seconds = max(self.recoveries.items(), key=lambda each: each[1])
        return fault, seconds * SCALE

    @property
    def affordable(self) -> float:
        """Faults a month that the objective of availability leaves room for, if each costs what one cost here."""
        cost = self.away * SCALE / self.faults if self.faults else 0.0
        return (1 - AVAILABLE) * _MONTH / cost if cost else float("inf")


def told(runs: Iterable[Measured]) -> str:
    """The objectives and what was measured, a line each; "": no run was measured."""
    total = Totals.of(runs)
    if not total.watched:
        return ""
    fault, longest = total.longest
    cost = total.away * SCALE / total.faults if total.faults else 0.0
    share = 100 * (1 - total.away / total.watched)
    slow = sorted(total.recoveries.items(), key=lambda each: -each[1])[:8]
    return (
        f"objectives, with times of the product ({SCALE:g} times those of a run):\n"
        f"  admission available  {share:.2f} % under {total.faults} faults in {total.watched * SCALE / 60:.0f} min; "
        f"a fault costs {cost:.1f} s, so {100 * AVAILABLE:g} % is kept with {total.affordable:.0f} faults a month\n"
        f"  decision p99         {total.decision_p99 * 1000:.1f} ms of {len(total.decisions)} decisions; "
        f"objective: {DECISION:g} s{_verdict(total.decision_p99 <= DECISION)}\n"
        f"  longest recovery     {longest:.0f} s after {fault or 'nothing'}; "
        f"objective: {RECOVERY:.0f} s{_verdict(longest <= RECOVERY)}\n"
        f"  longest by fault     {', '.join(f'{name} {seconds * SCALE:.0f} s' for name, seconds in slow)}"
    )


def _verdict(is_met: bool) -> str:
    return "" if is_met else " MISSED"

"""How far what a leader has stored is behind the cluster: as the watch that is furthest behind, or as the last turn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from admission.kube.watch.informers import InformerState
from queues.text_format import duration

#: Seconds; a turn that is late by more counts.
_LATE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the stored state is behind the cluster."""

    seconds: float = 0.0
    #: As a sentence; "": nothing is behind.
    why: str = ""


def lag_of(hearings: Mapping[str, InformerState], *, turned: float, turn_every: float) -> Lag:
    """The largest lag. ``turned``: seconds since the last turn ended; ``turn_every``: the longest pause of turns."""
    found = [
        Lag(
            state.behind_seconds,
            f"the watch of {name} is interrupted" + (f" ({state.problem})" if state.problem else ""),
        )
        for name, state in hearings.items()
        if state.behind_seconds > 0
    ]
    if turned > turn_every + _LATE:
        found.append(Lag(turned, f"the last turn ended {duration(int(turned))} ago"))
    return max(found, key=lambda lag: lag.seconds, default=Lag())

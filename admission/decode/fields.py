"""Fields of objects as values. What a user wrote never raises. Pure.

What users name or write goes through ``queues.api.reading.user_values``.
"""

import re
from datetime import datetime
from functools import lru_cache
from itertools import islice
from sys import intern
from typing import Any, Final, TypeVar

import msgspec

from admission.wire import WireCondition
from queues.api import names
from queues.api.reading.user_values import LONGEST_MESSAGE, shortened
from queues.api.types.pod import WireLabelSelector, WireSchedulingGate
from queues.workload import Requirement

T = TypeVar("T")

#: Characters of a time stamp of the API server, with a fraction of a second.
_LONGEST_TIME: Final = 40
#: Scheduling gates of one pod that are kept: they are shown, and none is looked for.
_MOST_GATES: Final = 8


def explained(error: msgspec.DecodeError) -> str:
    """A decoder's complaint as field, found, expected."""
    what, _, path = str(error).partition(" - at `$")
    place = path.removeprefix(".").removesuffix("`") or "document"
    what = shortened(what, LONGEST_MESSAGE)
    found = re.fullmatch(r"Expected `(.*)`, got `(.*)`", what)
    return f"{place}: found {found[2]}, expected {found[1]}" if found else f"{place}: {what}"


def defect(error: Exception) -> str:
    """What is shown on an object that Muster cannot handle."""
    return f"Muster cannot handle this object ({type(error).__name__}); its log tells more"


@lru_cache(maxsize=8192)
def _first(value: Any) -> Any:
    return value


def one(value: T) -> T:
    """The value, or an equal one that was seen before: facts share equal values."""
    found: Any = value
    found = intern(found) if type(found) is str else _first(found)
    shared: T = found
    return shared


def seconds(timestamp: str | None) -> int:
    """Seconds since the epoch of an RFC 3339 timestamp in UTC, as the API server writes it; 0 if absent."""
    return _seconds(timestamp) if timestamp and len(timestamp) <= _LONGEST_TIME else 0


@lru_cache(maxsize=8192)
def _seconds(timestamp: str) -> int:
    try:
        return int(datetime.strptime(f"{timestamp[:19]}+0000", "%Y-%m-%dT%H:%M:%S%z").timestamp())
    except (ValueError, OverflowError):
        return 0


def condition(conditions: tuple[WireCondition, ...] | None, kind: str) -> WireCondition | None:
    """The condition of that type."""
    return next((found for found in conditions or () if found.type == kind), None)


def is_true(conditions: tuple[WireCondition, ...] | None, kind: str) -> bool:
    """Whether the condition of that type is there and true."""
    found = condition(conditions, kind)
    return found is not None and found.status == "True"


def requirements_of(selector: WireLabelSelector) -> tuple[Requirement, ...]:
    """A label selector as requirements that must all hold; (): it selects everything."""
    return (
        *(Requirement(key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items())),
        *(
            Requirement(each.key, each.operator, each.values or ())
            for each in selector.match_expressions or ()
        ),
    )


def other_gates(gates: tuple[WireSchedulingGate, ...] | None) -> tuple[str, ...]:
    """Names of scheduling gates that are not Muster's, the first few in their order; (): there are none."""
    if not gates:
        return ()
    found = (shortened(gate.name) for gate in gates if gate.name != names.GATE)
    return one(tuple(islice(found, _MOST_GATES)))

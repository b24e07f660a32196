"""What Muster remembers of a closed node, as an annotation of the Node.

Everything else is read from the cluster, so that another leader goes on where this one stops.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from queues.text_format import rfc3339

#: Characters of the text of a fault, and of the annotation as a whole, that are kept or read.
LONGEST_FAULT: Final = 300
_LONGEST_ANNOTATION: Final = 12_288
#: Entries of ``accepted``: a node has at most sixteen devices, and each may have several conditions.
_MOST_ACCEPTED: Final = 128
#: Entries of ``devices``.
_MOST_DEVICES: Final = 64
#: Characters of both as they are written, so that with all else the annotation is never too long to be read.
_LONGEST_ACCEPTED: Final = 6000
_LONGEST_DEVICES: Final = 4000
#: Characters of the name of a Job, as the API server bounds it, and of the name of an accepted fault.
_LONGEST_JOB: Final = 253
_LONGEST_NAME: Final = 600
#: Characters of the word for what is waited for.
_LONGEST_WORD: Final = 40
#: The year 3000: later times are mistakes. So far from the year 9999 all sums with durations can be written as well.
_LATEST: Final = 32_503_680_000


class RecoveryPhase(StrEnum):
    """What a closed node waits for."""

    #: Nothing: it is in service.
    NONE = "none"
    #: Its gangs leave.
    DRAINING = "draining"
    #: A repair Job runs on it.
    RECOVERING = "recovering"
    #: It is tested whether the node is well.
    VERIFYING = "verifying"
    #: A person: all attempts are used up.
    FAILED = "failed"

    @property
    def is_out(self) -> bool:
        """Whether a node in this phase has Muster's taint."""
        return self is not RecoveryPhase.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryState:
    """What is remembered of a node's recovery. Times in seconds since the epoch; 0: not known."""

    phase: RecoveryPhase = RecoveryPhase.NONE
    #: When the phase began.
    since: int = 0
    #: The fault in words, for people.
    fault: str = ""
    #: Uuids of the devices with the fault; numbers of those without a uuid. Empty if no device has one.
    devices: tuple[str, ...] = ()
    #: Its last test failed: that no fault is reported does not show that it is well.
    test_failed: bool = False
    #: Repairs that were begun. Kept after the return, since a fault that soon comes back goes on counting.
    attempts: int = 0
    #: Name of the Job of this phase, once it was seen: if it is gone it is not made again. "": not seen yet.
    job: str = ""
    #: Faults that a person has accepted: nothing follows from them as long as they are there.
    accepted: tuple[str, ...] = ()
    #: What keeps the node from going on, beyond the time that its phase takes, in one word; "": nothing.
    waits: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not (self.phase.is_out or self.attempts or self.accepted or self.waits)

    def annotation(self) -> str:
        """The value of ``muster.dev/recovery``; "": the annotation is not there."""
        if self.is_empty:
            return ""
        fields: dict[str, Any] = {
            "phase": self.phase,
            "since": rfc3339(self.since) if 0 < self.since <= _LATEST else None,
            "fault": _words(self.fault),
            "devices": _names(self.devices, _MOST_DEVICES, _LONGEST_DEVICES),
            "testFailed": self.test_failed,
            "attempts": self.attempts,
            "job": _name(self.job, _LONGEST_JOB),
            "accepted": _names(self.accepted, _MOST_ACCEPTED, _LONGEST_ACCEPTED),
            "waits": self.waits,
        }
        return _json({name: value for name, value in fields.items() if value})


#: Of nearly all nodes.
_NOTHING: Final = RecoveryState()


def read_state(annotation: str) -> RecoveryState | None:
    """The state that an annotation describes; "": nothing is remembered. None if it cannot be read.

    Any user who may write a Node may write the annotation: what is taken over of it can be written back and shown.
    """
    if not annotation:
        return _NOTHING
    if len(annotation) > _LONGEST_ANNOTATION:
        return None
    try:
        fields = json.loads(annotation)
        return _state(fields) if isinstance(fields, dict) else None
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _state(fields: Mapping[str, Any]) -> RecoveryState:
    attempts = fields.get("attempts", 0)
    accepted, devices = fields.get("accepted", []), fields.get("devices", [])
    lists = isinstance(accepted, list) and isinstance(devices, list)
    if type(attempts) is not int or not 0 <= attempts < 10_000 or not lists:
        raise ValueError("found another type or amount")
    return RecoveryState(
        phase=RecoveryPhase(_text(fields.get("phase"))),
        since=_seconds(fields.get("since")),
        fault=_words(_text(fields.get("fault"))),
        devices=_names(devices, _MOST_DEVICES, _LONGEST_DEVICES),
        test_failed=fields.get("testFailed") is True,
        attempts=attempts,
        job=_name(fields.get("job"), _LONGEST_JOB),
        accepted=_names(accepted, _MOST_ACCEPTED, _LONGEST_ACCEPTED),
        waits=_name(fields.get("waits"), _LONGEST_WORD),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _words(text: str) -> str:
    """Words for people, on one line. Lone surrogates, which JSON can express and UTF-8 cannot, are not printable."""
    return "".join(each if each.isprintable() else " " for each in text[:LONGEST_FAULT])


def _name(value: object, longest: int) -> str:
    """A name, which is compared: it is taken as it is. "": it is none, or none that can be written back."""
    text = _text(value)
    return text if len(text) <= longest and text.isprintable() else ""


def _names(values: Iterable[object], most: int, room: int) -> tuple[str, ...]:
    """The first names among so many values, as many as there is room for in the annotation (characters)."""
    return tuple(_with_room(islice(values, most), room))


def _with_room(values: Iterable[object], room: int) -> Iterator[str]:
    for name in filter(None, (_name(each, _LONGEST_NAME) for each in values)):
        room -= len(_json(name)) + 1
        if room < 0:
            return
        yield name


def _json(value: object) -> str:
    """Characters beyond ASCII are written as they are: as escapes they are six to twelve times as long."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _seconds(value: object) -> int:
    if not isinstance(value, str):
        return 0
    moment = datetime.fromisoformat(value)
    found = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    if not 0 <= found <= _LATEST:
        raise ValueError("found a time that cannot be written back")
    return found

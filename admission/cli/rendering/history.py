"""Decisions about a workload: their sentences and numbers, and the history of ``kubectl muster explain``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from admission.cli.output import Output
from admission.cli.rendering.fitting import with_texts
from admission.cli.rendering.table import NONE, age, hours, one_line, table
from queues.read_api.bodies import EventBody, ExplanationBody, Facts, ListedBody
from queues.reason_codes import ReasonCode
from queues.text_format import counted, short_duration

#: Newest decisions that are shown without ``-o wide``.
_SHOWN: Final = 12
#: How a workload ended, and whether its object is gone.
RESULTS: Final = {"succeeded": "succeeded", "failed": "failed", "deleted": "deleted before it ended"}

#: What all commands say of a state of the read API, where nothing more has to be known.
SHOWN_STATES: Final = {"pending": "waiting", "admitted": "running", "evicting": "evicting"}

#: Numbers of reasons that are times, in seconds since the epoch, or durations in seconds.
_TIMES: Final = ("until", "at")
_NAMED: Final = {"seconds": "in", "lostDeviceSeconds": "lost"}
_DURATIONS: Final = ("seconds", "clearAfter")
#: Numbers that are durations too where the reason is about run time.
_LIMITS_OF_TIME: Final = ("limit", "asked")


def numbers_of(facts: Facts, reason: str = "") -> str:
    """``asked 32, used 48, limit 64`` on one line, in the order given. ``reason``: that they are of."""
    seconds = (*_DURATIONS, *(_LIMITS_OF_TIME if reason == ReasonCode.RUN_TIME_TOO_LONG else ()))
    return ", ".join(
        f"{_NAMED.get(name, name)} {_told(name, value, seconds)}"
        for name, value in facts.items()
        if value not in (None, "", [], {})
    )


def _told(name: str, value: Any, seconds: Sequence[str]) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        if name in _TIMES:
            from queues.text_format import rfc3339

            return rfc3339(value)
        if name in seconds:
            return short_duration(value)
        if name == "lostDeviceSeconds":
            return f"{hours(value / 3600)} device-hours"
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items()) + ")"
    if isinstance(value, list):
        return "/".join(map(_plain, value))
    return one_line(str(value))


def history_text(one: ExplanationBody, output: Output) -> str:
    """The newest decisions; ``-o wide`` has all of them."""
    events, wide = one.history, output.is_wide
    kept = events if wide else events[-_SHOWN:]
    begins = one.history_begins
    dropped = f"decisions before {begins} were dropped\n" if begins else ""
    if not kept:
        return dropped
    rows = [(event.at, age(event.at, one.now), event.what) for event in kept]
    told = [event_text(_with_result(event, one), wide) for event in kept]
    lines = table(["TIME", "AGE", "WHAT"], rows, headers=output.headers, right="AGE")
    text = with_texts(lines, told, output.room, title="MESSAGE" if output.headers else "")
    earlier = len(events) - len(kept)
    return text + (f"{earlier} earlier: -o wide shows them\n" if earlier else "") + dropped


def is_suspended(one: ListedBody | ExplanationBody) -> bool:
    """Whether a workload was stopped and may go on: nothing has ended it, and its object is there."""
    if one.state == "suspended":
        return True
    return one.state == "finished" and not one.result and not one.gone


def _with_result(event: EventBody, one: ExplanationBody) -> EventBody:
    """A decision with how what it gave back had ended, in the words of ``kubectl muster events``."""
    if event.what != "free" or event.admission is None:
        return event
    admissions = {held.id: held for held in one.admissions}
    held = admissions.get(event.admission)
    if held is not None and held.eviction:
        return structs.replace(event, result="evicted")
    is_last = event.admission == max(admissions, default=None)
    if is_last and is_suspended(one):
        return structs.replace(event, result="suspended")
    return structs.replace(event, result=one.result) if is_last and one.result in RESULTS else event


def event_text(event: EventBody, wide: bool = False) -> str:
    """Why a decision was made, as a sentence; ``wide``: with its numbers."""
    seats = event.numbers.get("seats")
    code = event.result or event.code
    message = one_line(event.message) or ("" if seats is None else counted(seats, "seat"))
    # The message names the beneficiary; its key is for look-ups.
    numbers = {**event.numbers, "for": event.beneficiary}
    words: Iterable[str] = (
        f"{code}:" if code and message else code,
        message,
        f"({text})" if wide and (text := numbers_of(numbers)) else "",
    )
    return " ".join(word for word in words if word) or NONE

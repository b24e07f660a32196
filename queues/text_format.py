"""Counts, lists of names, durations, times and addresses as sentences, Kubernetes documents and settings write them."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

#: The first and the last second that can be written.
_FIRST: Final = -62_135_596_800
_LAST: Final = 253_402_300_799
#: The second after the last one that is read: 9999-01-01T00:00:00Z. A year is left for what is reckoned from it.
_TOO_LATE: Final = 253_370_764_800
#: Characters of a time; a longer text is none.
_LONGEST_TIME: Final = 64
#: Names that an unknown one is compared with: comparing takes time.
_COMPARED: Final = 200
#: Durations below so many seconds are shown in steps of so many seconds.
_ROUNDED: Final = ((600, 1), (8 * 3600, 60), (8 * 86_400, 3600))
#: Ten years: a longer duration counts as this, so that times stay times.
LONGEST_SECONDS: Final = 10 * 365 * 86_400
#: Characters of a duration; a longer text is none, and would be slow to take apart.
_LONGEST_DURATION: Final = 64
_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def counted(count: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Sequence[str], shown: int = 3) -> str:
    """``a, b and c``; of more than ``shown`` names the first ones and a count: ``a, b, c and 2 more``."""
    more = len(names) - shown
    parts = [*names[:shown], *([f"{more} more"] if more > 0 else [])]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def names_alike(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Names that look like another one, best first; at most three."""
    from difflib import get_close_matches  # most commands of the plugin do without

    near_first = sorted(known, key=lambda each: (each[:1] != name[:1], each))
    return tuple(get_close_matches(name, near_first[:_COMPARED], n=3, cutoff=0.7))


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """``priority class urgnt does not exist; did you mean urgent? There are high, low and urgent``."""
    from difflib import get_close_matches  # most commands of the plugin do without

    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    meant = f"; did you mean {near[0]}?" if near else "."
    return f"{what} {name} does not exist" + (f"{meant} There are {listed(names, 8)}" if names else "")


def printable(text: str) -> str:
    """A text that others wrote. Escape sequences in it would command the terminal that shows it."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in text)


def duration(seconds: int) -> str:
    """A duration in a sentence, in the form of tables: ``40m``, ``2h5m``. What is left out of it is rounded up, so
    that "at most" stays true. A duration that a user stated is shown exactly, by ``span``."""
    seconds = max(0, seconds)
    step = next((step for limit, step in _ROUNDED if seconds < limit), 86_400)
    return short_duration(-(-seconds // step) * step)


def short_duration(seconds: int) -> str:
    """A duration as kubectl shortens ages: at most two units, the second only for small durations."""
    seconds = max(0, seconds)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    for limit, text in (
        (120, f"{seconds}s"),
        (600, _two(minutes, "m", seconds % 60, "s")),
        (3 * 3600, f"{minutes}m"),
        (8 * 3600, _two(hours, "h", minutes % 60, "m")),
        (48 * 3600, f"{hours}h"),
        (8 * 86400, _two(days, "d", hours % 24, "h")),
    ):
        if seconds < limit:
            return text
    return f"{days}d"


def span(seconds: int) -> str:
    """A duration that a user stated, exact: ``72h``, ``1h30m``, ``45s``."""
    hours, rest = divmod(max(0, seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [f"{count}{unit}" for count, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if count]
    return "".join(parts) or "0s"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"


def go_duration(seconds: int) -> str:
    """``1h0m5s``, as Go writes it."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def rfc3339(seconds: float, timespec: str = "seconds") -> str:
    """A time (seconds since the epoch) in UTC as Kubernetes writes it, cut off after ``timespec``.

    Times before the year 1 or after 9999 are written as its first or last second.
    """
    within = min(max(seconds, _FIRST), _LAST)
    return datetime.fromtimestamp(within, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def second_at(text: str) -> int | None:
    """A time with its zone as seconds since the epoch; None if it is no time, or in UTC not from 1970 to 9998.

    Others would break what is reckoned from them, for they cannot be moved nor written.
    """
    if len(text) > _LONGEST_TIME:
        return None
    try:
        moment = datetime.fromisoformat(text)
        seconds = -1 if moment.tzinfo is None else moment.timestamp()
    except (ValueError, OverflowError):
        return None
    return int(seconds) if 0 <= seconds < _TOO_LATE else None


def host_and_port(text: str) -> tuple[str, int] | None:
    """Host ("": every interface; IPv6 without brackets) and port of ``host:port``, ``[v6]:port`` or ``:port``.

    None if it is none of them.
    """
    host, colon, port = text.rpartition(":")
    in_brackets = host.startswith("[") and host.endswith("]")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not in_brackets):
        return None
    return host.strip("[]"), int(port)


def seconds_of(text: str) -> float | None:
    """A Go duration in seconds, at most ``LONGEST_SECONDS``; None if it is not a duration."""
    if len(text) > _LONGEST_DURATION:
        return None
    if text == "0":
        return 0.0
    parts = list(_DURATION_PART.finditer(text))
    if not parts or "".join(part.group() for part in parts) != text:
        return None
    seconds = sum(float(part.group(1)) * _UNITS[part.group(2)] for part in parts)
    return min(seconds, float(LONGEST_SECONDS))


def excerpt(value: Any) -> str:
    """A value for a message, cut after 60 characters."""
    # The part that is shown is all that is formatted of a text, which may have any length.
    text = repr(value[:61]) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"

"""Command-line tools of vendors: a command is run, and what it prints is read as JSON.

These tools print warnings before their JSON, several documents one after the other, numbers with or without a
unit, and ``N/A``. What is read here is therefore a value or None; only what is no JSON at all is an error.
"""

import json
import math
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from queues.errors import MusterError

#: Seconds that a command may take: amd-smi of a node with eight devices needs about one.
_LIMIT: Final = 20.0
#: Seconds for it to end when it is killed.
_LIMIT_OF_ENDING: Final = 1.0
#: Characters of a tool's own words that go into an error.
_SHOWN: Final = 300
#: More than any true number here: amd-smi prints 2^64 - 1 and 16 EB where it does not know.
_LARGEST: Final = 2**62

_WITH_UNIT: Final = re.compile(
    r"\s*(?P<number>-?[0-9]{1,18}(\.[0-9]{1,9})?)\s*(?P<unit>[A-Za-z%/°]*)\s*", re.ASCII
)
_BYTES: Final = {
    "": 1,
    "B": 1,
    "KB": 1 << 10,
    "MB": 1 << 20,
    "GB": 1 << 30,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}


class ToolMissing(MusterError):
    """{tool} cannot be started: {why}."""


class ToolFailed(MusterError):
    """`{command}`: found {found}, expected {expected}."""


class ToolRefused(ToolFailed):
    """`{command}` refused: found {found}, expected {expected}."""


#: Runs a command and gives what it printed. Raises ToolMissing, ToolRefused.
Run = Callable[[Sequence[str]], bytes]


class ToolRunner:
    """Runs commands without a shell, each for a bounded time.

    A process that waits for a driver that hangs cannot be ended. It is left alone then, and nothing else is run
    until it has ended: each further one would hang as well.
    """

    def __init__(self, seconds: float = _LIMIT) -> None:
        self._seconds = seconds
        self._hanging: subprocess.Popen[bytes] | None = None

    def __call__(self, command: Sequence[str]) -> bytes:
        """What a command prints. Raises ToolMissing: it cannot be started; ToolRefused otherwise."""
        if self._hanging is not None and self._hanging.poll() is None:
            raise _refused(command, f"process {self._hanging.pid} still hanging", "it to end")
        self._hanging = None
        process = _start_process(command)
        try:
            printed, warned = process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired as error:
            self._end(process)
            raise _refused(command, f"no answer within {self._seconds:g} s", "one") from error
        if process.returncode != 0 or not printed.strip():
            said = _shown(warned) or _shown(printed) or "nothing printed"
            raise _refused(command, f"exit code {process.returncode}, {said}", "JSON")
        return printed

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(timeout=_LIMIT_OF_ENDING)
        except subprocess.TimeoutExpired:
            self._hanging = process


def _start_process(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise ToolMissing(tool=command[0], why=error.strerror) from error
    except OSError as error:
        raise _refused(command, error, "it to start") from error


def documents(run: Run, *command: str) -> list[Any]:
    """The JSON documents that a command prints, at least one.

    Raises ToolMissing; ToolRefused: the tool tells an error; ToolFailed: what it prints cannot be read.
    """
    printed = run(command)
    text = printed.decode(errors="replace")
    found, place = [], 0
    try:
        while (start := _start(text, place)) is not None:
            try:
                document, place = _DECODER.raw_decode(text, start)
            except json.JSONDecodeError:
                place = start + 1
            else:
                found.append(document)
    except (ValueError, RecursionError) as error:
        raise _failed(command, f"JSON that cannot be read ({error})", "JSON") from error
    if not found:
        raise _failed(command, repr(_shown(printed)), "JSON")
    refused = next((one for one in found if isinstance(one, Mapping) and one.get("error")), None)
    if refused is not None:
        raise _refused(command, f"the error {text_of(refused['error'])!r}", "an answer")
    return found


def version_text(run: Run, *command: str) -> str:
    """What a command prints that tells versions; "": it refuses. Raises ToolMissing."""
    try:
        return run(command).decode(errors="replace")
    except ToolRefused:
        return ""


def changed_output(command: Sequence[str], found: object, expected: str) -> ToolFailed:
    """The error for an output of another form than known. Its content, which may be of any length, is not shown."""
    if isinstance(found, Mapping):
        keys = ", ".join(repr(key)[:40] for key in sorted(map(str, found))[:8])
        return _failed(command, f"an object with {keys or 'nothing in it'}", expected)
    return _failed(command, f"a {type(found).__name__}", expected)


def at(document: object, *path: str) -> Any:
    """The value inside nested objects; None: there is none."""
    for key in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document


def entries(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list; empty: it is no list, or has none."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """A text; "": it is none, or ``N/A``."""
    return (
        value.strip()[:_SHOWN]
        if isinstance(value, str) and value.strip().upper() not in ("N/A", "NA")
        else ""
    )


def number(value: object) -> float | None:
    """A number, also as ``{"value": 131, "unit": "W"}`` or ``131 W``; None: unknown."""
    return _with_unit(value)[0]


def whole(value: object) -> int | None:
    """The same as a whole number, rounded."""
    found = number(value)
    return None if found is None else round(found)


def count(value: object) -> int | None:
    """A whole number that is not below zero; None: unknown."""
    found = whole(value)
    return None if found is None or found < 0 else found


def bytes_of(value: object, unit: str) -> int | None:
    """An amount of memory in bytes. ``unit``: that of a number without one. None: unknown. MB is 2^20 for these
    tools."""
    found, told = _with_unit(value)
    factor = _BYTES.get((told or unit).upper())
    if found is None or found < 0 or factor is None or found * factor > _LARGEST:
        return None
    return round(found * factor)


def _with_unit(value: object) -> tuple[float | None, str]:
    unit = ""
    if isinstance(value, Mapping):
        unit, value = text_of(value.get("unit")), value.get("value")
    if isinstance(value, str) and (found := _WITH_UNIT.fullmatch(value)):
        value, unit = float(found["number"]), found["unit"] or unit
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, ""
    # A whole number may be too large for a float, and a float may be infinite.
    if abs(value) > _LARGEST or not math.isfinite(value):
        return None, ""
    return value, unit


_DECODER: Final = json.JSONDecoder()


def _start(text: str, place: int) -> int | None:
    """Where the next line begins that could begin a document."""
    while place < len(text):
        if text[place] in "{[" and (place == 0 or text[place - 1] == "\n"):
            return place
        line = text.find("\n", place)
        if line == -1:
            return None
        place = line + 1
    return None


def _failed(command: Sequence[str], found: object, expected: str) -> ToolFailed:
    return ToolFailed(command=" ".join(command), found=found, expected=expected)


def _refused(command: Sequence[str], found: object, expected: str) -> ToolRefused:
    return ToolRefused(command=" ".join(command), found=found, expected=expected)


def _shown(printed: bytes) -> str:
    return " ".join(printed[: 4 * _SHOWN].decode(errors="replace").split())[:_SHOWN]

"""Tables, trees, ages and amounts as kubectl prints them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from queues.text_format import short_duration

if TYPE_CHECKING:
    from datetime import datetime

Cell = str | int | None

#: An empty cell, so that columns can be counted.
NONE: Final = "-"


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, headers: bool = True, right: str = ""
) -> str:
    """Aligned columns, three spaces apart. ``right`` names the columns of numbers."""
    lines = [[NONE if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if headers:
        lines.insert(0, list(columns))
    widths = [max((len(line[index]) for line in lines), default=0) for index in range(len(columns))]
    rights = {index for index, name in enumerate(columns) if name in right.split()}
    return "".join(_line(line, widths, rights) for line in lines)


def printable(text: str) -> str:
    """A text that others wrote. Escape sequences in it would command the terminal that shows it."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in text)


def one_line(text: str) -> str:
    """Text that cannot break a table."""
    return " ".join(text.split())


def _line(cells: Sequence[str], widths: Sequence[int], rights: set[int]) -> str:
    padded = (
        cell.rjust(width) if index in rights else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "   ".join(padded).rstrip() + "\n"


def branches(parents: Mapping[str, str | None]) -> dict[str, str]:
    """The lines to draw before each name. Parents come before children; a name without a known parent is a root."""
    last: dict[str | None, str] = {}
    for name, parent in parents.items():
        last[parent if parent in parents else None] = name
    drawn: dict[str, str] = {}
    stems: dict[str, str] = {}
    for name, parent in parents.items():
        if parent is None or parent not in stems:
            drawn[name] = stems[name] = ""
            continue
        ends = last[parent] == name
        drawn[name] = stems[parent] + ("└─ " if ends else "├─ ")
        stems[name] = stems[parent] + ("   " if ends else "│  ")
    return drawn


def moment(text: str) -> "datetime":
    """A time of the read API."""
    from datetime import datetime

    return datetime.fromisoformat(text)


def age(since: str | None, now: str) -> str:
    """The age, as kubectl shortens it: ``45s``, ``5m30s``, ``3h12m``, ``4d``."""
    if since is None:
        return NONE
    return short_duration(int((moment(now) - moment(since)).total_seconds()))


_STATED: Final = re.compile(r"([0-9]{1,9})(h|m|s)")
_SECONDS: Final = {"h": 3600, "m": 60, "s": 1}
#: A name with a domain: of a resource, a label or a level of topology.
_NAME: Final = re.compile(r"(?<![\w./-])[a-z0-9-]+(?:\.[a-z0-9-]+)+/[\w.-]*\w")


def stated_seconds(text: object) -> int | None:
    """Seconds of a duration in whole hours, minutes and seconds as objects have it (``1h30m``). None for other text."""
    parts = _STATED.findall(text) if isinstance(text, str) else []
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return sum(int(number) * _SECONDS[unit] for number, unit in parts)


def hours(number: float) -> str:
    """Hours of use, as all commands show them: ``1502.50``."""
    return f"{number:.2f}"


def short_resource(name: str) -> str:
    """``nvidia.com/gpu`` → ``gpu``. ``-o wide`` shows full names."""
    return name.rpartition("/")[2]


def short_names(text: str) -> str:
    """A message with ``gpu`` for ``nvidia.com/gpu`` and ``rack`` for ``topology.muster.dev/rack``; those that would be
    called the same are left as they are."""
    alike = alike_in_short(set(_NAME.findall(text)))
    return _NAME.sub(lambda found: found[0] if found[0] in alike else short_resource(found[0]), text)


def alike_in_short(names: Collection[str]) -> set[str]:
    """Those of the names, each once, whose short form another one has too: ``nvidia.com/gpu`` and ``amd.com/gpu``."""
    short = [short_resource(name) for name in names]
    return {name for name in names if short.count(short_resource(name)) > 1}


def amounts(
    asked: Mapping[str, str], *, all_of_them: bool = False, alike: Collection[str] | None = None
) -> str:
    """``32 gpu``: devices if any are asked, else CPU and memory; or everything, with full names. ``alike``: names that
    are not shortened, None for those of ``asked`` that would be called the same."""
    named = {name: text for name, text in asked.items() if name != "pods"}
    if all_of_them:
        ordered = sorted(named.items(), key=lambda item: ("/" not in item[0], item[0]))
        return ", ".join(f"{text} {name}" for name, text in ordered) or NONE
    devices = {name: text for name, text in named.items() if "/" in name}
    whole = alike_in_short(named) if alike is None else alike
    parts = sorted((devices or named).items())
    return (
        ", ".join(f"{text} {name if name in whole else short_resource(name)}" for name, text in parts) or NONE
    )


def devices(taken: Mapping[str, str]) -> str | None:
    """The number of GPUs; with resources of several kinds, or only other devices, each with its name. None for none."""
    named = {name: text for name, text in taken.items() if "/" in name}
    gpus = {name: text for name, text in named.items() if "gpu" in short_resource(name)}
    if len(gpus) == 1:
        return next(iter(gpus.values()))
    return amounts(gpus or named) if named else None


def rounded(resource: str, text: str | None) -> str | None:
    """An average with three digits: ``3219m`` GPUs → ``3.22``, 12345678901 bytes → ``11.5Gi``."""
    from queues.resources import amount, in_bytes, scale

    if text is None:
        return None
    units = amount(resource, text)
    if not in_bytes(resource):
        return _three_digits(units / scale(resource))
    size, suffix = next(((2**power, suffix) for power, suffix in _BINARY if abs(units) >= 2**power), (1, ""))
    return f"{_three_digits(units / size)}{suffix}"


_BINARY: Final = ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))


def _three_digits(number: float) -> str:
    decimals = 2 if abs(number) < 10 else 1 if abs(number) < 100 else 0
    text = f"{number:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text

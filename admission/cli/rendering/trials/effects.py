"""What a change of quota would do to work, in a few lines: told by the commands that make the change."""

from collections.abc import Mapping, Sequence, Set
from textwrap import wrap
from typing import Any, Final

from admission.cli.rendering.table import printable
from admission.cli.rendering.trials.comparison import (
    NOT_AT_REST,
    NOTHING_DIFFERS,
    TITLES,
    starts_title,
    until_start,
)
from queues.text_format import short_duration

#: Names of workloads in one paragraph; of the others it is told how many there are.
_NAMED: Final = 10
#: Characters of a line where it goes to no terminal.
_COLUMNS: Final = 80


def effects_text(comparison: Mapping[str, Any], *, width: int | None = None) -> str:
    """Who would start, wait or be evicted, and who should start earlier or later.

    ``comparison``: as the read API has it. ``width``: characters of a line; None: it goes to no terminal.
    """
    width = width or _COLUMNS
    lines: list[str] = []
    for what, title in TITLES.items():
        if count := comparison["counts"].get(what, 0):
            found = [each for each in comparison["workloads"] if each["what"] == what]
            lines += [f"{title}: {count}", *_paragraph("", [(each, "") for each in found], count, width)]
    starts = comparison["starts"]
    if starts is not None and (starts["earlier"] or starts["later"]):
        told = {_name(each) for each in comparison["workloads"]}
        lines += [
            starts_title(starts),
            *_shifted(starts, "later", told, width),
            *_shifted(starts, "earlier", told, width),
        ]
    if not lines:
        lines.append(NOTHING_DIFFERS)
    if starts is not None and not (starts["earlier"] or starts["later"]) and starts["foreseenSeconds"]:
        lines.append(f"Starts were foreseen for {short_duration(starts['foreseenSeconds'])} only.")
    if starts is None:
        lines.append("When waiting work should start is not known now.")
    if not comparison["atRest"]:
        lines.append(NOT_AT_REST)
    return "\n".join(lines) + "\n"


def _shifted(starts: Mapping[str, Any], way: str, told: Set[str], width: int) -> list[str]:
    """Those that should start ``earlier``, or ``later``. ``told``: names of which it is told already what becomes of
    them."""
    all_of_them = [each for each in starts["workloads"] if _way(each) == way]
    left = [each for each in all_of_them if each["kind"] is None or _name(each) not in told]
    total = starts[way] - (len(all_of_them) - len(left))
    found = [
        (
            each,
            f" ({until_start(each['beforeSeconds'], starts)} → {until_start(each['afterSeconds'], starts)})",
        )
        for each in left
    ]
    return _paragraph(f"{way}: ", found, total, width) if total > 0 else []


def _name(workload: Mapping[str, Any]) -> str:
    return printable(f"{workload['kind']}/{workload['name']} in {workload['namespace']}")


def _way(shift: Mapping[str, Any]) -> str:
    before, after = shift["beforeSeconds"], shift["afterSeconds"]
    return "later" if after is None or (before is not None and after > before) else "earlier"


def _paragraph(
    begins: str, found: Sequence[tuple[Mapping[str, Any], str]], total: int, width: int
) -> list[str]:
    """Names of workloads, each with what is told of it, and how many there are besides. ``total``: of all."""
    seen = [(each, told) for each, told in found if each["kind"] is not None]
    names = [f"{_name(each)}{told}" for each, told in seen[:_NAMED]]
    hidden = len(found) - len(seen)
    more = total - len(names) - hidden
    if hidden:
        names.append(f"{hidden} that you may not see")
    if more > 0:
        names.append(f"{more} more")
    last = f" and {names[-1]}" if len(names) > 1 else ""
    text = begins + (", ".join(names[:-1]) + last if last else names[0] if names else "")
    return wrap(
        text,
        width,
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )

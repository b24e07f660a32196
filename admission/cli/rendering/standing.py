"""Who could take the place of a workload that runs, as sentences."""

from typing import Final

from admission.cli.rendering.table import age, printable
from admission.read_api.bodies import StandingBody, TakerBody

#: Characters of a line where it goes to no terminal.
_WIDTH: Final = 78


def standing_text(standing: StandingBody | None, now: str, *, width: int | None = None) -> str:
    """``StandingBody`` of the read API on a few lines; "": it is not known, or the workload holds no place.

    ``width``: characters of a line, None if it goes to no terminal.
    """
    if standing is None:
        return ""
    lines = [f"{standing.message}."]
    if until := standing.protected_until:
        lines.append(f"Until {until} (in {age(now, until)}) nobody.")
    lines += [f"- {when(taker, now)}: {taker.message} [{taker.rule}]" for taker in standing.takers]
    if standing.nobody:
        lines.append(standing.nobody)
    from textwrap import wrap

    wrapped = [
        part
        for line in lines
        for part in wrap(
            printable(line),
            width or _WIDTH,
            subsequent_indent="  " if line.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    return "".join(f"{line}\n" for line in wrapped)


def when(taker: TakerBody, now: str) -> str:
    """``now``, or from when on."""
    begins = str(taker.from_)
    return "now" if begins <= now else f"from {begins} (in {age(now, begins)})"

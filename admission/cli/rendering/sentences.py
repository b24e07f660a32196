"""Sentences on a terminal: broken between words at its edge, where the terminal itself would break them in one."""

import sys
from typing import Final, TextIO

import click

#: Columns below which nothing is broken: there is no room for words.
_LEAST: Final = 20


def is_terminal(stream: TextIO) -> bool:
    """Whether people read it as it comes."""
    return stream.isatty()


def columns_of(stream: TextIO) -> int | None:
    """Columns of the terminal that a stream goes to. None if it goes elsewhere, where lines may have any length."""
    if not is_terminal(stream):
        return None
    import shutil

    return shutil.get_terminal_size().columns


def filled(text: str, columns: int | None, *, hanging: str = "") -> str:
    """Lines of at most so many columns (None for any number), broken between words.

    Each keeps its indent, and goes on with ``hanging`` behind it; points of a list go on below their first word. What
    has no space, such as an address, stays whole.
    """
    if columns is None or max(map(len, text.splitlines()), default=0) <= columns:
        return text
    from textwrap import wrap

    lines: list[str] = []
    for line in text.splitlines():
        if len(line) <= columns:
            lines.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        lines += wrap(
            line,
            max(columns, _LEAST),
            subsequent_indent=indent + ("  " if line.lstrip().startswith("- ") else hanging),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def say(text: str, *, err: bool = False) -> None:
    """Print sentences for people. ``err``: to standard error."""
    click.echo(filled(text, columns_of(sys.stderr if err else sys.stdout)), err=err)


def warn(text: str) -> None:
    """Print sentences for people to standard error."""
    say(text, err=True)

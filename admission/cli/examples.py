"""Examples of all commands: shown at the end of their help, and in docs/reference/cli.md."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import click


class NamedCommand(NamedTuple):
    """A command with the words that call it."""

    name: str
    command: click.Command


@cache
def examples() -> dict[str, list[str]]:
    """Command lines of ``examples.txt`` as a shell reads them, with comments, by the full name of the command."""
    found: dict[str, list[str]] = {}
    lines = files("admission.cli").joinpath("examples.txt").read_text(encoding="utf-8").splitlines()
    for line in lines[lines.index("") :]:
        if line.startswith("["):
            found[line.strip("[]")] = []
        elif line:
            found[list(found)[-1]].append(line)
    return found


def commands_of(group: click.Group, name: str) -> Iterator[NamedCommand]:
    """All commands of a program, groups before what they contain. ``name``: how the program is called."""
    for word, command in group.commands.items():
        full = f"{name} {word}"
        yield NamedCommand(full, command)
        if isinstance(command, click.Group):
            yield from commands_of(command, full)


def epilog_of(full_name: str) -> str | None:
    """The end of the help of a command. None if it has no examples."""
    lines = "".join(f"  {line}\n" for line in examples().get(full_name, ()))
    return f"\b\nExamples:\n{lines}" if lines else None

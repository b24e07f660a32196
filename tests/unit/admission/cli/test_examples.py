"""The examples of commands: each command has one, and each is a command line that the command takes."""

import shlex

import click
import pytest

from admission.cli.command_line import finish
from admission.cli.examples import NamedCommand, commands_of, examples
from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.muster import muster

PROGRAMS = {"kubectl muster": kubectl_muster, "muster": muster}


def commands() -> list[NamedCommand]:
    """Commands that do something, each once: some can be called by two names."""
    found = [
        each
        for name, program in PROGRAMS.items()
        for each in commands_of(program, name)
        if not isinstance(each.command, click.Group)
    ]
    return list({id(each.command): each for each in reversed(found)}.values())


@pytest.mark.parametrize("name", [each.name for each in commands()])
def test_each_command_has_an_example(name: str) -> None:
    assert examples().get(name), f"add one for {name} to admission/cli/examples.txt"


def test_there_are_no_examples_of_commands_that_are_gone() -> None:
    assert examples().keys() <= {
        each.name for name, program in PROGRAMS.items() for each in commands_of(program, name)
    }


@pytest.mark.parametrize(
    ("name", "line"),
    [(name, line) for name, lines in examples().items() for line in lines if not line.startswith("#")],
)
def test_an_example_is_a_command_line_that_the_command_takes(
    name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(next(part for part in line.split("|") if part.strip().startswith(name)))
    words = words[: words.index(">")] if ">" in words else words
    command = next(
        each.command
        for program, group in PROGRAMS.items()
        for each in commands_of(group, program)
        if each.name == name
    )
    monkeypatch.setattr(command, "callback", lambda **_: 0)
    for parameter in command.params:  # files of an example need not exist here
        if isinstance(parameter.type, click.Path):
            monkeypatch.setattr(parameter.type, "exists", False)

    program = "muster" if name.startswith("muster") else "kubectl muster"

    assert finish(PROGRAMS[program], program, words[len(program.split()) :]) == 0

"""Every command of Muster that a page shows is one that there is, with options that it has. It is not carried out."""

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from admission.cli import times
from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.muster import muster
from tests.tables import with_rows

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs/how-to").glob("*.md")),
    ROOT / "docs/tutorial/first-gang.md",
]
#: The times that the pages name are to come at this one.
WRITTEN = datetime(2026, 11, 26, 12, tzinfo=UTC)
PROGRAMS = {"kubectl muster": kubectl_muster, "muster": muster}
_COMMAND = re.compile(r"(?:^|[|;(]\s*|&& |^kubectl exec .* -- )(?:[A-Z_]+=\S+ )*((?:kubectl )?muster) (.*)")
#: What ends a command in a shell.
_END = re.compile(r"\s(?:\||<|>|>>|&&|;)\s.*| #.*|;$|\)$")
#: Complaints about names in place of files and values, which the reader puts in.
_PLACEHOLDER = re.compile(r"does not exist|No such file")


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """Program and arguments of each, from blocks of shell commands and from console sessions."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for kind, block in re.findall(r"^ *```(sh|console)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            told = line.strip()
            if kind == "console" and not told.startswith("$ "):
                continue
            found = _COMMAND.search(told.removeprefix("$ "))
            if found is not None:
                yield found[1], _END.sub("", found[2]).strip()


def complaint(program: str, arguments: str) -> str:
    """What is wrong with the arguments; "": nothing."""
    command: click.Command = PROGRAMS[program]
    context, rest = None, shlex.split(arguments)
    try:
        while isinstance(command, click.Group):
            context = command.make_context(program, rest, parent=context)
            _, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert found is not None
            command = found
        command.make_context(command.name, rest, parent=context)
    except click.UsageError as error:
        said = error.format_message()
        return "" if _PLACEHOLDER.search(said) else said
    except click.exceptions.Exit:
        return ""
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_is_understood(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "_now", lambda: WRITTEN)
    wrong = {
        f"{program} {arguments}": said
        for program, arguments in commands(page)
        if (said := complaint(program, arguments))
    }
    assert wrong == {}


def test_many_commands_were_looked_at() -> None:
    assert sum(len(list(commands(page))) for page in PAGES) > 100


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("kubectl muster queues -o wide     # all", ("kubectl muster", "queues -o wide")),
        ("MUSTER_DSN=a muster run --context muster", ("muster", "run --context muster")),
        ("kubectl get x | muster check -", ("muster", "check -")),
        ("kubectl muster usage -o csv > usage.csv", ("kubectl muster", "usage -o csv")),
        ("kubectl exec -i -n a deploy/b -- muster check - < FILE", ("muster", "check -")),
        ("kubectl create -f -", None),
    ],
)
def test_a_command_is_found_in_its_line(line: str, found: tuple[str, str] | None, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```sh\n{line}\n```\n", encoding="utf-8")
    assert next(commands(page), None) == found


@with_rows("program", "arguments", "said")
def test_what_there_is_not_is_found(program: str, arguments: str, said: str) -> None:
    assert complaint(program, arguments).startswith(said)
    assert bool(complaint(program, arguments)) == bool(said)

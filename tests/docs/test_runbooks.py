"""Commands of the runbooks exist, with the options that they are given."""

import re
import shlex
from pathlib import Path

import click
import pytest

from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.muster import muster

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
#: Verbs of kubectl that pages use. A verb that is not here is one more to look up.
KUBECTL = {
    *("auth", "delete", "describe", "events", "exec", "get", "logs", "rollout", "top"),
}
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`((?:kubectl|muster) [^`]+)`")
PAGES = sorted(RUNBOOKS.glob("*.md"))


def commands(page: Path) -> list[str]:
    """Every command of a page: lines of shell blocks, and those in the text."""
    text = page.read_text(encoding="utf-8")
    blocks = [line for block in _BLOCK.findall(text) for line in block.splitlines() if line.strip()]
    inline = [" ".join(found.split()) for found in _INLINE.findall(_BLOCK.sub("", text))]
    return [*blocks, *inline]


def parse(command: click.Command, name: str, words: list[str]) -> None:
    """Read the words as the command line does, without running anything. Raises ClickException."""
    if isinstance(command, click.Group) and not words:
        return  # all of its commands are meant
    with command.make_context(name, list(words)) as context:
        if isinstance(command, click.Group):
            _, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert found is not None
            parse(found, found.name or "", rest)


def check(command: str) -> None:
    """Raises if the command does not exist."""
    words = shlex.split(command)
    if words[:2] == ["kubectl", "muster"]:
        parse(kubectl_muster, "kubectl muster", words[2:])
    elif words[0] == "muster":
        parse(muster, "muster", words[1:])
    else:
        assert words[0] == "kubectl", command
        assert words[1] in KUBECTL, command
        if words[1] == "exec":
            check(shlex.join(words[words.index("--") + 1 :]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_exists(page: Path) -> None:
    found = commands(page)
    assert found
    for command in found:
        try:
            check(command)
        except click.ClickException as error:
            pytest.fail(f"{command}: {error.format_message()}")


@pytest.mark.parametrize(
    "command",
    [
        "kubectl muster pend",
        "kubectl muster pending --everything",
        "muster ledger mend",
        "muster ledger show now",
    ],
)
def test_a_command_that_does_not_exist_is_noticed(command: str) -> None:
    with pytest.raises(click.ClickException):
        check(command)

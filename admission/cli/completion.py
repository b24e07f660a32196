"""``kubectl_complete-muster``: kubectl runs it to complete ``kubectl muster …`` in a shell.

Prints candidates with descriptions, one per line, and last a directive: ``:4`` means no file names.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import click

from admission.cli.access.requests import ask
from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.options import route_from
from queues.errors import MusterError

_NO_FILES: Final = ":4"
#: The shell waits for this: no candidates are better than a long wait.
_TIMEOUT_SECONDS: Final = 2.0

Candidate = tuple[str, str]
T = TypeVar("T")


def main() -> None:
    """The script ``kubectl_complete-muster``."""
    for value, description in candidates(sys.argv[1:] or [""]):
        print(f"{value}\t{description}" if description else value)
    print(_NO_FILES)


def candidates(words: Sequence[str]) -> list[Candidate]:
    """Candidates for the last word, sorted. Empty after an error, since a shell cannot show it."""
    try:
        return sorted(_candidates(words[:-1], words[-1]))
    except (MusterError, click.ClickException, OSError, ValueError, KeyError):
        return []


def _candidates(before: Sequence[str], start: str) -> Iterator[Candidate]:
    command: click.Command = kubectl_muster
    called: list[str] = []
    for word in before:
        below = _below(command, word)
        if below is not None:
            command = below
            called.append(word)
    option = _option_of_value(command, before)
    if option is not None:
        values = _values_of(option, before)
    elif start.startswith("-"):
        values = _flags(command)
    elif isinstance(command, click.Group):
        values = ((name, sub.short_help or "") for name, sub in command.commands.items())
    else:
        values = _arguments(called, before)
    return (candidate for candidate in values if candidate[0].startswith(start))


def _below(command: click.Command, word: str) -> click.Command | None:
    if not isinstance(command, click.Group):
        return None
    return command.get_command(click.Context(command), word)


def _options(command: click.Command) -> Iterator[click.Option]:
    yield from (parameter for parameter in command.params if isinstance(parameter, click.Option))


def _option_of_value(command: click.Command, before: Sequence[str]) -> click.Option | None:
    """The option with the value that is being typed."""
    last = before[-1] if before else ""
    return next((option for option in _options(command) if last in option.opts and not option.is_flag), None)


def _flags(command: click.Command) -> Iterator[Candidate]:
    for option in _options(command):
        yield option.opts[-1], (option.help or "").partition(" [")[0]
    yield "--help", "Show help and exit."


def _values_of(option: click.Option, before: Sequence[str]) -> Iterator[Candidate]:
    from queues.read_api.bodies import UserList, WorkloadList

    if isinstance(option.type, click.Choice):
        yield from ((str(choice), "") for choice in option.type.choices)
    elif option.name == "queue":
        yield from _queues(before)
    elif option.name == "namespace":
        listed = _ask(before, "workloads", WorkloadList, {"limit": "1000"}).items
        yield from ((name, "") for name in {one.namespace for one in listed})
    elif option.name == "user":
        for one in _ask(before, "users", UserList, {"limit": "200"}).items:
            if one.user:
                yield one.user, f"{one.pending} waiting, {one.admitted} running"


def _arguments(called: Sequence[str], before: Sequence[str]) -> Iterator[Candidate]:
    """``called``: the names of the command, as ``["queue", "close"]``."""
    match called:
        case ["queues"] | ["reserve"] | ["queue" | "quota", _]:
            yield from _queues(before)
        case ["explain"]:
            from queues.read_api.bodies import WorkloadList

            namespace = _given(before, "-n", "--namespace")
            for one in _ask(
                before, "workloads", WorkloadList, {"namespace": namespace, "limit": "200"}
            ).items:
                told = one.reason.code if one.reason else one.state
                yield f"{one.kind}/{one.name}", f"queue {one.queue}, {told}"


def _queues(before: Sequence[str]) -> Iterator[Candidate]:
    from queues.read_api.bodies import QueueList

    for one in _ask(before, "queues", QueueList, {}).items:
        yield one.name, f"{one.state}, {one.pending} waiting, {one.admitted} running"


def _ask(before: Sequence[str], path: str, form: type[T], query: dict[str, str | None]) -> T:
    names = ("server", "server_ca", "token_file", "kubeconfig", "context")
    given = {name: _given(before, f"--{name.replace('_', '-')}") for name in names}
    chosen = {name: text for name, text in given.items() if text is not None}
    return ask(route_from({**chosen, "timeout": _TIMEOUT_SECONDS}), path, form, query)


def _given(words: Sequence[str], *flags: str) -> str | None:
    """The value that a flag has on the line so far."""
    for index, word in enumerate(words):
        if word in flags and index + 1 < len(words):
            return words[index + 1]
        for flag in flags:
            if flag.startswith("--") and word.startswith(f"{flag}="):
                return word.partition("=")[2]
    return None


if __name__ == "__main__":
    main()

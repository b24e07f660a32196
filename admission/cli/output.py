"""Forms of an answer, spelled as kubectl spells them: ``-o``, ``--no-headers`` and ``--watch``."""

import io
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Final, TextIO

import click

from admission.cli.command_line import INTERRUPTED
from admission.cli.rendering.terminal import columns_of, filled, say, seconds_between
from queues.errors import MusterError
from queues.read_api.bodies import AgedBody, ExplanationBody
from queues.text_format import short_duration

Command = Callable[..., Any]
#: How a command prints one answer; its result is an exit code.
_Print = Callable[[], Any]

_WORDS: Final = ("table", "wide", "json", "yaml", "name")
#: Of kubectl; here jq does the same.
_OF_KUBECTL: Final = ("jsonpath", "custom-columns", "go-template")
#: Seconds between two answers of ``--watch``.
_EVERY: Final = 2.0
#: Clears a terminal, what has scrolled away not included, and goes to its first line.
_CLEAR: Final = "\033[H\033[2J"
#: Goes to the first line; clears the rest of a line, and all below.
_HOME, _REST, _BELOW = "\033[H", "\033[K", "\033[J"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How a user wants an answer."""

    form: str = "table"
    #: Whether tables have a line of column names.
    headers: bool = True
    #: Columns of the terminal. None if the output goes elsewhere.
    width: int | None = None

    @property
    def is_wide(self) -> bool:
        """Whether a table has all columns."""
        return self.form == "wide"

    @property
    def is_table(self) -> bool:
        """Whether it is for people: what else there is to say may follow."""
        return self.form in ("table", "wide")

    @property
    def room(self) -> int | None:
        """Characters of a line of a table for people, None for any number. ``-o wide`` is never shortened."""
        return self.width if self.form == "table" else None

    def narrowed(self, by: int) -> "Output":
        """The same with so many characters less in a line."""
        return self if self.width is None else replace(self, width=max(self.width - by, 1))

    def fitted(self, lines: str) -> str:
        """A table with a line for each item, cut at the edge of the terminal: wrapped lines are hard to read.

        Only ``-o table``, and not where it goes elsewhere.
        """
        if (room := self.room) is None:
            return lines
        return "".join(_cut(line, room) for line in lines.splitlines(keepends=True))

    def filled(self, text: str) -> str:
        """Paragraphs, with sentences broken at the edge of the terminal: what they say at their end is not cut."""
        return filled(text, self.width if self.is_table else None)

    def show(
        self,
        body: AgedBody,
        table: Callable[[], str],
        *,
        nothing: str = "",
        name: Callable[[Any], str] | None = None,
        document: Any = None,
    ) -> int:
        """Print an answer of the read API; the exit code that follows from its age.

        ``table``: makes the form for people. ``nothing``: what people read instead of an empty one. ``document``: what
        programs get, if it is not the answer itself; ``name``: as for ``document``.
        """
        code = told_age(body)
        shown = body if document is None else document
        text = self.document(shown, name=name)
        if text is None and nothing and not _items(shown):
            say(nothing, err=True)
            return code
        if text is None:
            text = table()
            total, count = getattr(body, "total", None), len(_items(body))
            if total is not None and count < total:
                say(f"{count} of {total} shown; --limit shows more.", err=True)
        click.echo(self.fitted(text), nl=False)
        return code

    def document(self, body: Any, *, name: Callable[[Any], str] | None = None) -> str | None:
        """The answer as the user wants it. None for a table, which the command makes.

        ``name``: KIND/NAME of an item, for ``-o name``; without it an item's kind and name.
        """
        if self.form not in ("json", "yaml", "name"):
            return None
        from msgspec import to_builtins

        match self.form:
            case "json":
                import json

                return json.dumps(to_builtins(body), indent=2, ensure_ascii=False) + "\n"
            case "yaml":
                import yaml

                return yaml.safe_dump(to_builtins(body), sort_keys=False, allow_unicode=True)
            case "name":
                names = [(name or _kind_and_name)(item) for item in _items(body)]
                if "" in names:
                    raise click.UsageError("-o name: what this shows has no names. -o json has all of it.")
                return "".join(f"{each}\n" for each in names)
        return None


class _Form(click.Choice[str]):
    """A word."""

    def __init__(self, more: tuple[str, ...] = ()) -> None:
        """``more``: words that only this command knows."""
        super().__init__((*_WORDS[:2], *more, *_WORDS[2:]))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Raises BadParameter: no such form."""
        kind, equals, _ = str(value).partition("=")
        if equals or kind not in self.choices:
            hint = f". Instead of {kind} there is -o json | jq -r FILTER" if kind in _OF_KUBECTL else ""
            self.fail(f"found {value!r}, expected one of {', '.join(self.choices)}{hint}", param, ctx)
        return kind


def output(command: Command) -> Command:
    """Add ``-o``, ``--no-headers`` and ``--watch``. The command gets ``output``, an Output."""
    return output_with()(command)


def output_with(*more: str) -> Callable[[Command], Command]:
    """As ``output``, with further words for ``-o``."""
    options = (
        click.option(
            "-o",
            "--output",
            "form",
            type=_Form(more),
            default="table",
            show_default=True,
            help="Form of the answer.",
        ),
        click.option("--no-headers", is_flag=True, help="Leave the line of column names out."),
        click.option(
            "-w", "--watch", is_flag=True, help="Show the answer again whenever it changes, until Ctrl-C."
        ),
    )

    def with_options(command: Command) -> Command:
        @wraps(command)
        def with_output(*, form: str, no_headers: bool, watch: bool, **given: Any) -> Any:
            def answer() -> Any:
                # While it is watched, the terminal may get another width.
                wanted = Output(form=form, headers=not no_headers, width=columns_of(sys.stdout))
                return command(output=wanted, **given)

            return watched(answer) if watch else answer()

        with_all: Command = with_output
        for option in reversed(options):
            with_all = option(with_all)
        return with_all

    return with_options


def _cut(line: str, width: int) -> str:
    text = line.rstrip("\n")
    return line if len(text) <= width else f"{text[: width - 1]}…\n"


def _items(body: Any) -> list[Any]:
    if isinstance(body, list | tuple):
        return list(body)
    items = body.get("items") if isinstance(body, dict) else getattr(body, "items", None)
    return [body] if items is None else list(items)


def _kind_and_name(item: Any) -> str:
    from msgspec import to_builtins

    item = to_builtins(item)
    metadata = item.get("metadata") or item
    return f"{str(item.get('kind', '')).lower()}/{metadata.get('name', '')}".removeprefix("/")


class _Collected(io.StringIO):
    """What is printed, until it is shown on the same terminal: its lines are as long as there."""

    def __init__(self, shown_on: TextIO) -> None:
        super().__init__()
        self._is_terminal = shown_on.isatty()

    def isatty(self) -> bool:
        """As the stream that it is shown on."""
        return self._is_terminal


def _redraw(printed: str, told: str, *, is_first: bool) -> None:
    """Write an answer over the last one, line by line: a screen that is cleared before flickers.

    As many lines as the terminal has; how many more there are is said.
    """
    if not sys.stderr.isatty():
        click.echo(told, nl=False, err=True)
        told = ""
    import shutil

    lines = (printed + told).splitlines()
    room = max(shutil.get_terminal_size().lines - 1, 2)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines"]
    text = "".join(f"{line}{_REST}\n" for line in lines)
    print((_CLEAR if is_first else _HOME) + text + _BELOW, end="", flush=True)


def watched(print_answer: _Print) -> int:
    """Print an answer again whenever it differs: over the last one on a terminal, else below it. Ends by Ctrl-C."""
    last: tuple[str, str] | None = None
    on_terminal = sys.stdout.isatty()
    try:
        while True:
            printed, told = _Collected(sys.stdout), _Collected(sys.stderr)
            try:
                with redirect_stdout(printed), redirect_stderr(told):
                    print_answer()
            except MusterError as error:
                if last is None:
                    raise
                # What is looked at for hours outlives an upgrade of Muster.
                told.write(f"{error}\n")
            answer = printed.getvalue(), told.getvalue()
            if answer != last and on_terminal:
                _redraw(*answer, is_first=last is None)
            elif answer != last:
                print(("" if last is None else "\n") + answer[0], end="", flush=True)
                click.echo(answer[1], nl=False, err=True)
            last = answer
            time.sleep(_EVERY)
    except KeyboardInterrupt:
        return INTERRUPTED


# -- the age of an answer: shown when it matters, and in the exit code when it is too old to rely on ------------

Aged = AgedBody | ExplanationBody

#: Seconds from which the age of an answer is shown. Answers are some seconds old at any time.
TOLD: Final = 15
#: Seconds from which the exit code says that the answer is too old.
TOO_OLD: Final = 60
#: The exit code then.
OLD: Final = 3


def told_age(body: Aged) -> int:
    """Print the age of an answer to standard error if it is old; the exit code that follows."""
    sentence, code = age_of(body)
    if sentence:
        say(sentence, err=True)
    return code


def age_of(body: Aged) -> tuple[str, int]:
    """The age of an answer as a sentence, "" if it is not old, and the exit code that follows."""
    as_of = body.as_of
    why = f": {body.behind}" if body.behind else ""
    if as_of is None:
        return f"The age of the data is not known{why}.", OLD
    seconds = seconds_between(as_of, body.now)
    if seconds < TOLD:
        return "", 0
    return f"The data is {short_duration(seconds)} old{why}.", OLD if seconds > TOO_OLD else 0

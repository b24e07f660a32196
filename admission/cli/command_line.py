"""How a command line is run: its command is found by name, and ends with an exit code; errors are sentences instead of
tracebacks.

0 it worked; 1 it did not; 2 it was called wrongly; 3 the answer is too old to rely on; 130 interrupted.

Commands are imported when one of them is called: a call does not wait for the others.
"""

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

import click

from admission.cli.rendering.terminal import columns_of, filled, say
from queues.errors import MusterError

#: Environment variable: set, an unexpected error shows its traceback.
TRACEBACK = "MUSTER_TRACEBACK"

#: Exit codes.
WRONGLY_CALLED: Final = 2
INTERRUPTED: Final = 130

#: Advice where no API server answers.
UNREACHABLE: Final = (
    "Is the cluster up, and is this the right context? `kubectl cluster-info` asks the same server."
)


class CommandFailed(MusterError):
    """{tried}: {found}. {hint}"""

    def __init__(self, *, found: str, tried: str = "", hint: str = "") -> None:
        """``tried``: what was tried, before a colon; "": ``found`` says it all."""
        #: Exit code of the command.
        self.exit_code = 1
        what = f"{tried}: {found}" if tried else found
        sentence = what if what.endswith(("?", "!")) else what.rstrip(".") + "."
        super().__init__(sentence + (f"\n{hint}" if hint else ""))


def finish(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; it never raises. ``arguments``: None for those of the process."""
    try:
        result = command.main(args=arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        _show(_removed(error) or error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _failed(error)
    return result if isinstance(result, int) else 0


def _show(error: click.ClickException) -> None:
    """As click shows it, with its usage; the message fits the terminal."""
    begins = "Error: "
    message = filled(begins + error.format_message(), columns_of(sys.stderr)).removeprefix(begins)
    vars(error)["format_message"] = lambda: message
    error.show()


def _removed(error: click.ClickException) -> click.UsageError | None:
    """What to use instead of an option that was taken out; None if the error is about something else."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return None
    for program, rows in instead_of().items():
        command = error.ctx.command_path.removeprefix(f"{program} ")
        for called in (f"{command} {error.option_name}", error.option_name):
            if command != error.ctx.command_path and called in rows:
                return click.UsageError(f"{error.option_name} was removed: {rows[called]}.", error.ctx)
    return None


def _failed(error: Exception) -> int:
    if os.environ.get(TRACEBACK):
        raise error
    if isinstance(error, MusterError):
        complain(str(error))
        return error.exit_code if isinstance(error, CommandFailed) else 1
    if isinstance(error, OSError) and error.filename is not None:
        complain(f"{error.filename}: {error.strerror}")
    else:
        complain(
            f"{type(error).__name__}: {error}\nThis is a fault of Muster; {TRACEBACK}=1 shows where it is."
        )
    return 1


def complain(message: str) -> None:
    """Print an error to standard error."""
    say(f"Error: {message}", err=True)


class CommandGroup(click.Group):
    """A group that says what does what an unknown command was to do, and ends the help of each with its examples."""

    def __init__(self, *given: Any, package: str = "", places: Mapping[str, str] = {}, **more: Any) -> None:
        """``places``: commands that are imported when one is called, by their heading in the help, in the order in
        which people need them. ``module:name`` in ``package``; a module alone has the command of its name."""
        super().__init__(*given, **more)
        self._package = package
        self._places: dict[str, tuple[str, str]] = {}
        self._headings: dict[str, list[str]] = {}
        for heading, words in places.items():
            for module, _, name in (word.partition(":") for word in words.split()):
                attribute = name or module.rpartition(".")[2]
                self._places[attribute.rstrip("_")] = module, attribute
                self._headings.setdefault(heading, []).append(attribute.rstrip("_"))

    @property
    def names(self) -> list[str]:
        """The names of its commands, none of them imported for that."""
        return list(dict.fromkeys((*self._places, *self._own)))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order in which people need them."""
        return self.names

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Add the commands to the help, below their headings."""
        commands = self.commands
        for heading, names in (self._headings or {"Commands": self.names}).items():
            with formatter.section(heading):
                formatter.write_dl([(name, commands[name].get_short_help_str(80)) for name in names])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name. None if there is none."""
        command = self.loaded(cmd_name)
        if command is not None:
            full_name = f"{ctx.command_path} {cmd_name}"
            vars(command).setdefault("format_epilog", partial(_format_examples, command, full_name))
        return command

    def loaded(self, name: str) -> click.Command | None:
        """The command of that name, imported now if it was not. None if there is none."""
        if name in self._places and name not in self._own:
            module, attribute = self._places[name]
            self._own[name] = getattr(import_module(f"{self._package}.{module}"), attribute)
        return self._own.get(name)

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """All of them, by name: imported now."""
        return {name: found for name in self.names if (found := self.loaded(name))}

    @commands.setter
    def commands(self, given: MutableMapping[str, click.Command]) -> None:
        self._own = given

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command that is imported already."""
        self._own[name or str(cmd.name)] = cmd

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError as error:
            raise click.UsageError(unknown_command(ctx.command_path, args, self.names), ctx) from error


def _format_examples(
    command: click.Command, full_name: str, context: click.Context, formatter: click.HelpFormatter
) -> None:
    from admission.cli.examples import epilog_of

    command.epilog = epilog_of(full_name)
    type(command).format_epilog(command, context, formatter)


#: Groups of commands after which users write the name of a queue, and the command that shows it.
_SHOWN_BY: Final = {"queue": "kubectl muster queues", "quota": "kubectl muster quota show"}


def instead_of() -> dict[str, dict[str, str]]:
    """What to use instead of commands and options that there are not, by program, and by what is typed after it: habits
    of Slurm, LSF, Volcano and kubectl, and what was taken out."""
    import tomllib
    from importlib.resources import files

    text = files("admission.cli").joinpath("unknown_commands.toml").read_text(encoding="utf-8")
    return {
        program: {called: text for words, text in rows.items() for called in words.split(", ")}
        for program, rows in tomllib.loads(text).items()
    }


def unknown_command(path: str, words: Sequence[str], known: Sequence[str]) -> str:
    """The sentence. ``path``: how the group is called that the first of ``words`` was looked for in; ``known``:
    its commands."""
    from difflib import get_close_matches

    from admission.cli.kubectl_muster import kubectl_muster
    from admission.cli.muster import muster

    program, other = ("kubectl muster", muster) if path.startswith("kubectl") else ("muster", kubectl_muster)
    group, word = path.removeprefix(program).strip(), words[0]
    by_habit = instead_of()[program]
    both = " ".join(words[:2]).partition("=")[0]
    called = both if not group and both in by_habit else f"{group} {word}".strip()
    if (instead := by_habit.get(called)) is not None:
        pass
    elif alike := get_close_matches(word, known, n=2, cutoff=0.7):
        instead = f"did you mean {' or '.join(f'{path} {each}' for each in alike)}?"
    elif not group and word in other.names:
        instead = f"it is {'muster' if other is muster else 'kubectl muster'} {word}"
    else:
        instead = f"{path} --help lists those there are"
        if (shown := _SHOWN_BY.get(group)) is not None:
            instead += f"; if {word} is a queue, {shown} {word} shows it"
    return f'muster has no command "{called}": {instead}' + ("" if instead.endswith("?") else ".")


def confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal whether to go on. ``yes``: the user said so already. Raises CommandFailed: not to."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(
            found="Nothing was changed, as there is no terminal to ask at",
            hint="Add --yes to go on.",
        )
    if not click.confirm(question, err=True):
        raise CommandFailed(found="Nothing was changed")

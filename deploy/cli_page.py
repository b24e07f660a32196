"""What the page ``docs/reference/cli.md`` shows of every command: its help and its options."""

from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Any, Final

import click

from admission.cli.examples import commands_of, examples
from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.muster import muster
from admission.cli.options import namespaces, route
from admission.cli.output import output


def _added_by(decorator: Callable[..., Any]) -> list[click.Option]:
    """The options that a decorator adds to a command."""

    @click.command
    @decorator
    def probe(**_: Any) -> None:
        """A command without options of its own."""

    return _options_of(probe)


def _options_of(command: click.Command) -> list[click.Option]:
    """The options of a command, without that of its help and those that were removed."""
    return [
        option
        for option in command.get_params(click.Context(command))
        if isinstance(option, click.Option) and "--help" not in option.opts and not option.hidden
    ]


#: Options that many commands have, by their heading: described once.
_COMMON: Final = {
    "Form of the answer": _added_by(output),
    "Namespaces": _added_by(namespaces),
    "Who is asked": _added_by(route),
}


def cli_values() -> dict[str, Any]:
    """What the template ``cli.md.j2`` is rendered with."""
    return {
        "common": _COMMON,
        "examples": examples(),
        "plugin": kubectl_muster,
        "plugin_commands": list(commands_of(kubectl_muster, "kubectl muster")),
        "administration": muster,
        "administration_commands": list(commands_of(muster, "muster")),
        "usage_of": _usage_of,
        "own_options_of": _own_options_of,
        "shared_options_of": _shared_options_of,
        "names_of": _names_of,
        "meaning_of": _meaning_of,
        "help_of": _help_of,
        "cell": _cell,
    }


def _usage_of(name: str, command: click.Command) -> str:
    return " ".join(command.collect_usage_pieces(click.Context(command, info_name=name)))


def _own_options_of(command: click.Command) -> list[click.Option]:
    """The options of a command that are described with it."""
    return [
        option
        for option in _options_of(command)
        if not any(_is_in(option, group) for group in _COMMON.values())
    ]


def _shared_options_of(command: click.Command) -> dict[str, list[click.Option]]:
    """The other ones, by the heading below which they are described."""
    options = _options_of(command)
    shared = {
        heading: [option for option in options if _is_in(option, group)] for heading, group in _COMMON.items()
    }
    return {heading: found for heading, found in shared.items() if found}


def _is_in(option: click.Option, group: Sequence[click.Option]) -> bool:
    return any((each.opts, each.help) == (option.opts, option.help) for each in group)


def _names_of(option: click.Option) -> str:
    context = click.Context(click.Command("any"))
    is_number = option.metavar is None and isinstance(option.type, click.IntRange)
    value = "" if option.is_flag else " N" if is_number else f" {option.make_metavar(context)}"
    return f"`{', '.join(option.opts)}{value}`".replace("|", "\\|")


def _meaning_of(option: click.Option) -> str:
    text = _cell(option.help or "")
    if option.show_default and option.default is not None and not option.is_flag:
        text += f" Default: `{option.default}`."
    if option.multiple and "repeated" not in text:
        text += " May be repeated."
    return text


def _help_of(command: click.Command) -> str:
    """The help of a command, a line for each paragraph."""
    text = cleandoc(command.help or "").replace("\b\n", "")
    return "\n\n".join(_prose(" ".join(part.split())) for part in text.split("\n\n"))


def _prose(text: str) -> str:
    return text.replace("<", "&lt;")


def _cell(text: str) -> str:
    return _prose(" ".join(text.split())).replace("|", "\\|")

"""Groups whose commands are imported when one of them is called: a call of the plugin does not wait for the others."""

from collections.abc import Mapping, MutableMapping
from functools import partial
from importlib import import_module
from typing import Any

import click

from admission.cli.removed import GroupWithRemovedCommands

#: Where a command is: ``module:name``.
Place = str


class LoadedGroup(GroupWithRemovedCommands):
    """A group that knows where its commands are, and imports those that are asked for."""

    def __init__(self, *given: Any, full_name: str, places: Mapping[str, Place], **more: Any) -> None:
        """``full_name``: how the group is called, such as ``kubectl muster``."""
        super().__init__(*given, **more)
        self._full_name = full_name
        self._places = places
        self._loaded: dict[str, click.Command] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the alphabet."""
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name. None if there is none."""
        return self.loaded(cmd_name) if cmd_name in self._places else None

    def loaded(self, name: str) -> click.Command:
        """A command of this group. Raises KeyError: there is none of that name."""
        if (known := self._loaded.get(name)) is not None:
            return known
        module, _, attribute = self._places[name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        full = f"{self._full_name} {name}"
        _end_with_examples(command, full)
        if not isinstance(command, LoadedGroup) and isinstance(command, click.Group):
            for each, below in command.commands.items():
                _end_with_examples(below, f"{full} {each}")
        self._loaded[name] = command
        return command

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """All of them, by name: imported now."""
        return {name: self.loaded(name) for name in self._places}

    @commands.setter
    def commands(self, _: MutableMapping[str, click.Command]) -> None:
        """Click sets those that it is given, none."""


def _end_with_examples(command: click.Command, full_name: str) -> None:
    """Let the help of a command end with the examples of the first of its names, which are imported then."""
    vars(command).setdefault("format_epilog", partial(_format_examples, command, full_name))


def _format_examples(
    command: click.Command, full_name: str, context: click.Context, formatter: click.HelpFormatter
) -> None:
    from admission.cli.examples import epilog_of

    command.epilog = epilog_of(full_name)
    type(command).format_epilog(command, context, formatter)

"""Groups whose commands are imported when one of them is called: a call does not wait for the others."""

from collections.abc import MutableMapping
from functools import partial
from importlib import import_module
from typing import Any

import click

from admission.cli.removed import REMOVED_COMMANDS


class CommandGroup(click.Group):
    """A group that names what replaced a command that was taken out, and ends the help of each with its examples."""

    def __init__(self, *given: Any, places: tuple[str, ...] = (), **more: Any) -> None:
        """``places``: ``module:name`` of commands that are imported when one is called, in the order of the docs."""
        super().__init__(*given, **more)
        self._places = {place.rpartition(":")[2].rstrip("_"): place for place in places}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the alphabet."""
        return sorted(self.commands)

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
            module, _, attribute = self._places[name].partition(":")
            self._own[name] = getattr(import_module(module), attribute)
        return self._own.get(name)

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """All of them, by name: imported now."""
        return {name: found for name in (*self._places, *self._own) if (found := self.loaded(name))}

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
        called = f"{ctx.command_path} {args[0]}"
        if (instead := REMOVED_COMMANDS.get(called)) is not None:
            raise click.UsageError(f"{called} was removed: {instead}.", ctx)
        return super().resolve_command(ctx, args)


def _format_examples(
    command: click.Command, full_name: str, context: click.Context, formatter: click.HelpFormatter
) -> None:
    from admission.cli.examples import epilog_of

    command.epilog = epilog_of(full_name)
    type(command).format_epilog(command, context, formatter)

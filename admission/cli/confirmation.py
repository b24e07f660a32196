"""A question before something is changed."""

import sys

import click

from admission.cli.command_line import CommandFailed


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

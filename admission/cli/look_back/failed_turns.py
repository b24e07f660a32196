"""``muster failed-turns``: the turns that a replica could not decide, brought to where they can be decided again."""

import sys
from typing import Any

import click

from admission.cli.commands.run import SettingsCommand, settings_from
from admission.cli.failures import CommandFailed

_FOLDER = ("failed_turns_dir",)


@click.group("failed-turns", short_help="List and fetch turns that could not be decided.")
def failed_turns() -> None:
    """List and fetch turns that could not be decided, or not in time. A replica keeps the last few on its own disk.

    In a cluster that disk goes with the pod: run these commands in the pod, and before it is restarted. A turn names
    the work of all namespaces.
    """


@failed_turns.command("list", cls=SettingsCommand, only=_FOLDER, short_help="List them, the newest first.")
def list_(**flags: Any) -> None:
    """List the turns that this replica keeps, the newest first."""
    from admission.cli.rendering.table import table
    from admission.containment.failed_turns import kept_files
    from queues.text_format import rfc3339

    folder = settings_from(flags).failed_turns_folder
    rows = []
    for file in kept_files(folder):
        about = file.stat()
        rows.append((file.name, rfc3339(about.st_mtime), about.st_size))
    if not rows:
        click.echo(f"No failed turn is kept in {folder}.")
        return
    click.echo(table(("NAME", "KEPT", "BYTES"), rows, right="BYTES"), nl=False)


@failed_turns.command(
    "print", cls=SettingsCommand, only=_FOLDER, short_help="Write one to standard output, as it is kept."
)
@click.argument("name", required=False)
def print_(name: str | None, **flags: Any) -> None:
    """Write the turn NAME to standard output, compressed as it is kept, or the newest one.

    `muster replay FILE` decides it again, and `kubectl exec` passes it on unchanged as long as it has no terminal (-t).
    """
    from admission.containment.failed_turns import kept_files

    folder, tried = settings_from(flags).failed_turns_folder, "Printing a failed turn"
    if sys.stdout.isatty():
        raise CommandFailed(
            tried=tried,
            found="standard output is a terminal, and the turn is compressed",
            hint="Write it to a file: > turn.json.gz, and for `kubectl exec` leave out -t.",
        )
    files = {file.name: file for file in kept_files(folder)}
    chosen = next(iter(files.values()), None) if name is None else files.get(name)
    if chosen is None:
        found = f"none is kept in {folder}" if not files else f"there is no {name} in {folder}"
        raise CommandFailed(
            tried=tried,
            found=found,
            hint=f"There are: {', '.join(files)}."
            if files
            else "Each replica has its own: ask the other pods too.",
        )
    sys.stdout.buffer.write(chosen.read_bytes())

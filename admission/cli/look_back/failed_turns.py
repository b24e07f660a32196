"""``muster failed-turns``: the turns that a replica could not decide, brought to where they can be decided again."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admission.cli.access.database import with_database
from admission.cli.commands.run import DATABASE, SettingsCommand, settings_from
from admission.cli.failures import CommandFailed, complain
from queues.errors import MusterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admission.settings import Settings
    from queues.sql.database import Database
    from queues.sql.history.failed_turns import FailedTurn

_PLACES = (*DATABASE, "failed_turns_dir")
#: In place of a replica's name.
_HERE = "this disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """A failed turn, wherever it is."""

    name: str
    #: Seconds since the epoch.
    kept_at: float
    size: int
    #: The replica that failed on it, as the database has it.
    replica: str = _HERE
    #: None: it is in the database.
    file: Path | None = None


@click.group("failed-turns", short_help="List and fetch turns that could not be decided.")
def failed_turns() -> None:
    """List and fetch turns that could not be decided, or not in time.

    The last five of all replicas are in the database, for 90 days. A replica that did not reach the database has its
    own on its disk only, which in a cluster goes with the pod. A turn names the work of all namespaces.
    """


@failed_turns.command("list", cls=SettingsCommand, only=_PLACES, short_help="List them, the newest first.")
def list_(**flags: Any) -> None:
    """List the turns in the database, and those on the disk here that it does not have, the newest first."""
    from admission.cli.rendering.table import table
    from queues.text_format import rfc3339

    found = list(_turns(settings_from(flags)))
    if not found:
        click.echo("No failed turn is kept.")
        return
    rows = [(turn.name, rfc3339(turn.kept_at), turn.size, turn.replica) for turn in found]
    click.echo(table(("NAME", "KEPT", "BYTES", "REPLICA"), rows, right="BYTES"), nl=False)


@failed_turns.command(
    "print", cls=SettingsCommand, only=_PLACES, short_help="Write one to standard output, as it is kept."
)
@click.argument("name", required=False)
def print_(name: str | None, **flags: Any) -> None:
    """Write the turn NAME to standard output, compressed as it is kept, or the newest one.

    `muster replay FILE` decides it again, and `kubectl exec` passes it on unchanged as long as it has no terminal (-t).
    """
    tried, settings = "Printing a failed turn", settings_from(flags)
    if sys.stdout.isatty():
        raise CommandFailed(
            tried=tried,
            found="standard output is a terminal, and the turn is compressed",
            hint="Write it to a file: > turn.json.gz, and for `kubectl exec` leave out -t.",
        )
    found = {turn.name: turn for turn in _turns(settings)}
    turn = next(iter(found.values()), None) if name is None else found.get(name)
    if turn is None:
        raise CommandFailed(
            tried=tried,
            found="none is kept" if name is None else f"there is no {name[:100]}",
            hint=f"There are: {', '.join(found)}." if found else "",
        )
    sys.stdout.buffer.write(_content(turn, settings))


def _content(turn: _Turn, settings: "Settings") -> bytes:
    if turn.file is not None:
        return turn.file.read_bytes()

    async def read(database: "Database") -> bytes | None:
        from queues.sql.history.failed_turns import content_of

        async with database.snapshot() as tx:
            return await content_of(tx, turn.name)

    content = with_database("Reading a failed turn", settings, read)
    if content is None:
        raise CommandFailed(
            tried="Reading a failed turn", found=f"{turn.name} was dropped just now", hint="List them again."
        )
    return content


def _turns(settings: "Settings") -> list[_Turn]:
    """Those in the database and on this disk, the newest first."""
    found = {turn.name: turn for turn in (*_on_disk(settings.failed_turns_folder), *_in_database(settings))}
    return sorted(found.values(), key=lambda turn: (turn.kept_at, turn.name), reverse=True)


def _on_disk(folder: Path) -> Iterator[_Turn]:
    from admission.containment.failed_turns import kept_files

    for file in kept_files(folder):
        about = file.stat()
        yield _Turn(name=file.name, kept_at=about.st_mtime, size=about.st_size, file=file)


def _in_database(settings: "Settings") -> Iterator[_Turn]:
    """None where no database is named; where it does not answer that is told, for the disk may still have some."""
    if settings.dsn is None and settings.dsn_file is None:
        return

    async def read(database: "Database") -> "Sequence[FailedTurn]":
        from queues.sql.history.failed_turns import stored

        async with database.snapshot() as tx:
            return await stored(tx)

    try:
        rows = with_database("Asking the database for failed turns", settings, read)
    except MusterError as error:
        complain(f"{error} Only this disk was looked at; other replicas may have others.")
        return
    for row in rows:
        yield _Turn(name=row.name, kept_at=row.kept_at.timestamp(), size=row.size, replica=row.replica)

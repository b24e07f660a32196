"""``muster backup`` and ``muster restore``: the database in a file, and back."""

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from admission.cli.access.database import dsn_of
from admission.cli.commands.run import DATABASE, SettingsCommand, settings_from
from admission.cli.failures import CommandFailed

if TYPE_CHECKING:
    from queues.sql.backup.archive import Archive, Manifest
    from queues.sql.database import Database

_Written = TypeVar("_Written")

#: In place of a file: standard output, or standard input.
_STREAM: Final = Path("-")
_BACKUP: Final = "Writing the backup"
_RESTORE: Final = "Restoring the backup"


@click.command(
    cls=SettingsCommand, only=DATABASE, short_help="Write the database into a file, while Muster runs."
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace FILE if it is there.")
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a file into DIR whose name has the time (UTC).",
)
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(min=1),
    help="With --folder: then remove the oldest files of such names, until N are left.",
)
@click.option("--list", "listed", is_flag=True, help="With --folder: only list its backups.")
def backup(
    file: Path | None, overwrite: bool, folder: Path | None, keep: int | None, listed: bool, **flags: Any
) -> None:
    """Write the whole database, as of one moment, into FILE, or into a new file in the folder DIR. Muster may run
    meanwhile.

    FILE is for `muster restore` of this version and of newer ones, on any Postgres that these support. It is written
    whole or not at all, and only its owner can read it: it names users and what they ran. "-" is standard output;
    TMPDIR needs room for the whole database then.

    --keep is for schedules: older backups are removed when the new one is complete, and no other file is.
    """
    if (file is None) == (folder is None):
        raise click.UsageError("Name either FILE or --folder.")
    if folder is None and (keep is not None or listed):
        raise click.UsageError("--keep and --list go with --folder.")
    if overwrite and (folder is not None or file == _STREAM):
        raise click.UsageError("--overwrite goes with FILE.")
    if folder is not None:
        _require_folder(folder)
        if listed:
            _list(folder)
        else:
            _write_into(folder, keep, flags)
    elif file == _STREAM:
        _write_out(flags)
    elif file is not None:
        _write_file(file, overwrite, flags)


def _write_file(file: Path, overwrite: bool, flags: dict[str, Any]) -> None:
    if file.exists() and not overwrite:
        raise CommandFailed(
            tried=_BACKUP, found=f"{file} is there already", hint="Name another file, or add --overwrite."
        )
    place = file.absolute()
    _require_folder(place.parent)

    async def write(database: "Database") -> "Manifest":
        from queues.sql.backup.dump import backup

        return await backup(database, place)

    manifest = _written(flags, write, hint="Name a place that can be written.")
    click.echo(f"{file}: {_described(manifest)}, {file.stat().st_size} bytes")


def _write_out(flags: dict[str, Any]) -> None:
    if sys.stdout.isatty():
        raise CommandFailed(
            tried=_BACKUP,
            found="standard output is a terminal",
            hint="Redirect it into a file: `muster backup - > FILE`.",
        )

    async def write(database: "Database") -> "Manifest":
        from queues.sql.backup.dump import backup_to

        return await backup_to(database, sys.stdout.buffer)

    manifest = _written(
        flags, write, hint="What was written is no backup. TMPDIR names the folder for the tables before."
    )
    click.echo(f"standard output: {_described(manifest)}", err=True)


def _write_into(folder: Path, keep: int | None, flags: dict[str, Any]) -> None:
    async def write(database: "Database") -> None:
        from queues.sql.backup.rotation import backup_into

        done = await backup_into(database, folder, keep)
        size = done.path.stat().st_size
        click.echo(f"{done.path}: {_described(done.manifest)}, {size} bytes")
        for each in done.removed:
            click.echo(f"{each}: removed, {keep} are kept")

    _written(flags, write, hint="Nothing was removed for it. Is the folder writable, and has it room?")


def _list(folder: Path) -> None:
    from queues.sql.backup.rotation import backups_in

    for each in backups_in(folder):
        click.echo(f"{each}  {each.stat().st_size} bytes")


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise CommandFailed(
            tried=_BACKUP, found=f"there is no folder {folder}", hint="Make it, or name another."
        )


def _written(
    flags: dict[str, Any], write: "Callable[[Database], Awaitable[_Written]]", *, hint: str
) -> "_Written":
    """What ``write`` returns for the database of the settings. ``hint``: if a file or stream cannot be written."""
    import asyncio

    dsn = dsn_of(_BACKUP, settings_from(flags))

    async def run() -> "_Written":
        from queues.sql.database import Database

        database = await Database.connect(dsn, statement_timeout=0, idle_timeout=0, pool_size=1)
        try:
            return await write(database)
        finally:
            await database.close()

    try:
        return asyncio.run(run())
    except OSError as error:
        raise CommandFailed(tried=_BACKUP, found=str(error), hint=hint) from error


@click.command(cls=SettingsCommand, only=DATABASE, short_help="Fill an empty database from a backup.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Only say what FILE is, and whether it is whole.")
def restore(file: Path, check: bool, **flags: Any) -> None:
    """Fill an empty database from FILE, and bring its schema to this version. "-" is standard input; TMPDIR needs room
    for it then.

    The cluster goes on with the ledger that it knows until `muster ledger adopt-cluster`: stop all replicas of that one
    before. The next leader adopts pods that were released since the backup, and gives back what is gone.
    """
    import asyncio

    with _opened(file) as archive:
        if check:
            click.echo(f"{file}: {_described(archive.manifest)}; it is whole")
            return
        dsn = dsn_of(_RESTORE, settings_from(flags))

        from queues.sql.backup.load import restore

        asyncio.run(restore(dsn, archive))
        click.echo(f"Restored: {_described(archive.manifest)}.")
    click.echo(
        "Next: stop all replicas that use another database, and run `muster ledger adopt-cluster` with this one."
    )


@contextmanager
def _opened(file: Path) -> "Iterator[Archive]":
    """A backup; standard input is put into a temporary file before, since its manifest comes last."""
    import shutil
    import tempfile

    from queues.sql.backup.archive import opened

    if file != _STREAM:
        with opened(file) as archive:
            yield archive
        return
    if sys.stdin.isatty():
        raise CommandFailed(
            tried=_RESTORE,
            found="standard input is a terminal",
            hint="Redirect a file into it: `muster restore - < FILE`.",
        )
    try:
        spool = tempfile.NamedTemporaryFile(prefix="muster-restore-")  # noqa: SIM115 - closed below
    except OSError as error:
        raise _no_room(error) from error
    with spool:
        try:
            shutil.copyfileobj(sys.stdin.buffer, spool)
            spool.flush()
        except OSError as error:
            raise _no_room(error) from error
        with opened(Path(spool.name), "standard input") as archive:
            yield archive


def _no_room(error: OSError) -> CommandFailed:
    return CommandFailed(
        tried=_RESTORE, found=str(error), hint="TMPDIR names the folder that the backup is put into before."
    )


def _described(manifest: "Manifest") -> str:
    return (
        f"ledger {manifest.ledger} as of {manifest.taken_at:%Y-%m-%dT%H:%M:%SZ}, {manifest.rows} rows,"
        f" schema {manifest.schema} of Muster {manifest.version}"
    )

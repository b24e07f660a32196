"""``muster backup`` and ``muster restore``: the database in a file, and back."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admission.cli.access.database import dsn_of
from admission.cli.commands.run import DATABASE, SettingsCommand, settings_from
from admission.cli.failures import CommandFailed

if TYPE_CHECKING:
    from queues.sql.backup.archive import Manifest


@click.command(
    cls=SettingsCommand, only=DATABASE, short_help="Write the database into a file, while Muster runs."
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace FILE if it is there.")
def backup(file: Path, overwrite: bool, **flags: Any) -> None:
    """Write the whole database, as of one moment, into FILE. Muster may run meanwhile.

    FILE is for `muster restore` of this version and of newer ones, on any Postgres that these support. It is written
    whole or not at all, and only its owner can read it: it names users and what they ran.
    """
    import asyncio

    tried = "Writing the backup"
    if file.exists() and not overwrite:
        raise CommandFailed(
            tried=tried, found=f"{file} is there already", hint="Name another file, or add --overwrite."
        )
    if not file.absolute().parent.is_dir():
        raise CommandFailed(
            tried=tried,
            found=f"there is no folder {file.absolute().parent}",
            hint="Make it, or name another.",
        )
    dsn, place = dsn_of(tried, settings_from(flags)), file.absolute()

    async def write() -> "Manifest":
        from queues.sql.backup.dump import backup
        from queues.sql.database import Database

        database = await Database.connect(dsn, statement_timeout=0, idle_timeout=0, pool_size=1)
        try:
            return await backup(database, place)
        finally:
            await database.close()

    try:
        manifest = asyncio.run(write())
    except OSError as error:
        raise CommandFailed(
            tried=tried, found=str(error), hint="Name a place that can be written."
        ) from error
    click.echo(f"{file}: {_described(manifest)}, {file.stat().st_size} bytes")


@click.command(cls=SettingsCommand, only=DATABASE, short_help="Fill an empty database from a backup.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Only say what FILE is, and whether it is whole.")
def restore(file: Path, check: bool, **flags: Any) -> None:
    """Fill an empty database from FILE, and bring its schema to this version.

    The cluster goes on with the ledger that it knows until `muster ledger adopt-cluster`: stop all replicas before.
    The next leader adopts pods that were released since the backup, and gives back what is gone.
    """
    import asyncio

    from queues.sql.backup.archive import opened

    with opened(file) as archive:
        if check:
            click.echo(f"{file}: {_described(archive.manifest)}; it is whole")
            return
        dsn = dsn_of("Restoring the backup", settings_from(flags))

        from queues.sql.backup.load import restore

        asyncio.run(restore(dsn, archive))
        click.echo(f"Restored: {_described(archive.manifest)}.")
    click.echo(
        "Next, with all replicas stopped: `muster ledger adopt-cluster`. Then start them with this database."
    )


def _described(manifest: "Manifest") -> str:
    return (
        f"ledger {manifest.ledger} as of {manifest.taken_at:%Y-%m-%dT%H:%M:%SZ}, {manifest.rows} rows,"
        f" schema {manifest.schema} of Muster {manifest.version}"
    )

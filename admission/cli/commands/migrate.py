"""``muster migrate``: bring the database's schema to this version."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from admission.cli.access.administration import dsn_of
from admission.cli.commands.run import DATABASE, SettingsCommand, settings_from

if TYPE_CHECKING:
    from queues.sql.dsn import Dsn

#: SQLSTATE of a transaction that Postgres ended since it and another one waited for each other.
_DEADLOCK: Final = "40P01"
#: Seconds before each further attempt.
_PAUSES: Final = (0.5, 1.0, 2.0)


@click.command(
    cls=SettingsCommand, only=(*DATABASE, "data_dir"), short_help="Bring the database's schema up to date."
)
@click.option("--to", metavar="REVISION", help="Revision to go to, up or down; head: the newest.")
@click.option(
    "--finish",
    is_flag=True,
    help="After all replicas are of this version: also drop what only older ones needed.",
)
def migrate(to: str | None, finish: bool, **flags: Any) -> None:
    """Bring the database's schema to this version, as far as replicas of the version before can live with.

    So it runs before they are replaced. It may run twice, or twice at the same time. Once none is left, --finish runs
    the rest; it is refused while an older version is connected to the database.
    """
    import asyncio

    if finish and to is not None:
        raise click.UsageError("--to and --finish exclude each other.")
    settings = settings_from(flags)
    dsn = dsn_of("Migrating the database", settings)
    reached, rest = asyncio.run(_migrated(dsn, to, finish))
    click.echo(f"The schema is at {reached}.")
    if rest and to is None:
        click.echo(f"Once no older replica is left, `muster migrate --finish` brings it to {rest}.")


async def _through(migration: Callable[[], Awaitable[None]]) -> None:
    """Carry out a migration while replicas work: Postgres may end it for a deadlock with them, undone."""
    import asyncio

    from queues.errors import DatabaseUnavailable

    for pause in _PAUSES:
        try:
            return await migration()
        except DatabaseUnavailable as error:
            if error.facts.get("sqlstate") != _DEADLOCK:
                raise
        await asyncio.sleep(pause)
    return await migration()


async def _migrated(dsn: "Dsn", to: str | None, finish: bool) -> tuple[str, str | None]:
    """The revision that the schema is at now, and the newest one if that is another."""
    from queues.sql.database import Database, finish_migration, migrate, schema_version
    from queues.sql.revisions import READY, known_revisions

    await _through(partial(finish_migration, dsn) if finish else partial(migrate, dsn, to or READY))
    database = await Database.connect(dsn, pool_size=1)
    try:
        async with database.transaction() as tx:
            reached = await schema_version(tx) or "base"
    finally:
        await database.close()
    newest = known_revisions()[-1].number
    return reached, None if reached == newest else newest

"""``muster migrate``: bring the database's schema to this version."""

from typing import Any

import click

from admission.cli.commands.run import SettingsCommand, settings_from
from admission.cli.failures import CommandFailed


@click.command(
    cls=SettingsCommand, only=("dsn", "data_dir"), short_help="Bring the database's schema up to date."
)
@click.option(
    "--to", default="head", show_default=True, metavar="REVISION", help="Revision to go to, up or down."
)
def migrate(to: str, **flags: Any) -> None:
    """Bring the database's schema to this version. It may run twice, or twice at the same time."""
    import asyncio

    settings = settings_from(flags)
    if settings.dsn is None:
        raise CommandFailed(
            tried="Migrating the database",
            found="no DSN is given",
            hint="Give one with --dsn or MUSTER_DSN. `muster run` migrates the embedded one by itself.",
        )

    from queues.sql.database import migrate as migrate_schema

    asyncio.run(migrate_schema(settings.dsn.get_secret_value(), to))
    click.echo(f"The schema is at {to}.")

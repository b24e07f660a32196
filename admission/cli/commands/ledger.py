"""``muster ledger``: compare the ledger's balances with its admissions, and put them right."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from admission.cli.commands.run import SettingsCommand, settings_from
from admission.cli.failures import CommandFailed

if TYPE_CHECKING:
    from queues.sql.database import Database
    from queues.sql.ledger.verification import Difference

#: Differences that are printed; more are counted.
_SHOWN = 100
#: Seconds for one statement: reading all admissions of a large ledger takes longer than a turn's statements may.
_PATIENCE = 60.0


@click.group(short_help="Compare the ledger's balances with its admissions.")
def ledger() -> None:
    """Work out the ledger's balances again from its admissions. Both commands may run while Muster does."""


@ledger.command(cls=SettingsCommand, only=("dsn",), short_help="Say which balances are wrong.")
def verify(**flags: Any) -> int:
    """Say which balances of queues and nodes are not what the admissions hold. Exit code 1: some are not."""

    async def check(database: "Database") -> "Sequence[Difference]":
        from queues.sql.ledger.verification import verify

        async with database.snapshot() as tx:
            return await verify(tx)

    wrong = _with_database("Verifying the ledger", flags, check)
    if not wrong:
        click.echo("Every balance is what the admissions hold.")
        return 0
    _show(wrong)
    click.echo(f"{_count(wrong)} wrong. `muster ledger repair` puts them right.")
    return 1


@ledger.command(cls=SettingsCommand, only=("dsn",), short_help="Put wrong balances right.")
def repair(**flags: Any) -> None:
    """Put every balance right that is not what the admissions hold.

    The leader writes nothing meanwhile, and reads the world again afterwards. Admissions are not changed.
    """

    async def mend(database: "Database") -> "Sequence[Difference]":
        from queues.sql.ledger.verification import repair

        async with database.transaction() as tx:
            return await repair(tx)

    wrong = _with_database("Repairing the ledger", flags, mend)
    _show(wrong)
    click.echo(f"{_count(wrong)} put right." if wrong else "Every balance was right already.")


def _with_database(
    tried: str, flags: dict[str, Any], work: "Callable[[Database], Awaitable[Sequence[Difference]]]"
) -> "Sequence[Difference]":
    import asyncio

    settings = settings_from(flags)
    if settings.dsn is None:
        raise CommandFailed(
            tried=tried,
            found="no DSN is given",
            hint="Give one with --dsn or MUSTER_DSN, as Muster itself has.",
        )
    dsn = settings.dsn.get_secret_value()

    async def run() -> "Sequence[Difference]":
        from queues.sql.database import Database, check_schema

        database = await Database.connect(
            dsn, statement_timeout=_PATIENCE, idle_timeout=_PATIENCE, pool_size=1
        )
        try:
            async with database.snapshot() as tx:
                await check_schema(tx)
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(run())


def _show(wrong: "Sequence[Difference]") -> None:
    for each in wrong[:_SHOWN]:
        click.echo(str(each))
    if len(wrong) > _SHOWN:
        click.echo(f"… and {len(wrong) - _SHOWN} more")


def _count(wrong: "Sequence[Difference]") -> str:
    return "1 balance" if len(wrong) == 1 else f"{len(wrong)} balances"

"""``muster ledger``: compare the ledger's balances with its admissions, and the ledger with the cluster's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from admission.cli.access.administration import connected, with_database
from admission.cli.command_line import CommandGroup
from admission.cli.commands.run import CONNECTION, DATABASE, SettingsCommand, settings_from

if TYPE_CHECKING:
    from queues.ledger_record import LedgerRecord
    from queues.sql.database import Database
    from queues.sql.ledger.verification import Difference

#: Differences that are printed; more are counted.
_SHOWN = 100


@click.group(cls=CommandGroup, short_help="Compare the ledger with its admissions, and with the cluster.")
def ledger() -> None:
    """Compare the ledger's balances with its admissions, and the ledger with the one that leads the cluster.

    All commands may run while Muster does.
    """


@ledger.command(cls=SettingsCommand, only=DATABASE, short_help="Say which balances are wrong.")
def verify(**flags: Any) -> int:
    """Say which balances of queues and nodes are not what the admissions hold. Exit code 1: some are not.

    A line for each tells what it is and what it should be. It locks nothing.
    """

    async def check(database: "Database") -> "Sequence[Difference]":
        from queues.sql.ledger.verification import verify

        async with database.snapshot() as tx:
            return await verify(tx)

    wrong = with_database("Verifying the ledger", settings_from(flags), check)
    if not wrong:
        click.echo("Every balance is what the admissions hold.")
        return 0
    _show(wrong)
    click.echo(f"{_count(wrong)} wrong. `muster ledger repair` puts them right.")
    return 1


@ledger.command(cls=SettingsCommand, only=DATABASE, short_help="Put wrong balances right.")
def repair(**flags: Any) -> None:
    """Put every balance right that is not what the admissions hold.

    The leader writes nothing meanwhile, and reads the world again afterwards. Admissions are not changed.
    """

    async def mend(database: "Database") -> "Sequence[Difference]":
        from queues.sql.ledger.verification import repair

        async with database.transaction() as tx:
            return await repair(tx)

    wrong = with_database("Repairing the ledger", settings_from(flags), mend)
    _show(wrong)
    click.echo(f"{_count(wrong)} put right." if wrong else "Every balance was right already.")


@ledger.command(
    cls=SettingsCommand, only=(*DATABASE, *CONNECTION), short_help="Say which ledger leads the cluster."
)
def show(**flags: Any) -> int:
    """Say which ledger the database is, and which one leads the cluster. Exit code 1: Muster would not lead with it."""
    settings = settings_from(flags)

    async def read(database: "Database") -> "tuple[LedgerRecord, LedgerRecord | None]":
        from admission.kube.cluster_ledger import ClusterLedger
        from queues.sql.ledger_identity import read_identity

        # The database first: what its leader records meanwhile is known to it already.
        async with connected(settings) as client:
            async with database.snapshot() as tx:
                own = await read_identity(tx)
            return own, await ClusterLedger(client).recorded()

    own, recorded = with_database("Reading the ledger's id", settings, read)
    click.echo(f"database  {own}")
    click.echo(f"cluster   {recorded or 'no ledger has led it yet'}")

    from queues.errors import AnotherLedger
    from queues.ledger_record import require_same

    try:
        require_same(own, recorded)
    except AnotherLedger as error:
        click.echo(str(error))
        return 1
    return 0


@ledger.command(
    "adopt-cluster",
    cls=SettingsCommand,
    only=(*DATABASE, *CONNECTION),
    short_help="Have this ledger lead the cluster, in place of another.",
)
def adopt_cluster(**flags: Any) -> None:
    """Have the ledger in this database lead the cluster from now on, whichever one did.

    For after a restore from a backup, or the loss of the database. The ledger gets a new id, so that every other
    database with its old one is refused. Stop all replicas that use another database before.
    """
    settings = settings_from(flags)

    async def adopt(database: "Database") -> "tuple[LedgerRecord, LedgerRecord | None]":
        from admission.kube.cluster_ledger import ClusterLedger
        from queues.sql.ledger_identity import read_identity, renew_identity

        async with connected(settings) as client:
            cluster = ClusterLedger(client)
            await cluster.recorded()  # a cluster that cannot be reached changes nothing
            async with database.transaction() as tx:
                await renew_identity(tx)
            async with database.snapshot() as tx:
                own = await read_identity(tx)
            return own, await cluster.replace(own)

    own, before = with_database("Adopting the cluster", settings, adopt)
    click.echo(f"The cluster was led by {before or 'no ledger'}.")
    click.echo(f"Now it is led by {own}.")


def _show(wrong: "Sequence[Difference]") -> None:
    for each in wrong[:_SHOWN]:
        click.echo(str(each))
    if len(wrong) > _SHOWN:
        click.echo(f"… and {len(wrong) - _SHOWN} more")


def _count(wrong: "Sequence[Difference]") -> str:
    return "1 balance" if len(wrong) == 1 else f"{len(wrong)} balances"

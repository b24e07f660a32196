"""The client of commands that change a cluster, and the installation that the settings describe."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from admission.cli.command_line import CommandFailed

if TYPE_CHECKING:
    from admission.kube.client.client import Client
    from admission.kube.install.install import Installation
    from admission.settings import Settings
    from queues.sql.database import Database
    from queues.sql.dsn import Dsn

#: Seconds for one request. An API server that has little time compiles a policy for long.
_REQUEST_TIMEOUT: Final = 120.0


@asynccontextmanager
async def connected(settings: "Settings") -> "AsyncIterator[Client]":
    """A client for the cluster of the settings. Raises ApiUnavailable."""
    from admission.kube.client.client import Client
    from admission.kube.install.user_access import user_access

    read = partial(user_access, settings.kubeconfig, settings.context)
    async with await Client.connect(read=read, request_timeout=_REQUEST_TIMEOUT) as client:
        yield client


def installation_of(
    settings: "Settings",
    *,
    adopt_crds: bool = False,
    only_definitions: bool = False,
    provisioning: bool = False,
) -> "Installation":
    """The installation that the settings describe."""
    from admission.kube.install.install import Installation

    return Installation(
        namespace=settings.namespace,
        identity=settings.username,
        scheduler=settings.scheduler_name,
        aliases=settings.scheduler_aliases,
        webhook_url=settings.webhook_url,
        read_url=settings.read_url,
        adopt_crds=adopt_crds,
        only_definitions=only_definitions,
        provisioning=provisioning,
    )


_Found = TypeVar("_Found")

#: Seconds for one statement: reading all admissions of a large ledger takes longer than a turn's statements may.
_PATIENCE = 60.0


def dsn_of(tried: str, settings: "Settings") -> "Dsn":
    """The DSN that the settings have, or the file that has it. Raises CommandFailed (they have none) or InvalidSettings
    (the file has none)."""
    from admission.settings import given_dsn

    if (dsn := given_dsn(settings)) is None:
        raise CommandFailed(
            tried=tried,
            found="no DSN is given",
            hint="Give one with --dsn or MUSTER_DSN, or a file that has it with --dsn-file or MUSTER_DSN_FILE, as "
            "Muster itself has.",
        )
    return dsn


def with_database(
    tried: str, settings: "Settings", work: "Callable[[Database], Awaitable[_Found]]"
) -> "_Found":
    """What ``work`` finds in the database that the settings name. ``tried``: what to say of it if it cannot be reached.

    Raises CommandFailed (no DSN is given), SchemaTooOld, SchemaTooNew, and what Database raises.
    """
    import asyncio

    dsn = dsn_of(tried, settings)

    async def run() -> "_Found":
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

    from queues.errors import DatabaseUnavailable

    try:
        return asyncio.run(run())
    except DatabaseUnavailable as error:
        # The error's own sentence is Muster's, which goes on trying; this command ends.
        raise CommandFailed(
            tried=tried,
            found=f"Postgres does not answer: {error.facts.get('reason', '')}",
            hint="Nothing was changed. See whether it runs, and whether the DSN is the one that Muster has.",
        ) from error

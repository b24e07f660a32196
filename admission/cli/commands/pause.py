"""``muster pause`` and ``muster resume``: stop and start admissions, of one queue or of all."""

from typing import TYPE_CHECKING, Any, Final

import click

from admission.cli.access.cluster import connected
from admission.cli.commands.run import CONNECTION, SettingsCommand, settings_from

if TYPE_CHECKING:
    from admission.settings import Settings

_ALL: Final = "root"


@click.command(cls=SettingsCommand, only=CONNECTION, short_help="Stop admissions, of a queue or of all.")
@click.argument("queue", default=_ALL)
def pause(queue: str, **flags: Any) -> None:
    """Stop admissions of QUEUE and everything below it; without a name, of all queues. What runs goes on."""
    _set(queue, True, flags)
    click.echo(f"queue {queue} is paused")


@click.command(cls=SettingsCommand, only=CONNECTION, short_help="Start them again.")
@click.argument("queue", default=_ALL)
def resume(queue: str, **flags: Any) -> None:
    """Start admissions of QUEUE again; without a name, of root. Queues below that are paused themselves stay so."""
    _set(queue, False, flags)
    click.echo(f"queue {queue} is not paused any more")


def _set(queue: str, paused: bool, flags: dict[str, Any]) -> None:
    import asyncio

    asyncio.run(_patched(settings_from(flags), queue, paused))


async def _patched(settings: "Settings", queue: str, paused: bool) -> None:
    from admission.kube.install.queues import set_paused

    async with connected(settings) as client:
        await set_paused(client, queue, paused=paused)

"""``muster pause`` and ``muster resume``: stop and start admissions, of one queue or of all."""

from typing import Any, Final

import click

from admission.cli.access.objects import ClusterRoute
from admission.cli.commands.run import CONNECTION, SettingsCommand, settings_from
from queues.api.names import ROOT_QUEUE

_ALL: Final = ROOT_QUEUE
_REASON: Final = "Why, for `kubectl muster quota history`."


@click.command(cls=SettingsCommand, only=CONNECTION, short_help="Stop admissions, of a queue or of all.")
@click.argument("queue", default=_ALL)
@click.option("--reason", metavar="TEXT", help=_REASON)
def pause(queue: str, reason: str | None, **flags: Any) -> None:
    """Stop admissions of QUEUE and everything below it; without a name, of all queues. What runs goes on.

    Says so where nothing was changed.
    """
    from admission.cli.objects.pausing import pause_queue

    pause_queue(_route(flags), queue, reason)


@click.command(cls=SettingsCommand, only=CONNECTION, short_help="Start them again.")
@click.argument("queue", default=_ALL)
@click.option("--reason", metavar="TEXT", help=_REASON)
def resume(queue: str, reason: str | None, **flags: Any) -> None:
    """Start admissions of QUEUE again; without a name, of root. Queues below that are paused themselves stay so.

    It does not undo a pause of a queue above, and says so.
    """
    from admission.cli.objects.pausing import resume_queue

    resume_queue(_route(flags), queue, reason)


def _route(flags: dict[str, Any]) -> ClusterRoute:
    settings = settings_from(flags)
    return ClusterRoute(
        kubeconfig=None if settings.kubeconfig is None else str(settings.kubeconfig), context=settings.context
    )

"""``muster install`` and ``muster uninstall``: what Muster needs in a cluster, and taking it back."""

from typing import Any

import click

from admission.cli.run import InstallCommand, settings_from


@click.command(cls=InstallCommand, short_help="Apply what Muster needs in the cluster.")
def install(**flags: Any) -> None:
    """Apply definitions, RBAC, policies, webhook configuration and the queues root and default.

    Doing it again changes nothing, or brings an older installation up to date.
    """
    import asyncio

    settings = settings_from(flags)

    from admission.kube.install import install as install_into

    for line in asyncio.run(install_into(settings)):
        click.echo(line)


@click.command(cls=InstallCommand, short_help="Take it all back.")
@click.option(
    "--waiting",
    type=click.Choice(["free", "leave"]),
    default="free",
    show_default=True,
    help="What becomes of pods and Jobs that wait: free lets them go, leave keeps them waiting.",
)
def uninstall(waiting: str, **flags: Any) -> None:
    """Take back everything that `muster install` applied; first free what waits, or leave it."""
    import asyncio

    settings = settings_from(flags)

    from admission.kube.install import uninstall as uninstall_from

    for line in asyncio.run(uninstall_from(settings, free_waiting=waiting == "free")):
        click.echo(line)

"""``muster install`` and ``muster uninstall``: apply what Muster needs in a cluster, and remove it."""

from typing import TYPE_CHECKING, Any

import click

from admission.cli.access.administration import connected, installation_of
from admission.cli.commands.run import INSTALLATION, SettingsCommand, settings_from

if TYPE_CHECKING:
    from admission.kube.install.install import Installation
    from admission.settings import Settings


@click.command(
    cls=SettingsCommand,
    only=(*INSTALLATION, "username", "webhook_url", "read_url", "scheduler_name", "scheduler_aliases"),
    short_help="Apply what Muster needs in the cluster.",
)
@click.option(
    "--adopt-crds", is_flag=True, help="Take over definitions that Volcano or another program has created."
)
@click.option(
    "--only-definitions",
    is_flag=True,
    help="Only the definitions, before a Helm release is installed or upgraded: Helm never changes them.",
)
@click.option(
    "--provisioning",
    is_flag=True,
    help="Also the rights to ask cluster autoscalers for nodes (policy.provisioning of queues).",
)
def install(adopt_crds: bool, only_definitions: bool, provisioning: bool, **flags: Any) -> None:
    """Apply definitions, RBAC, policies, webhook configuration, the read API and the queues root and default.

    Jobs that were made ready to pass the gate before there was one are named. Doing it again changes nothing, or
    brings an older installation up to date. It refuses where Helm installed Muster, or where Muster is in another
    namespace.
    """
    import asyncio

    settings = settings_from(flags)
    wanted = installation_of(
        settings, adopt_crds=adopt_crds, only_definitions=only_definitions, provisioning=provisioning
    )
    asyncio.run(_install(settings, wanted))


async def _install(settings: "Settings", wanted: "Installation") -> None:
    from admission.kube.install.install import install as install_into

    async with connected(settings) as client:
        await install_into(client, wanted, click.echo)


@click.command(cls=SettingsCommand, only=INSTALLATION, short_help="Remove what install applied.")
@click.option(
    "--waiting",
    type=click.Choice(["free", "leave"]),
    default="free",
    show_default=True,
    help="What becomes of pods and Jobs that wait: free releases them, leave keeps them waiting.",
)
@click.option(
    "--delete-crds",
    is_flag=True,
    help="Delete the definitions with all their objects: Jobs, PodGroups, Queues.",
)
def uninstall(waiting: str, delete_crds: bool, **flags: Any) -> None:
    """Remove everything that `muster install` applied; first free the pods and Jobs that wait, or leave them.

    Definitions that still have objects stay, unless --delete-crds is given. Doing it again finishes an
    interrupted run. It does not ask. A release of Helm is freed of what waits first; then remove the rest by `helm
    uninstall`.
    """
    import asyncio

    asyncio.run(_uninstall(settings_from(flags), waiting, delete_crds))


async def _uninstall(settings: "Settings", waiting: str, delete_crds: bool) -> None:
    from admission.kube.install.drain import DrainMode
    from admission.kube.install.uninstall import Removal
    from admission.kube.install.uninstall import uninstall as uninstall_from

    removal = Removal(namespace=settings.namespace, waiting=DrainMode(waiting), delete_crds=delete_crds)
    async with connected(settings) as client:
        await uninstall_from(client, removal, click.echo)

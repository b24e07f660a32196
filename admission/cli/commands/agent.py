"""``muster agent``: the node agent, which reports the accelerators of one node and their health."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from admission.api_connection import Access


class AgentCommand(click.Command):
    """A command with a flag for each setting of the agent, read from its settings only when it is called."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Flags of the settings, then the command's own."""
        from dataclasses import fields

        from admission.agent.settings import AgentSettings

        flags: list[click.Parameter] = []
        for each in fields(AgentSettings):
            shown = f" [{each.default}]" if each.default else ""
            flag = f"--{each.name.replace('_', '-')}"
            metavar = "SECONDS" if each.name.endswith("_seconds") else "TEXT"
            flags.append(
                click.Option(
                    [flag, each.name], metavar=metavar, help=f"{each.metadata['description']}{shown}"
                )
            )
        return [*flags, *super().get_params(ctx)]


@click.command(cls=AgentCommand, short_help="Report the devices of this node.")
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig file. Unset: the pod's service account.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig. Unset: its current one.")
def agent(kubeconfig: str | None, context: str | None, **flags: Any) -> int:
    """Report the accelerators of this node, and their health, until a signal ends it.

    Every flag but the two for a kubeconfig can be set in the environment as well (MUSTER_AGENT_POLL_SECONDS); flags
    count more.
    """
    import os

    from admission import logs
    from admission.agent.run import run
    from admission.agent.settings import read

    settings = read(flags, os.environ)
    logs.configure(form="console" if settings.log_format == "console" else "json", level=settings.log_level)
    return run(settings, _access(kubeconfig, context))


def _access(kubeconfig: str | None, context: str | None) -> "Access":
    """Access by a kubeconfig where one is named, else by the service account of the pod. Raises UnusableAccess."""
    import os

    from admission.api_connection import Access

    if kubeconfig is None:
        return Access.in_pod(os.environ)
    from admission.kube.client.kubeconfig import load

    return load(kubeconfig, context)

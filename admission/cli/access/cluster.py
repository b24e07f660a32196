"""The client of commands that change a cluster, and the installation that the settings describe."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from admission.kube.client.client import Client
    from admission.kube.install.install import Installation
    from admission.settings import Settings

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

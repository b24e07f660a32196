"""All replicas of Muster with their versions and plug-ins: the one that a user asks asks the others.

Nothing is stored for it: pods of the controller are listed, with the right that Muster has for its work.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Final

import msgspec

from admission.kube.client.client import Client
from admission.settings import Settings
from queues.api.api_resources import PODS
from queues.errors import ApiError
from queues.plugins.registry import plugins
from queues.read_api.bodies import ReplicaBody, VersionBody

_PODS_OF_CONTROLLER: Final = "app.kubernetes.io/name=muster"
#: Others that are asked, and seconds in which they answer.
_MOST: Final = 10
_PATIENCE: Final = 5.0
_VERSION: Final = msgspec.json.Decoder(VersionBody)

#: What another replica says of itself, by its name and the URL of its read API; None if it does not answer.
AskReplica = Callable[[str, str], Awaitable[bytes | None]]


def this_replica(name: str) -> ReplicaBody:
    """What this process is."""
    return ReplicaBody(name=name, version=version("muster"), plugins=tuple(each.told for each in plugins()))


async def no_others() -> Mapping[str, str]:
    """Outside a cluster."""
    return {}


async def addresses(client: Client, settings: Settings) -> dict[str, str]:
    """URLs of the read APIs of all other replicas, by pod; empty outside a cluster. Raises ApiError."""
    if not settings.announced_url or settings.pod_ip is None:
        return {}
    content = await client.get(PODS.path(settings.namespace), labelSelector=_PODS_OF_CONTROLLER)
    found = {}
    for pod in msgspec.json.decode(content)["items"]:
        name, address = pod["metadata"]["name"], pod.get("status", {}).get("podIP")
        if address and name != settings.identity:
            found[name] = settings.model_copy(update={"pod_ip": address}).announced_url
    return found


async def other_replicas(
    found: Callable[[], Awaitable[Mapping[str, str]]], ask: AskReplica, path: str
) -> tuple[ReplicaBody, ...]:
    """What the others are, by name. ``found``: URLs by name; may raise ApiError: then none is known."""

    async def one(name: str, url: str) -> ReplicaBody:
        try:
            async with asyncio.timeout(_PATIENCE):
                content = await ask(name, url + path)
            answer = None if content is None else _VERSION.decode(content)
        except (TimeoutError, msgspec.MsgspecError):
            answer = None
        silent = ReplicaBody(name=name)
        return silent if answer is None else next(iter(answer.replicas), silent)

    try:
        urls = sorted((await found()).items())[:_MOST]
    except ApiError:
        return ()
    return tuple(await asyncio.gather(*(one(name, url) for name, url in urls)))

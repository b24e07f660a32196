"""A queue is paused, or goes on: the one change that Muster's own command makes to a Queue."""

from admission.kube.client import Client
from admission.kube.objects import QUEUES
from queues.errors import MusterError, NotFound


class UnknownQueue(MusterError):
    """There is no queue {name}. `kubectl get queues` lists them."""


async def set_paused(client: Client, queue: str, *, paused: bool) -> None:
    """Stop or start admissions of a queue and of everything below it. Raises UnknownQueue, ApiError."""
    try:
        await client.patch(QUEUES.path(name=queue), {"spec": {"policy": {"paused": paused}}})
    except NotFound as error:
        raise UnknownQueue(name=queue) from error

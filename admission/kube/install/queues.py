"""The queues that are there from the start: made once, then the administrators'."""

import asyncio
from typing import Final

from admission.kube.client.client import Client
from admission.kube.install.server_side_apply import FIELD_MANAGER, Tell, found_at
from queues.api.api_resources import PART_OF, QUEUES, Document
from queues.api.names import ROOT_QUEUE
from queues.errors import ApiUnavailable, Conflict, NotFound

#: Seconds until the API server must serve queues.
_PATIENCE: Final = 30.0


async def create_first_queue(client: Client, name: str, tell: Tell) -> None:
    """Made once, then the administrators'."""
    made = False
    try:
        # A definition counts as established some seconds before its objects are served and policies can read them.
        async with asyncio.timeout(_PATIENCE):
            while not made:
                try:
                    await client.create(QUEUES.path(), first_queue(name), field_manager=FIELD_MANAGER)
                    made = True
                except (NotFound, ApiUnavailable):  # 503 while admission does not know the kind yet
                    await asyncio.sleep(0.1)
    except Conflict:
        tell(f"queue/{name} unchanged")
    else:
        tell(f"queue/{name} created")


def first_queue(name: str = "muster-probe") -> Document:
    """A queue that is there from the start."""
    return QUEUES.document(name, spec={"weight": 1, "reclaimable": name != ROOT_QUEUE})


async def remove_first_queue(client: Client, name: str, others: int, tell: Tell) -> None:
    """Only if Muster made it, and no queue is left that needs it."""
    queue = await found_at(client, QUEUES.path(name=name))
    if queue is None or not PART_OF.items() <= (queue["metadata"].get("labels") or {}).items():
        return
    if others:
        tell(f"queue/{name} kept: other queues are left")
        return
    await client.delete(QUEUES.path(name=name))
    tell(f"queue/{name} deleted")

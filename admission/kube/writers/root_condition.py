"""The condition of the queue root that says why nothing is decided, written before a term that may fail at once.

While a term makes turns, the condition is part of the queue's status as any other (``status_loop``).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from time import time
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from admission.reconcile.status import StatusWanted, deciding_condition, merge_patch, settled
from admission.wire import Bare
from queues.api.api_resources import QUEUES, ObjectRef
from queues.errors import ApiError
from queues.plan import Reason
from queues.quota.queue import ROOT

_log = logging.getLogger(__name__)

#: Seconds for which a term waits for it.
_PATIENCE: Final = 2.0


class _Queue(Bare):
    status: dict[str, Any] | None = None


async def write_root_condition(client: Client, check_lease: Callable[[], None], failing: Reason) -> None:
    """Say on root what fails and what to do; nothing is written if it says so already.

    ``check_lease`` raises Fenced once the lease is not certain. Raises Fenced.
    """
    path = QUEUES.path(name=ROOT)
    condition = replace(deciding_condition(failing), follows_message=True)
    try:
        async with asyncio.timeout(_PATIENCE):
            found = msgspec.json.decode(await client.get(path), type=_Queue)
            before, uid = found.status or {}, found.metadata.uid
            ref = ObjectRef(resource=QUEUES, name=ROOT, uid=uid)
            wanted = StatusWanted(ref=ref, conditions=(condition,), kept=tuple(before))
            if patch := merge_patch(before, settled(wanted, before, int(time()))):
                body = {"metadata": {"uid": uid}, "status": patch}
                await client.patch(f"{path}/status", body, brief=True, check_lease=check_lease)
    except (ApiError, TimeoutError) as error:
        _log.info("condition of root not written", extra={"why": str(error) or "no answer in time"})

"""The condition of the queue root that says why nothing is decided, written before a term that may fail at once.

While a term makes turns, the condition is part of the queue's status as any other (``status_loop``).
"""

import asyncio
import logging
from collections.abc import Callable
from time import time
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from admission.reconcile.status import deciding_condition
from admission.wire import Bare
from queues.api.api_resources import QUEUES
from queues.errors import ApiError
from queues.plan import Reason
from queues.quota.queue import ROOT
from queues.text_format import rfc3339

_log = logging.getLogger(__name__)

#: Seconds for which a term waits for it.
_PATIENCE: Final = 2.0


class _Queue(Bare):
    status: dict[str, Any] | None = None


class RootCondition:
    """Writes for one term. ``check_lease`` raises Fenced once the lease is not certain."""

    def __init__(self, client: Client, check_lease: Callable[[], None]) -> None:
        self._client = client
        self._check_lease = check_lease

    async def write(self, failing: Reason) -> None:
        """Say on root what fails and what to do; nothing is written if it says so already. Raises Fenced."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._write(failing)
        except (ApiError, TimeoutError) as error:
            _log.info("condition of root not written", extra={"why": str(error) or "no answer in time"})

    async def _write(self, failing: Reason) -> None:
        path = QUEUES.path(name=ROOT)
        found = msgspec.json.decode(await self._client.get(path), type=_Queue)
        wanted = deciding_condition(failing)
        before: list[dict[str, Any]] = (found.status or {}).get("conditions") or []
        others = [each for each in before if each.get("type") != wanted.type]
        said = [
            (each.get("status"), each.get("message")) for each in before if each.get("type") == wanted.type
        ]
        if said == [(wanted.status, wanted.message)]:
            return
        condition = {
            "type": wanted.type,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
            "lastTransitionTime": rfc3339(int(time())),
        }
        await self._client.patch(
            f"{path}/status",
            {"metadata": {"uid": found.metadata.uid}, "status": {"conditions": [*others, condition]}},
            brief=True,
            check_lease=self._check_lease,
        )

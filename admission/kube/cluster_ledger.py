"""What the cluster says about its ledger: the status of queue root has the id of the one that leads, its last term and
a nonce.

Only this module writes it, and always on top of what it has read: of two ledgers that find none, one is recorded.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from queues.api.api_resources import QUEUES
from queues.api.types.queue import QueueStatus
from queues.errors import Conflict, NoRootQueue, NotFound
from queues.ledger_record import LedgerRecord, require_same
from queues.quota.queue import ROOT

_PATH: Final = QUEUES.path(name=ROOT)


class ClusterLedger:
    """The record in the cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def recorded(self) -> LedgerRecord | None:
        """The ledger that leads the cluster. None if none has yet. Raises NoRootQueue, ApiError, InvalidDocument."""
        return _record_of(await self._root())

    async def claim(self, own: LedgerRecord, check_lease: Callable[[], None]) -> None:
        """Record that ``own`` leads from now on. Raises AnotherLedger, NoRootQueue, ApiError, Fenced."""
        while True:
            root = await self._root()
            require_same(own, _record_of(root))
            if await self._written(root, own, check_lease):
                return

    async def replace(self, own: LedgerRecord) -> LedgerRecord | None:
        """Record ``own`` whatever was recorded, which is returned. Raises NoRootQueue, ApiError."""
        while True:
            root = await self._root()
            if await self._written(root, own):
                return _record_of(root)

    async def _root(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = msgspec.json.decode(await self._client.get(_PATH))
        except NotFound as error:
            raise NoRootQueue from error
        return found

    async def _written(
        self, root: dict[str, Any], own: LedgerRecord, check_lease: Callable[[], None] | None = None
    ) -> bool:
        """False: root has changed since it was read."""
        if _record_of(root) == own:
            return True
        meta = root.get("metadata") or {}
        read = {name: meta[name] for name in ("uid", "resourceVersion") if name in meta}
        ledger = {"id": own.ledger, "term": own.term, "holder": own.holder, "nonce": own.nonce}
        try:
            await self._client.patch(
                f"{_PATH}/status",
                {"metadata": read, "status": {"ledger": ledger}},
                brief=True,
                check_lease=check_lease,
            )
        except Conflict:
            return False
        return True


def _record_of(root: dict[str, Any]) -> LedgerRecord | None:
    return QueueStatus.read({"ledger": (root.get("status") or {}).get("ledger")}).recorded()

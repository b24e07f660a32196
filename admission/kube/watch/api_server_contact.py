"""Whether this replica sees the API server. A leader that does not see it must not keep others from leading."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NoReturn

from admission.kube.client.client import Client
from queues.api.api_resources import NODES
from queues.errors import ApiError, ApiUnavailable, MusterError

#: Seconds for which an answer to a question is waited for.
_PATIENCE: Final = 5.0


class ApiServerUnseen(MusterError):
    """Nothing was heard from the API server for {seconds:.0f} s. This replica leads no more until it hears from it."""


class ApiServerContact:
    """When the API server last answered; kept over the terms of this process."""

    def __init__(self, client: Client, limit: float) -> None:
        """``limit``: seconds without an answer after which a leader resigns."""
        self._client = client
        self._limit = limit
        #: True from a resignation until the API server answers again.
        self._is_lost = False

    async def keep(self, heard: Callable[[], Iterable[float]]) -> NoReturn:
        """Watch for one term. ``heard``: times of the loop at which informers last heard something, 0 if never.

        Informers of a quiet cluster hear nothing for a minute, so the API server is asked before silence counts.
        Raises ApiServerUnseen.
        """
        loop = asyncio.get_running_loop()
        seen = loop.time()
        while True:
            await asyncio.sleep(self._limit / 12)
            seen = max(seen, *heard())
            if loop.time() - seen > self._limit / 3 and await self._answers():
                seen = loop.time()
            if loop.time() - seen >= self._limit:
                self._is_lost = True
                raise ApiServerUnseen(seconds=loop.time() - seen)

    async def is_lost(self) -> bool:
        """Whether a leader resigned for want of the API server and it still does not answer; asks it."""
        self._is_lost = self._is_lost and not await self._answers()
        return self._is_lost

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(min(_PATIENCE, self._limit / 3)):
                await self._client.get(NODES.path(), limit=1)
        except (ApiUnavailable, TimeoutError):
            return False
        except ApiError:
            return True  # it refuses, but it is there, and would refuse any other replica
        return True

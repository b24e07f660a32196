"""The way from the process that serves users to the process of its replica that leads, or would: a Unix socket."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import aiohttp

from queues.errors import MusterError

#: Seconds for one answer.
ANSWER_SECONDS: Final = 12.0


class ChannelBroken(MusterError):
    """The leader's process did not answer: {reason}."""


def why_lost(error: Exception) -> str:
    """Why there is no answer, in words: a timeout of Python has none."""
    if isinstance(error, TimeoutError):
        return f"nothing came within {ANSWER_SECONDS:g} seconds"
    return str(error) or type(error).__name__


class LeaderChannel:
    """The end of the channel in the process that serves users."""

    def __init__(self, path: Path) -> None:
        self._session = aiohttp.ClientSession(
            "http://leader",
            connector=aiohttp.UnixConnector(str(path)),
            timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS),
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def ask(
        self, path: str, query: Mapping[str, str | None], body: bytes | None = None
    ) -> tuple[int, bytes]:
        """Status and body. ``body``: of the question, None if it has none. Raises ChannelBroken."""
        given = {name: text for name, text in query.items() if text is not None}
        method = "GET" if body is None else "POST"
        try:
            async with self._session.request(method, path, params=given, data=body) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ChannelBroken(reason=why_lost(error)) from error

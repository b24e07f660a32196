"""Questions for the leader, at whichever replica they are asked: this one's own process, or the leader's read API."""

import ssl
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote, unquote

import aiohttp
import msgspec

from admission.web.access.limits import TooBusy
from admission.web.leader.channel import ANSWER_SECONDS, ChannelBroken, LeaderChannel, why_lost
from admission.web.reader import NotLeading
from queues.errors import MusterError
from queues.sql.leadership import Heartbeat

#: On a request that another replica passes on: it goes no further.
FORWARDED: Final = "Muster-Forwarded"
#: On such a request, and in the channel: the user who asks. The leader shares its time between users.
ASKER: Final = "Muster-Asker"
#: Seconds without a heartbeat after which the address of a leader is not tried any more.
_LOST: Final = 30.0
#: Status of an answer that a plug-in keeps the leader from giving.
PLUGIN_FAILED: Final = 502
#: Characters of an error that are passed on.
_LONGEST: Final = 500


class LeaderBusy(TooBusy):
    """{why}"""


class LeaderFailed(MusterError):
    """The leader {leader} did not answer: {reason}."""


class PluginFailed(MusterError):
    """{why}"""


class LeaderQuestions:
    """Asks the leader, wherever it is."""

    def __init__(
        self,
        channel: LeaderChannel,
        *,
        identity: str,
        host: str,
        heartbeat: Callable[[], Awaitable[Heartbeat | None]],
        token: Callable[[], Awaitable[str | None]],
        authorities: Callable[[], bytes],
    ) -> None:
        """``host``: the name in the certificates of all replicas. ``token``: Muster's own, as Authorization header.

        ``authorities``: that sign these certificates, as PEM.
        """
        self._channel = channel
        self.identity = identity
        self._host = host
        self._heartbeat = heartbeat
        self._token = token
        self._authorities = authorities

    async def ask(
        self,
        path: str,
        query: dict[str, str | None],
        *,
        public: str,
        forwarded: bool,
        body: bytes | None = None,
    ) -> bytes:
        """The leader's answer. ``path`` and ``query``: in the channel, ``ASKER`` in it; ``public``: path and query of
        the same in the read API; ``body``: of a question that has one.

        Raises NotLeading, ChannelBroken, LeaderFailed, PluginFailed, TooBusy.
        """
        status, answer = await self._channel.ask(path, query, body)
        if status == 200:
            return answer
        _raise_as_leader(status, answer)
        if status != 409:
            raise ChannelBroken(reason=f"status {status}")
        last = await self._heartbeat()
        here = NotLeading(identity=self.identity, leader="none" if last is None else last.holder)
        if forwarded or last is None or last.age > _LOST or last.holder == self.identity or not last.address:
            raise here
        token = await self._token()
        if token is None:  # Muster is known by a certificate: the other replica could not see who asks
            raise here
        headers = {"Authorization": token, FORWARDED: self.identity, ASKER: quote(query.get(ASKER) or "")}
        return await self._elsewhere(last.holder, last.address + public, headers, body)

    async def ask_replica(self, name: str, url: str) -> bytes | None:
        """What another replica answers for itself; None if it does not."""
        if (token := await self._token()) is None:
            return None
        try:
            return await self._elsewhere(name, url, {"Authorization": token, FORWARDED: self.identity}, None)
        except (LeaderFailed, PluginFailed, TooBusy):
            return None

    async def _elsewhere(self, name: str, url: str, headers: dict[str, str], body: bytes | None) -> bytes:
        tls = ssl.create_default_context(cadata=self._authorities().decode())
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)) as session,
                session.request(
                    "GET" if body is None else "POST",
                    url,
                    data=body,
                    headers=headers,
                    ssl=tls,
                    server_hostname=self._host,
                    allow_redirects=False,
                ) as answer,
            ):
                content = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise LeaderFailed(leader=name, reason=why_lost(error)) from error
        if answer.status == 200:
            return content
        _raise_as_leader(answer.status, content)
        raise LeaderFailed(leader=name, reason=f"status {answer.status}")


def _raise_as_leader(status: int, answer: bytes) -> None:
    """What the leader says that works on too many questions, or whose plug-in fails. Raises TooBusy, PluginFailed."""
    try:
        why = str(msgspec.json.decode(answer)["error"])[:_LONGEST]
    except (msgspec.DecodeError, LookupError, TypeError):
        why = ""
    if status == 429:
        raise LeaderBusy(why=why) if why else TooBusy(who="To the leader")
    if status == PLUGIN_FAILED and why:
        raise PluginFailed(why=why)


def asker_of(header: str) -> str:
    """The user that another replica names in ``ASKER``; "": none."""
    return unquote(header)

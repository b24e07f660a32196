"""A way for bytes between one replica and a server, which can be cut, or held up in one direction or both."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_CHUNK: Final = 2**16


class Line(StrEnum):
    """How a replica reaches a server."""

    OPEN = "open"
    #: Connections break, and new ones are refused.
    CUT = "cut"
    #: Requests do not arrive, and nothing tells so.
    NO_REQUESTS = "no-requests"
    #: Requests arrive and are carried out; answers do not come back.
    NO_ANSWERS = "no-answers"


@dataclass(eq=False, slots=True)
class Connection:
    """One connection, and both of its ends."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    #: A request that is watched for was sent, and its answer has not come.
    awaits: bool = False
    #: To Postgres: names of statements that open admissions, and whether the present transaction has used one.
    opening: set[bytes] = field(default_factory=set)
    gives_seats: bool = False
    #: Whether it renews the lease.
    renews: bool = False
    #: Nothing passes, and nothing tells so.
    is_silent: bool = False

    def abort(self) -> None:
        for end in (self.client, self.server):
            end.transport.abort()


@dataclass(slots=True)
class Link(ABC):
    """The way of one replica to one server. A kind of server has a class of its own."""

    replica: str
    line: Line = Line.OPEN
    #: Seconds by which everything that is sent is late.
    delay: float = 0.0
    _connections: set[Connection] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _listening: asyncio.AbstractServer | None = None

    @abstractmethod
    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the server. Raises OSError."""

    def sends(self, connection: Connection, chunk: bytes) -> bool:
        """Whether bytes go on to the server; else the connection breaks."""
        return True

    def answers(self, connection: Connection, chunk: bytes) -> bool:
        """Whether bytes go on to the replica; else the connection breaks."""
        return True

    async def close(self) -> None:
        self.set_line(Line.CUT)
        if self._listening is not None:
            self._listening.close()
            await self._listening.wait_closed()

    def set_line(self, line: Line) -> None:
        self.line = line
        self._tell_changed()
        if line is Line.CUT:
            for connection in list(self._connections):
                connection.abort()

    def _tell_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def heal(self) -> None:
        """All is well."""
        self.delay = 0.0
        self.set_line(Line.OPEN)

    async def connected(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """The life of one connection."""
        if self.line is Line.CUT:
            client.transport.abort()
            return
        try:
            answers, server = await self.dial()
        except OSError:
            client.transport.abort()
            return
        connection = Connection(client, server)
        self._connections.add(connection)
        pumps = [
            asyncio.ensure_future(self._pump(connection, reader, server, is_request=True)),
            asyncio.ensure_future(self._pump(connection, answers, client, is_request=False)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            self._connections.discard(connection)
            connection.abort()

    async def _pump(
        self,
        connection: Connection,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        *,
        is_request: bool,
    ) -> None:
        passes, stopped_by = (self.sends, Line.NO_REQUESTS) if is_request else (self.answers, Line.NO_ANSWERS)
        with suppress(ConnectionError, asyncio.CancelledError):
            while chunk := await source.read(_CHUNK):
                if self.delay:
                    await asyncio.sleep(self.delay)
                while self.line is stopped_by or connection.is_silent:
                    await self._changed.wait()
                if not passes(connection, chunk):
                    return
                target.write(chunk)
                await target.drain()

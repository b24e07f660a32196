"""Between one replica and Postgres: a socket of its own for each replica.

The protocol is looked at for COMMIT, so that a replica can be struck right before and right after it, for whether the
transaction opens admissions, and for which connection renews the lease.
"""

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from queues.sql.embedded.server import SOCKET
from tests.chaos.network.interception import Interceptions
from tests.chaos.network.link import Connection, Link

#: The simple query that ends every transaction of the library.
_COMMIT: Final = b"COMMIT;\x00"
_BEGIN: Final = b"BEGIN"
#: How the statement begins that gives seats.
_OPENS: Final = b"INSERT INTO admissions "
_RENEWS: Final = b"UPDATE leases "


@dataclass(slots=True)
class PostgresLink(Link):
    """The way of one replica to Postgres."""

    #: Folder of the socket that the replica connects to, and of that of the server.
    folder: Path = Path()
    server: Path = Path()
    commits: Interceptions = field(default_factory=Interceptions)

    def dsn(self, database: str) -> str:
        """What the replica connects to, as a role of its own."""
        return f"postgresql+asyncpg://{self.replica}@/{database}?host={self.folder}"

    async def open(self) -> None:
        self.folder.mkdir(exist_ok=True)
        path = self.folder / SOCKET
        self._listening = await asyncio.start_unix_server(self.connected, path)
        os.chmod(path, 0o700)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.server / SOCKET)

    def sends(self, connection: Connection, chunk: bytes) -> bool:
        _note_statements(connection, chunk)
        connection.awaits = _COMMIT in chunk
        return not (connection.awaits and self._strike(connection, before=True))

    def answers(self, connection: Connection, chunk: bytes) -> bool:
        committed, connection.awaits = connection.awaits, False
        return not (committed and self._strike(connection, before=False))

    def _strike(self, connection: Connection, *, before: bool) -> bool:
        return self.commits.strike(self.replica, before=before, gives_seats=connection.gives_seats)

    def set_silence(self, *, on: bool) -> None:
        """The connection by which the lease is renewed says nothing more, or all that it owes."""
        for connection in self._connections:
            connection.is_silent = on and connection.renews
        self._tell_changed()

    def heal(self) -> None:
        """All is well; strikes that did not come do not come any more."""
        self.commits.waiting.clear()
        self.set_silence(on=False)
        Link.heal(self)


def _note_statements(connection: Connection, chunk: bytes) -> None:
    """What the messages of a chunk (Parse, Bind and simple queries of the extended protocol) say of admissions.

    The driver sends whole messages, and a statement's text only once.
    """
    start = 0
    while start + 5 <= len(chunk) and chunk[start : start + 1].isalpha():
        kind, size = chunk[start : start + 1], int.from_bytes(chunk[start + 1 : start + 5])
        body = chunk[start + 5 : start + 1 + size]
        if kind == b"P":
            name, _, text = body.partition(b"\0")
            if text.startswith(_OPENS):
                connection.opening.add(name)
            connection.renews |= text.startswith(_RENEWS)
        elif kind == b"B":
            statement = body.partition(b"\0")[2].partition(b"\0")[0]
            connection.gives_seats |= statement in connection.opening
        elif kind == b"Q" and body.startswith(_BEGIN):
            connection.gives_seats = False
        start += 1 + size

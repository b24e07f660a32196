"""Between one replica and Postgres: a socket of its own for each replica.

The protocol is looked at for one thing: COMMIT, so that a replica can be struck right before and right after it.
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
        connection.awaits = _COMMIT in chunk
        return not (connection.awaits and self.commits.strike(self.replica, before=True))

    def answers(self, connection: Connection, chunk: bytes) -> bool:
        committed, connection.awaits = connection.awaits, False
        return not (committed and self.commits.strike(self.replica, before=False))

    def heal(self) -> None:
        """All is well; strikes that did not come do not come any more."""
        self.commits.waiting.clear()
        Link.heal(self)

"""Between one replica and a real API server: a port of its own for each replica. What is said there is encrypted."""

import asyncio
from dataclasses import dataclass

from tests.chaos.network.link import Link


@dataclass(slots=True)
class ApiServerLink(Link):
    """The way of one replica to the API server."""

    #: Of the API server.
    server_port: int = 0

    async def open(self) -> int:
        """The port that the replica connects to."""
        self._listening = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.server_port)

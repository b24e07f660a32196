"""Wake-up calls: LISTEN/NOTIFY is the hint, a timer the guarantee."""

import asyncio

from sqlalchemy.ext.asyncio import AsyncConnection

#: The one channel; notifications carry nothing.
CHANNEL = "muster"


class Wakeup:
    """Sets ``event`` when somebody notifies, when the connection was lost meanwhile, and every ``at_least_every`` s."""

    def __init__(self, dsn: str, *, at_least_every: float = 5.0) -> None:
        self.dsn = dsn
        self.at_least_every = at_least_every
        self.event = asyncio.Event()

    async def run(self) -> None:
        """Listen until cancelled; reconnects by itself."""
        raise NotImplementedError


async def notify(tx: AsyncConnection) -> None:
    """Wake all listeners when this transaction commits."""
    raise NotImplementedError

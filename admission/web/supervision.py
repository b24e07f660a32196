"""The processes that serve users and the API server next to the leader: started, watched, and ended with this one.

Each has an interpreter, a loop and connections of its own, so that nothing that clients do delays a turn, and a leader
that stands still delays no client.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from admission.kube.webhook.validity import Validity
from admission.settings import Settings
from queues.sql.dsn import Dsn

_log = logging.getLogger(__name__)

#: Seconds before a process that ended is started again: at first, and at most.
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0
#: A process that ran for so many seconds did not fail at once.
_LONG: Final = 30.0
#: Seconds for a process to end in order.
_GRACE: Final = 1.0
#: What a process writes to its standard output when it serves.
OPEN: Final = b"open\n"


def certificates_line(serving: Validity, authority: Validity) -> bytes:
    """What a process writes when it has loaded certificates: when each begins and ends."""
    return msgspec.json.encode({"serving": serving, "authority": authority}) + b"\n"


class ServingOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is to do: the first line of its standard input, which ends when it shall end."""

    #: read | webhook
    role: str
    #: Where Postgres is; "": the settings name a file that has it.
    dsn: str
    #: The settings, by field name, without ``dsn``.
    settings: dict[str, object]
    #: Socket of the leader's end of the channel.
    channel: str


def order(role: str, settings: Settings, *, dsn: Dsn, channel: Path) -> ServingOrder:
    """The order for a process with this role."""
    plain = settings.model_dump(mode="json", exclude={"dsn"})
    text = dsn if isinstance(dsn, str) else ""
    return ServingOrder(role=role, dsn=text, settings=plain, channel=str(channel))


class ServingProcess:
    """One process, started again whenever it ends."""

    def __init__(
        self, order: ServingOrder, argv: Sequence[str] = (sys.executable, "-m", "admission.web.process")
    ) -> None:
        self._order = order
        self._argv = argv
        #: Set while it serves.
        self.open = asyncio.Event()
        #: When its certificates are valid, by name; empty: it has reported none yet.
        self.certificates: dict[str, Validity] = {}

    async def run(self) -> NoReturn:
        """Keep it running until cancelled; then end it."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE
        while True:
            started = loop.time()
            status = await self._once()
            if loop.time() - started > _LONG:
                pause = _FIRST_PAUSE
            _log.warning("process ended", extra={"role": self._order.role, "status": status})
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def problem(self) -> str | None:
        """Why it does not serve. None if it does."""
        return None if self.open.is_set() else f"the {self._order.role} process is still starting"

    async def _once(self) -> int:
        # A signal from a terminal is for this process; it ends the others.
        process = await asyncio.create_subprocess_exec(
            *self._argv, stdin=PIPE, stdout=PIPE, start_new_session=True
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(ConnectionError):
                process.stdin.write(msgspec.json.encode(self._order) + b"\n")
                await process.stdin.drain()
            while line := await process.stdout.readline():
                if line == OPEN:
                    self.open.set()
                else:
                    with suppress(msgspec.MsgspecError):  # the line is about something else
                        self.certificates = msgspec.json.decode(line, type=dict[str, Validity])
            return await process.wait()
        finally:
            self.open.clear()
            await _end(process)


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

"""Commands that were carried out go: deletes their objects, which are named again in every turn until they are gone."""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from admission.kube.client.client import Client
from admission.kube.writers.work_queue import EXPECTATION_SECONDS, WorkQueue
from queues.api.api_resources import COMMANDS
from queues.command import Command
from queues.errors import ApiError, Conflict, NotFound

_log = logging.getLogger(__name__)

#: Deletes at a time.
AT_A_TIME: Final = 8
#: Seconds before a delete that failed is tried again.
_PAUSE: Final = 1.0
#: The queue has one key, all Commands: whichever has to be named again, all are.
_ALL: Final = "commands"


class CommandRemover:
    """Writes of one term. ``check_lease`` raises Fenced once the leader's lease is no longer certain."""

    def __init__(
        self, client: Client, check_lease: Callable[[], None], *, requeue: Callable[[], None]
    ) -> None:
        """``requeue`` is called when Commands have to be named again though nothing changes."""
        self._client = client
        self._check_lease = check_lease
        self._queue: WorkQueue[str] = WorkQueue(lambda _: requeue(), lambda _: requeue())

    def reconcile(self, commands: Iterable[Command]) -> None:
        """Delete these Commands; returns at once."""
        named = {command.uid: command for command in commands}
        self._queue.keep_expectations(_ALL, set(named))
        for uid, command in named.items():
            if self._queue.under_way() >= AT_A_TIME:
                return
            if not self._queue.is_under_way(uid) and not self._queue.is_expected(_ALL, _ALL, uid):
                self._queue.start(_ALL, uid, partial(self._remove, command), f"command {command.name}")

    async def _remove(self, command: Command) -> None:
        path = COMMANDS.path(command.namespace, command.name)
        seconds = EXPECTATION_SECONDS
        about = {"command": path, "action": command.action, "target": command.target_name}
        try:
            await self._client.delete(path, uid=command.uid, check_lease=self._check_lease)
            _log.info("command carried out", extra=about)
        except (NotFound, Conflict):
            pass  # it is gone, or another one has its name
        except ApiError as error:
            seconds = _PAUSE
            _log.warning("command not deleted", extra={**about, "why": str(error)})
        self._queue.expect(_ALL, command.uid, seconds)
        if seconds < EXPECTATION_SECONDS:
            self._queue.requeue_after(_ALL, seconds)

    async def stop(self) -> None:
        """Cancel the deletes under way."""
        await self._queue.stop()

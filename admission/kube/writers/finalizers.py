"""Pods whose end is stored may disappear: takes the finalizer ``muster.dev/outcome`` off, one patch per pod.

Level-triggered: whoever still carries it is named again in every turn.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from admission.facts import PodFact
from admission.kube.client.client import Client
from admission.kube.writers.work_queue import Wakeup, cancelled
from queues.api.names import FINALIZER
from queues.errors import ApiError, Conflict, Fenced, NotFound

_log = logging.getLogger(__name__)

#: Patches at a time; pods that nobody deletes are in no hurry, and starting others comes first.
AT_A_TIME: Final = 32

AT_LEISURE: Final = 4

#: What was done is not done again for so long, while the watch has not shown it yet.
ECHO_SECONDS: Final = 30.0

_PAUSE: Final = 1.0


class FinalizerRemover:
    """Writes of one term. ``guard`` raises Fenced once the leader's lease is no longer certain."""

    def __init__(
        self, client: Client, guard: Callable[[], None], *, again: Callable[[], None] = lambda: None
    ) -> None:
        """``again`` is called when somebody has to be named again though nothing changes."""
        self._client = client
        self._guard = guard
        self._alarm = Wakeup(again)
        self._waiting: deque[PodFact] = deque()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        #: uid → not again before this time of the loop.
        self._not_before: dict[str, float] = {}

    def look_at(self, pods: Sequence[PodFact]) -> None:
        """Let these go, the first ones first, and nobody who is not among them; returns at once."""
        now = asyncio.get_running_loop().time()
        named = {pod.uid for pod in pods}
        self._not_before = {uid: at for uid, at in self._not_before.items() if at > now and uid in named}
        self._waiting = deque(
            pod for pod in pods if pod.uid not in self._under_way and pod.uid not in self._not_before
        )
        self._next()
        if self._not_before:
            self._alarm.ring_by(min(self._not_before.values()) - now)

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            if len(self._under_way) >= (AT_A_TIME if self._waiting[0].deleting else AT_LEISURE):
                return
            pod = self._waiting.popleft()
            self._under_way[pod.uid] = loop.create_task(self._dismiss(pod), name=f"dismiss {pod.name}")

    async def _dismiss(self, pod: PodFact) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        pause = ECHO_SECONDS
        try:
            await self._client.patch(path, _patch(pod), kind="strategic", brief=True, guard=self._guard)
        except NotFound:
            pass  # the watch will tell
        except Fenced:
            return
        except Conflict:
            pause = _PAUSE  # another one has its name, or too many write to it
        except ApiError as error:
            pause = _PAUSE
            _log.warning("finalizer not removed", extra={"pod": path, "why": str(error)})
        finally:
            del self._under_way[pod.uid]
        self._not_before[pod.uid] = asyncio.get_running_loop().time() + pause
        if pause < ECHO_SECONDS:
            self._alarm.ring_by(pause)
        self._next()

    async def stop(self) -> None:
        """Cancel what is under way."""
        self._waiting.clear()
        self._alarm.stop()
        await cancelled(self._under_way.values())


def _patch(pod: PodFact) -> dict[str, Any]:
    """Whatever other finalizers there are, or come meanwhile, stay."""
    return {"metadata": {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}

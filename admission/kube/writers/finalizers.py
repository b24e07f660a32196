"""Pods may disappear once their end is stored: takes the finalizer ``muster.dev/outcome`` off, one patch per pod.

Level-triggered: the pods that still carry it are named again in every turn.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from admission.facts.pods import PodFact
from admission.kube.client.client import Client
from admission.kube.writers.work_queue import EXPECTATION_SECONDS, WorkQueue
from queues.api.api_resources import PODS
from queues.api.names import FINALIZER
from queues.errors import ApiError, Conflict, NotFound

_log = logging.getLogger(__name__)

#: Patches at a time. Pods that are not being deleted can wait, and starting other pods comes first.
AT_A_TIME: Final = 32
AT_LEISURE: Final = 4

#: Seconds before a patch that failed is tried again.
_PAUSE: Final = 1.0

#: The queue has one key, all pods: whichever has to be named again, all are.
_ALL: Final = "pods"


class FinalizerRemover:
    """Writes of one term. ``check_lease`` raises Fenced once the leader's lease is no longer certain."""

    def __init__(
        self, client: Client, check_lease: Callable[[], None], *, requeue: Callable[[], None]
    ) -> None:
        """``requeue`` is called when pods have to be named again though nothing changes."""
        self._client = client
        self._check_lease = check_lease
        self._queue: WorkQueue[str] = WorkQueue(lambda _: requeue(), lambda _: self._start())
        self._waiting: deque[PodFact] = deque()

    def reconcile(self, pods: Sequence[PodFact]) -> None:
        """Take the finalizer off these pods, in this order, and off no others; returns at once."""
        self._queue.keep_expectations(_ALL, {pod.uid for pod in pods})
        self._waiting = deque(
            pod
            for pod in pods
            if not self._queue.is_under_way(pod.uid) and not self._queue.is_expected(_ALL, _ALL, pod.uid)
        )
        self._start()

    def _start(self) -> None:
        while self._waiting:
            pod = self._waiting[0]
            if self._queue.under_way() >= (AT_A_TIME if pod.deleting else AT_LEISURE):
                return
            self._waiting.popleft()
            self._queue.start(_ALL, pod.uid, partial(self._remove, pod), f"finalizer of {pod.name}")

    async def _remove(self, pod: PodFact) -> None:
        path = PODS.path(pod.namespace, pod.name)
        seconds = EXPECTATION_SECONDS
        try:
            await self._client.patch(
                path, _patch(pod), kind="strategic", brief=True, check_lease=self._check_lease
            )
        except NotFound:
            pass  # the informer is about to show it
        except Conflict:
            seconds = _PAUSE  # another pod has its name, or too many write to it
        except ApiError as error:
            seconds = _PAUSE
            _log.warning("finalizer not removed", extra={"pod": path, "why": str(error)})
        self._queue.expect(_ALL, pod.uid, seconds)
        if seconds < EXPECTATION_SECONDS:
            self._queue.requeue_after(_ALL, seconds)

    async def stop(self) -> None:
        """Cancel the patches under way."""
        self._waiting.clear()
        await self._queue.stop()


def _patch(pod: PodFact) -> dict[str, Any]:
    """Other finalizers stay, whether they are there now or come meanwhile."""
    return {"metadata": {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}

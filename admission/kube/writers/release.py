"""Ledger → cluster: carries out the orders for Jobs, groups and bare pods, each once at a time.

Remembered is only what is under way or not yet seen: an order that failed is ordered again when its workload is
looked at next, after a pause that grows.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from admission.kube.client.client import Client
from admission.kube.writers.work_queue import LONGEST_PAUSE, KeyedWakeups, cancelled, pause_after
from admission.reconcile.release import Order, Promised, Verb, orders_for
from admission.workloads.state import WorkloadState
from admission.world.world import World
from queues.errors import ApiError, ApiRefused, Conflict, Fenced, NotFound
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

#: An order that was carried out is not repeated for this long, while the watch has not shown its effect yet.
ECHO_SECONDS: Final = 30.0

_MANY_ECHOES: Final = 20_000


class ReleaseWriter:
    """Writes of one term. ``guard`` raises Fenced once the leader's lease is no longer certain."""

    def __init__(
        self,
        client: Client,
        world: World,
        guard: Callable[[], None],
        *,
        again: Callable[[WorkloadKey], None] = lambda _: None,
        pause: Callable[[str], None] = lambda point: None,
    ) -> None:
        """``again`` is called when what is shown about a workload has to be worked out anew."""
        self._client = client
        self.world = world
        self._guard = guard
        self._again = again
        self._pause = pause
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}
        #: Orders under way by workload.
        self._left: Counter[WorkloadKey] = Counter()
        #: uid → what was brought about last, and until when that counts as seen.
        self._echo: dict[str, tuple[str, float]] = {}
        #: Seats that pods were told to take, until they are seen there: nobody else is told to take them.
        self._promised: dict[WorkloadKey, dict[str, Promised]] = {}
        #: Failures in a row, and no order before this time of the loop.
        self._pauses: dict[WorkloadKey, tuple[int, float]] = {}
        self._alarms: KeyedWakeups[WorkloadKey] = KeyedWakeups(lambda key: self.look_at((key,)))
        #: What the API server refuses, for the status of the workload.
        self.problems: dict[WorkloadKey, Reason] = {}

    def look_at(self, keys: Iterable[WorkloadKey]) -> None:
        """Order what these workloads need; returns at once."""
        now = asyncio.get_running_loop().time()
        if len(self._echo) > _MANY_ECHOES:
            self._echo = {uid: last for uid, last in self._echo.items() if last[1] > now}
        for key in keys:
            portrait = self.world.portraits.get(key)
            if portrait is None:
                self._forget(key)
            elif (wait := self._pauses.get(key, (0, now))[1] - now) > 0:
                self._alarms.ring_by(key, wait)
            else:
                self._order(key, portrait, now)

    def _order(self, key: WorkloadKey, portrait: WorkloadState, now: float) -> None:
        waiting = {pod.uid for pod in portrait.pods if pod.gated}
        promised = {uid: seat for uid, seat in self._promised.pop(key, {}).items() if uid in waiting}
        try:
            orders = orders_for(portrait, self.world.facts.get(key), self.world.stock, promised)
        except Exception:
            # A defect that one workload brings to light must not keep the others waiting.
            _log.exception("workload cannot be released", extra={"workload": str(key)})
            return
        intents = {order.intent for order in orders if order.uid == key.uid}
        if self._echo.get(key.uid, ("", 0.0))[0] not in intents:
            # The watch has shown it: if it is ordered later, then because somebody took it back.
            self._echo.pop(key.uid, None)
        promised |= {order.uid: order.seat for order in orders if order.seat is not None}
        if promised:
            self._promised[key] = promised
        for order in orders:
            mark = (order.uid, order.intent)
            intent, until = self._echo.get(order.uid, ("", 0.0))
            if mark in self._under_way:
                continue
            if intent == order.intent and until > now:
                self._alarms.ring_by(key, until - now)
                continue
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._carry_out(key, order), name=f"{order.verb} {order.name}")
            self._under_way[mark] = task
            self._left[key] += 1

    async def _carry_out(self, key: WorkloadKey, order: Order) -> None:
        try:
            await self._send(order)
            self._done(key, order)
        except (NotFound, Conflict):
            # It changed or went away meanwhile: the watch tells, and the next look orders what is right then.
            self._promised.get(key, {}).pop(order.uid, None)
            self._alarms.ring_by(key, pause_after(0))
        except Fenced:
            return
        except ApiError as error:
            self._failed(key, order, error)
        except Exception:
            _log.exception("order not carried out", extra={"workload": str(key), "order": order.intent})
            self._alarms.ring_by(key, LONGEST_PAUSE)
        finally:
            self._under_way.pop((order.uid, order.intent), None)
            self._left[key] -= 1
        if not self._left[key]:
            del self._left[key]
            self._pause("released")

    async def _send(self, order: Order) -> None:
        pods = f"/api/v1/namespaces/{order.namespace}/pods/{order.name}"
        match order.verb:
            case Verb.PATCH_POD:
                await self._client.patch(pods, order.body or {}, guard=self._guard)
            case Verb.PATCH_JOB:
                path = f"/apis/batch/v1/namespaces/{order.namespace}/jobs/{order.name}"
                await self._client.patch(path, order.body or {}, guard=self._guard)
            case Verb.DELETE_POD:
                await self._client.delete(pods, uid=order.uid, grace=order.grace, guard=self._guard)

    def _done(self, key: WorkloadKey, order: Order) -> None:
        self._echo[order.uid] = (order.intent, asyncio.get_running_loop().time() + ECHO_SECONDS)
        self._pauses.pop(key, None)
        if self.problems.pop(key, None) is not None:
            self._again(key)
        self._pause("one-released")

    def _failed(self, key: WorkloadKey, order: Order, error: ApiError) -> None:
        _log.warning("release failed", extra={"workload": str(key), "order": order.intent, "why": str(error)})
        now = asyncio.get_running_loop().time()
        failures, until = self._pauses.get(key, (0, now))
        if until <= now:  # of orders that failed together the first counts
            pause = pause_after(failures + 1)
            self._pauses[key] = (failures + 1, now + pause)
            self._alarms.ring_by(key, pause)
        if isinstance(error, ApiRefused):
            self._promised.get(key, {}).pop(order.uid, None)
            if key not in self.problems:
                reason = str(error.facts.get("reason", error))
                self.problems[key] = Reason(
                    code=ReasonCode.RELEASE_REFUSED, message=f"{order.name}: {reason}"
                )
                self._again(key)

    def _forget(self, key: WorkloadKey) -> None:
        self._alarms.cancel(key)
        self._promised.pop(key, None)
        self._pauses.pop(key, None)
        self.problems.pop(key, None)

    def is_busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._under_way)

    async def stop(self) -> None:
        """Cancel what is under way."""
        self._alarms.stop()
        await cancelled(self._under_way.values())

"""Ledger → cluster: carries out the orders for Jobs, groups and bare pods, each once at a time.

Nothing is remembered but what is under way: an order that failed is ordered again when its workload is looked at
next, after a pause that grows.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from admission.kube.client import Client
from admission.orders import Order, Verb, orders_for
from admission.world import World
from queues.errors import ApiError, Conflict, Fenced, NotFound
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

#: An order that was carried out is not repeated for this long, while the watch has not shown its effect yet.
ECHO_SECONDS: Final = 10.0
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """An order that was carried out or refused."""

    workload: WorkloadKey
    order: Order
    #: None: done.
    problem: str | None = None


class Release:
    """Writes of one term. ``guard`` raises Fenced once the leader's lease is no longer certain."""

    def __init__(
        self,
        client: Client,
        world: World,
        guard: Callable[[], None],
        *,
        report: Callable[[Released], None] = lambda _: None,
        pause: Callable[[str], None] = lambda point: None,
    ) -> None:
        self._client = client
        self._world = world
        self._guard = guard
        self._report = report
        self._pause = pause
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}
        #: Orders under way by workload.
        self._left: Counter[WorkloadKey] = Counter()
        #: uid → what was brought about last, and until when that counts as seen.
        self._echo: dict[str, tuple[str, float]] = {}
        self._failures: dict[WorkloadKey, int] = {}

    def look_at(self, keys: Iterable[WorkloadKey]) -> None:
        """Order what these workloads need; returns at once."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if len(self._echo) > 10_000:
            self._echo = {uid: last for uid, last in self._echo.items() if last[1] > now}
        for key in keys:
            portrait = self._world.portraits.get(key)
            if portrait is None:
                self._failures.pop(key, None)
                continue
            for order in orders_for(portrait, self._world.facts.get(key), self._world.stock):
                mark = (order.uid, order.intent)
                intent, until = self._echo.get(order.uid, ("", 0.0))
                if mark in self._under_way or (intent == order.intent and until > now):
                    continue
                task = loop.create_task(self._carry_out(key, order), name=f"{order.verb} {order.name}")
                self._under_way[mark] = task
                self._left[key] += 1

    async def _carry_out(self, key: WorkloadKey, order: Order) -> None:
        mark = (order.uid, order.intent)
        loop = asyncio.get_running_loop()
        problem: str | None = None
        try:
            await self._send(order)
            self._echo[order.uid] = (order.intent, loop.time() + ECHO_SECONDS)
            self._failures.pop(key, None)
            self._pause("one-released")
        except (NotFound, Conflict):
            # It changed or went away meanwhile: the watch tells, and the next look orders what is right then.
            self._try_again(key)
        except Fenced:
            return
        except ApiError as error:
            problem = str(error)
            _log.warning(
                "release failed", extra={"workload": str(key), "order": order.intent, "why": problem}
            )
            self._try_again(key)
        finally:
            self._under_way.pop(mark, None)
            self._left[key] -= 1
        if not self._left[key]:
            del self._left[key]
            self._pause("released")
        self._report(Released(workload=key, order=order, problem=problem))

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

    def _try_again(self, key: WorkloadKey) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures, 10))
        asyncio.get_running_loop().call_later(pause, self.look_at, (key,))

    def is_busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._under_way)

    async def stop(self) -> None:
        """Cancel what is under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""Ledger → cluster: carries out the orders for Jobs, groups and bare pods, each once at a time.

The writer remembers only orders that are under way or not shown by the informer yet: an order that
failed is worked out again when its workload is reconciled next, after a pause that grows.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial

from admission.kube.client.client import Client
from admission.kube.client.errors import does_not_apply
from admission.kube.writers.work_queue import WorkQueue, pause_after
from admission.reconcile.release import LOST, Order, Promised, Verb, json_patch, orders_for
from admission.workloads.state import WorkloadState
from admission.world.world import World
from queues.api.api_resources import JOBS, PODS
from queues.errors import ApiError, ApiRefused, Conflict, NotFound
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)


class ReleaseWriter:
    """Writes of one term. ``check_lease`` raises Fenced once the leader's lease is no longer certain."""

    def __init__(
        self,
        client: Client,
        world: World,
        check_lease: Callable[[], None],
        *,
        requeue: Callable[[WorkloadKey], None],
        failpoint: Callable[[str], None],
    ) -> None:
        """``requeue`` is called when the status of a workload has to be worked out again."""
        self._client = client
        self.world = world
        self._check_lease = check_lease
        self._requeue = requeue
        self._failpoint = failpoint
        #: By workload; an item is an object's uid and what is brought about on it.
        self.queue: WorkQueue[WorkloadKey] = WorkQueue(lambda key: self.reconcile((key,)), self._finished)
        #: Seats assigned to pods until the informer shows them there: no other pod is assigned them.
        self._promised: dict[WorkloadKey, dict[str, Promised]] = {}
        #: What the API server refuses, for the status of the workload.
        self.problems: dict[WorkloadKey, Reason] = {}

    def reconcile(self, keys: Iterable[WorkloadKey]) -> None:
        """Start what these workloads need; returns at once."""
        for key in keys:
            state = self.world.states.get(key)
            if state is None:
                self._forget(key)
            elif not self.queue.is_backing_off(key):
                self._order(key, state)

    def _order(self, key: WorkloadKey, state: WorkloadState) -> None:
        gated = {pod.uid for pod in state.pods if pod.gated}
        promised = {uid: seat for uid, seat in self._promised.pop(key, {}).items() if uid in gated}
        try:
            orders = orders_for(state, self.world.facts.get(key), self.world.node_inventory, promised)
        except Exception:
            # A defect that one workload brings to light must not keep the others waiting.
            _log.exception("workload cannot be released", extra={"workload": str(key)})
            return
        self.queue.keep_expectations(key.uid, {order.intent for order in orders if order.uid == key.uid})
        promised |= {order.uid: order.seat for order in orders if order.seat is not None}
        if promised:
            self._promised[key] = promised
        for order in orders:
            item = (order.uid, order.intent)
            if self.queue.is_under_way(item) or self.queue.is_expected(key, order.uid, order.intent):
                continue
            step = partial(self._carry_out, key, order)
            self.queue.start(key, item, step, f"{order.verb} {order.name}")

    async def _carry_out(self, key: WorkloadKey, order: Order) -> None:
        try:
            await self._send(order)
        except (NotFound, Conflict):
            # The object changed or is gone: the informer shows it, and the next orders are the right ones.
            self._promised.get(key, {}).pop(order.uid, None)
            self.queue.requeue_after(key, pause_after(0))
        except ApiError as error:
            self._failed(key, order, error)
        else:
            self._succeeded(key, order)

    async def _send(self, order: Order) -> None:
        resource = JOBS if order.verb is Verb.PATCH_JOB else PODS
        path = resource.path(order.namespace, order.name)
        if order.verb is Verb.DELETE_POD:
            await self._client.delete(path, uid=order.uid, grace=order.grace, check_lease=self._check_lease)
        else:
            await self._patch(path, order)

    async def _patch(self, path: str, order: Order) -> None:
        """Raises Conflict if the object is another version by now than the order was made for."""
        steps = json_patch(order)
        if steps is None:
            await self._client.patch(path, order.body or {}, check_lease=self._check_lease)
            return
        try:
            await self._client.patch(path, steps, kind="json", check_lease=self._check_lease)
        except ApiRefused as error:
            if not does_not_apply(error):
                raise
            raise Conflict(**{**error.facts, "reason": "its spec has changed"}) from error

    def _succeeded(self, key: WorkloadKey, order: Order) -> None:
        self.queue.forget_expectations(order.uid)  # of earlier orders: only the last one holds
        self.queue.expect(order.uid, order.intent)
        self.queue.reset(key)
        if order.intent == LOST:
            _log.warning(
                "pod counts as gone, its node does not answer",
                extra={"workload": str(key), "pod": f"{order.namespace}/{order.name}"},
            )
        if self.problems.pop(key, None) is not None:
            self._requeue(key)
        self._failpoint("one-released")

    def _failed(self, key: WorkloadKey, order: Order, error: ApiError) -> None:
        _log.warning("release failed", extra={"workload": str(key), "order": order.intent, "why": str(error)})
        if not self.queue.is_backing_off(key):  # of orders that failed together the first counts
            self.queue.back_off(key)
        if isinstance(error, ApiRefused):
            self._promised.get(key, {}).pop(order.uid, None)
            if key not in self.problems:
                reason = str(error.facts.get("reason", error))
                self.problems[key] = Reason(
                    code=ReasonCode.RELEASE_REFUSED, message=f"{order.name}: {reason}"
                )
                self._requeue(key)

    def _finished(self, key: WorkloadKey) -> None:
        if not self.queue.is_busy_with(key):
            self._failpoint("released")

    def _forget(self, key: WorkloadKey) -> None:
        self.queue.forget(key)
        self._promised.pop(key, None)
        self.problems.pop(key, None)

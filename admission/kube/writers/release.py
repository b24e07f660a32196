"""Ledger → cluster: carries out the orders for Jobs, groups and bare pods, each once at a time.

The writer remembers only orders that are under way or not shown by the informer yet: an order that
failed is worked out again when its workload is reconciled next, after a pause that grows. Orders that are no longer
wanted are cancelled in the queue; the last look at the admission is right before a request is sent.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from admission.failpoints import Failpoint
from admission.kube.client.client import Client, PatchKind
from admission.kube.client.errors import does_not_apply
from admission.kube.client.eviction import code_of, evict
from admission.kube.writers.awaited_seats import AwaitedSeats, AwaitedWrite, Look, Looks, UnwantedWrite
from admission.kube.writers.work_queue import WorkQueue, pause_after
from admission.reconcile.release import (
    LOST,
    MAKER_WAITS,
    Order,
    Promised,
    Verb,
    json_patch,
    orders_for,
    paths_of,
)
from admission.workloads.state import WorkloadState
from admission.world.world import World
from queues import kind_names
from queues.api import names
from queues.api.api_resources import NODES
from queues.api.json_patch import Step
from queues.errors import ApiError, ApiRefused, Conflict, NotFound
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey

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
        failpoint: Failpoint,
        released: Callable[[Iterable[AdmissionId]], None] = lambda ids: None,
    ) -> None:
        """``requeue`` is called when the state or the status of a workload has to be worked out again; ``released``
        with the admissions whose pods were handed to the scheduler."""
        self._client = client
        self.world = world
        self._check_lease = check_lease
        self._requeue = requeue
        self._failpoint = failpoint
        self._released = released
        #: By workload; an item is an object's uid and what is brought about on it.
        self.queue: WorkQueue[WorkloadKey] = WorkQueue(
            lambda key: self.reconcile((key,)), self._finished, self._tenant_of
        )
        #: Seats that pods (by uid) were assigned, and seats of Jobs (by uid) that are resumed.
        self.awaited = AwaitedSeats(self._shown)
        self._looks = Looks(client, self.awaited, self.queue, requeue, _is_done)
        self._makers = _Makers()
        #: What the API server refuses, for the status of the workload.
        self.problems: dict[WorkloadKey, Reason] = {}

    def _tenant_of(self, key: WorkloadKey) -> QueueName | None:
        """The tenant of a workload: one that releases a thousand at a time must not make the others wait for all."""
        state = self.world.states.get(key)
        return None if state is None else self.world.queue_facts.tenant_of(state.workload.queue)

    def reconcile(self, keys: Iterable[WorkloadKey]) -> None:
        """Start what these workloads need, and cancel what they no longer need; returns at once."""
        for key in keys:
            state = self.world.states.get(key)
            if state is None:
                self._forget(key)
            elif self.queue.is_full() and not self.queue.is_busy_with(key):
                self.queue.requeue_when_free(key)
            else:
                self._order(key, state)

    def _order(self, key: WorkloadKey, state: WorkloadState) -> None:
        if self.awaited.drop_shown(key):
            # By an object that is of another workload now: this one's state was not worked out again for it.
            self._requeue(key)
        try:
            fact, promised = self.world.facts.get(key), self._promised(key)
            inventory, timeouts = self.world.node_inventory, self.world.timeouts
            rules = self.world.queue_facts.release_rules(state.workload.queue, inventory.tolerations)
            orders = orders_for(state, fact, inventory, timeouts, promised, rules=rules)
        except Exception:
            # A defect that one workload brings to light must not keep the others waiting.
            _log.exception("workload cannot be released", extra={"workload": str(key)})
            return
        self.queue.keep_expectations(key.uid, {order.intent for order in orders if order.uid == key.uid})
        self._cancel_unwanted(key, orders)
        self._forget_refused_evictions(key, orders)
        if self.queue.is_backing_off(key):
            return
        outdated = key in self.world.dirty
        for order in orders:
            item = (order.uid, order.intent)
            if outdated and order.revision is not None:
                # The object may ask something else by now than what its state was derived from, and was admitted. The
                # turn that derives it anew has the workload reconciled again.
                continue
            if order.intent == MAKER_WAITS and self._makers.are_suspended(key):
                continue
            if self.queue.is_under_way(item) or self.queue.is_expected(key, order.uid, order.intent):
                continue
            if order.seats:
                generation = order.revision.generation if order.revision is not None else None
                self.awaited.put(key, order.uid, _path(order), order.seats, generation)
                if state.gives_back(order.seats):
                    # What the state says of these seats is outdated.
                    self.world.look_again(key)
            step = partial(self._carry_out, key, order)
            self.queue.start(key, item, step, f"{order.verb} {order.name}")

    def _forget_refused_evictions(self, key: WorkloadKey, orders: Iterable[Order]) -> None:
        """Pods that a budget kept may have ended by themselves."""
        problem = self.problems.get(key)
        if problem is None or problem.code is not ReasonCode.EVICTION_REFUSED:
            return
        if all(order.verb is not Verb.EVICT_POD for order in orders):
            del self.problems[key]
            self._requeue(key)

    # ── seats for which a pod may still come ────────────────────────────────────────────────────────────────────

    def _shown(self, key: WorkloadKey, writes: Mapping[str, AwaitedWrite]) -> set[str]:
        return {uid for uid, write in writes.items() if self._is_shown(key, uid, write)}

    def _is_shown(self, key: WorkloadKey, uid: str, write: AwaitedWrite) -> bool:
        if _is_of_pod(key, uid):
            pod = self.world.pods.get(uid)
            return pod is None or not pod.gated or pod.deleting
        fact = self.world.facts.get(key)
        if fact is None or not fact.suspended or fact.finished or fact.deleting:
            return True
        # A Job that was suspended again at once is never shown resumed; a later generation proves that it was.
        tested, revision = write.generation, fact.revision
        return tested is not None and revision is not None and revision.generation > tested

    def _promised(self, key: WorkloadKey) -> dict[str, Promised]:
        """Seats that pods were assigned. What was not sent, and is outdated, does not bind."""
        return {
            uid: promised
            for uid, write in self.awaited.writes(key).items()
            if _is_of_pod(key, uid)
            for promised in _promises(write)
            if not write.is_undone() or self._holds(write.seats)
        }

    def _holds(self, seats: Mapping[Any, frozenset[int]]) -> bool:
        return all(self.world.admission_index.holds_seats(id_, indices) for id_, indices in seats.items())

    def _cancel_unwanted(self, key: WorkloadKey, orders: Iterable[Order]) -> None:
        """Orders that are not wanted any more leave the queue; of those that may have been carried out the object
        itself is asked for once that is certain."""
        wanted = {(order.uid, order.intent) for order in orders}
        for item in self.queue.items_of(key):
            if item in wanted or isinstance(item, Look):
                continue
            write = self.awaited.get(key, item[0])
            if write is None or not write.in_flight:
                self.queue.cancel(key, item)
        releasing = {order.uid for order in orders if order.seats}
        if self.awaited.drop_undone(key, releasing):
            self._requeue(key)
        self._looks.start(key, releasing)

    # ── orders ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _carry_out(self, key: WorkloadKey, order: Order) -> None:
        try:
            await self._send(key, order)
        except (NotFound, Conflict, UnwantedWrite):
            if order.intent == MAKER_WAITS:
                self._makers.suspended(key)  # it is gone
            # The object or its admission changed or is gone: what the informer shows then gives the right orders.
            self.awaited.drop_if_undone(key, order.uid)
            self._requeue(key)
            self.queue.requeue_after(key, pause_after(0))
        except ApiError as error:
            self._failed(key, order, error)
        else:
            self._succeeded(key, order)

    async def _send(self, key: WorkloadKey, order: Order) -> None:
        path = _path(order)
        write = self.awaited.get(key, order.uid) if order.seats else None
        if order.verb is Verb.EVICT_POD:
            await evict(self._client, path, uid=order.uid, check_lease=self._check_lease)
            return
        if order.verb is Verb.DELETE_POD:
            if order.missing_node is not None and await self._exists(order.missing_node):
                why = f"node {order.missing_node} is there again, so its pods may run"
                raise Conflict(method="DELETE", path=path, status=409, reason=why)
            await self._client.delete(path, uid=order.uid, grace=order.grace, check_lease=self._check_lease)
            return
        if order.before is not None:
            await self._patch_maker(key, order.before)
        steps = json_patch(order)
        if steps is None:
            await self._patch(key, order, write, order.body or {})
            return
        try:
            await self._patch(key, order, write, steps)
        except ApiRefused as error:
            if not does_not_apply(error):
                raise
            await self._patch_as_it_is(key, order, write, error)

    async def _patch_maker(self, key: WorkloadKey, order: Order) -> None:
        body = order.body or {}
        suspends = body["spec"]["suspend"]
        if not suspends:
            self._makers.resume(key)
        await self._patch(key, order, None, body)
        if suspends:
            self._makers.suspended(key)

    async def _exists(self, node: NodeName) -> bool:
        found = await self._client.get(NODES.path(), fieldSelector=f"metadata.name={node}")
        return bool(json.loads(found)["items"])

    async def _patch(
        self, key: WorkloadKey, order: Order, write: AwaitedWrite | None, body: Mapping[str, Any] | list[Step]
    ) -> None:
        def check() -> None:
            self._check_lease()
            if write is not None:
                if not self._holds(order.seats) or self._is_shown(key, order.uid, write):
                    raise UnwantedWrite
                write.in_flight = True

        kind: PatchKind = "json" if isinstance(body, list) else "merge"
        request = self._client.patch(_path(order), body, kind=kind, brief=True, check_lease=check)
        await (request if write is None else write.tracked(request, self.queue.now))

    async def _patch_as_it_is(
        self, key: WorkloadKey, order: Order, write: AwaitedWrite | None, error: ApiRefused
    ) -> None:
        """A JSON patch did not apply. Raises Conflict: the object has changed. A pod may only lack what is usual."""
        if order.seat is not None:
            pod = json.loads(await self._client.get(_path(order)))
            if pod["metadata"]["uid"] == order.uid and _is_held_back(pod):
                await self._patch(key, order, write, json_patch(order, paths_of(pod)) or [])
                return
        raise Conflict(**{**error.facts, "reason": "it has changed"}) from error

    def _succeeded(self, key: WorkloadKey, order: Order) -> None:
        self.queue.forget_expectations(order.uid)  # of earlier orders: only the last one holds
        self.queue.expect(order.uid, order.intent)
        self.queue.reset(key)
        self._released(order.seats)
        if order.intent == MAKER_WAITS:
            self._makers.suspended(key)
        elif order.before is not None and not (order.before.body or {})["spec"]["suspend"]:
            self._makers.resumed(key)
        if order.intent == LOST:
            _log.warning(
                "pod counts as gone, its node does not answer",
                extra={"workload": str(key), "pod": f"{order.namespace}/{order.name}"},
            )
        if self.problems.pop(key, None) is not None or not self._holds(order.seats):
            self._requeue(key)
        self._failpoint("one-released")

    def _failed(self, key: WorkloadKey, order: Order, error: ApiError) -> None:
        _log.warning("release failed", extra={"workload": str(key), "order": order.intent, "why": str(error)})
        if not self.queue.is_backing_off(key):  # of orders that failed together the first counts
            self.queue.back_off(key)
        changed = self.awaited.drop_if_undone(key, order.uid)
        if isinstance(error, ApiRefused) and key not in self.problems:
            reason = str(error.facts.get("reason", error))
            code = code_of(error, ReasonCode.RELEASE_REFUSED)
            told = reason if code is ReasonCode.EVICTION_REFUSED else f"{order.name}: {reason}"
            self.problems[key] = Reason(code=code, message=told)
            changed = True
        if changed:
            self._requeue(key)

    def _finished(self, key: WorkloadKey) -> None:
        if not self.queue.is_busy_with(key):
            self._failpoint("released")

    def _forget(self, key: WorkloadKey) -> None:
        for item in self.queue.items_of(key):
            self.queue.cancel(key, item)
        self.queue.forget(key)
        self.awaited.forget(key)
        self._makers.forget(key)
        self.problems.pop(key, None)


#: Writes after which the maker of an object is certainly suspended, if nothing is known of it.
_UNKNOWN: Final = 1
#: The same while a write that resumes it may still be carried out late.
_IN_DOUBT: Final = 2


class _Makers:
    """Whether the makers of objects (a TrainJob of its JobSet) are certainly suspended like these."""

    def __init__(self) -> None:
        #: Writes that are missing for that.
        self._missing: dict[WorkloadKey, int] = {}

    def are_suspended(self, key: WorkloadKey) -> bool:
        """Whether no write is missing for that."""
        return self._missing.get(key, _UNKNOWN) == 0

    def resume(self, key: WorkloadKey) -> None:
        """The maker is about to be resumed."""
        self._missing[key] = _IN_DOUBT

    def resumed(self, key: WorkloadKey) -> None:
        """The maker and the object were resumed."""
        self._missing[key] = _UNKNOWN

    def suspended(self, key: WorkloadKey) -> None:
        """The maker was suspended, or is gone."""
        self._missing[key] = max(0, self._missing.get(key, _UNKNOWN) - 1)

    def forget(self, key: WorkloadKey) -> None:
        """The object is gone."""
        self._missing.pop(key, None)


def _path(order: Order) -> str:
    return order.resource.path(order.namespace, order.name)


def _is_of_pod(key: WorkloadKey, uid: str) -> bool:
    """Whether this is the uid of a pod; else it is that of the Job itself."""
    return uid != key.uid or key.kind == kind_names.POD


def _promises(write: AwaitedWrite) -> Iterable[Promised]:
    return (Promised(id_, index) for id_, indices in write.seats.items() for index in indices)


def _is_done(uid: str, _: AwaitedWrite, found: bytes) -> bool:
    document = json.loads(found)
    return document["metadata"]["uid"] == uid and not _is_held_back(document)


def _is_held_back(document: Mapping[str, Any]) -> bool:
    """Whether a Job is suspended, or a pod gated."""
    spec = document["spec"]
    gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
    return bool(spec.get("suspend")) or names.GATE in gates

"""Pods that no controller makes again: each is stored, then deleted, then made again, gated, under its name.

A pod without a controller cannot be taken back but by its deletion. What is stored about it is the intent: while
it is there, the pod is to be made again as soon as it is gone. The writer hands the intent in as a change, in the
stream that the informers fill; the world takes it in with the next turn and intake stores it. Killed anywhere, the
next leader goes on from the intent and from what the cluster shows:

    intent  pod            next
    no      there          GET it, store the intent
    yes     there          GET it again: unchanged → delete it, at just this version; changed → store it anew, once
    yes     gone           make it again; a pod that has its name already wins
    yes     made again     forget the intent

No pod keeps itself by changing all the time: a later state is stored once, and its version counts for one attempt.
Then it is deleted whatever has changed, and made again as it was when it was stored. What ended in that instant is seen
by the answer to its deletion, and is not made again; an eviction has no such answer.

A pod that kube-scheduler preempts is lost to its gang too: the world makes the intent, before the pod is gone. A pod
that a user deletes is not made again. That is certain as long as this process has not yet asked for the
deletion of a pod if it stored the intent itself; of intents that an earlier leader left it is assumed that it had.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodFact
from admission.failpoints import Failpoint
from admission.kube.client.client import Client
from admission.kube.client.eviction import code_of, evict
from admission.kube.writers.awaited_seats import UnwantedWrite
from admission.kube.writers.work_queue import Step, WorkQueue, pause_after
from admission.reconcile.pod_manifest import manifest_of
from admission.workloads.kinds import support_of
from admission.workloads.seats import is_live
from admission.workloads.state import WorkloadState
from admission.world.world import World
from queues.admissions import Recreation
from queues.api import names
from queues.api.api_resources import PODS
from queues.errors import ApiError, ApiRefused, ApiUnavailable, Conflict, NotFound
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

#: Writes with an effect that is expected of a pod: the informer shows the last two, the world the first.
_INTENT: Final = "intent"

_DELETION: Final = "deletion"

_CREATION: Final = "creation"

#: Seconds that the informer may take to show a pod that was made, before it counts as gone again.
_UNSEEN: Final = 60.0
_MANY: Final = 10_000
_ENDED: Final = ("Succeeded", "Failed")
#: What the API server answers to a creation in a namespace that is being deleted.
_TERMINATING: Final = "because it is being terminated"


class GoingPod(NamedTuple):
    """A pod that is deleted to be made again, and its workload."""

    workload: WorkloadKey
    uid: str

    def __str__(self) -> str:
        return f"{self.workload} pod {self.uid}"


class RecreationWriter:
    """Writes of one term. ``check_lease`` raises Fenced once the leader's lease is no longer certain."""

    def __init__(
        self,
        client: Client,
        world: World,
        check_lease: Callable[[], None],
        *,
        hand_in: Callable[[Change], None],
        requeue: Callable[[WorkloadKey], None],
        failpoint: Failpoint,
    ) -> None:
        """``hand_in`` takes an intent into the stream of changes; ``requeue`` has a workload worked out again."""
        self._client = client
        self.world = world
        self._check_lease = check_lease
        self._hand_in = hand_in
        self._requeue = requeue
        self._failpoint = failpoint
        #: An item is the uid of a pod that goes: one step at a time for each.
        self.queue: WorkQueue[GoingPod] = WorkQueue(
            lambda pod: requeue(pod.workload), lambda pod: requeue(pod.workload)
        )
        #: Intents handed in, by pod, until the world and Postgres have them. None for one to be forgotten.
        self.handed_in: dict[str, Recreation | None] = {}
        #: Pods with an intent stored by this process and a deletion not asked for yet: a user may delete them.
        self._not_deleted: set[str] = set()
        #: Pods whose later state was stored since their deletion was last answered: it counts, whatever follows.
        self._stored_anew: set[str] = set()
        #: Pods that changed between the last GET and a deletion at just that version.
        self._version_missed: set[str] = set()
        #: Pods that this process made again.
        self._recreated: set[str] = set()
        #: What the API server refuses, for the status of the workload; and the pod that it refuses.
        self.problems: dict[WorkloadKey, Reason] = {}
        self._refused: dict[WorkloadKey, str] = {}

    def reconcile(self, keys: Iterable[WorkloadKey]) -> None:
        """Start the next step of every pod of these workloads that goes; returns at once."""
        self._prune()
        for key in keys:
            for pod, step in self._due(key):
                self.queue.start(pod, pod.uid, partial(self._attempt, pod, step), f"recreate {pod.uid}")

    def _due(self, key: WorkloadKey) -> Iterator[tuple[GoingPod, Step]]:
        """The steps to be taken for a workload now."""
        state = self.world.states.get(key)
        to_recreate = state.to_recreate if state is not None else ()
        if not to_recreate and not self.world.recreations.of(key):
            self._solved(key, self._refused.get(key, ""))
        for uid, step in self._next_steps(key, to_recreate):
            pod = GoingPod(key, uid)
            if not self.queue.is_under_way(uid) and not self.queue.is_backing_off(pod):
                yield pod, step

    def _next_steps(self, key: WorkloadKey, to_recreate: Iterable[PodFact]) -> Iterator[tuple[str, Step]]:
        world = self.world
        going = set()
        for pod in to_recreate:
            going.add(pod.uid)
            known = self._is_stored(key, pod.uid)
            if known and not self.queue.is_expected(GoingPod(key, pod.uid), pod.uid, _DELETION):
                yield pod.uid, partial(self._take_back, world.states[key], pod)
        for intent in world.recreations.of(key):
            uid = intent.pod_uid
            if uid in going or not self._is_stored(key, uid) or self.queue.is_under_way(uid):
                continue
            why = self._void(intent, world.pods.get(uid))
            if why:
                self._forget(intent, why)
            elif uid not in world.pods and uid not in self._recreated:
                yield uid, partial(self._make_again, intent)

    def _is_stored(self, key: WorkloadKey, uid: str) -> bool:
        """Whether Postgres has the last intent for a pod, as far as there is one."""
        recreations = self.world.recreations
        if uid in self.handed_in:
            if uid not in recreations.unsaved and recreations.stored.get(uid) != self.handed_in[uid]:
                return not self.queue.is_expected(GoingPod(key, uid), uid, _INTENT)
            del self.handed_in[uid]
        return uid not in recreations.unsaved

    def _keep(self, uid: str, intent: Recreation | None) -> None:
        """Have an intent stored, or forgotten (None), in the next turn."""
        self.handed_in[uid] = intent
        self.queue.expect(uid, _INTENT)
        self._hand_in(Change(FactKind.RECREATION, uid, intent))

    def _prune(self) -> None:
        restless = len(self._stored_anew) + len(self._version_missed)
        if len(self._recreated) + len(self._not_deleted) + restless > _MANY:
            recreations = self.world.recreations
            self._recreated.intersection_update(recreations.stored)
            known = recreations.stored.keys() | recreations.unsaved.keys() | self.handed_in.keys()
            self._stored_anew &= known
            self._version_missed &= known
            self._not_deleted = {
                uid for uid in self._not_deleted if uid in known or self.queue.is_under_way(uid)
            }

    def _void(self, intent: Recreation, pod: PodFact | None) -> str:
        """Why a pod is not to be made again after all; "" if it is, perhaps later."""
        uid = intent.pod_uid
        by_user = uid in self._not_deleted and uid not in self.world.recreations.preempted
        if by_user and (pod is None or pod.deleting):
            return "a user deleted it"
        if pod is not None:
            return "" if pod.deleting or is_live(pod) else "it has ended by itself"
        key = GoingPod(intent.workload, uid)
        if uid in self._recreated and not self.queue.is_expected(key, uid, _CREATION):
            return "it was made again, and is gone"
        if support_of(intent.workload).is_group and not self._has_group(intent):
            return "its PodGroup is gone"
        return ""

    def _has_group(self, intent: Recreation) -> bool:
        """Whether there is a PodGroup for it, if only a new one of the same name."""
        if intent.workload in self.world.facts:
            return True
        annotations = json.loads(intent.manifest)["metadata"]["annotations"]
        named = annotations.get(names.GROUP_ANNOTATION) or annotations.get(names.GROUP_ANNOTATION_VOLCANO)
        return self.world.pod_index.has_group(intent.namespace, named or "")

    def _forget(self, intent: Recreation, why: str) -> None:
        where = {"workload": str(intent.workload), "pod": f"{intent.namespace}/{intent.name}", "why": why}
        _log.info("pod is not made again", extra=where)
        self._keep(intent.pod_uid, None)
        self.queue.reset(GoingPod(intent.workload, intent.pod_uid))
        self._not_deleted.discard(intent.pod_uid)
        self._requeue(intent.workload)

    # ── the steps ───────────────────────────────────────────────────────────────────────────────────────────

    async def _take_back(self, state: WorkloadState, pod: PodFact) -> None:
        """Store how to make the pod again; once that is done, delete it, unless it is better stored anew first."""
        path = PODS.path(pod.namespace, pod.name)
        document = json.loads(await self._client.get(path))
        meta = document["metadata"]
        gone = meta["uid"] != pod.uid or "deletionTimestamp" in meta
        if gone or _phase(document) in _ENDED:
            self.queue.expect(pod.uid, _DELETION)  # the informer is about to show it
            return
        intent = Recreation(
            pod_uid=pod.uid,
            workload=state.key,
            namespace=pod.namespace,
            name=pod.name,
            queue=state.workload.queue,
            manifest=manifest_of(document),
        )
        known = self.world.recreations.stored.get(pod.uid)
        if known is None:
            self._not_deleted.add(pod.uid)
            self._keep(pod.uid, intent)
        elif known != intent and pod.uid not in self._stored_anew:
            self._stored_anew.add(pod.uid)
            self._keep(pod.uid, intent)
        else:
            await self._delete(pod, known, meta["resourceVersion"])

    async def _delete(self, pod: PodFact, intent: Recreation, version: str) -> None:
        """Delete a pod with a stored intent: at this version, or at any if that has failed before."""

        def check() -> None:
            self._check_lease()
            now = self.world.states.get(intent.workload)
            if now is None or all(each.uid != pod.uid for each in now.to_recreate):
                raise UnwantedWrite

        self._failpoint("recreation-stored")
        try:
            answer = await self._remove(pod, None if pod.uid in self._version_missed else version, check)
        except Conflict:
            self._version_missed.add(pod.uid)
            raise
        except ApiError as error:
            if isinstance(error, ApiUnavailable):
                self._not_deleted.discard(pod.uid)  # the deletion may well have been carried out
            self._stored_anew.discard(pod.uid)
            raise
        self._not_deleted.discard(pod.uid)
        self._stored_anew.discard(pod.uid)
        self._version_missed.discard(pod.uid)
        self.queue.expect(pod.uid, _DELETION)
        self._failpoint("pod-removed")
        if _phase(json.loads(answer)) in _ENDED:
            self._forget(intent, "it has ended by itself")

    async def _remove(self, pod: PodFact, version: str | None, check: Callable[[], None]) -> bytes:
        """Remove a pod if it still is this version of it (None for any): as its budgets allow, if it is evicted.

        The answer of a deletion is the pod as it was then, that of an eviction is not.
        """
        path = PODS.path(pod.namespace, pod.name)
        node_is_gone = pod.node is not None and pod.node not in self.world.node_inventory.nodes
        admission = self.world.admission_index.admission_of(pod)
        state = None if admission is None else self.world.states.get(admission.workload)
        beyond = state is not None and admission is not None and admission.id in state.beyond_budgets
        if admission is not None and admission.asks_budgets() and not (node_is_gone or beyond):
            await evict(self._client, path, uid=pod.uid, resource_version=version, check_lease=check)
            return b"{}"
        return await self._client.delete(
            path,
            uid=pod.uid,
            resource_version=version,
            # No kubelet will confirm that the pod has ended.
            grace=0 if node_is_gone else None,
            check_lease=check,
        )

    async def _make_again(self, intent: Recreation) -> None:
        def check() -> None:
            self._check_lease()
            known = self.world.recreations.stored.get(intent.pod_uid)
            if known != intent or self._void(intent, self.world.pods.get(intent.pod_uid)):
                raise UnwantedWrite

        try:
            await self._client.create(
                PODS.path(intent.namespace),
                intent.manifest.encode(),
                brief=True,
                check_lease=check,
            )
        except Conflict:
            if await self._has_its_name(intent):
                raise
            return
        except NotFound:
            self._forget(intent, "its namespace is gone")
            return
        except ApiRefused as error:
            if _TERMINATING not in str(error.facts.get("reason")):
                raise
            self._forget(intent, "its namespace is being deleted")
            return
        self._was_made_again(intent)
        self._failpoint("pod-recreated")

    async def _has_its_name(self, intent: Recreation) -> bool:
        """Whether the pod that goes still has its name. If not, the pod that has it is the successor, or wins."""
        meta = json.loads(await self._client.get(PODS.path(intent.namespace, intent.name)))["metadata"]
        if meta["uid"] == intent.pod_uid:
            return True
        if (meta.get("annotations") or {}).get(names.RECREATED_FROM) == intent.pod_uid:
            self._was_made_again(intent)
        else:
            self._forget(intent, "another pod was made under its name")
        return False

    def _was_made_again(self, intent: Recreation) -> None:
        self._recreated.add(intent.pod_uid)
        self.queue.expect(intent.pod_uid, _CREATION, _UNSEEN)

    async def _attempt(self, pod: GoingPod, step: Step) -> None:
        try:
            await step()
        except (NotFound, Conflict, UnwantedWrite):
            # The pod changed or is gone: the next step is worked out from what the informer shows.
            self.queue.defer(pod, pause_after(0))
        except ApiError as error:
            self._failed(pod, error)
        else:
            self.queue.reset(pod)
            self._solved(pod.workload, pod.uid)

    def _failed(self, pod: GoingPod, error: ApiError) -> None:
        key = pod.workload
        _log.warning("pod not taken back", extra={"workload": str(key), "pod": pod.uid, "why": str(error)})
        self.queue.back_off(pod)
        if isinstance(error, ApiRefused):
            reason = str(error.facts.get("reason", error))
            code = code_of(error, ReasonCode.RECREATION_REFUSED)
            self.problems[key] = Reason(code=code, message=reason)
            self._requeue(key)
            self._refused[key] = pod.uid

    def _solved(self, key: WorkloadKey, uid: str) -> None:
        if self._refused.get(key) == uid:
            del self._refused[key]
            self.problems.pop(key, None)


def _phase(answer: dict[str, Any]) -> str:
    """The phase of a pod; "" if the answer is none."""
    status = answer.get("status")
    return str(status.get("phase", "")) if isinstance(status, dict) else ""

"""Pods that nobody else makes again: each is stored, then deleted, then made again, gated, under its name.

A pod without a controller cannot be taken back but by its deletion. What is stored about it (by intake, in the
next turn) is the intent: while it is there, the pod is to be made again as soon as it is gone. Killed anywhere,
the next leader goes on from the intent and from what the cluster shows:

    intent  pod            next
    no      there          GET it, store the intent
    yes     there          GET it again: unchanged → delete it, at just this version
    yes     gone           make it again; who has the name already wins
    yes     made again     forget the intent

Whom a user deletes himself is not made again. That is certain as long as this process has not yet asked for the
deletion of a pod whose intent it stored itself; of intents that an earlier leader left it is assumed that he had.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any, Final

from admission.facts import PodFact
from admission.kube.client.client import Client
from admission.kube.writers.work_queue import LONGEST_PAUSE, KeyedWakeups, cancelled, pause_after
from admission.objects import PODS
from admission.reconcile.pod_manifest import manifest_of
from admission.workloads.kinds import support_of
from admission.workloads.seats import is_live
from admission.workloads.state import WorkloadState
from admission.world.world import World
from queues.admissions import Recreation
from queues.api import names
from queues.errors import ApiError, ApiRefused, ApiUnavailable, Conflict, Fenced, NotFound
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

Step = Callable[[], Coroutine[Any, Any, None]]

#: Seconds that the watch may take to show a deletion, before it is asked for again …
_ECHO: Final = 30.0

#: … and to show a pod that was made, before it counts as gone again.
_UNSEEN: Final = 60.0

_MANY: Final = 10_000

_ENDED: Final = ("Succeeded", "Failed")

#: What the API server says to whoever creates something in a namespace that is being deleted.
_TERMINATING: Final = "because it is being terminated"


class RecreationWriter:
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
        """``again`` is called when a workload has to be looked at again, and what is to be stored stored."""
        self._client = client
        self.world = world
        self._guard = guard
        self._again = again
        self._pause = pause
        #: By the uid of the pod that goes.
        self._under_way: dict[str, asyncio.Task[None]] = {}
        #: Intents stored by this process whose pod it has not asked to delete: if it goes, somebody else did it.
        self._ours: set[str] = set()
        #: Pods deleted, and made again, by this process; until when (time of the loop) the watch may not show it.
        self._removed: dict[str, float] = {}
        self._made: dict[str, float] = {}
        #: Failures in a row, and no further step before this time of the loop.
        self._pauses: dict[str, tuple[int, float]] = {}
        #: By workload and pod.
        self._alarms: KeyedWakeups[tuple[WorkloadKey, str]] = KeyedWakeups(lambda mark: again(mark[0]))
        #: What the API server refuses, for the status of the workload; and of which pod.
        self.problems: dict[WorkloadKey, Reason] = {}
        self._refused: dict[WorkloadKey, str] = {}

    def look_at(self, keys: Iterable[WorkloadKey]) -> None:
        """Begin the next step of every pod of these workloads that goes; returns at once."""
        now = asyncio.get_running_loop().time()
        self._prune(now)
        for key in keys:
            for uid, step in self.steps_of(key, now):
                task = asyncio.create_task(self._take(key, uid, step), name=f"recreate {uid}")
                self._under_way[uid] = task

    def steps_of(self, key: WorkloadKey, now: float) -> Iterator[tuple[str, Step]]:
        """What is to be done for a workload now, by the uid of the pod that goes."""
        portrait = self.world.portraits.get(key)
        displaced = portrait.displaced if portrait is not None else ()
        if not displaced and not self.world.recreations.of(key):
            self._solved(key, self._refused.get(key, ""))
        for uid, step in self._steps(key, displaced, now):
            if uid not in self._under_way and self._pauses.get(uid, (0, now))[1] <= now:
                yield uid, step

    def _steps(
        self, key: WorkloadKey, displaced: Iterable[PodFact], now: float
    ) -> Iterator[tuple[str, Step]]:
        world, unsaved = self.world, self.world.recreations.unsaved
        going = set()
        for pod in displaced:
            going.add(pod.uid)
            if pod.uid not in unsaved and self._removed.get(pod.uid, now) <= now:
                yield pod.uid, partial(self._take_back, world.portraits[key], pod)
        for intent in world.recreations.of(key):
            uid = intent.pod_uid
            if uid in going or uid in unsaved or uid in self._under_way:
                continue
            why = self._void(intent, world.pods.get(uid), now)
            if why:
                self._forget(intent, why)
            elif uid not in world.pods and uid not in self._made:
                yield uid, partial(self._make_again, intent)

    def _prune(self, now: float) -> None:
        stored = self.world.recreations.stored
        if len(self._removed) + len(self._made) > _MANY:
            self._removed = {uid: until for uid, until in self._removed.items() if until > now}
            self._made = {uid: until for uid, until in self._made.items() if until > now or uid in stored}
            self._ours.intersection_update({*stored, *self.world.recreations.unsaved, *self._under_way})

    def _void(self, intent: Recreation, pod: PodFact | None, now: float) -> str:
        """Why a pod is not to be made again after all; "" if it is, perhaps later."""
        if intent.pod_uid in self._ours and (pod is None or pod.deleting):
            return "somebody else deleted it"
        if pod is not None:
            return "" if pod.deleting or is_live(pod) else "it has ended by itself"
        if self._made.get(intent.pod_uid, now) < now:
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
        return self.world.members.has_group(intent.namespace, named or "")

    def _forget(self, intent: Recreation, why: str) -> None:
        where = {"workload": str(intent.workload), "pod": f"{intent.namespace}/{intent.name}", "why": why}
        _log.info("pod is not made again", extra=where)
        self.world.recreations.drop(intent.pod_uid)
        self._pauses.pop(intent.pod_uid, None)
        self._ours.discard(intent.pod_uid)
        self._again(intent.workload)

    # ── the steps ───────────────────────────────────────────────────────────────────────────────────────────

    async def _take_back(self, portrait: WorkloadState, pod: PodFact) -> None:
        """Store how to make it again; once that is done, delete it, if it is still the same."""
        path = PODS.path(pod.namespace, pod.name)
        document = json.loads(await self._client.get(path))
        meta = document["metadata"]
        gone = meta["uid"] != pod.uid or "deletionTimestamp" in meta
        if gone or document.get("status", {}).get("phase") in _ENDED:
            self._removed[pod.uid] = self._soon(portrait.key, pod.uid, _ECHO)
            return  # the watch tells, too
        intent = Recreation(
            pod_uid=pod.uid,
            workload=portrait.key,
            namespace=pod.namespace,
            name=pod.name,
            queue=portrait.workload.queue,
            manifest=manifest_of(document),
        )
        known = self.world.recreations.stored.get(pod.uid)
        if known is None:
            self._ours.add(pod.uid)
        if known != intent:
            self.world.recreations.keep(intent)
            self._again(portrait.key)
            return
        self._pause("recreation-stored")
        nobody_ends_it = pod.node is not None and pod.node not in self.world.stock.nodes
        try:
            await self._client.delete(
                path,
                uid=pod.uid,
                resource_version=meta["resourceVersion"],
                grace=0 if nobody_ends_it else None,
                guard=self._guard,
            )
        except ApiUnavailable:
            self._ours.discard(pod.uid)  # it may well have been done
            raise
        self._ours.discard(pod.uid)
        self._removed[pod.uid] = self._soon(portrait.key, pod.uid, _ECHO)
        self._pause("pod-removed")

    async def _make_again(self, intent: Recreation) -> None:
        try:
            await self._client.create(
                PODS.path(intent.namespace), intent.manifest.encode(), brief=True, guard=self._guard
            )
        except Conflict:
            if await self._is_going_still(intent):
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
        self._made[intent.pod_uid] = self._soon(intent.workload, intent.pod_uid, _UNSEEN)
        self._pause("pod-recreated")

    async def _is_going_still(self, intent: Recreation) -> bool:
        """Whether the pod itself still has its name; if not, whoever has it is the one, or wins."""
        meta = json.loads(await self._client.get(PODS.path(intent.namespace, intent.name)))["metadata"]
        if meta["uid"] == intent.pod_uid:
            return True
        if (meta.get("annotations") or {}).get(names.RECREATED_FROM) == intent.pod_uid:
            self._made[intent.pod_uid] = self._soon(intent.workload, intent.pod_uid, _UNSEEN)
        else:
            self._forget(intent, "somebody made another pod of its name")
        return False

    async def _take(self, key: WorkloadKey, uid: str, step: Step) -> None:
        try:
            await step()
            self._pauses.pop(uid, None)
            self._solved(key, uid)
        except (NotFound, Conflict):
            # It changed or went away meanwhile: the next look finds what is right then.
            self._later(key, uid, pause_after(0))
        except Fenced:
            return
        except ApiError as error:
            self._failed(key, uid, error)
        except Exception:
            _log.exception("pod not taken back", extra={"workload": str(key), "pod": uid})
            self._later(key, uid, LONGEST_PAUSE)
        finally:
            self._under_way.pop(uid, None)
        self._again(key)

    # ── pauses ──────────────────────────────────────────────────────────────────────────────────────────────

    def _failed(self, key: WorkloadKey, uid: str, error: ApiError) -> None:
        _log.warning("pod not taken back", extra={"workload": str(key), "pod": uid, "why": str(error)})
        failures = self._pauses.get(uid, (0, 0.0))[0] + 1
        self._later(key, uid, pause_after(failures), failures)
        if isinstance(error, ApiRefused):
            reason = str(error.facts.get("reason", error))
            self.problems[key] = Reason(code=ReasonCode.RECREATION_REFUSED, message=reason)
            self._refused[key] = uid

    def _solved(self, key: WorkloadKey, uid: str) -> None:
        if self._refused.get(key) == uid:
            del self._refused[key]
            self.problems.pop(key, None)

    def _later(self, key: WorkloadKey, uid: str, pause: float, failures: int = 0) -> None:
        """No step of this pod before, and a look at its workload then."""
        self._pauses[uid] = (failures, self._soon(key, uid, pause))

    def _soon(self, key: WorkloadKey, uid: str, pause: float) -> float:
        """A look at the workload after this pause; when (time of the loop) that will be past."""
        return self._alarms.ring_in((key, uid), pause)

    def is_busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._under_way)

    async def stop(self) -> None:
        """Cancel what is under way."""
        self._alarms.stop()
        await cancelled(self._under_way.values())

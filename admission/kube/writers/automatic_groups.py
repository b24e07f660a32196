"""Cluster ← pods: makes the PodGroups of owners whose pods start together, and keeps their sizes and queues.

Level-triggered: a group that is missing is asked for by each of its pods whenever they are reconciled. A group goes
with its owner, by Kubernetes' garbage collector; a group of pods without an owner is deleted when none of them is left.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from admission.kube.writers.work_queue import WorkQueue
from admission.reconcile.automatic_groups import GroupWanted, groups_wanted
from admission.wire import Bare, WireStruct
from admission.workloads.kinds import support_of
from admission.world.world import World
from queues.api.api_resources import POD_GROUPS, PODS, REPLICA_SETS, STATEFUL_SETS
from queues.api.reading.quota_usage import QuotaUsage
from queues.api.types.pod import WirePodSpec
from queues.errors import ApiError, ApiRefused, Conflict, InvalidQuantity, NotFound
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

Place = tuple[str, str]

#: Owners that may have an owner themselves: of a Deployment's pods, and of a LeaderWorkerSet's.
_FOLLOWED: Final = {(each.api_version, each.kind): each for each in (REPLICA_SETS, STATEFUL_SETS, PODS)}
#: From a worker of a LeaderWorkerSet by its StatefulSet, its leader and the leader's StatefulSet.
_MOST_OWNERS: Final = 5


class AutomaticGroups:
    """Writes of one term. ``check_lease`` raises Fenced once the leader's lease is no longer certain."""

    def __init__(
        self,
        client: Client,
        world: World,
        check_lease: Callable[[], None],
        *,
        requeue: Callable[[WorkloadKey], None],
    ) -> None:
        """``requeue`` is called when the state of a workload has to be worked out again."""
        self._client = client
        self._world = world
        self._check_lease = check_lease
        self._requeue = requeue
        self.queue: WorkQueue[Place] = WorkQueue(self._requeue_all, lambda place: None)
        #: Groups that were made, by uid, until they are seen or gone.
        self._made: dict[str, Place] = {}
        #: Workloads that asked for a group.
        self._asking: dict[Place, set[WorkloadKey]] = {}
        #: What the API server refuses, for the status of the pods that wait for it.
        self.problems: dict[WorkloadKey, Reason] = {}

    def reconcile(self, keys: Iterable[WorkloadKey]) -> None:
        """Start what these workloads need; returns at once."""
        keys = list(keys)
        found = dict(groups_wanted(self._world, keys))
        for key in keys:
            if key not in self._world.states:
                self.problems.pop(key, None)
            self._forget_what_was_seen(key, found.get(key))
        for key, wanted in found.items():
            place = (wanted.namespace, wanted.name)
            self._asking.setdefault(place, set()).add(key)
            if (
                self.queue.is_under_way(place)
                or self.queue.is_backing_off(place)
                or self.queue.is_expected(place, place, _effect(wanted))
            ):
                continue
            self.queue.start(place, place, partial(self._write, place, wanted), f"group {wanted.name}")

    def _forget_what_was_seen(self, key: WorkloadKey, wanted: GroupWanted | None) -> None:
        """A group that is there was made: should others take it away, the next pods need not wait for its return, also
        if it was never seen. One that is as it should be has not failed."""
        fact, place = self._world.facts.get(key), self._made.pop(key.uid, None)
        if fact is not None and support_of(key).is_group:
            place = (fact.namespace, fact.name)
        if place is None:
            return
        self.queue.keep_expectations(place, () if wanted is None else (_effect(wanted),))
        if wanted is None:
            self.queue.reset(place)

    def _requeue_all(self, place: Place) -> None:
        asking = self._asking.pop(place, set())
        if not any(key in self._world.states for key in asking):
            self.queue.forget(place)  # no pod needs it any more, however often it failed
        for key in asking:
            self._requeue(key)

    async def _write(self, place: Place, wanted: GroupWanted) -> None:
        try:
            if wanted.is_unneeded:
                await self._remove(wanted)
            elif wanted.uid:
                await self._change(wanted)
            else:
                await self._make(wanted)
        except (NotFound, Conflict) as error:
            # Its pod is gone, and another pod asks for it; or it exists, as the informer is about to show.
            if wanted.uid or isinstance(error, NotFound):
                self.queue.back_off(place)
                return
        except ApiError as error:
            self._failed(place, wanted, error)
            return
        self.queue.expect(place, _effect(wanted))
        self.queue.reset(place)
        for key in self._asking.pop(place, ()):
            if self.problems.pop(key, None) is not None:
                self._requeue(key)

    async def _make(self, wanted: GroupWanted) -> None:
        pod = await self._pod(wanted)
        document = wanted.document(await self._owner(wanted, pod), _asked(pod, wanted.minimum))
        path = POD_GROUPS.path(wanted.namespace)
        made = await self._client.create(path, document, check_lease=self._check_lease)
        uid = msgspec.json.decode(made, type=Bare).metadata.uid
        self._made[uid] = (wanted.namespace, wanted.name)

    async def _change(self, wanted: GroupWanted) -> None:
        # Not a merge patch: resources that the newest pods do not ask for any more would stay.
        spec = wanted.spec(_asked(await self._pod(wanted), wanted.minimum))
        body = [
            {"op": "test", "path": "/metadata/uid", "value": wanted.uid},
            *({"op": "add", "path": f"/spec/{field}", "value": value} for field, value in spec.items()),
        ]
        path = POD_GROUPS.path(wanted.namespace, wanted.name)
        await self._client.patch(path, body, kind="json", brief=True, check_lease=self._check_lease)

    async def _remove(self, wanted: GroupWanted) -> None:
        path = POD_GROUPS.path(wanted.namespace, wanted.name)
        await self._client.delete(path, uid=wanted.uid, check_lease=self._check_lease)

    async def _pod(self, wanted: GroupWanted) -> bytes:
        """The pod that the group is made for, as JSON. Raises ApiError."""
        return await self._client.get(PODS.path(wanted.namespace, wanted.pod))

    async def _owner(self, wanted: GroupWanted, pod: bytes) -> Mapping[str, Any] | None:
        """A reference to the owner of a pod, past the owners in between. None if it has none. Raises ApiError."""
        found: Mapping[str, Any] | None = None
        metadata = json.loads(pod)["metadata"]
        for _ in range(_MOST_OWNERS):
            above = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
            if not above:
                break
            found = above[0]
            resource = _FOLLOWED.get((found.get("apiVersion", ""), found.get("kind", "")))
            if resource is None:
                break
            try:
                content = await self._client.get(resource.path(wanted.namespace, found["name"]))
            except NotFound:
                break  # only what is above it is not known
            metadata = json.loads(content)["metadata"]
            if metadata["uid"] != found["uid"]:
                break
        return found

    def _failed(self, place: Place, wanted: GroupWanted, error: ApiError) -> None:
        _log.warning("group not written", extra={"group": "/".join(place), "why": str(error)})
        if isinstance(error, ApiRefused):
            why = str(error.facts.get("reason", error))
            reason = Reason(code=ReasonCode.POD_GROUP_MISSING, message=why)
            for key in self._asking.get(place, ()):
                if self.problems.get(key) != reason and not wanted.uid:
                    self.problems[key] = reason
                    self._requeue(key)
        self.queue.back_off(place)


def _effect(wanted: GroupWanted) -> tuple[str, int, str]:
    """What shows that a group was written."""
    return (wanted.uid, wanted.minimum, wanted.queue)


class _Pod(WireStruct):
    spec: WirePodSpec = msgspec.field(default_factory=WirePodSpec)


def _asked(pod: bytes, pods: int) -> dict[str, str]:
    """What so many pods like this one ask for, as minResources; empty: that cannot be read, which the pod says."""
    try:
        return QuotaUsage.of(msgspec.json.decode(pod, type=_Pod).spec).times(pods).quantities()
    except (msgspec.DecodeError, InvalidQuantity):
        return {}

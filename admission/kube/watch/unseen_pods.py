"""Pods of Jobs that give up their seats, as long as the watch of pods may not have told of them.

Jobs and pods are watched apart from each other, and each watch may be behind the other one: a Job that is gone, or that
counts no pod, may have pods of which nothing is known here. So its seats are awaited until the API server has listed
its pods, asked after it was known that no more are made, and the watch has told of all of them. Such a list is as new
as the question. Versions of Jobs and pods need not be comparable, and a watch of pods that is silent may be behind, or
have nothing to tell. One request asks for the pods of many Jobs.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from itertools import islice
from typing import Final, NoReturn

import msgspec

from admission.kube.client.client import Client
from admission.wire import WireMetadata, WireStruct
from admission.workloads.inputs import SeatIndices
from admission.workloads.kinds import Holding, support_of
from admission.workloads.kinds.job_syncs import seats_given_up
from admission.world.world import World
from queues.api import names
from queues.api.api_resources import PODS
from queues.errors import ApiError, ApiUnavailable
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

#: Jobs whose pods one request asks for: their uids are in its URL, of which proxies take 8 kB.
AT_ONCE: Final = 150
#: Seconds between requests that lead nowhere: the watch is still behind, or there is no answer.
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0


class _Item(WireStruct):
    """A pod in a list."""

    metadata: WireMetadata


class _List(WireStruct):
    """Pods, by their metadata only."""

    #: None: there are none, as the API server says it of metadata.
    items: tuple[_Item, ...] | None = None


_LIST: Final = msgspec.json.Decoder(_List)


class UnseenPods:
    """What is asked and known in one term."""

    def __init__(self, client: Client, world: World, *, requeue: Callable[[WorkloadKey], None]) -> None:
        """``requeue`` is called when the state of a workload has to be worked out again."""
        self._client = client
        self._world = world
        self._requeue = requeue
        #: Jobs to ask about, those that wait longest first; another object each time that a Job comes in.
        self._unlisted: dict[WorkloadKey, object] = {}
        #: Jobs that give up seats and have no pods but those that the watch has told of.
        self._seen: set[WorkloadKey] = set()
        self._come = asyncio.Event()

    def of(self, key: WorkloadKey) -> SeatIndices:
        """Seats for which there may be a pod that the watch has not told of."""
        if support_of(key).holding is not Holding.SUSPENDED:
            return {}
        seats = seats_given_up(self._world.facts.get(key), self._world.admission_index.of(key))
        if not seats:
            self._forget(key)
        return {} if key in self._seen else seats

    def reconcile(self, keys: Iterable[WorkloadKey]) -> None:
        """Ask about those of these workloads for which no more pods are made; returns at once."""
        for key in keys:
            state = self._world.states.get(key)
            if state is None or not state.is_stopped:
                self._forget(key)
            elif key not in self._seen and key not in self._unlisted:
                self._unlisted[key] = object()
                self._come.set()

    def _forget(self, key: WorkloadKey) -> None:
        self._unlisted.pop(key, None)
        self._seen.discard(key)

    @property
    def is_busy(self) -> bool:
        """Whether there is a Job to ask about."""
        return bool(self._unlisted)

    async def run(self) -> NoReturn:
        """Ask for one term, one request at a time."""
        pause = FIRST_PAUSE
        while True:
            if not self._unlisted:
                await self._come.wait()
            self._come.clear()
            if await self._ask(dict(islice(self._unlisted.items(), AT_ONCE))):
                pause = FIRST_PAUSE
                continue
            try:
                async with asyncio.timeout(pause):
                    await self._come.wait()
            except TimeoutError:
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _ask(self, asked: Mapping[WorkloadKey, object]) -> bool:
        """Ask about these Jobs; whether that has brought one of them further."""
        try:
            pods = await self._pods(asked)
        except ApiError as error:
            _log.warning("pods of Jobs cannot be listed", extra={"jobs": len(asked), "why": str(error)})
            return False
        known = self._world.pods
        behind = {owner for owner, uids in pods.items() if any(uid not in known for uid in uids)}
        done = False
        for key, entry in asked.items():
            if self._unlisted.get(key) is not entry:
                continue  # it has changed since: what was asked then says nothing
            del self._unlisted[key]
            if key.uid in behind:
                self._unlisted[key] = entry
                continue
            self._seen.add(key)
            self._requeue(key)
            done = True
        return done

    async def _pods(self, asked: Collection[WorkloadKey]) -> Mapping[str, Set[str]]:
        """Uids of the pods of these Jobs, by the uid of their Job. Raises ApiError."""
        namespaces = {key.uid: self._namespace(key) for key in asked}
        places = set(namespaces.values())
        # Pods are selected faster in one namespace than among all.
        path = PODS.path(places.pop() if len(places) == 1 else None)
        uids = ",".join(sorted(key.uid for key in asked))
        content = await self._client.list_metadata(path, labelSelector=f"{names.CONTROLLER_UID} in ({uids})")
        try:
            items = _LIST.decode(content).items or ()
        except msgspec.DecodeError as error:
            raise ApiUnavailable(
                method="GET", path=path, status=200, reason=f"an unreadable list: {error}"
            ) from error
        found: dict[str, set[str]] = {}
        for item in items:
            owner = (item.metadata.labels or {}).get(names.CONTROLLER_UID, "")
            # Anybody can write this label on pods in another namespace.
            if namespaces.get(owner) == item.metadata.namespace:
                found.setdefault(owner, set()).add(item.metadata.uid)
        return found

    def _namespace(self, key: WorkloadKey) -> str | None:
        """The namespace of a Job that holds seats; None: it holds none any more."""
        return next((each.namespace for each in self._world.admission_index.of(key)), None)

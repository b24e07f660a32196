"""Pods of Jobs that give up their seats, as long as the watch of pods may not have shown them.

Jobs and pods are watched apart from each other, and each watch may be behind the other one: a Job that is gone, or that
counts no pod, may have pods that are not known here. So its seats are awaited until the API server has listed
its pods, asked after it was known that no more are made, and the watch has shown all of them. Such a list is as new
as the question. Versions of Jobs and pods need not be comparable, and a watch of pods that is silent may be behind, or
have nothing to report. One request asks for the pods of many Jobs of a namespace.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from itertools import islice
from typing import Final, NoReturn

import msgspec

from admission.containment.repeated_failures import RepeatedFailures
from admission.kube.client.client import Client
from admission.wire import WireMetadata, WireStruct
from admission.workloads.inputs import SeatIndices
from admission.workloads.job_counts import seats_given_up
from admission.workloads.kinds import Holding, support_of
from admission.world.world import World
from queues.api import names
from queues.api.api_resources import PODS
from queues.errors import ApiError, ApiUnavailable
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

#: Jobs that are asked about together. A request has the uids of its Jobs in the URL, and many proxies accept no URL
#: longer than 8 kB.
AT_ONCE: Final = 150
#: Seconds between two rounds of requests: Jobs that leave one by one are asked about together. Doubled after each round
#: that led nowhere, because the watch is behind or there is no answer …
FIRST_PAUSE: Final = 0.2
#: … up to this.
LONGEST_PAUSE: Final = 5.0


class _Item(WireStruct):
    """A pod in a list."""

    metadata: WireMetadata


class _List(WireStruct):
    """Pods, by their metadata only."""

    #: None if there are none, as the API server says it of metadata.
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
        #: Jobs that give up seats and have no pods but those that the watch has shown.
        self._seen: set[WorkloadKey] = set()
        self._come = asyncio.Event()
        self._failures = RepeatedFailures(
            "lists of the pods of Jobs",
            first=FIRST_PAUSE,
            longest=LONGEST_PAUSE,
            effect="seats of Jobs that are gone or evicted are kept",
        )

    def of(self, key: WorkloadKey) -> SeatIndices:
        """Seats for which there may be a pod that the watch has not shown."""
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

    @property
    def unlisted(self) -> int:
        """Jobs whose pods are to be listed."""
        return len(self._unlisted)

    def problem(self) -> Reason | None:
        """Why seats are kept, once several lists in a row have failed in the same way. None if they have not."""
        told = self._failures.told()
        return None if told is None else Reason(code=ReasonCode.LISTS_FAIL, message=told.message)

    async def run(self) -> NoReturn:
        """Ask for one term, one request at a time."""
        pause = FIRST_PAUSE
        while True:
            if not self._unlisted:
                await self._come.wait()
            self._come.clear()
            batch = dict(islice(self._unlisted.items(), AT_ONCE))
            try:
                is_further = await self._ask(batch)
            except ApiError as error:
                await asyncio.sleep(self._note(error, batch))
                continue
            if is_further and len(batch) == AT_ONCE:
                continue
            pause = FIRST_PAUSE if is_further else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(FIRST_PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause - FIRST_PAUSE):
                    await self._come.wait()

    def _note(self, error: ApiError, batch: Iterable[WorkloadKey]) -> float:
        """Note a failure; the seconds to wait."""
        seconds = self._failures.note(error)
        _log.warning("pods of Jobs cannot be listed", extra={"jobs": self.unlisted, "why": str(error)})
        if self._failures.just_reached():
            _log.error("no list of the pods of Jobs succeeds: seats are kept", extra={"why": str(error)})
            for key in batch:
                self._requeue(key)  # so that the status of root is written
        return seconds

    def _note_answer(self, asked: Iterable[WorkloadKey]) -> None:
        if self._failures.told() is not None:
            for key in asked:
                self._requeue(key)
        self._failures.clear()

    async def _ask(self, batch: Mapping[WorkloadKey, object]) -> bool:
        """Ask about these Jobs, namespace by namespace, in which pods are selected faster than among all; whether that
        has brought one of them further. Raises ApiError; the Jobs of that namespace are asked about last then."""
        by_namespace: dict[str, list[WorkloadKey]] = {}
        for key in batch:
            namespace = self._namespace(key)
            if namespace is None:
                self._forget(key)
            else:
                by_namespace.setdefault(namespace, []).append(key)
        is_further = False
        for namespace, keys in by_namespace.items():
            try:
                pods = await self._pods(namespace, keys)
            except ApiError:
                for key in keys:
                    if key in self._unlisted:
                        self._unlisted[key] = self._unlisted.pop(key)
                raise
            self._note_answer(keys)
            is_further |= self._take_in({key: batch[key] for key in keys}, pods)
        return is_further

    def _take_in(self, asked: Mapping[WorkloadKey, object], pods: Mapping[str, Set[str]]) -> bool:
        """The pods of these Jobs, by uid, were listed. Whether the watch has shown all pods of one of them."""
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

    async def _pods(self, namespace: str, keys: Iterable[WorkloadKey]) -> Mapping[str, Set[str]]:
        """Uids of the pods of these Jobs of a namespace, by the uid of their Job. Raises ApiError."""
        path, uids = PODS.path(namespace), ",".join(sorted(key.uid for key in keys))
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
            found.setdefault(owner, set()).add(item.metadata.uid)
        return found

    def _namespace(self, key: WorkloadKey) -> str | None:
        """The namespace of a Job that holds seats. None if it holds none any more."""
        return next((each.namespace for each in self._world.admission_index.of(key)), None)

"""World → statuses: written after the fact, together, and never in the way of an admission.

A status that changes again before its turn comes is written once. What failed is written later.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from time import time
from typing import Any, Final, NoReturn

import msgspec

from admission.facts.workloads import ADMITTED
from admission.kube.client.client import Client
from admission.kube.client.errors import is_of_another_uid
from admission.kube.writers.awaited_seats import may_have_happened
from admission.kube.writers.rate_limit import BUSY_LOOK, HOLD, PER_SECOND_BUSY, RateLimiter
from admission.reconcile.status import (
    Document,
    StatusWanted,
    deciding_condition,
    merge_patch,
    only_numbers,
    settled,
    with_others,
)
from admission.wire import Bare
from queues.api.api_resources import QUEUES, ObjectRef
from queues.errors import ApiError, ApiRefused, Conflict, Fenced, NotFound
from queues.plan import Reason
from queues.quota.queue import ROOT
from queues.reason_codes import ReasonCode
from queues.workload import QueueName

_log = logging.getLogger(__name__)

#: Seconds between a change and its writing, and between two writings of one object.
COALESCE: Final = 0.5
#: Seconds for which a state that may pass by itself must last to be written.
PASSING: Final = 2.0
BETWEEN_WRITES: Final = 1.0
BETWEEN_NUMBERS: Final = 10.0
#: Seconds after which a status that differs from what was written must have been changed by another writer.
_WATCH_LAG: Final = 10.0
#: Writes at a time, and per second.
AT_A_TIME: Final = 8
PER_SECOND: Final = 100.0
#: Statuses that wait to be written beyond which no more should be worked out: they take memory.
BACKLOG: Final = 2000
_AFTER_FAILURE: Final = 2.0


@dataclass(slots=True)
class _Known:
    """One object and what is known of its status."""

    wanted: StatusWanted
    #: As last written or read. None if not known.
    status: Document | None = None
    #: It was not read: the object had no status when it was seen. Another leader may have written one since.
    assumed: bool = False
    #: Time of the loop at which it was written last, and at which it is due (None if there is nothing to do).
    written_at: float = float("-inf")
    due: float | None = None
    busy: bool = False


class StatusWriter:
    """Writes statuses. ``check_lease`` raises Fenced once the lease is not certain; ``busy``: admissions first."""

    def __init__(
        self, client: Client, check_lease: Callable[[], None], *, busy: Callable[[], bool] = lambda: False
    ) -> None:
        self._client = client
        self._check_lease = check_lease
        self._busy = busy
        self._known: dict[str, _Known] = {}
        #: Those among them that wait to be written.
        self._waiting: dict[str, _Known] = {}
        self._has_room = asyncio.Event()
        self._rate = RateLimiter(busy, PER_SECOND, PER_SECOND_BUSY)
        self._dirty = asyncio.Event()

    def submit(self, wanted: Iterable[StatusWanted]) -> None:
        """What statuses should say from now on; returns at once. The same again costs nothing, nor does what an
        object said already when it was seen first, as nearly all do at the start of a term."""
        now = asyncio.get_running_loop().time()
        for one in wanted:
            known = self._known.get(one.ref.uid)
            if known is None and one.shown:
                continue
            if known is None:
                is_new = one.seen == ""
                known = _Known(one, {} if is_new else None, assumed=is_new and not one.shared)
                self._known[one.ref.uid] = known
            elif known.wanted == one:
                continue
            elif _is_overwritten(known, one, now):
                known.status = None
            known.wanted = one
            if not known.busy:
                self._plan(known, now)

    def _plan(self, known: _Known, now: float) -> None:
        """Decide when to write a status; not at all if the object has it already."""
        pause = BETWEEN_WRITES
        if known.status is not None:
            after = settled(known.wanted, known.status, 0)
            if not merge_patch(_ours(known.wanted, known.status), after):
                return
            if only_numbers(known.status, after):
                pause = BETWEEN_NUMBERS
        due = max(now + (PASSING if known.wanted.is_passing else COALESCE), known.written_at + pause)
        # A phase does not wait because numbers were to be written first.
        self._wait_until(known, due if known.due is None else min(due, known.due))

    def _wait_until(self, known: _Known, due: float) -> None:
        known.due = due
        self._waiting[known.wanted.ref.uid] = known
        self._dirty.set()

    def _begin(self, known: _Known) -> None:
        known.due, known.busy = None, True
        self._waiting.pop(known.wanted.ref.uid, None)
        self._has_room.set()

    async def room(self) -> None:
        """Wait until few enough statuses wait to be written."""
        while len(self._waiting) >= BACKLOG:
            self._has_room.clear()
            await self._has_room.wait()

    def forget(self, uids: Iterable[str]) -> None:
        """These objects are gone."""
        for uid in uids:
            self._known.pop(uid, None)
            self._waiting.pop(uid, None)
        self._has_room.set()

    async def run(self) -> NoReturn:
        """Write what is due. Raises Fenced."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            slots = asyncio.Semaphore(AT_A_TIME)
            while True:
                self._dirty.clear()
                latest = loop.time() - (HOLD if self._busy() else 0.0)
                due = [each for each in self._waiting.values() if (each.due or 0.0) <= latest]
                for known in sorted(due, key=lambda known: known.due or 0.0):
                    self._begin(known)
                    await slots.acquire()
                    await self._rate.wait()
                    tasks.create_task(self._write_in(slots, known), name=f"status {known.wanted.ref.name}")
                await self._until(min((each.due or 0.0 for each in self._waiting.values()), default=None))

    async def _until(self, due: float | None) -> None:
        """Wait for news, at most until a time of the loop."""
        if self._busy():
            await asyncio.sleep(BUSY_LOOK)
            return
        try:
            async with asyncio.timeout_at(due):
                await self._dirty.wait()
                if due is None:
                    return
                # News is due a while later than what is due next: do not look again for each.
                await asyncio.sleep(COALESCE / 5)
        except TimeoutError:
            return

    async def _write_in(self, slots: asyncio.Semaphore, known: _Known) -> None:
        try:
            await self._write(known)
        except Fenced:
            raise
        except Exception:
            # A status is not worth the term: one that cannot be written must not stop the others.
            _log.exception("status not written", extra={"object": known.wanted.ref.path})
        finally:
            slots.release()

    async def _write(self, known: _Known) -> None:
        loop = asyncio.get_running_loop()
        wanted = known.wanted
        try:
            if known.status is None:
                known.status, known.assumed = await self._read(wanted.ref), False
            after = settled(wanted, known.status, int(time()))
            patch = merge_patch(_ours(wanted, known.status), after)
            stored = await self._patch(known, wanted, patch) if patch else None
            known.status = _merged(known.status, after, shared=wanted.shared) if stored is None else stored
        except (NotFound, Conflict) as error:
            if wanted.custom and isinstance(error, Conflict) and self._known.get(wanted.ref.uid) is known:
                self._wait_until(known, loop.time() + _AFTER_FAILURE)  # others wrote to it at the same time
                return
            self._known.pop(wanted.ref.uid, None)  # gone; a Conflict is another object of that name
            return
        except ApiRefused as error:
            if is_of_another_uid(error):
                self._known.pop(wanted.ref.uid, None)
                return
            _log.warning("status refused", extra={"object": wanted.ref.path, "why": str(error)})
            return
        except ApiError as error:
            _log.info("status not written", extra={"object": wanted.ref.path, "why": str(error)})
            if may_have_happened(error):
                known.status = None  # what was there before may be wanted again by the next try
            if self._known.get(wanted.ref.uid) is known:
                self._wait_until(known, loop.time() + _AFTER_FAILURE)
            return
        finally:
            known.busy = False
        if known.wanted != wanted or (stored is not None and stored != after):
            self._plan(known, loop.time())

    async def _patch(self, known: _Known, wanted: StatusWanted, patch: Document) -> Document | None:
        """Write a change. The whole status after it where the status before was assumed, else None: a merge takes
        away only what it names, so what another leader wrote in between is still there."""
        body = {"metadata": {"uid": wanted.ref.uid}, "status": patch}
        if wanted.custom:
            body = await self._with_others(wanted, patch)
        answer = await self._client.patch(
            f"{wanted.ref.path}/status",
            body,
            # Merges conditions by type; only the built-in kinds know it.
            kind="strategic" if wanted.shared and not wanted.custom else "merge",
            brief=not known.assumed,
            check_lease=self._check_lease,
        )
        known.written_at = asyncio.get_running_loop().time()
        if not known.assumed:
            return None
        known.assumed = False
        return msgspec.json.decode(answer, type=_Object).status or {}

    async def _with_others(self, wanted: StatusWanted, patch: Document) -> Document:
        """The write of a custom resource's conditions: all of them, if the object is still as it is read now."""
        found = await self._object(wanted.ref)
        conditions = with_others((found.status or {}).get("conditions") or (), patch["conditions"])
        version = found.metadata.resource_version
        return {
            "metadata": {"uid": wanted.ref.uid, "resourceVersion": version},
            "status": {"conditions": conditions},
        }

    async def _read(self, ref: ObjectRef) -> Document:
        return (await self._object(ref)).status or {}

    async def _object(self, ref: ObjectRef) -> "_Object":
        found = msgspec.json.decode(await self._client.get(ref.path), type=_Object)
        if found.metadata.uid != ref.uid:
            raise NotFound(method="GET", path=ref.path, status=404, reason="another object has its name")
        return found


class _Object(Bare):
    status: dict[str, Any] | None = None


def _ours(wanted: StatusWanted, status: Document) -> Document:
    """The part of a status that we compare with: of a shared one our conditions only."""
    if not wanted.shared:
        return status
    ours = {one.type for one in wanted.conditions}
    conditions = [one for one in status.get("conditions") or () if one.get("type") in ours]
    return {"conditions": conditions} if conditions else {}


def _merged(before: Document, after: Document, *, shared: bool) -> Document:
    """The status after a write; of a shared one only what our condition says, for it is kept of every object."""
    if not shared:
        return after
    known = (*(before.get("conditions") or ()), *(after.get("conditions") or ()))
    ours = [one for one in known if one.get("type") == ADMITTED]
    return _with_condition(*((name, str(ours[-1].get(name) or "")) for name in _SAID)) if ours else {}


#: What is compared of a condition.
_SAID: Final = ("type", "status", "reason", "message")


@lru_cache(maxsize=1024)
def _with_condition(*said: tuple[str, str]) -> Document:
    """A status with this condition alone. Most objects of a queue say one of a few, and share it."""
    return {"conditions": [{name: text for name, text in said if text}]}


def _is_overwritten(known: _Known, wanted: StatusWanted, now: float) -> bool:
    """Whether another writer has written a phase of its own, long after our last write."""
    if wanted.seen is None or known.status is None or known.busy:
        return False
    if wanted.seen == ReasonCode.DATABASE_AWAY:
        return True  # no leader writes it
    if now < known.written_at + _WATCH_LAG:
        return False
    state = known.status.get("state")
    phase = known.status.get("phase") or (state.get("phase") if isinstance(state, dict) else state) or ""
    return phase != wanted.seen


#: Seconds for which a term waits for it.
_PATIENCE: Final = 2.0


async def write_deciding_condition(
    client: Client, check_lease: Callable[[], None], failing: Reason, queue: QueueName = ROOT
) -> None:
    """Say on a queue what fails and what to do, before a term that may fail at once, or without one; nothing is written
    if it says so already. While a term makes turns, the condition is part of the queue's status as any other
    (``status_loop``).

    ``check_lease`` raises Fenced once the lease is not certain. Raises Fenced.
    """
    path = QUEUES.path(name=queue)
    condition = replace(deciding_condition(failing), follows_message=True)
    try:
        async with asyncio.timeout(_PATIENCE):
            found = msgspec.json.decode(await client.get(path), type=_Object)
            before, metadata = found.status or {}, found.metadata
            ref = ObjectRef(resource=QUEUES, name=queue, uid=metadata.uid)
            wanted = StatusWanted(ref=ref, conditions=(condition,), kept=tuple(before))
            if patch := merge_patch(before, settled(wanted, before, int(time()))):
                version = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
                body = {"metadata": version, "status": patch}
                await client.patch(f"{path}/status", body, brief=True, check_lease=check_lease)
    except (ApiError, TimeoutError) as error:
        about = {"queue": queue, "why": str(error) or "no answer in time"}
        _log.info("condition of a queue not written", extra=about)

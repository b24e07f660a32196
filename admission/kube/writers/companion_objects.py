"""Makes the objects that belong to a Job besides its pods, and, when nothing more urgent waits, its PodGroup.

SSH key pairs are made ahead of time: one takes about 50 ms of a processor.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from admission.facts.volcano_jobs import JobSpec
from admission.kube.client.client import Client
from admission.volcano_jobs.companions import Companion, group_of
from admission.volcano_jobs.plugins.ssh import with_keys
from admission.wire import Bare
from queues.api.api_resources import POD_GROUPS, ApiResource
from queues.errors import ApiError, Conflict, Fenced, MusterError

_log = logging.getLogger(__name__)

#: Seconds. PodGroups of Jobs are for people to look at: many wait until pods are made, but not for ever.
_GROUP_DELAY: Final = 1.0
_GROUP_PATIENCE: Final = 15.0
#: So few of them are made at once: tools look for the PodGroup of a Job as soon as the Job has a phase.
_FEW: Final = 8

#: Key pairs kept ready.
_READY: Final = 2


class KeyPair(NamedTuple):
    """PKCS#1 PEM, and one line of ``authorized_keys``."""

    private: str
    public: str


def new_key_pair() -> KeyPair:
    """RSA, 2048 bits, as Volcano's ssh plugin makes them. Blocks."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode() + "\n")


class KeyPairs:
    """Hands out key pairs, each once. From the first request on a few are kept ready."""

    def __init__(self) -> None:
        self._pairs: deque[KeyPair] = deque()
        self.making: asyncio.Task[None] | None = None

    async def take(self) -> KeyPair:
        """A key pair that was not handed out before."""
        pair = self._pairs.popleft() if self._pairs else await asyncio.to_thread(new_key_pair)
        if self.making is None or self.making.done():
            self.making = asyncio.create_task(self._make(), name="make key pairs")
        return pair

    async def _make(self) -> None:
        while len(self._pairs) < _READY:
            self._pairs.append(await asyncio.to_thread(new_key_pair))


class NameTaken(MusterError):
    """{kind} {name} exists and does not belong to this Job. Delete it or give the Job another name."""


class Companions:
    """Each object is made once per term and content."""

    def __init__(
        self, client: Client, check_lease: Callable[[], None], *, priorities: Callable[[], Mapping[str, int]]
    ) -> None:
        """``priorities``: value of each priority class, as it is now."""
        self._client = client
        self._check_lease = check_lease
        self._priorities = priorities
        self._keys = KeyPairs()
        #: Job's uid → (resource, name) → digest of what was made.
        self._made: dict[str, dict[tuple[ApiResource, str], bytes]] = {}
        self._groups: dict[str, JobSpec] = {}
        self._grouping: asyncio.Task[None] | None = None
        self._urgent = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def ensure(self, job: JobSpec, companions: Sequence[Companion]) -> None:
        """Have all of them exist as they should be. Raises NameTaken, ApiError, Fenced."""
        known = self._made.setdefault(job.uid, {})
        missing = [
            (one, digest)
            for one in companions
            if known.get((one.resource, one.name)) != (digest := _digest(one.manifest))
        ]
        for result in await asyncio.gather(
            *(self._make(job, one) for one, _ in missing), return_exceptions=True
        ):
            if isinstance(result, BaseException):
                raise result
        known.update({(one.resource, one.name): digest for one, digest in missing})

    async def _make(self, job: JobSpec, one: Companion) -> None:
        manifest = one.manifest
        if one.needs_key_pair:
            pair = await self._keys.take()
            manifest = with_keys(manifest, private=pair.private, public=pair.public)
        try:
            await self._client.create(
                one.resource.path(job.namespace), manifest, check_lease=self._check_lease
            )
        except Conflict as error:
            if error.facts.get("code") != "AlreadyExists":
                raise
            if one.named_by_uid:
                return
            await self._check(job, one, one.resource.path(job.namespace, one.name))

    async def _check(self, job: JobSpec, one: Companion, path: str) -> None:
        """It exists: is it the Job's, and does it say what it should?"""
        found = msgspec.json.decode(await self._client.get(path), type=_Object)
        if not any(owner.uid == job.uid for owner in found.metadata.owner_references or ()):
            raise NameTaken(kind=str(one.manifest["kind"]), name=one.name)
        if not one.follows_scale:
            return
        if (wanted := one.manifest.get("spec")) is not None:
            # The API server has filled in fields besides these.
            before = found.spec or {}
            change = {
                key: _with_keys_gone(before.get(key), value)
                for key, value in wanted.items()
                if before.get(key) != value
            }
            await self._update(found, path, spec=change)
        elif found.data != one.manifest["data"]:
            await self._update(found, path, data=_with_keys_gone(found.data, one.manifest["data"]))

    async def _update(self, found: "_Object", path: str, **parts: dict[str, Any]) -> None:
        if any(parts.values()):
            body = {"metadata": {"uid": found.metadata.uid}, **parts}
            await self._client.patch(path, body, check_lease=self._check_lease)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """PodGroups wait while pods are being made inside this context."""
        self._urgent += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._urgent -= 1
            if not self._urgent:
                self._idle.set()

    def make_later(self, job: JobSpec) -> None:
        """Have the Job's PodGroup exist as it should be, some time soon."""
        made = self._made.get(job.uid, {}).get((POD_GROUPS, job.group_name))
        if job.uid not in self._groups and made is not None and made == _digest(self._group(job).manifest):
            return
        # Also while it is being made: the Job may have been scaled since.
        self._groups[job.uid] = job
        if self._grouping is None or self._grouping.done():
            self._grouping = asyncio.create_task(self._make_groups(), name="make podgroups")

    async def _make_groups(self) -> None:
        if len(self._groups) > _FEW:
            await asyncio.sleep(_GROUP_DELAY)
        while self._groups:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), _GROUP_PATIENCE)
            # Jobs may go at every await.
            uid, job = next(iter(self._groups.items()), ("", None))
            if job is None:
                return
            try:
                await self.ensure(job, (self._group(job),))
            except Fenced:
                return
            except (ApiError, NameTaken) as error:
                _log.info("podgroup not made", extra={"job": job.name, "why": str(error)})
            if self._groups.get(uid) is job:
                del self._groups[uid]

    def _group(self, job: JobSpec) -> Companion:
        return group_of(job, self._priorities())

    def forget(self, uid: str) -> None:
        """The Job is gone."""
        self._made.pop(uid, None)
        self._groups.pop(uid, None)

    async def stop(self) -> None:
        """Make no more."""
        tasks = [task for task in (self._grouping, self._keys.making) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Object(Bare):
    data: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


def _with_keys_gone(before: Any, wanted: Any) -> Any:
    """A value of a merge patch: keys that are gone (of a task that was removed) have to be named to go."""
    if isinstance(before, Mapping) and isinstance(wanted, Mapping):
        return {**dict.fromkeys(before), **wanted}
    return wanted


def _digest(manifest: Any) -> bytes:
    return blake2b(msgspec.json.encode(manifest), digest_size=16).digest()

"""The load, a process of its own: submits gangs, watches their pods, and prints one JSON line of what it saw.

``python -m tests.bench.load`` reads a ``Request`` as JSON on its standard input. It must neither be the
bottleneck nor take much of the machine, so it is plain aiohttp, and it reads only two fields of each pod.
"""

import asyncio
import base64
import json
import resource
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import aiohttp
import msgspec
import yaml

from tests.bench.documents import NAMESPACE, Form, documents, gang_of

#: Submissions under way at a time.
CONCURRENCY = 32
#: Without a newly bound pod for so long, the round has failed.
PATIENCE_SECONDS = 90.0
#: Between gangs that come one at a time, so that the cluster is idle again.
REST_SECONDS = 0.4
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One round."""

    kubeconfig: str
    form: str
    gangs: int
    size: int
    nodes: list[str] = field(default_factory=list)
    #: The next gang comes when the one before has come and gone.
    one_at_a_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a round looked like from outside."""

    #: Seconds from the first submission to the last bound pod.
    seconds: float
    #: Seconds until the last submission was answered.
    submitting_seconds: float
    #: Seconds from a gang's submission until all its pods were bound.
    latencies: list[float]
    #: CPU seconds of this process.
    cpu_seconds: float


class Stuck(Exception):
    """Pods were not bound any more."""


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel", frozen=True, gc=False):
    node_name: str = ""


class _Pod(msgspec.Struct, gc=False):
    metadata: _Metadata
    spec: _Spec = _Spec()


class _Event(msgspec.Struct, gc=False):
    type: str
    object: _Pod


_EVENT = msgspec.json.Decoder(_Event)


class Bound:
    """Which pods are bound now, and when each gang was whole."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._pods: dict[int, set[str]] = {}
        self.whole: dict[int, float] = {}
        self.count = 0
        self.changed = asyncio.Event()

    def see(self, line: bytes) -> str:
        """Take in a watch event. Returns its resource version."""
        event = _EVENT.decode(line)
        name = event.object.metadata.name
        gang = gang_of(name)
        pods = self._pods.setdefault(gang, set())
        if event.type == "DELETED":
            pods.discard(name)
            self.changed.set()
        elif event.object.spec.node_name and name not in pods:
            pods.add(name)
            self.count += 1
            if len(pods) == self._size:
                self.whole[gang] = monotonic()
            self.changed.set()
        return event.object.metadata.resource_version

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on what is bound. Raises Stuck."""
        while not condition():
            self.changed.clear()
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self.changed.wait()
            except TimeoutError:
                raise Stuck(f"{self.count} pods were bound, {len(self.whole)} gangs whole") from None

    def pods_of(self, gang: int) -> int:
        return len(self._pods.get(gang, ()))


class Load:
    """One round against one API server."""

    def __init__(self, request: Request, session: aiohttp.ClientSession) -> None:
        self._request = request
        self._form = Form(request.form)
        self._session = session
        self._bound = Bound(request.size)
        self._started: dict[int, float] = {}

    async def run(self) -> Seen:
        version = await version_of(self._session, _PODS)
        bound = {"fieldSelector": "spec.nodeName!="}
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(follow(self._session, _PODS, version, self._bound.see, **bound))
            started = monotonic()
            run = self._one_at_a_time if self._request.one_at_a_time else self._all_at_once
            submitted = await run()
            watching.cancel()
        whole = self._bound.whole
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return Seen(
            seconds=max(whole.values()) - started,
            submitting_seconds=submitted - started,
            latencies=[whole[gang] - moment for gang, moment in sorted(self._started.items())],
            cpu_seconds=usage.ru_utime + usage.ru_stime,
        )

    async def _all_at_once(self) -> float:
        numbers = iter(range(self._request.gangs))
        objects = iter(
            (gang, body)
            for gang in numbers
            for body in documents(self._form, gang, self._request.size, self._request.nodes)
        )

        async def submit() -> None:
            for gang, body in objects:
                await self._post(gang, body)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONCURRENCY):
                tasks.create_task(submit())
        submitted = monotonic()
        await self._bound.until(lambda: len(self._bound.whole) == self._request.gangs)
        return submitted

    async def _one_at_a_time(self) -> float:
        for gang in range(self._request.gangs):
            bodies = documents(self._form, gang, self._request.size, self._request.nodes)
            await asyncio.gather(*(self._post(gang, body) for body in bodies))
            submitted = monotonic()
            await self._bound.until(lambda gang=gang: gang in self._bound.whole)  # type: ignore[misc]
            await asyncio.gather(*(self._remove(body["metadata"]["name"]) for body in bodies))
            await self._bound.until(lambda gang=gang: not self._bound.pods_of(gang))  # type: ignore[misc]
            await asyncio.sleep(REST_SECONDS)
        return submitted

    async def _post(self, gang: int, body: dict[str, Any]) -> None:
        data = msgspec.json.encode(body)
        self._started.setdefault(gang, monotonic())
        await send(self._session.post(self._form.collection, data=data))

    async def _remove(self, name: str) -> None:
        options = {"gracePeriodSeconds": "0", "propagationPolicy": "Background"}
        await send(self._session.delete(f"{self._form.collection}/{name}", params=options))


async def send(request: AbstractAsyncContextManager[aiohttp.ClientResponse]) -> None:
    """Send a request that has to succeed. Raises RuntimeError."""
    async with request as answer:
        if answer.status >= 300:
            raise RuntimeError(f"{answer.status} from {answer.url}: {await answer.text()}")
        await answer.read()


async def version_of(session: aiohttp.ClientSession, collection: str) -> str:
    """Resource version of the objects there are now."""
    async with session.get(collection, params={"limit": "1"}) as answer:
        version: str = (await answer.json())["metadata"]["resourceVersion"]
    return version


async def follow(
    session: aiohttp.ClientSession, collection: str, version: str, see: Callable[[bytes], str], **query: str
) -> NoReturn:
    """Give each watch event after a version to ``see``, which returns the event's own version.

    A young API server ends busy watches often: they are taken up again.
    """
    timeout = aiohttp.ClientTimeout(total=None)
    while True:
        params = {"watch": "1", "resourceVersion": version, **query}
        async with session.get(collection, params=params, timeout=timeout) as answer:
            answer.raise_for_status()
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    version = see(line)


@asynccontextmanager
async def connected(kubeconfig: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A session to the API server that a kubeconfig, given as text, names, as its user."""
    config = yaml.safe_load(kubeconfig)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile() as pem:
        for part in ("client-certificate-data", "client-key-data"):
            pem.write(base64.b64decode(user[part]))
        pem.flush()
        tls.load_cert_chain(pem.name)
    async with aiohttp.ClientSession(
        cluster["server"],
        connector=aiohttp.TCPConnector(ssl=tls, limit=0),
        headers={"Content-Type": "application/json", "User-Agent": "muster-bench"},
        read_bufsize=1 << 20,
    ) as session:
        yield session


async def main(request: Request, kubeconfig: str) -> Seen:
    async with connected(kubeconfig) as session:
        return await Load(request, session).run()


if __name__ == "__main__":
    request = Request(**json.load(sys.stdin))
    seen = asyncio.run(main(request, Path(request.kubeconfig).read_text()))
    print(json.dumps(asdict(seen)))

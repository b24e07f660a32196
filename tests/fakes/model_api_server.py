"""An API server at the end of a bad line: requests and answers are under way until the test lets them arrive.

They arrive in any order, late, twice or never, as the test says. What is carried out is carried out by the fake
cluster, at the moment of arrival. ``ModelLoop`` is an event loop with the cluster's clock.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field

from queues.api.api_resources import PODS
from queues.errors import ApiError, ApiUnavailable, Conflict, TooManyRequests
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_objects import NAMESPACE, Document

#: Seconds after which the server has given up every request that is not answered.
REQUEST_TIMEOUT = 60


class ModelLoop(asyncio.SelectorEventLoop):
    """Time passes only by the cluster's clock."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__()
        self._cluster = cluster

    def time(self) -> float:
        return float(self._cluster.now)

    def settle(self) -> None:
        """Run everything that can run now."""
        self.run_until_complete(self._idle())

    async def _idle(self) -> None:
        for _ in range(1000):
            await asyncio.sleep(0)
            if not vars(self)["_ready"]:
                return
        raise AssertionError("the loop never comes to rest")


@dataclass(eq=False, slots=True)
class TravellingRequest:
    """A request, from the moment it is sent until its answer has arrived."""

    method: str
    path: str
    effect: Callable[[], bytes]
    answer: "asyncio.Future[bytes]"
    sent_at: int
    #: It has reached the server: what that says.
    result: bytes | ApiError | None = None

    def carry_out(self) -> None:
        """It reaches the server."""
        try:
            self.result = self.effect()
        except ApiError as error:
            self.result = error


@dataclass(slots=True)
class ModelApiServer:
    """Stands in for ``admission.kube.client.client.Client``."""

    cluster: FakeCluster
    #: Requests that wait for their answer at the same time.
    concurrency: int = 4
    under_way: list[TravellingRequest] = field(default_factory=list)
    #: Nobody waits for their answer any more, and they may still arrive, some of them a second time.
    stray: list[TravellingRequest] = field(default_factory=list)
    _free: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.concurrency)

    # ── what writers ask ────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, path: str) -> bytes:
        return await self._send("GET", path, lambda: json.dumps(self.cluster.named(*_named(path))).encode())

    async def list_metadata(self, path: str, labelSelector: str) -> bytes:  # noqa: N803
        """Pods with one of these values of a label."""
        label, _, values = labelSelector.removesuffix(")").partition(" in (")
        wanted = values.split(",")

        def effect() -> bytes:
            pods = self.cluster.objects["pods"].values()
            found = [pod for pod in pods if pod["metadata"]["labels"].get(label) in wanted]
            return json.dumps({"items": found}).encode()

        return await self._send("GET", path, effect)

    async def create(
        self, path: str, body: bytes, *, brief: bool = False, check_lease: Callable[[], None] | None = None
    ) -> bytes:
        if path.endswith("/eviction"):
            wanted = json.loads(body)["deleteOptions"]["preconditions"]
            return await self.delete(
                path.removesuffix("/eviction"),
                uid=wanted["uid"],
                resource_version=wanted.get("resourceVersion"),
                check_lease=check_lease,
            )
        if path != PODS.path(NAMESPACE):
            return b"{}"  # objects beside the pods

        def effect() -> bytes:
            self.cluster.create_pod(body)
            return b"{}"

        return await self._send("POST", path, effect, check_lease)

    async def patch(
        self,
        path: str,
        body: Document | list[Document],
        *,
        kind: str = "merge",
        brief: bool = False,
        check_lease: Callable[[], None] | None = None,
    ) -> bytes:
        def effect() -> bytes:
            self.cluster.patch(*_named(path), body)
            return b"{}"

        return await self._send("PATCH", path, effect, check_lease)

    async def delete(
        self,
        path: str,
        *,
        uid: str,
        resource_version: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
        check_lease: Callable[[], None] | None = None,
    ) -> bytes:
        def effect() -> bytes:
            pod = self.cluster.named(*_named(path))
            meta = pod["metadata"]
            if meta["uid"] != uid or resource_version not in (None, meta["resourceVersion"]):
                raise Conflict(method="DELETE", path=path, status=409, reason="precondition", code="Conflict")
            self.cluster.delete_pod(uid, grace=grace)
            return json.dumps(pod).encode()

        return await self._send("DELETE", path, effect, check_lease)

    async def _send(
        self,
        method: str,
        path: str,
        effect: Callable[[], bytes],
        check_lease: Callable[[], None] | None = None,
    ) -> bytes:
        async with self._free:
            while True:
                if check_lease is not None:
                    check_lease()
                answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                request = TravellingRequest(method, path, effect, answer, self.cluster.now)
                self.under_way.append(request)
                try:
                    return await answer
                except TooManyRequests:
                    await asyncio.sleep(1)  # the client tries again what certainly did not happen
                finally:
                    if request in self.under_way:
                        self.under_way.remove(request)

    # ── what the line does ──────────────────────────────────────────────────────────────────────────────────────

    def arrive(self, number: int) -> None:
        """A request reaches the server."""
        if waiting := [each for each in self.under_way if each.result is None]:
            waiting[number % len(waiting)].carry_out()

    def reply(self, number: int) -> None:
        """An answer reaches the client."""
        if answered := [each for each in self.under_way if each.result is not None]:
            self._reply(answered[number % len(answered)])

    def _reply(self, request: TravellingRequest) -> None:
        self.under_way.remove(request)
        assert request.result is not None
        if isinstance(request.result, ApiError):
            request.answer.set_exception(request.result)
        else:
            request.answer.set_result(request.result)

    def lose(self, number: int) -> None:
        """The client gives up. If the request has not arrived, it still may."""
        if self.under_way:
            request = self.under_way.pop(number % len(self.under_way))
            error = ApiUnavailable(method=request.method, path=request.path, status=0, reason="no answer")
            request.answer.set_exception(error)
            self.stray.append(request)

    def reject(self, number: int) -> None:
        """The server has too much to do and says so."""
        if waiting := [each for each in self.under_way if each.result is None]:
            request = waiting[number % len(waiting)]
            request.result = TooManyRequests(
                method=request.method, path=request.path, status=429, reason="wait"
            )
            self._reply(request)

    def arrive_late(self, number: int) -> None:
        """A request arrives that nobody waits for, or one that has arrived before."""
        now = self.cluster.now
        self.stray = [each for each in self.stray if each.sent_at > now - REQUEST_TIMEOUT]
        everything = [*self.stray, *(each for each in self.under_way if each.result is not None)]
        if everything:
            request = everything[number % len(everything)]
            if request.sent_at > now - REQUEST_TIMEOUT and request.method != "GET":
                result = request.result
                request.carry_out()
                request.result = result or request.result

    def serve(self) -> None:
        """A good line: everything arrives, in order."""
        for request in list(self.under_way):
            if request.result is None:
                request.carry_out()
            self._reply(request)

    @property
    def is_quiet(self) -> bool:
        return not self.under_way


def _named(path: str) -> tuple[str, str]:
    kind, name = path.split("/")[-2:]
    return kind, name

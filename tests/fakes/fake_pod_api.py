"""The few requests about pods that making them again needs, answered by the fake cluster without ever waiting."""

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from queues.api.api_resources import PODS
from queues.errors import Conflict, NotFound
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_objects import NAMESPACE


@dataclass(slots=True)
class FakePodApi:
    """Stands in for ``admission.kube.client.client.Client``."""

    cluster: FakeCluster
    #: Raised once, by the next request of that method; a request that raises was not carried out …
    failures: dict[str, Exception] = field(default_factory=dict)
    #: … unless its answer was lost.
    lost: dict[str, Exception] = field(default_factory=dict)
    #: Methods, in order.
    requests: list[str] = field(default_factory=list)
    #: Called before the next DELETE is carried out.
    meanwhile: Callable[[], None] | None = None

    async def get(self, path: str) -> bytes:
        self._ask("GET")
        return json.dumps(self._pod(path)).encode()

    async def create(
        self, path: str, body: bytes, *, brief: bool = False, check_lease: Callable[[], None] | None = None
    ) -> bytes:
        self._ask("POST", check_lease)
        assert path == PODS.path(NAMESPACE)
        self.cluster.create_pod(body)
        self._lose("POST")
        return b"{}"

    async def delete(
        self,
        path: str,
        *,
        uid: str,
        resource_version: str,
        grace: int | None = None,
        check_lease: Callable[[], None] | None = None,
    ) -> bytes:
        self._ask("DELETE", check_lease)
        if (change := self.meanwhile) is not None:
            self.meanwhile = None
            change()
        meta = self._pod(path)["metadata"]
        if (meta["uid"], meta["resourceVersion"]) != (uid, resource_version):
            raise Conflict(method="DELETE", path=path, status=409, reason="precondition", code="Conflict")
        self.cluster.delete_pod(uid, grace=grace)
        self._lose("DELETE")
        return b"{}"

    def _pod(self, path: str) -> dict[str, Any]:
        pod = self.cluster.pod_named(path.rpartition("/")[2])
        if pod is None:
            raise NotFound(method="GET", path=path, status=404, reason="not found")
        return pod

    def _ask(self, method: str, check_lease: Callable[[], None] | None = None) -> None:
        if check_lease is not None:
            check_lease()
        self.requests.append(method)
        if (failure := self.failures.pop(method, None)) is not None:
            raise failure

    def _lose(self, method: str) -> None:
        if (failure := self.lost.pop(method, None)) is not None:
            raise failure


def done(step: Coroutine[Any, Any, None]) -> None:
    """Carry out a step that never waits, from wherever."""
    try:
        step.send(None)
    except StopIteration:
        return
    raise AssertionError("a step waits for something else than the fake API")

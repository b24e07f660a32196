"""The few requests about pods and Jobs that the writers make, answered by the fake cluster without ever waiting."""

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from queues.api.api_resources import PODS
from queues.errors import Conflict
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_objects import NAMESPACE, Document


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

    async def get(self, path: str, **query: str) -> bytes:
        self._ask("GET")
        if (selector := query.get("fieldSelector")) is not None:
            named = selector.removeprefix("metadata.name=")
            kind = path.rpartition("/")[2]
            found = [
                each for each in self.cluster.objects[kind].values() if each["metadata"]["name"] == named
            ]
            return json.dumps({"items": found}).encode()
        return json.dumps(self.cluster.named(*_named(path))).encode()

    async def create(
        self, path: str, body: bytes, *, brief: bool = False, check_lease: Callable[[], None] | None = None
    ) -> bytes:
        if path.endswith("/eviction"):
            document = json.loads(body)
            assert document["kind"] == "Eviction"
            wanted = document["deleteOptions"]["preconditions"]
            return await self.delete(
                path.removesuffix("/eviction"),
                uid=wanted["uid"],
                resource_version=wanted.get("resourceVersion"),
                check_lease=check_lease,
            )
        self._ask("POST", check_lease)
        assert path == PODS.path(NAMESPACE)
        self.cluster.create_pod(body)
        self._lose("POST")
        return b"{}"

    async def patch(
        self,
        path: str,
        body: Document | list[Document],
        *,
        kind: str = "merge",
        brief: bool = False,
        check_lease: Callable[[], None] | None = None,
    ) -> bytes:
        self._ask("PATCH", check_lease)
        assert kind == ("json" if isinstance(body, list) else "merge")
        self.cluster.patch(*_named(path), body)
        self._lose("PATCH")
        return b"{}"

    async def delete(
        self,
        path: str,
        *,
        uid: str,
        resource_version: str | None = None,
        grace: int | None = None,
        check_lease: Callable[[], None] | None = None,
    ) -> bytes:
        self._ask("DELETE", check_lease)
        if (change := self.meanwhile) is not None:
            self.meanwhile = None
            change()
        pod = self.cluster.named(*_named(path))
        meta = pod["metadata"]
        if meta["uid"] != uid or resource_version not in (None, meta["resourceVersion"]):
            raise Conflict(method="DELETE", path=path, status=409, reason="precondition", code="Conflict")
        self.cluster.delete_pod(uid, grace=grace)
        self._lose("DELETE")
        return json.dumps(pod).encode()

    def _ask(self, method: str, check_lease: Callable[[], None] | None = None) -> None:
        if check_lease is not None:
            check_lease()
        self.requests.append(method)
        if (failure := self.failures.pop(method, None)) is not None:
            raise failure

    def _lose(self, method: str) -> None:
        if (failure := self.lost.pop(method, None)) is not None:
            raise failure


def _named(path: str) -> tuple[str, str]:
    """Kind and name of an object's path."""
    kind, name = path.split("/")[-2:]
    return kind, name


def done(step: Coroutine[Any, Any, Any]) -> Any:
    """Carry out a step that never waits, from wherever; what it returns."""
    try:
        step.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a step waits for something else than the fake API")

"""The few requests about pods and Jobs that the writers make, answered by the fake cluster without ever waiting."""

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.model_api_server import ModelApiServer


@dataclass(slots=True)
class FakePodApi(ModelApiServer):
    """An API server at the end of a line on which nothing is ever under way."""

    #: Raised once, by the next request of that method; a request that raises was not carried out …
    failures: dict[str, Exception] = field(default_factory=dict)
    #: … unless its answer was lost.
    lost: dict[str, Exception] = field(default_factory=dict)
    #: Methods, in order.
    requests: list[str] = field(default_factory=list)
    #: Called before the next DELETE is carried out.
    meanwhile: Callable[[], None] | None = None

    async def get(self, path: str, **query: str) -> bytes:
        if (selector := query.get("fieldSelector")) is None:
            return await ModelApiServer.get(self, path)
        named, objects = (
            selector.removeprefix("metadata.name="),
            self.cluster.objects[path.rpartition("/")[2]],
        )

        def effect() -> bytes:
            found = [each for each in objects.values() if each["metadata"]["name"] == named]
            return json.dumps({"items": found}).encode()

        return await self._send("GET", path, effect)

    async def _send(
        self,
        method: str,
        path: str,
        effect: Callable[[], bytes],
        check_lease: Callable[[], None] | None = None,
    ) -> bytes:
        if check_lease is not None:
            check_lease()
        self.requests.append(method)
        if (failure := self.failures.pop(method, None)) is not None:
            raise failure
        if method == "DELETE" and (change := self.meanwhile) is not None:
            self.meanwhile = None
            change()
        answer = effect()
        if (failure := self.lost.pop(method, None)) is not None:
            raise failure
        return answer


def done(step: Coroutine[Any, Any, Any]) -> Any:
    """Carry out a step that never waits, from wherever; what it returns."""
    try:
        step.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a step waits for something else than the fake API")

"""An API server in memory with the methods of the agent's client, and faults that a test asks for."""

import copy
import itertools
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from admission.agent.cluster.api_client import ObjectEvent
from queues.errors import ApiUnavailable, Conflict, NotFound
from tests.fakes.fake_objects import merged


class AgentApi:
    """Objects by path. ``writes`` keeps what was asked to be written, whether it was refused or not."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[tuple[str, str, Any]] = []
        self.reads: list[str] = []
        #: Raised by the next requests, one each; None: that one succeeds.
        self.faults: deque[Exception | None] = deque()
        #: What the next watches tell; without one left they end at once.
        self.watches: deque[list[ObjectEvent | Exception]] = deque()
        self.watched: list[str] = []
        self._versions = itertools.count(1)

    def put(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Somebody else writes an object."""
        stored = copy.deepcopy(dict(document))
        stored.setdefault("metadata", {})["resourceVersion"] = str(next(self._versions))
        self.objects[path] = stored
        return copy.deepcopy(stored)

    def get(self, path: str) -> dict[str, Any]:
        self.reads.append(path)
        self._fail()
        if path not in self.objects:
            raise NotFound(method="GET", path=path, status=404, reason="not found")
        return copy.deepcopy(self.objects[path])

    def create(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        self.writes.append(("POST", path, copy.deepcopy(document)))
        self._fail()
        place = f"{path}/{document['metadata']['name']}"
        if place in self.objects:
            raise Conflict(method="POST", path=path, status=409, reason="already exists")
        return self.put(place, document)

    def replace(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        self.writes.append(("PUT", path, copy.deepcopy(document)))
        self._fail()
        if path not in self.objects:
            raise NotFound(method="PUT", path=path, status=404, reason="not found")
        if document["metadata"].get("resourceVersion") != self.objects[path]["metadata"]["resourceVersion"]:
            raise Conflict(method="PUT", path=path, status=409, reason="has been modified")
        return self.put(path, document)

    def merge(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        self.writes.append(("PATCH", path, copy.deepcopy(patch)))
        self._fail()
        if path not in self.objects:
            raise NotFound(method="PATCH", path=path, status=404, reason="not found")
        return self.put(path, merged(self.objects[path], patch))

    def watch(self, path: str, *, version: str, seconds: int, **_: Any) -> Iterator[ObjectEvent]:
        self.watched.append(version)
        self._fail()
        for each in self.watches.popleft() if self.watches else []:
            if isinstance(each, Exception):
                raise each
            yield each

    def _fail(self) -> None:
        fault = self.faults.popleft() if self.faults else None
        if fault is not None:
            raise fault


def unavailable() -> ApiUnavailable:
    return ApiUnavailable(method="PUT", path="/", status=503, reason="not now")

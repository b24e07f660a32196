"""Objects at an API server, by path: what the client is asked to read, create, merge and delete, without waiting."""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from queues.errors import ApiError, Conflict, NotFound
from queues.text_format import rfc3339
from tests.fakes.fake_objects import merged

Document = dict[str, Any]


class FakeDocuments:
    """Stands in for ``admission.kube.client.client.Client``. Versions are one sequence, as in etcd."""

    def __init__(self, documents: Mapping[str, Document], clock: Callable[[], int] = lambda: 0) -> None:
        """``clock``: seconds since the epoch, for what is created."""
        self._clock = clock
        self.documents = {path: copy.deepcopy(document) for path, document in documents.items()}
        self.writes: list[tuple[str, str]] = []
        #: Raised by the next write to this path.
        self.failures: dict[str, ApiError] = {}
        self._version = 0
        for document in self.documents.values():
            self._changed(document)

    def _changed(self, document: Document) -> None:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)

    async def get(self, path: str) -> bytes:
        return json.dumps(self._at("GET", path)).encode()

    async def create(
        self, path: str, body: Document, *, brief: bool = False, check_lease: Any = None
    ) -> bytes:
        self._write("POST", path, check_lease)
        place = f"{path}/{body['metadata']['name']}"
        if place in self.documents:
            raise Conflict(method="POST", path=path, status=409, reason="there", code="AlreadyExists")
        document = self.documents[place] = copy.deepcopy(body)
        document["metadata"].setdefault("uid", f"uid-{self._version}")
        document["metadata"]["creationTimestamp"] = rfc3339(self._clock())
        self._changed(document)
        return json.dumps(document).encode()

    async def patch(
        self, path: str, body: Document, *, check_lease: Callable[[], None] | None = None
    ) -> bytes:
        self._write("PATCH", path, check_lease)
        document = self._at("PATCH", path)
        asked = body["metadata"].get("resourceVersion")
        if asked not in (None, document["metadata"]["resourceVersion"]):
            raise Conflict(method="PATCH", path=path, status=409, reason="another version")
        self.documents[path] = document = merged(document, body)
        self._changed(document)
        return json.dumps(document).encode()

    async def delete(self, path: str, *, propagation: str = "", check_lease: Any = None) -> bytes:
        self._write("DELETE", path, check_lease)
        self._at("DELETE", path)
        del self.documents[path]
        return b"{}"

    def _at(self, method: str, path: str) -> Document:
        if path not in self.documents:
            raise NotFound(method=method, path=path, status=404, reason="gone")
        return self.documents[path]

    def _write(self, method: str, path: str, check_lease: Callable[[], None] | None) -> None:
        assert check_lease is not None, "a write without a look at the lease"
        check_lease()
        if (failure := self.failures.pop(path, None)) is not None:
            raise failure
        self.writes.append((method, path))

"""A list and then a watch, for as long as the agent runs: of the agent's Node, and of the pods on it.

What an object says is reduced to a value when it comes in, and objects are listed in pages: no more than a few of them
are in memory at any time.
"""

import random
import threading
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from admission.agent.cluster.api_client import ApiClient, ObjectEvent
from admission.agent.cluster.backoff import RetryBackoff
from queues.api.api_resources import Document
from queues.errors import ApiError, Gone

Value = TypeVar("Value")

#: Seconds that a watch lasts: drawn anew each time, so that those that began together do not end together.
_LASTS: Final = (300, 600)
#: Objects of a page.
_PAGE: Final = 50
#: Seconds between the end of a watch and the next one.
_BETWEEN: Final = (0.05, 0.5)


class ObjectWatch(Generic[Value]):
    """The objects that a field selector names, by uid, as values. Only their metadata is read.

    ``value``: what an object comes down to, None to leave it out.
    ``changed`` is called, in the thread of the watch, after each change of a value. A new mapping is made for each
    change, so a caller that holds one may iterate over it.
    """

    def __init__(
        self,
        client: ApiClient,
        path: str,
        selector: str,
        *,
        value: Callable[[Document], Value | None],
        changed: Callable[[], None],
        rng: random.Random,
    ) -> None:
        self._client = client
        self._path = path
        self._selector = selector
        self._value = value
        self._changed = changed
        self._rng = rng
        #: None while they are not listed.
        self.objects: Mapping[str, Value] | None = None

    def run(self, stop: threading.Event) -> None:
        """List and watch until ``stop``. While that fails, what was seen last counts."""
        backoff = RetryBackoff(f"watching {self._path}", self._rng)
        while not stop.is_set():
            try:
                self.follow(self.list(), stop, backoff.succeeded)
            except Gone:
                # Listed again; with a pause, should the API server say so each time.
                stop.wait(backoff.pause())
            except ApiError as error:
                stop.wait(backoff.failed(error))

    def list(self) -> str:
        """Read all objects; the resource version they are of. Raises ApiError."""
        found: dict[str, Value] = {}
        page: dict[str, str] = {}
        while True:
            listed = self._client.list(self._path, fieldSelector=self._selector, limit=str(_PAGE), **page)
            # Of metadata the API server says null where there are none.
            for each in listed["items"] or ():
                self._put(found, each)
            if not (rest := listed["metadata"].get("continue")):
                self._keep(found)
                return str(listed["metadata"]["resourceVersion"])
            page = {"continue": rest}

    def follow(self, version: str, stop: threading.Event, progress: Callable[[], None]) -> None:
        """Watch again and again, each time from where the last one ended. Raises ApiError."""
        while not stop.is_set():
            seconds = self._rng.randint(*_LASTS)
            events = self._client.watch(
                self._path,
                version=version,
                seconds=seconds,
                fieldSelector=self._selector,
            )
            for event in events:
                version = str(event.object["metadata"]["resourceVersion"])
                self._apply(event)
                progress()
            # An API server that ends each watch at once is not asked without a pause.
            stop.wait(self._rng.uniform(*_BETWEEN))

    def _apply(self, event: ObjectEvent) -> None:
        if event.type == "BOOKMARK":
            return
        known = dict(self.objects or {})
        known.pop(event.object["metadata"]["uid"], None)
        if event.type != "DELETED":
            self._put(known, event.object)
        self._keep(known)

    def _put(self, objects: dict[str, Value], document: Document) -> None:
        value = self._value(document)
        if value is not None:
            objects[document["metadata"]["uid"]] = value

    def _keep(self, objects: Mapping[str, Value]) -> None:
        before, self.objects = self.objects, objects
        if objects != before:
            self._changed()

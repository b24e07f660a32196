"""What the agent knows of its Node and of the pods on it, by a watch each, in a thread each.

What an object says is reduced to a value when it comes in, and objects are listed in pages: no more than a few of them
are in memory at any time.
"""

import json
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from admission.agent.cluster.api_client import ApiClient, ObjectEvent
from admission.agent.cluster.backoff import RetryBackoff
from admission.agent.pod_info import PodInfo, pod_info
from queues.api.api_resources import NODES, PODS, Document
from queues.api.names import GPU_UNHEALTHY, RECOVERY
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


#: Pods that have ended use nothing any more; when one ends, the watch shows it as deleted.
_LIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedNode:
    """The agent's Node."""

    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    #: What a person says of its devices (``muster.dev/gpu-unhealthy``). None if that is nothing.
    mark: str | None = None
    #: A Job may recover the node now (``muster.dev/recovery``).
    is_recovered: bool = False


class NodeWatch:
    """The agent's Node, and the pods on it. ``changed`` is called after each change, by the watches' threads."""

    def __init__(
        self, client: ApiClient, node: str, *, changed: Callable[[], None], rng: random.Random
    ) -> None:
        self._nodes = ObjectWatch(
            client,
            NODES.path(),
            f"metadata.name={node}",
            value=watched_node,
            changed=changed,
            rng=rng,
        )
        self._pods = ObjectWatch(
            client,
            PODS.path(),
            f"spec.nodeName={node},{_LIVE}",
            value=pod_info,
            changed=changed,
            rng=rng,
        )

    @property
    def node(self) -> WatchedNode | None:
        """The Node. None if it is not known yet, or does not exist."""
        return next(iter((self._nodes.objects or {}).values()), None)

    @property
    def pods(self) -> Mapping[str, PodInfo] | None:
        """Live pods of the Node, by uid. None while they are not known."""
        return self._pods.objects

    def threads(self, stop: threading.Event) -> list[threading.Thread]:
        """The threads of the watches, not started. They do not keep the process from ending."""
        return [
            threading.Thread(target=watch.run, args=(stop,), name=name, daemon=True)
            for name, watch in (("node watch", self._nodes), ("pod watch", self._pods))
        ]


def watched_node(document: Document) -> WatchedNode:
    """What the agent needs of its Node."""
    metadata = document["metadata"]
    return WatchedNode(
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        mark=(metadata.get("annotations") or {}).get(GPU_UNHEALTHY),
        is_recovered=_is_recovered((metadata.get("annotations") or {}).get(RECOVERY, "")),
    )


def _is_recovered(text: str) -> bool:
    try:
        told = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and told.get("phase") == "recovering"

"""Every version of every object of some kinds on a real API server, by watches without gaps."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.client import LocalClient
from queues.api.api_resources import ApiResource
from queues.errors import ApiError
from tests.chaos.cluster.store import history_name
from tests.chaos.history import Document, ObjectChange


@dataclass(slots=True)
class ObjectWatch:
    """Watches in threads of their own; after a break each goes on at its last version."""

    kubeconfig: Path
    #: The moment 0 of the history, of the monotonic clock.
    began: float
    changes: list[ObjectChange] = field(default_factory=list)
    #: As they are now, by kind and uid.
    objects: dict[str, dict[str, Document]] = field(default_factory=dict)
    #: Why the history has a gap; "": it has none.
    gap: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, kinds: Sequence[ApiResource]) -> None:
        """Watch from now on. What is there already is not told."""
        with LocalClient(self.kubeconfig) as api:
            for kind in kinds:
                listed = api.get(f"{kind.path()}?limit=1")["metadata"]["resourceVersion"]
                threading.Thread(
                    target=self._follow, args=(kind, listed), daemon=True, name=f"watch {kind.plural}"
                ).start()

    def stop(self) -> None:
        self._stop.set()

    def history(self) -> tuple[ObjectChange, ...]:
        """In the order of their versions."""
        with self._lock:
            return tuple(sorted(self.changes, key=lambda change: change.number))

    def current(self, kind: ApiResource) -> list[Document]:
        with self._lock:
            return list(self.objects.get(history_name(kind), {}).values())

    def _follow(self, kind: ApiResource, version: str) -> None:
        while not self._stop.is_set() and not self.gap:
            with LocalClient(self.kubeconfig, timeout=120) as api:
                try:
                    query = f"watch=true&resourceVersion={version}&allowWatchBookmarks=true"
                    for event in api.watch(f"{kind.path()}?{query}"):
                        if event["type"] == "ERROR":
                            self.gap = f"{kind.plural}: {event['object'].get('message')}"
                            return
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            self._take(kind, event)
                except (ApiError, ValueError):
                    self._stop.wait(0.1)

    def _take(self, kind: ApiResource, event: Document) -> None:
        document, name = event["object"], history_name(kind)
        meta = document["metadata"]
        writer = _writer(meta.pop("managedFields", None) or ())
        change = ObjectChange(
            number=int(meta["resourceVersion"]),
            at=time.monotonic() - self.began,
            resource=name,
            change=event["type"],
            document=document,
            writer=writer,
        )
        with self._lock:
            self.changes.append(change)
            if event["type"] == "DELETED":
                self.objects.get(name, {}).pop(meta["uid"], None)
            else:
                self.objects.setdefault(name, {})[meta["uid"]] = document


def _writer(fields: Sequence[Document]) -> str:
    """The replica that wrote last, as far as its manager says; "": unknown, or nobody of Muster."""
    last = max(fields, key=lambda each: str(each.get("time", "")), default=None)
    return str(last["manager"]) if last is not None and str(last["manager"]).startswith("replica-") else ""

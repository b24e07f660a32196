"""Every version of every object of some kinds on a real API server, without gaps.

A watch that breaks goes on at its last version. Where the API server has forgotten that (410: its cache begins anew
with every start), the versions in between are listed one by one, as etcd still has them for some minutes: what differs
between two neighbours is one change. Where that fails too the history has a gap, and proves nothing.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from deploy.local.client import LocalClient
from queues.api.api_resources import ApiResource
from queues.errors import ApiError, ApiUnavailable
from tests.chaos.cluster.store import history_name
from tests.chaos.history import ChangeKind, Document, ObjectChange

#: HTTP's word for a version that is forgotten.
_GONE: Final = 410
#: Versions that are listed one by one, at most.
_MOST: Final = 3000
#: Seconds between attempts.
_PAUSE: Final = 0.1


class HistoryGap(Exception):
    """Changes were missed, so that the run proves nothing."""


@dataclass(slots=True)
class ObjectWatch:
    """Watches in threads of their own."""

    kubeconfig: Path
    #: The moment 0 of the history, of the monotonic clock.
    began: float
    changes: list[ObjectChange] = field(default_factory=list)
    #: As they are now, by kind and uid.
    objects: dict[str, dict[str, Document]] = field(default_factory=dict)
    #: Why the history has a gap; "": it has none.
    gap: str = ""
    #: Kinds (plural) of which changes are being caught up with.
    behind: set[str] = field(default_factory=set)
    #: When (of the monotonic clock) each kind was heard of last.
    _heard: dict[str, float] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, kinds: Sequence[ApiResource]) -> None:
        """Watch from now on. What is there already is not told."""
        for kind in kinds:
            # With a limit it is read from etcd: for new kinds the API server has no cache yet.
            listed = self._listed(kind, "limit=1000")
            known = {each["metadata"]["uid"]: _as_watched(kind, each) for each in listed["items"]}
            self.objects[history_name(kind)] = known
            threading.Thread(
                target=self._follow,
                args=(kind, int(listed["metadata"]["resourceVersion"])),
                daemon=True,
                name=f"watch {kind.plural}",
            ).start()

    def stop(self) -> None:
        self._stop.set()

    def check(self) -> None:
        """Raises HistoryGap."""
        if self.gap:
            raise HistoryGap(self.gap)

    def history(self) -> tuple[ObjectChange, ...]:
        """In the order of their versions."""
        with self._lock:
            return tuple(sorted(self.changes, key=lambda change: change.number))

    def current(self, kind: ApiResource) -> list[Document]:
        with self._lock:
            return list(self.objects.get(history_name(kind), {}).values())

    def _follow(self, kind: ApiResource, version: int) -> None:
        try:
            while not self._stop.is_set():
                with LocalClient(self.kubeconfig, timeout=120) as api:
                    version, is_forgotten = self._watch(api, kind, version)
                if is_forgotten:
                    self.behind.add(kind.plural)
                    version = self.catch_up(kind, version)
                    self.behind.discard(kind.plural)
                self._stop.wait(_PAUSE)
        except Exception as error:  # a thread that ends is a gap as well
            self.gap = f"{kind.plural}: {error or type(error).__name__}"

    def _watch(self, api: LocalClient, kind: ApiResource, version: int) -> tuple[int, bool]:
        """One watch to its end: the last version, and whether there is no watch from there any more."""
        query = f"watch=true&resourceVersion={version}&allowWatchBookmarks=true"
        try:
            for event in api.watch(f"{kind.path()}?{query}"):
                if event["type"] == "ERROR":
                    return version, event["object"].get("code") == _GONE
                version = int(event["object"]["metadata"]["resourceVersion"])
                if event["type"] != "BOOKMARK":
                    self.take(kind, event["type"], event["object"])
        except (ApiError, ValueError) as error:
            return version, isinstance(error, ApiError) and error.facts.get("status") == _GONE
        return version, False

    # ── without a watch ─────────────────────────────────────────────────────────────────────────────────────────

    def catch_up(self, kind: ApiResource, version: int) -> int:
        """Take in all that has changed after a version; the version up to which that is done. Raises HistoryGap."""
        now = int(self._listed(kind, "limit=1")["metadata"]["resourceVersion"])
        if now - version > _MOST:
            raise HistoryGap(f"{now - version} versions were missed")
        late = time.monotonic() - self._heard.get(history_name(kind), self.began)
        for number in range(version + 1, now + 1):
            query = f"resourceVersion={number}&resourceVersionMatch=Exact"
            self.take_list(kind, number, self._listed(kind, query)["items"], late)
        return now

    def _listed(self, kind: ApiResource, query: str) -> Any:
        """A list. Raises HistoryGap: that version of it is gone for good."""
        while True:
            try:
                with LocalClient(self.kubeconfig) as api:
                    return api.get(f"{kind.path()}?{query}")
            except ApiUnavailable:
                pass  # it is being restarted
            except ApiError as error:
                if error.facts.get("status") == _GONE:
                    raise HistoryGap(f"the API server has forgotten a version: {error}") from error
            if self._stop.wait(_PAUSE):
                raise HistoryGap("the run ended before it was closed")

    def take_list(self, kind: ApiResource, number: int, items: Sequence[Document], late: float = 0.0) -> None:
        """All objects of a kind as they were at the version after the one that was taken in last."""
        known = self.objects.setdefault(history_name(kind), {})
        for item in items:
            before = known.get(item["metadata"]["uid"])
            if before is None:
                self.take(kind, "ADDED", _as_watched(kind, item), late)
            elif before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self.take(kind, "MODIFIED", _as_watched(kind, item), late)
        for uid in known.keys() - {item["metadata"]["uid"] for item in items}:
            last = known[uid]
            meta = {**last["metadata"], "resourceVersion": str(number)}
            self.take(kind, "DELETED", {**last, "metadata": meta}, late)

    def take(self, kind: ApiResource, change: ChangeKind, document: Document, late: float = 0.0) -> None:
        """One change, the next one of this kind. ``late``: seconds by which it may have happened earlier."""
        name, meta = history_name(kind), document["metadata"]
        writer = _writer(meta.pop("managedFields", None) or ())
        made = ObjectChange(
            number=int(meta["resourceVersion"]),
            at=time.monotonic() - self.began,
            resource=name,
            change=change,
            document=document,
            writer=writer,
            late=late,
        )
        with self._lock:
            self.changes.append(made)
            self._heard[name] = time.monotonic()
            if change == "DELETED":
                self.objects.get(name, {}).pop(meta["uid"], None)
            else:
                self.objects.setdefault(name, {})[meta["uid"]] = document


def _as_watched(kind: ApiResource, item: Document) -> Document:
    """An item of a list, which does not say of what kind it is."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **item}


def _writer(fields: Sequence[Document]) -> str:
    """The replica that wrote last, as far as its manager says; "": unknown, or not Muster."""
    last = max(fields, key=lambda each: str(each.get("time", "")), default=None)
    return str(last["manager"]) if last is not None and str(last["manager"]).startswith("replica-") else ""

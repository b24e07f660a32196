"""Every watch event of pods since the watch began: the proof that something never happened."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from deploy.local.client import LocalClient
from queues.errors import ApiError, MusterError


class HistoryIncomplete(MusterError):
    """The watch of the pods has a gap after resource version {version}: {reason}. It proves nothing any more."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One watch event of one pod."""

    kind: str
    pod: dict[str, Any]
    #: When the event arrived, by ``time.monotonic``.
    at: float

    @property
    def name(self) -> str:
        """``namespace/name``."""
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    @property
    def node(self) -> str | None:
        """The node that the pod is bound to."""
        node: str | None = self.pod["spec"].get("nodeName")
        return node

    @property
    def phase(self) -> str:
        """Phase of the pod's status."""
        phase: str = self.pod.get("status", {}).get("phase", "")
        return phase

    @property
    def admission(self) -> str:
        """The id of the admission that holds the pod's seat. Empty: none."""
        return str(self.pod["metadata"].get("annotations", {}).get("muster.dev/admission-id", ""))


@dataclass(slots=True)
class PodHistory:
    """A watch of all pods in its own thread. It has no gaps: after a break it continues at the last version."""

    kubeconfig: Path
    _moments: list[Moment] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _version: str = ""
    _gap: str | None = None

    def __enter__(self) -> Self:
        with LocalClient(self.kubeconfig) as api:
            self._version = api.get("/api/v1/pods?limit=1")["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, daemon=True, name="pod history").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    @property
    def moments(self) -> list[Moment]:
        """All events, in the order of their resource versions. Raises HistoryIncomplete."""
        if self._gap is not None:
            raise HistoryIncomplete(version=self._version, reason=self._gap)
        return list(self._moments)

    def of(self, namespace: str, prefix: str = "") -> list[Moment]:
        """Events of the pods of a namespace with this prefix in their names, in order."""
        return [moment for moment in self.moments if moment.name.startswith(f"{namespace}/{prefix}")]

    def bound(self, namespace: str, prefix: str = "") -> dict[str, str]:
        """Pods that were ever bound, with their nodes."""
        return {moment.name: moment.node for moment in self.of(namespace, prefix) if moment.node}

    def ever(self, namespace: str, prefix: str, test: Callable[[Moment], bool]) -> bool:
        """True if a condition ever held."""
        return any(test(moment) for moment in self.of(namespace, prefix))

    def _follow(self) -> None:
        while not self._stop.is_set() and self._gap is None:
            with LocalClient(self.kubeconfig) as api:
                try:
                    self._listen(api)
                except (ApiError, ValueError):
                    self._stop.wait(0.2)

    def _listen(self, api: LocalClient) -> None:
        query = f"watch=true&resourceVersion={self._version}&allowWatchBookmarks=true"
        for event in api.watch(f"/api/v1/pods?{query}"):
            if event["type"] == "ERROR":
                self._gap = str(event["object"].get("message", event["object"]))
                return
            self._version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self._moments.append(Moment(event["type"], event["object"], time.monotonic()))

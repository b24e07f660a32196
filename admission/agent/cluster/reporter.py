"""What the agent writes: the Device object of its node, labels of its Node, Events about pods.

Each is written only if it differs from what the API server has, and at most one of them in a second: whatever changes
in between is written with the next one. An update names the version that it changes; if another writer was faster,
the object is read and compared again. A failed write is tried again for ever, with the newest state.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.agent.cluster.api_client import ApiClient
from admission.agent.cluster.backoff import RetryBackoff
from admission.agent.device_object import difference
from queues.api.api_resources import DEVICES, NODES, Document
from queues.api.names import AGENT_NODE_LABELS
from queues.errors import ApiError, ApiUnavailable, Conflict, NotFound

logger = logging.getLogger(__name__)

#: Seconds between two writes.
PACE: Final = 1.0
#: Seconds after which the Device is read again although nothing changes here: a user may have deleted it.
_LOOK_AGAIN: Final = 300.0
#: Seconds in which the watch of the Node shows the labels that were just written.
_SETTLES: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the API server is to have."""

    #: The Device. None if the node has no devices, and never had any.
    device: Document | None
    #: The Node's labels about devices; the value None is for a label that it does not have.
    labels: Mapping[str, str | None]
    #: All labels that the Node has, as it was seen last.
    node_labels: Mapping[str, str]


class Reporter:
    """Writes the reports of one agent, in a thread of its own."""

    def __init__(self, client: ApiClient, node: str, *, rng: random.Random) -> None:
        self._client = client
        self._node = node
        self._rng = rng
        self._backoff = RetryBackoff(f"writing device/{node}", rng)
        self._lock = threading.Lock()
        self._offered = threading.Event()
        self._report: Report | None = None
        #: The Device as the API server had it last, if it is known. None if there is none.
        self._stored: Document | None = None
        self._known = False
        self._look_at = 0.0
        self._not_before = 0.0
        #: What was written last: an API server that keeps something else is not asked again for the same.
        self._written: tuple[Document, str] | None = None
        self._labelled: tuple[Mapping[str, str | None], float] | None = None
        self._failing = False
        #: How often the Device that was there was found to be deleted.
        self.deletions = 0
        #: Writes by what was written: for the metrics.
        self.writes: dict[str, int] = {}

    def load(self, now: float) -> Document | None:
        """The Device as the API server has it, None if there is none. Raises ApiError. ``now``: monotonic seconds."""
        try:
            self._stored = self._client.get(DEVICES.path(name=self._node))
        except NotFound:
            self.deletions += self._stored is not None
            self._stored = None
        self._known = True
        # Spread: agents that began together do not look together.
        self._look_at = now + _LOOK_AGAIN * self._rng.uniform(0.8, 1.2)
        return self._stored

    def offer(self, report: Report) -> None:
        """Have this written instead of whatever was offered before."""
        with self._lock:
            if report == self._report:
                return
            self._report = report
        self._offered.set()

    def run(self, stop: threading.Event, clock: Callable[[], float] = time.monotonic) -> None:
        """Write until ``stop``."""
        while not stop.is_set():
            self._offered.clear()
            pause = self.step(clock())
            if pause <= PACE or self._failing:
                stop.wait(pause)
            else:
                self._offered.wait(pause)

    def wake(self) -> None:
        """Have ``run`` look at once."""
        self._offered.set()

    def step(self, now: float) -> float:
        """Write the first thing that is due, if any; seconds until the next look. ``now``: monotonic seconds.

        Never raises for an answer of the API server, or none.
        """
        if now < self._not_before:
            return self._not_before - now
        with self._lock:
            report = self._report
        if report is None:
            return _LOOK_AGAIN
        try:
            wrote = self._write(report, now)
        except Conflict as conflict:
            logger.debug("read again: %s", conflict)
            self._known = False
            pause = PACE * self._rng.uniform(0.5, 1.0)
            self._not_before = now + pause
            return pause
        except ApiError as error:
            return self._failed(error, now)
        self._failing = False
        self._backoff.succeeded()
        if not wrote:
            return max(self._look_at - now, PACE)
        self.writes[wrote] = self.writes.get(wrote, 0) + 1
        self._not_before = now + PACE
        return PACE

    def _failed(self, error: ApiError, now: float) -> float:
        self._failing = True
        # Whether an unanswered write was carried out is not known.
        self._known = self._known and not isinstance(error, ApiUnavailable | NotFound)
        pause = self._backoff.failed(error)
        self._not_before = now + pause
        return pause

    def _write(self, report: Report, now: float) -> str:
        """What was written, in one word; "": everything is as it is to be. Raises ApiError."""
        if not self._known or now >= self._look_at:
            self.load(now)
        if self._write_device(report):
            return "device"
        return "node" if self._write_labels(report, now) else ""

    def _write_device(self, report: Report) -> bool:
        if report.device is None:
            return False
        document = difference(self._stored, report.device)
        version = "" if self._stored is None else str(self._stored["metadata"]["resourceVersion"])
        if document is None or self._written == (report.device, version):
            return False
        if self._stored is None:
            self._stored = self._client.create(DEVICES.path(), document)
        else:
            self._stored = self._client.replace(DEVICES.path(name=self._node), document)
        self._written = report.device, str(self._stored["metadata"]["resourceVersion"])
        return True

    def _write_labels(self, report: Report, now: float) -> bool:
        changes = label_changes(report.node_labels, report.labels)
        if self._labelled is not None and self._labelled[0] == changes and now < self._labelled[1]:
            return False
        if changes:
            self._client.merge(NODES.path(name=self._node), {"metadata": {"labels": changes}})
            self._labelled = changes, now + _SETTLES
        return bool(changes)


def label_changes(labels: Mapping[str, str], wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    """The agent's labels of a Node that are to change; the value None is for a label to remove."""
    return {key: wanted.get(key) for key in AGENT_NODE_LABELS if labels.get(key) != wanted.get(key)}

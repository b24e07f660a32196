"""The agent of one node: a loop that takes what its watches have seen and says what the API server is to have.

Its threads. No thread waits for another one:

- for each vendor one that reads its devices, and waits for their events in between (``device_watch``);
- one that watches the Node, one that watches its pods (``node_watch``);
- one that writes (``reporter``), and one that renews the lease (``heartbeat``);
- the main thread, which runs the loop.

A call into a vendor's library may hang, and mostly does so because of a broken device. Only the thread in that call
stands still: events that came before are reported, the lease is renewed, metrics are served. After ``hang_seconds``
without an answer the devices of that vendor are reported as lost, as they are to any program that uses them; the first
answer ends that. Where a library has not answered once since the start, or is not there (the driver may still be
starting), these are the devices reported before. One of these that the library does not have any more is lost too.
"""

import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from admission.agent.allocations import Allocation, allocations
from admission.agent.cgroups import pod_of_process
from admission.agent.cluster.api_client import ApiClient
from admission.agent.cluster.backoff import RetryBackoff
from admission.agent.cluster.heartbeat import LeaseHeartbeat
from admission.agent.cluster.node_watch import NodeWatch, WatchedNode
from admission.agent.cluster.reporter import Report, Reporter
from admission.agent.device_object import device_document, node_labels, with_load
from admission.agent.device_watch import DeviceWatch, Seen
from admission.agent.health import DeviceHealth, HealthState, assess
from admission.agent.kubelet.checkpoint import (
    CHECKPOINT,
    CheckpointUnreadable,
    KubeletDevices,
    kubelet_devices,
)
from admission.agent.kubelet.registered_resources import (
    offered_devices,
    registered_resources,
    unusual_resources,
)
from admission.agent.load import LoadState
from admission.agent.metrics import AgentMetrics, NodeObservation
from admission.agent.readings import DeviceEvent, DeviceId, NodeReading, all_lost
from admission.agent.remembered import AgentMemory, KnownDevices, remembered
from admission.agent.settings import AgentSettings
from admission.agent.vendors.registry import VENDORS
from admission.agent.vendors.vendor import Vendor
from queues.api.names import AGENT_NAMESPACE
from queues.errors import ApiError

logger = logging.getLogger(__name__)

#: Seconds between two steps at least, so that a flood of events costs little; the first one comes at once.
_BETWEEN_STEPS = 0.2
#: Seconds for a driver to start, before it is reported that there is none where devices should be.
_DRIVER_STARTS = 300.0
#: Seconds without a step after which the loop counts as dead.
_DEAD = 60.0


class Agent:
    """The agent of one node: its parts, and the loop over them."""

    def __init__(
        self,
        settings: AgentSettings,
        client: ApiClient,
        vendors: Mapping[str, Vendor],
        *,
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
        pod_of_pid: Callable[[int], str | None] = pod_of_process,
    ) -> None:
        """``vendors``: by name, in the order in which their devices are reported."""
        name = settings.node_name
        self._settings = settings
        self._rng = rng
        self.pod_of_pid = pod_of_pid
        #: Set it to have the loop look at once.
        self.wake = threading.Event()
        self.node = NodeWatch(client, name, changed=self.wake.set, rng=rng)
        self.devices = [
            DeviceWatch(
                vendor,
                library,
                poll_seconds=settings.poll_seconds,
                changed=self.wake.set,
                clock=clock,
                is_recovered=lambda: self.node.node is not None and self.node.node.is_recovered,
            )
            for vendor, library in vendors.items()
        ]
        self.reporter = Reporter(client, name, rng=rng)
        self.heartbeat = LeaseHeartbeat(
            client, namespace=AGENT_NAMESPACE, node=name, holder=socket.gethostname(), rng=rng
        )
        self.metrics = AgentMetrics()
        self.metrics.requests = lambda: client.requests
        self.metrics.writes = lambda: {**self.reporter.writes, "lease": self.heartbeat.renewals}
        #: The health as it was assessed last. None until it is known what was reported before.
        self._health: HealthState | None = None
        #: Whether there is a Device of this node: then it is kept up to date even if the devices are gone.
        self._has_device = False
        #: Devices by vendor, those that were reported before the start among them.
        self._known: dict[str, KnownDevices] = {}
        #: Which pod has which devices, as it was reported last.
        self._allocations: tuple[Allocation, ...] = ()
        #: How often a user has deleted the Device.
        self._deletions = 0
        #: What each device is, or was last, registered as.
        self._resources: dict[DeviceId, str] = {}
        #: How busy and hot the devices are, and were reported to be.
        self._load_state = LoadState()
        #: Events that no assessment has seen yet.
        self._events: list[DeviceEvent] = []
        self._load_at = 0.0
        self._backoff = RetryBackoff("reading what was reported before", rng)
        self._stepped_at = time.monotonic()
        self._told: set[str] = set()

    def is_alive(self) -> bool:
        """Whether the loop goes on."""
        return time.monotonic() - self._stepped_at < _DEAD + self._settings.poll_seconds

    def run(self, stop: threading.Event) -> None:
        """Start all threads and loop until ``stop``. Set ``wake`` too, to have it noticed at once."""
        for watch in self.devices:
            name = f"{watch.vendor} devices"
            threading.Thread(target=watch.run, args=(stop,), name=name, daemon=True).start()
        # Agents often start together: of a rollout, or after a failure of the API server.
        spread = self._rng.uniform(0, self._settings.start_spread_seconds)
        self._stepped_at = time.monotonic() + spread
        stop.wait(spread)
        others = [
            *self.node.threads(stop),
            threading.Thread(target=self.reporter.run, args=(stop,), name="reporter", daemon=True),
            threading.Thread(
                target=self.heartbeat.run,
                args=(time.time, self._node_uid, stop),
                name="heartbeat",
                daemon=True,
            ),
        ]
        for thread in others:
            thread.start()
        while not stop.is_set():
            self.wake.clear()
            try:
                self.step(time.time(), time.monotonic())
            except Exception:  # a fault of the agent: the next reading may be another one
                logger.exception("the devices of this node could not be reported")
            if not stop.wait(_BETWEEN_STEPS):
                self.wake.wait(self._settings.poll_seconds)
        # None of the threads is waited for: each may be in a call that takes long, and none keeps the process alive.
        self.reporter.wake()

    def step(self, now: float, ticks: float) -> None:
        """Take what was seen, assess it, offer the report. ``now``: seconds since the epoch; ``ticks``: monotonic."""
        self._stepped_at = ticks
        self._forget_lost()
        seen = [watch.take() for watch in self.devices]
        for each in seen:
            self._events += each.events
            self.metrics.events(each.events)
        if not all(each.answered or self._is_silent(each) for each in seen):
            return
        before = self._health or self._load(ticks)
        if before is None:
            self.metrics.observe(NodeObservation(seen=seen, readings=self._readings(seen, now), ticks=ticks))
            return
        if any(self._is_missed(each) and not self._is_silent(each) for each in seen):
            return
        readings = self._readings(seen, now)
        mark = None if self.node.node is None else self.node.node.mark
        self._health = assess(before, readings, self._events, mark, now)
        self._events = []
        if self._settings.report_load:
            self._load_state = self._load_state.after(readings, now)
        self._offer(seen, readings, self._health.devices, ticks)

    # ── the parts of a step ─────────────────────────────────────────────────────────────────────────────────────

    def _is_silent(self, seen: Seen) -> bool:
        longest = self._settings.hang_seconds + self._settings.poll_seconds
        if self._is_missed(seen):
            return seen.unread > longest
        # A vendor without devices is looked for once a minute.
        return seen.silent > longest and (seen.reading is not None or not seen.answered)

    def _is_missed(self, seen: Seen) -> bool:
        """Whether a vendor has devices by what was reported before, and has shown none since the start."""
        known = self._known.get(seen.vendor)
        return seen.number == 0 and known is not None and known.stored is not None

    def _readings(self, seen: Sequence[Seen], now: float) -> list[NodeReading]:
        readings = []
        for each in seen:
            silent = self._is_silent(each)
            if self._news(f"silence of {each.vendor}", silent):
                logger.error(
                    "the library of %s has not answered for %.0f s; its devices count as lost until it does",
                    each.vendor,
                    max(each.silent, each.unread),
                )
            if (reading := self._reading(each)) is not None:
                reading = replace(reading, began=now - each.age)
                readings.append(all_lost(reading) if silent else reading)
        return readings

    def _reading(self, seen: Seen) -> NodeReading | None:
        """The devices of a vendor, those that were reported before the start and are missing among them."""
        known = self._known.get(seen.vendor)
        if known is None or seen.reading is None:
            return known.stored if known is not None and self._is_missed(seen) else seen.reading
        return known.settle(seen.reading)

    def _forget_lost(self) -> None:
        """Forget lost devices if a user deleted the Device: they were taken out of the node."""
        if self._deletions == self.reporter.deletions:
            return
        self._deletions = self.reporter.deletions
        logger.info("the Device was deleted; devices that are lost are not reported any more")
        for known in self._known.values():
            known.forget_lost()

    def _load(self, ticks: float) -> HealthState | None:
        """The health that was reported before, from which the agent goes on. None while it cannot be read."""
        node = self.node.node
        if ticks < self._load_at or node is None:
            return None
        try:
            stored = self.reporter.load(ticks)
        except ApiError as error:
            self._load_at = ticks + self._backoff.failed(error)
            return None
        self._backoff.succeeded()
        self._has_device = stored is not None
        memory = remembered(stored, node.uid)
        if stored is not None and memory == AgentMemory():
            logger.info("nothing is known of what was reported before, or it is of another node of this name")
        self._health = memory.health_state()
        self._resources, self._allocations = memory.resources, memory.allocations
        self._load_state = memory.load if self._settings.report_load else LoadState()
        before = {reading.vendor: reading for reading in memory.readings}
        self._known = {watch.vendor: KnownDevices(before.get(watch.vendor)) for watch in self.devices}
        return self._health

    def _offer(
        self,
        seen: Sequence[Seen],
        readings: Sequence[NodeReading],
        health: Mapping[DeviceId, DeviceHealth],
        ticks: float,
    ) -> None:
        node, pods = self.node.node, self.node.pods or {}
        kubelet, pod_of_pid = self._kubelet(), cache(self.pod_of_pid)
        self._resources = registered_resources(readings, kubelet.registered, self._resources)
        uses = allocations(readings, pods, kubelet.given, pod_of_pid, self._allocations)
        self.metrics.observe(
            NodeObservation(
                seen=seen,
                readings=readings,
                health=health,
                allocations=uses,
                pods=pods,
                without_library=self._without_library(seen),
                ticks=ticks,
            )
        )
        if node is None or self.node.pods is None:
            return
        self._allocations = uses
        self._has_device = self._has_device or bool(readings)
        name, resources = self._settings.node_name, unusual_resources(readings, self._resources)
        device = None
        if self._has_device:
            offered = offered_devices(readings, kubelet.registered)
            memory = AgentMemory.of(readings, health, resources, uses, self._load_state)
            device = with_load(
                device_document(name, node.uid, readings, health, uses, resources, offered, memory.text()),
                self._load_state.reported,
            )
        self.reporter.offer(Report(device=device, labels=node_labels(readings), node_labels=node.labels))

    def _without_library(self, seen: Sequence[Seen]) -> list[str]:
        """Vendors whose library, driver or devices are not found, on a node without any device: agents run where a
        label says that there are some."""
        found = (
            [] if any(each.reading is not None for each in seen) else [each for each in seen if each.absent]
        )
        for each in seen:
            is_missing = each in found and each.unread > _DRIVER_STARTS
            if self._news(f"no library of {each.vendor}", is_missing):
                remedy = VENDORS[each.vendor].remedy
                logger.warning("no device of %s can be read here: %s %s", each.vendor, each.absent, remedy)
        return [each.vendor for each in found]

    def _kubelet(self) -> KubeletDevices:
        try:
            known = kubelet_devices(Path(self._settings.kubelet_dir) / CHECKPOINT)
        except CheckpointUnreadable as unreadable:
            if self._news("checkpoint", True):
                logger.warning("%s", unreadable)
            return KubeletDevices()
        self._news("checkpoint", False)
        return known

    def _node_uid(self) -> str | None:
        node: WatchedNode | None = self.node.node
        return None if node is None else node.uid

    def _news(self, what: str, is_so: bool) -> bool:
        """Whether something is so now that was not so at the last look."""
        news = is_so and what not in self._told
        if is_so:
            self._told.add(what)
        else:
            self._told.discard(what)
        return news

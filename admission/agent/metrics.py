"""Metrics of one node in Prometheus' text format, and health, over HTTP.

Series are made from the last observation when they are asked for, so that those of devices and pods that are gone are
gone too. Counters by queue stay for an hour after the last pod of the queue, so that what was counted last is scraped.
A device that exactly one pod has carries the names of the pod; one that several pods share carries none, and
``muster_gpu_pod`` shows which these are.
"""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from admission.agent.allocations import Allocation
from admission.agent.device_watch import Seen
from admission.agent.health import ConditionType, DeviceHealth
from admission.agent.pod_info import PodInfo
from admission.agent.readings import DeviceEvent, DeviceId, DeviceReading, EventKind, NodeReading
from admission.agent.settings import address
from admission.agent.xids import xid_class

#: Seconds that a counter of a queue without pods stays.
_KEPT: Final = 3600.0
#: Seconds between two readings that count at most as use: a longer gap is one in which nothing is known.
_LONGEST_STEP: Final = 60.0
_DEVICE_LABELS: Final = ("gpu", "uuid", "model", "namespace", "pod", "queue", "gang", "user")
_NOBODY: Final = ("", "", "", "", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObservation:
    """What one step of the loop has found."""

    seen: Sequence[Seen]
    readings: Sequence[NodeReading]
    health: Mapping[DeviceId, DeviceHealth] = field(default_factory=dict)
    allocations: Sequence[Allocation] = ()
    pods: Mapping[str, PodInfo] = field(default_factory=dict)
    #: Vendors whose devices the node should have, and whose library, driver or devices are not found.
    without_library: Sequence[str] = ()
    #: Monotonic seconds.
    ticks: float


class AgentMetrics(Collector):
    """Everything that the agent of a node measures."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: NodeObservation | None = None
        #: Seconds by queue: devices that its pods had, and of these idle ones; when it last had one.
        self._admitted: Counter[str] = Counter()
        self._idle: Counter[str] = Counter()
        self._queue_seen: dict[str, float] = {}
        self._xids: Counter[tuple[DeviceId | None, str]] = Counter()
        #: By vendor: readings, and seconds that they took.
        self._readings: dict[str, tuple[int, float]] = {}
        #: By vendor: number of the reading that was counted last, and when.
        self._counted: dict[str, tuple[int, float]] = {}
        #: Counters of other parts, read when metrics are scraped.
        self.requests: Callable[[], Mapping[tuple[str, int], int]] = dict
        self.writes: Callable[[], Mapping[str, int]] = dict

    # ── what is observed ────────────────────────────────────────────────────────────────────────────────────────

    def events(self, events: Iterable[DeviceEvent]) -> None:
        """Count XIDs by class."""
        with self._lock:
            for event in events:
                if event.kind is EventKind.XID:
                    self._xids[event.device, xid_class(event.code or 0).value] += 1

    def observe(self, observation: NodeObservation) -> None:
        """Keep what a step has found, and count the time since the reading before."""
        with self._lock:
            self._last = observation
            for seen in observation.seen:
                before, at = self._counted.get(seen.vendor, (0, observation.ticks))
                if seen.number == before:
                    continue
                count, took = self._readings.get(seen.vendor, (0, 0.0))
                self._readings[seen.vendor] = count + seen.number - before, took + seen.took
                self._counted[seen.vendor] = seen.number, observation.ticks
                if before and seen.reading is not None:
                    self._count_use(observation, seen.reading, min(observation.ticks - at, _LONGEST_STEP))
            self._forget(observation)

    def _count_use(self, observation: NodeObservation, reading: NodeReading, seconds: float) -> None:
        used = {device.id: device.telemetry.utilisation for device in reading.devices}
        queues = _queues_of_devices(observation)
        for device, utilisation in used.items():
            for queue in queues.get(device, ()):
                self._queue_seen[queue] = observation.ticks
                self._admitted[queue] += seconds  # type: ignore[assignment]
                if utilisation == 0:
                    self._idle[queue] += seconds  # type: ignore[assignment]

    def _forget(self, observation: NodeObservation) -> None:
        for queue in [name for name, at in self._queue_seen.items() if observation.ticks - at > _KEPT]:
            for counters in (self._admitted, self._idle, self._queue_seen):
                counters.pop(queue, None)
        there = {device.id for reading in observation.readings for device in reading.devices}
        for key in [key for key in self._xids if key[0] is not None and key[0] not in there]:
            del self._xids[key]

    @property
    def unhealthy(self) -> int:
        """Devices that take no work now."""
        with self._lock:
            return 0 if self._last is None else sum(not each.healthy for each in self._last.health.values())

    # ── what is shown ───────────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> Iterable[Metric]:
        """Nothing: what there is depends on the node."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All series of now."""
        with self._lock:
            last = self._last
            counters = [*self._counters(last)]
        yield from counters
        if last is not None:
            yield from _device_metrics(last)
            yield from _pod_metrics(last)

    def _counters(self, last: NodeObservation | None) -> Iterator[Metric]:
        indices = {} if last is None else _indices(last)
        xids = CounterMetricFamily(
            "muster_gpu_xids", "XIDs since the agent started, by class", labels=("gpu", "uuid", "class")
        )
        for (device, name), count in sorted(self._xids.items(), key=str):
            xids.add_metric((indices.get(device or "", ""), device or "", name), count)
        yield xids
        for name, meaning, seconds in (
            ("muster_gpu_admitted_seconds", "Device-seconds of the pods of a queue", self._admitted),
            ("muster_gpu_admitted_idle_seconds", "Of these, those with utilisation 0", self._idle),
        ):
            family = CounterMetricFamily(name, meaning, labels=("queue",))
            for queue in sorted(self._queue_seen):
                family.add_metric((queue,), seconds[queue])
            yield family
        count_family = CounterMetricFamily(
            "muster_agent_readings", "Readings of all devices", labels=("vendor",)
        )
        seconds_family = CounterMetricFamily(
            "muster_agent_read_seconds", "Time that these readings took", labels=("vendor",)
        )
        for vendor, (count, took) in sorted(self._readings.items()):
            count_family.add_metric((vendor,), count)
            seconds_family.add_metric((vendor,), took)
        yield from (count_family, seconds_family)
        requests = CounterMetricFamily(
            "muster_agent_requests", "Requests to the API server", labels=("verb", "code")
        )
        for (verb, code), count in sorted(self.requests().items()):
            requests.add_metric((verb, str(code)), count)
        writes = CounterMetricFamily("muster_agent_writes", "Writes to the API server", labels=("object",))
        for what, count in sorted(self.writes().items()):
            writes.add_metric((what,), count)
        yield from (requests, writes)
        silent = GaugeMetricFamily(
            "muster_agent_silent_seconds", "Time since the library answered last", labels=("vendor",)
        )
        for seen in () if last is None else last.seen:
            silent.add_metric((seen.vendor,), seen.silent)
        missing = GaugeMetricFamily(
            "muster_agent_library_missing",
            "1: the node should have devices of the vendor, and none can be read",
            labels=("vendor",),
        )
        for vendor in () if last is None else last.without_library:
            missing.add_metric((vendor,), 1)
        yield from (silent, missing)


#: Gauges of a device: name, meaning, value. If the value is None, it is unknown and there is no series.
_GAUGES: Final[tuple[tuple[str, str, Callable[[DeviceReading], float | None]], ...]] = (
    (
        "muster_gpu_utilisation_ratio",
        "Part of the last sample period in which it computed",
        lambda device: _scaled(device.telemetry.utilisation, 0.01),
    ),
    (
        "muster_gpu_memory_used_bytes",
        "Memory in use",
        lambda device: device.telemetry.memory_used_bytes,
    ),
    ("muster_gpu_memory_bytes", "Memory of the device", lambda device: device.memory_bytes),
    ("muster_gpu_temperature_celsius", "Temperature", lambda device: device.telemetry.temperature),
    ("muster_gpu_power_watts", "Power drawn", lambda device: _scaled(device.telemetry.power, 0.001)),
    (
        "muster_gpu_power_limit_watts",
        "Most power that it may draw",
        lambda device: _scaled(device.telemetry.power_limit, 0.001),
    ),
    (
        "muster_gpu_sm_clock_hertz",
        "Clock of the processors",
        lambda device: _scaled(device.telemetry.sm_clock, 1e6),
    ),
    (
        "muster_gpu_memory_clock_hertz",
        "Clock of the memory",
        lambda device: _scaled(device.telemetry.memory_clock, 1e6),
    ),
    (
        "muster_gpu_ecc_corrected_errors",
        "Errors of memory that were corrected, since the driver was loaded",
        lambda device: None if device.ecc is None else device.ecc.corrected,
    ),
    (
        "muster_gpu_ecc_uncorrected_errors",
        "Errors of memory that could not be corrected, since the driver was loaded",
        lambda device: None if device.ecc is None else device.ecc.uncorrected,
    ),
    (
        "muster_gpu_links_down",
        "NVLinks that are there and not active",
        lambda device: None if device.lost else len(device.links_down),
    ),
    (
        "muster_gpu_nvlink_bytes",
        "Bytes over all NVLinks since the driver was loaded",
        lambda device: device.telemetry.nvlink_bytes,
    ),
    ("muster_gpu_processes", "Processes that compute on it", lambda device: len(device.processes)),
)


def _device_metrics(last: NodeObservation) -> Iterator[Metric]:
    devices = [device for reading in last.readings for device in reading.devices]
    names = _names_of_devices(last)
    labels = {
        device.id: (str(device.index), device.id, device.model, *names.get(device.id, _NOBODY))
        for device in devices
    }
    for name, meaning, value in _GAUGES:
        family = GaugeMetricFamily(name, meaning, labels=_DEVICE_LABELS)
        for device in devices:
            # What was read of a lost device before is not so any more.
            found = None if device.lost and name != "muster_gpu_memory_bytes" else value(device)
            if found is not None:
                family.add_metric(labels[device.id], found)
        yield family
    healthy = GaugeMetricFamily("muster_gpu_healthy", "1: it takes work", labels=_DEVICE_LABELS)
    problems = GaugeMetricFamily(
        "muster_gpu_condition", "1 for each problem of a device", labels=("gpu", "uuid", "type", "reason")
    )
    for device in devices:
        if (health := last.health.get(device.id)) is None:
            continue
        healthy.add_metric(labels[device.id], float(health.healthy))
        for each in health.conditions:
            if each.status and each.type is not ConditionType.HEALTHY:
                problems.add_metric((str(device.index), device.id, each.type.value, each.reason), 1)
    yield from (healthy, problems)
    yield from _link_metrics(last)
    throttled = GaugeMetricFamily(
        "muster_gpu_throttled", "1 for each reason of lower clocks", labels=("gpu", "uuid", "reason")
    )
    for device in devices:
        for reason in device.telemetry.throttling:
            throttled.add_metric((str(device.index), device.id, reason), 1)
    yield throttled


def _link_metrics(last: NodeObservation) -> Iterator[Metric]:
    links = GaugeMetricFamily(
        "muster_gpu_links",
        "Active NVLinks between two devices of the node",
        labels=("gpu", "peer", "switched"),
    )
    for reading in last.readings:
        for link in reading.links:
            if link.nvlinks:
                first, second = link.between
                links.add_metric((str(first), str(second), str(link.switched).lower()), link.nvlinks)
    yield links


def _pod_metrics(last: NodeObservation) -> Iterator[Metric]:
    pods = GaugeMetricFamily(
        "muster_gpu_pod",
        "1 for each pod that has a device",
        labels=("gpu", "uuid", "namespace", "pod", "queue", "gang", "user"),
    )
    indices = _indices(last)
    for allocation in last.allocations:
        for device in allocation.devices:
            pods.add_metric((indices.get(device, ""), device, *_names(last, allocation)), 1)
    yield pods


def _names_of_devices(last: NodeObservation) -> dict[DeviceId, tuple[str, ...]]:
    """Names of the pod that has a device, where it is exactly one."""
    holders: dict[DeviceId, list[Allocation]] = {}
    for allocation in last.allocations:
        for device in allocation.devices:
            holders.setdefault(device, []).append(allocation)
    return {device: _names(last, found[0]) for device, found in holders.items() if len(found) == 1}


def _names(last: NodeObservation, allocation: Allocation) -> tuple[str, ...]:
    pod = last.pods.get(allocation.pod_uid)
    if pod is None:
        return allocation.namespace, allocation.name, "", "", ""
    return pod.namespace, pod.name, pod.queue, pod.group, pod.user


def _queues_of_devices(last: NodeObservation) -> dict[DeviceId, set[str]]:
    queues: dict[DeviceId, set[str]] = {}
    for allocation in last.allocations:
        pod = last.pods.get(allocation.pod_uid)
        if pod is not None and pod.queue:
            for device in allocation.devices:
                queues.setdefault(device, set()).add(pod.queue)
    return queues


def _indices(last: NodeObservation) -> dict[DeviceId, str]:
    return {device.id: str(device.index) for reading in last.readings for device in reading.devices}


def _scaled(value: int | None, factor: float) -> float | None:
    return None if value is None else value * factor


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────────────────────────


class MetricsServer(ThreadingHTTPServer):
    """Answers ``/metrics`` and ``/healthz``, in threads that do not keep the process from ending."""

    daemon_threads = True

    def __init__(self, listen: str, metrics: AgentMetrics, is_alive: Callable[[], bool]) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(metrics)
        self.is_alive = is_alive
        host, port = address(listen)
        # Every interface is those of IPv4 and of IPv6: a pod may have addresses of one of them only.
        self._takes_both = not host and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if self._takes_both or ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind, to addresses of both families where every interface is meant."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not self._takes_both)
        super().server_bind()

    def start(self) -> None:
        """Serve in a thread."""
        threading.Thread(target=self.serve_forever, name="metrics", daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: MetricsServer
    #: Seconds for a client to send its request.
    timeout = 5

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(
                    200, generate_latest(self.server.registry), "text/plain; version=0.0.4; charset=utf-8"
                )
            case "/healthz" if self.server.is_alive():
                self._answer(200, b"ok\n")
            case "/healthz":
                self._answer(503, b"the loop stands still\n")
            case _:
                self._answer(404, b"there is /metrics and /healthz\n")

    def _answer(self, status: int, body: bytes, content: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
        """Nothing: a scrape is no news."""

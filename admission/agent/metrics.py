"""Metrics of one node in Prometheus' text format, and health, over HTTP.

Series are made from the last observation when they are asked for, so that those of devices and pods that are gone are
gone too. Counters by queue stay for an hour after the last pod of the queue, so that what was counted last is scraped.
A device that exactly one pod has carries the names of the pod; one that several pods share carries none, and
``muster_gpu_pod`` shows which these are.
"""

import socket
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
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
#: Kind, text and labels of each metric, by its name; ``labels = "device"`` stands for these.
_TABLE: Final = tomllib.loads(files(__package__).joinpath("metrics.toml").read_text("utf-8"))
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
            yield _pod_metrics(last)

    def _counters(self, last: NodeObservation | None) -> Iterator[Metric]:
        indices = {} if last is None else _indices(last)
        yield _family(
            "muster_gpu_xids_total",
            (
                ((indices.get(device or "", ""), device or "", name), count)
                for (device, name), count in sorted(self._xids.items(), key=str)
            ),
        )
        for name, seconds in (
            ("muster_gpu_admitted_seconds_total", self._admitted),
            ("muster_gpu_admitted_idle_seconds_total", self._idle),
        ):
            yield _family(name, (((queue,), seconds[queue]) for queue in sorted(self._queue_seen)))
        for index, name in enumerate(("muster_agent_readings_total", "muster_agent_read_seconds_total")):
            rows = sorted(self._readings.items())
            yield _family(name, (((vendor,), counted[index]) for vendor, counted in rows))
        requests = sorted(self.requests().items())
        yield _family(
            "muster_agent_requests_total", (((verb, str(code)), count) for (verb, code), count in requests)
        )
        writes = sorted(self.writes().items())
        yield _family("muster_agent_writes_total", (((what,), count) for what, count in writes))
        silent, missing = ((), ()) if last is None else (last.seen, last.without_library)
        yield _family("muster_agent_silent_seconds", (((seen.vendor,), seen.silent) for seen in silent))
        yield _family("muster_agent_library_missing", (((vendor,), 1) for vendor in missing))


def _family(name: str, rows: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """A metric of the table with its series: the values of its labels, and its own."""
    about = _TABLE[name]
    labels = _DEVICE_LABELS if about["labels"] == "device" else about["labels"]
    form = CounterMetricFamily if about["kind"] == "counter" else GaugeMetricFamily
    family = form(name.removesuffix("_total"), about["help"], labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


#: Gauges of a device, and their values. None if that is unknown: there is no series.
_GAUGES: Final[Mapping[str, Callable[[DeviceReading], float | None]]] = {
    "muster_gpu_utilisation_ratio": lambda device: _scaled(device.telemetry.utilisation, 0.01),
    "muster_gpu_memory_used_bytes": lambda device: device.telemetry.memory_used_bytes,
    "muster_gpu_memory_bytes": lambda device: device.memory_bytes,
    "muster_gpu_temperature_celsius": lambda device: device.telemetry.temperature,
    "muster_gpu_power_watts": lambda device: _scaled(device.telemetry.power, 0.001),
    "muster_gpu_power_limit_watts": lambda device: _scaled(device.telemetry.power_limit, 0.001),
    "muster_gpu_ecc_uncorrected_errors": lambda device: device.uncorrected_errors,
    "muster_gpu_links_down": lambda device: len(device.links_down),
    "muster_gpu_processes": lambda device: len(device.processes),
}


def _device_metrics(last: NodeObservation) -> Iterator[Metric]:
    devices = [device for reading in last.readings for device in reading.devices]
    names = _names_of_devices(last)
    labels = {
        device.id: (str(device.index), device.id, device.model, *names.get(device.id, _NOBODY))
        for device in devices
    }
    for name, value in _GAUGES.items():
        # What was read of a lost device before is not so any more.
        read = (device for device in devices if not device.lost or name == "muster_gpu_memory_bytes")
        values = ((labels[device.id], value(device)) for device in read)
        yield _family(name, ((series, number) for series, number in values if number is not None))
    judged = [(device, last.health[device.id]) for device in devices if device.id in last.health]
    healthy = ((labels[device.id], float(health.healthy)) for device, health in judged)
    yield _family("muster_gpu_healthy", healthy)
    problems = (
        ((str(device.index), device.id, each.type.value, each.reason), 1)
        for device, health in judged
        for each in health.conditions
        if each.status and each.type is not ConditionType.HEALTHY
    )
    yield _family("muster_gpu_condition", problems)
    throttled = (
        ((str(device.index), device.id, reason), 1)
        for device in devices
        for reason in device.telemetry.throttling
    )
    yield _family("muster_gpu_throttled", throttled)


def _pod_metrics(last: NodeObservation) -> Metric:
    indices = _indices(last)
    rows = (
        ((indices.get(device, ""), device, *_names(last, allocation)), 1)
        for allocation in last.allocations
        for device in allocation.devices
    )
    return _family("muster_gpu_pod", rows)


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

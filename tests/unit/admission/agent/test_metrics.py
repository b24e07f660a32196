"""Metrics of devices with the names of the pods that have them."""

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from admission.agent.allocations import Allocation
from admission.agent.device_watch import Seen
from admission.agent.health import Condition, ConditionType, DeviceHealth
from admission.agent.metrics import AgentMetrics, MetricsServer, NodeObservation
from admission.agent.readings import DeviceEvent, EventKind, NodeReading, Telemetry
from tests.fakes.stepped_agent import SteppedAgent, reading, running_pod, with_device
from tests.waiting import LIMIT

POD = running_pod()
BUSY = Telemetry(
    temperature=63,
    power=350_000,
    power_limit=700_000,
    throttling=("sw-power-cap",),
    utilisation=97,
    memory_used_bytes=40 << 30,
)


class _Told:
    def __init__(self) -> None:
        self.metrics = AgentMetrics()
        self._registry = CollectorRegistry()
        self._registry.register(self.metrics)
        self._number = 0

    def observe(self, found: NodeReading | None, ticks: float, *, read: bool = True, **more: object) -> None:
        self._number += read
        seen = Seen(vendor="nvidia", reading=found, number=self._number, silent=2.5, took=0.05)
        readings = [] if found is None else [found]
        self.metrics.observe(NodeObservation(seen=[seen], readings=readings, ticks=ticks, **more))  # type: ignore[arg-type]

    def series(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Labels that are not empty → value."""
        text = generate_latest(self._registry).decode()
        return {
            tuple(sorted((key, value) for key, value in sample.labels.items() if value)): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }


@pytest.fixture
def told() -> _Told:
    return _Told()


def _has(pod: object = POD, *devices: str) -> dict[str, object]:
    allocation = Allocation(pod_uid=POD.uid, namespace="ml", name="train-0", devices=devices or ("GPU-0",))
    return {"allocations": [allocation], "pods": {POD.uid: pod}}


def test_a_device_carries_the_names_of_its_pod(golden: Any, told: _Told) -> None:
    told.observe(with_device(reading(), 0, telemetry=BUSY), 0, **_has())
    (labels, value), *others = told.series("muster_gpu_utilisation_ratio").items()
    assert not others, "what is unknown has no series"
    assert value == pytest.approx(0.97)
    assert dict(labels) == golden


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("muster_gpu_memory_used_bytes", 40 << 30),
        ("muster_gpu_temperature_celsius", 63),
        ("muster_gpu_power_watts", 350),
        ("muster_gpu_power_limit_watts", 700),
        ("muster_gpu_ecc_uncorrected_errors", 1),
        ("muster_gpu_links_down", 2),
        ("muster_gpu_processes", 1),
        ("muster_gpu_memory_bytes", 80 << 30),
        ("muster_gpu_throttled", 1),
    ],
)
def test_what_is_read_is_told_in_base_units(told: _Told, name: str, value: float) -> None:
    found = with_device(
        reading(1),
        0,
        telemetry=BUSY,
        uncorrected_errors=1,
        links_down=(4, 5),
        processes=(1,),
    )
    told.observe(found, 0)
    assert list(told.series(name).values()) == [pytest.approx(value)]


def test_a_device_that_several_pods_share_carries_no_name_of_one_of_them(told: _Told) -> None:
    other = running_pod("train-1")
    shares = [
        Allocation(pod_uid=pod.uid, namespace="ml", name=pod.name, devices=("GPU-0",)) for pod in (POD, other)
    ]
    told.observe(reading(1), 0, allocations=shares, pods={POD.uid: POD, other.uid: other})
    (labels,) = told.series("muster_gpu_memory_bytes")
    assert "pod" not in dict(labels)
    assert {dict(each)["pod"] for each in told.series("muster_gpu_pod")} == {"train-0", "train-1"}


def test_series_of_devices_and_pods_that_are_gone_are_gone(told: _Told) -> None:
    told.metrics.events([DeviceEvent(kind=EventKind.XID, device="GPU-1", code=79)])
    told.observe(reading(2), 0, **_has(POD, "GPU-1"))
    assert len(told.series("muster_gpu_xids_total")) == 1
    told.observe(reading(1), 10)
    for name in ("muster_gpu_pod", "muster_gpu_xids_total"):
        assert told.series(name) == {}
    assert len(told.series("muster_gpu_memory_bytes")) == 1


def test_a_lost_device_has_no_values_of_before(told: _Told) -> None:
    told.observe(with_device(reading(1), 0, lost=True, uncorrected_errors=1), 0)
    for name in ("muster_gpu_ecc_uncorrected_errors", "muster_gpu_links_down", "muster_gpu_processes"):
        assert told.series(name) == {}


def test_time_of_admitted_devices_is_counted_by_queue_and_how_much_of_it_was_idle(told: _Told) -> None:
    idle, busy = (with_device(reading(), 0, telemetry=Telemetry(utilisation=value)) for value in (0, 3))
    told.observe(idle, 100, **_has())
    told.observe(idle, 110, **_has())
    told.observe(busy, 130, **_has())
    told.observe(reading(), 140, **_has())
    assert told.series("muster_gpu_admitted_seconds_total") == {(("queue", "team-a"),): 40}
    assert told.series("muster_gpu_admitted_idle_seconds_total") == {(("queue", "team-a"),): 10}


def test_time_is_counted_by_readings_and_not_by_steps(told: _Told) -> None:
    idle = reading(1, utilisation=0)
    told.observe(idle, 100, **_has())
    for ticks in (101, 102, 103):
        told.observe(idle, ticks, read=False, **_has())
    assert told.series("muster_gpu_admitted_seconds_total") == {}
    told.observe(idle, 110, **_has())
    assert told.series("muster_gpu_admitted_idle_seconds_total") == {(("queue", "team-a"),): 10}


def test_a_gap_in_the_readings_counts_as_a_minute_at_most(told: _Told) -> None:
    told.observe(reading(1, utilisation=0), 100, **_has())
    told.observe(reading(1, utilisation=0), 5000, **_has())
    assert told.series("muster_gpu_admitted_seconds_total") == {(("queue", "team-a"),): 60}


def test_a_queue_without_pods_is_forgotten_after_an_hour(told: _Told) -> None:
    told.observe(reading(1), 0, **_has())
    told.observe(reading(1), 10, **_has())
    told.observe(reading(1), 3000)
    assert told.series("muster_gpu_admitted_seconds_total")
    told.observe(reading(1), 3700)
    assert told.series("muster_gpu_admitted_seconds_total") == {}


def test_pods_without_a_queue_are_not_counted(told: _Told) -> None:
    for ticks in (0, 10):
        told.observe(reading(1), ticks, **_has(running_pod(queue="")))
    assert told.series("muster_gpu_admitted_seconds_total") == {}


def test_health_is_told_with_the_reason(told: _Told) -> None:
    conditions = (
        Condition(type=ConditionType.HEALTHY, status=False, reason="Xid79", since=1),
        Condition(type=ConditionType.XID_FAULT, status=True, reason="Xid79", since=1),
        Condition(type=ConditionType.LINK_DOWN, status=False, reason="Well", since=1),
    )
    told.observe(reading(1), 0, health={"GPU-0": DeviceHealth(conditions=conditions)})
    assert list(told.series("muster_gpu_healthy").values()) == [0]
    (labels,) = told.series("muster_gpu_condition")
    assert dict(labels) == {"gpu": "0", "uuid": "GPU-0", "type": "XidFault", "reason": "Xid79"}


def test_xids_are_counted_by_class(told: _Told) -> None:
    for code in (13, 31, 79):
        told.metrics.events([DeviceEvent(kind=EventKind.XID, device="GPU-0", code=code)])
    told.metrics.events([DeviceEvent(kind=EventKind.LOST, device="GPU-0")])
    told.observe(reading(1), 0)
    counts = {dict(labels)["class"]: count for labels, count in told.series("muster_gpu_xids_total").items()}
    assert counts.pop("application-fault") == 2
    assert list(counts.values()) == [1]


def test_what_the_agent_itself_does_is_counted(tmp_path: Path) -> None:
    agent = SteppedAgent(tmp_path)
    agent.api.requests = {("GET", 200): 3}  # type: ignore[attr-defined]
    agent.turn()
    agent.turn()
    told = _Told()
    told.metrics = agent.agent.metrics
    told._registry = CollectorRegistry()
    told._registry.register(told.metrics)
    assert told.series("muster_agent_readings_total") == {(("vendor", "nvidia"),): 2}
    assert told.series("muster_agent_requests_total") == {(("code", "200"), ("verb", "GET")): 3}
    writes = told.series("muster_agent_writes_total")
    assert writes == {(("object", "device"),): 1, (("object", "node"),): 1, (("object", "lease"),): 0}


def test_the_page_tells_every_metric(told: _Told) -> None:
    told.observe(reading(), 0)
    page = (Path(__file__).parents[4] / "docs/reference/metrics.md").read_text()
    of_agents = page.partition("## Of the node agents")[2].partition("## Useful questions")[0]
    names = {f"{each.name}_total" if each.type == "counter" else each.name for each in told.metrics.collect()}
    assert set(re.findall(r"`(muster_\w+)`", of_agents)) == names


@pytest.fixture
def served(told: _Told) -> Iterator[tuple[str, list[bool]]]:
    alive = [True]
    server = MetricsServer("127.0.0.1:0", told.metrics, lambda: alive[0])
    server.start()
    yield f"http://127.0.0.1:{server.server_port}", alive
    server.shutdown()
    server.server_close()


def test_metrics_and_health_are_served(told: _Told, served: tuple[str, list[bool]]) -> None:
    url, alive = served
    told.observe(reading(1, temperature=50), 0)
    with urllib.request.urlopen(f"{url}/metrics", timeout=LIMIT) as answer:
        assert "muster_gpu_temperature_celsius{" in answer.read().decode()
    with urllib.request.urlopen(f"{url}/healthz", timeout=LIMIT) as answer:
        assert answer.read() == b"ok\n"
    alive[0] = False
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(f"{url}/healthz", timeout=LIMIT)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{url}/", timeout=LIMIT)


@pytest.mark.parametrize(
    ("listen", "answering"),
    [(":0", ("127.0.0.1", "[::1]")), ("[::1]:0", ("[::1]",)), ("127.0.0.1:0", ("127.0.0.1",))],
)
def test_metrics_are_served_on_addresses_of_both_families(
    told: _Told, listen: str, answering: tuple[str, ...]
) -> None:
    server = MetricsServer(listen, told.metrics, lambda: True)
    server.start()
    try:
        for host in answering:
            with urllib.request.urlopen(
                f"http://{host}:{server.server_port}/healthz", timeout=LIMIT
            ) as answer:
                assert answer.read() == b"ok\n"
        for host in {"127.0.0.1", "[::1]"} - set(answering):
            with pytest.raises(urllib.error.URLError):
                urllib.request.urlopen(f"http://{host}:{server.server_port}/healthz", timeout=LIMIT)
    finally:
        server.shutdown()
        server.server_close()


def test_the_loop_counts_as_dead_when_it_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = SteppedAgent(tmp_path)
    agent.agent.step(0, 100.0)
    now = [150.0]
    monkeypatch.setattr("admission.agent.agent.time.monotonic", lambda: now[0])
    assert agent.agent.is_alive()
    now[0] = 171.0
    assert not agent.agent.is_alive()

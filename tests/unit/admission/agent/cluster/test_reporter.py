"""What is written, when, and what a refusal leads to."""

import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, cast

import pytest

from admission.agent.cluster.api_client import ApiClient
from admission.agent.cluster.reporter import PACE, Report, Reporter, label_changes
from admission.agent.device_object import device_document
from admission.agent.health import Condition, ConditionType, DeviceHealth
from admission.agent.readings import DeviceReading, NodeReading
from queues.errors import ApiRefused, TooManyRequests
from tests.fakes.agent_api import AgentApi, unavailable

DEVICE, NODE = "/apis/scheduling.koordinator.sh/v1alpha1/devices/n1", "/api/v1/nodes/n1"


class _Writing:
    """A reporter whose time goes on from one step to the next."""

    def __init__(self) -> None:
        self.api = AgentApi()
        self.api.put(NODE, {"metadata": {"name": "n1", "labels": {}}})
        self.reporter = Reporter(cast(ApiClient, self.api), "n1", rng=random.Random(1))
        self.now = 1000.0
        #: When each write was asked for.
        self.at: list[float] = []

    def step(self) -> float:
        before = len(self.api.writes)
        pause = self.reporter.step(self.now)
        self.at += [self.now] * (len(self.api.writes) - before)
        return pause

    def go_on(self, seconds: float) -> None:
        """Steps, each as soon as the last one said."""
        end = self.now + seconds
        while self.now < end:
            self.now += max(self.step(), 0.001)
        self.now = end

    def written(self) -> list[str]:
        return [f"{verb} {path.rpartition('/')[2]}" for verb, path, _ in self.api.writes]


@pytest.fixture
def writing() -> _Writing:
    return _Writing()


def _report(
    *temperatures: int,
    healthy: bool = True,
    labels: Mapping[str, str | None] = {},
    node_labels: Mapping[str, str] = {},
) -> Report:
    devices = [
        DeviceReading(id=f"GPU-{index}", index=index, minor=index, model="H100", memory_bytes=1 << 30)
        for index in range(len(temperatures) or 1)
    ]
    reading = NodeReading(vendor="nvidia", devices=tuple(devices))
    sum_of_all = Condition(type=ConditionType.HEALTHY, status=healthy, reason="", since=0)
    health = {device.id: DeviceHealth(conditions=(sum_of_all,)) for device in devices}
    document = device_document("n1", "uid-1", [reading], health, ())
    return Report(device=document, labels=labels, node_labels=node_labels)


def _health(writing: _Writing) -> list[bool]:
    return [each["health"] for each in writing.api.objects[DEVICE]["spec"]["devices"]]


def test_a_device_is_made_and_then_written_only_when_it_changes(writing: _Writing) -> None:
    writing.reporter.offer(_report())
    writing.go_on(100)
    assert writing.written() == ["POST devices"]
    writing.reporter.offer(_report())
    writing.go_on(100)
    assert writing.written() == ["POST devices"]
    writing.reporter.offer(_report(healthy=False))
    writing.go_on(100)
    assert writing.written() == ["POST devices", "PUT n1"]
    assert _health(writing) == [False]


def test_a_change_is_written_at_once_and_others_a_second_later_together(writing: _Writing) -> None:
    writing.reporter.offer(_report())
    writing.go_on(100)
    began = writing.now
    for change in range(10):
        writing.reporter.offer(_report(healthy=change % 2 == 1))
        writing.go_on(0.1)
    writing.go_on(10)
    assert writing.at[1:] == [began, pytest.approx(began + PACE)]
    assert _health(writing) == [True]


def test_nobody_writes_more_than_once_a_second_whatever_changes(writing: _Writing) -> None:
    writing.api.put("/elsewhere", {})
    for change in range(600):
        labels = {"muster.dev/gpu-count": str(change)}
        writing.reporter.offer(_report(healthy=change % 2 == 1, labels=labels))
        writing.go_on(0.05)
    gaps = [after - before for before, after in pairwise(writing.at)]
    assert len(writing.at) > 10
    assert min(gaps) >= PACE * 0.999


def test_what_somebody_else_wrote_meanwhile_is_kept_and_compared_again(
    golden: Any, writing: _Writing
) -> None:
    writing.reporter.offer(_report())
    writing.go_on(10)
    theirs = writing.api.get(DEVICE)
    theirs["metadata"]["annotations"]["example.com/a"] = "b"
    theirs["spec"]["devices"].append({"type": "rdma", "id": "mlx5_0", "health": True})
    writing.api.put(DEVICE, theirs)
    writing.reporter.offer(_report(healthy=False))
    writing.go_on(10)
    stored = writing.api.objects[DEVICE]
    assert stored["metadata"]["annotations"]["example.com/a"] == "b"
    assert {each["id"]: each["health"] for each in stored["spec"]["devices"]} == golden
    assert writing.written() == ["POST devices", "PUT n1", "PUT n1"], "the first update is refused with 409"


def test_a_device_that_was_made_by_somebody_else_at_the_same_time_is_taken_over(writing: _Writing) -> None:
    writing.reporter.load(writing.now)
    writing.api.put(DEVICE, {"metadata": {"name": "n1"}, "spec": {"devices": []}})
    writing.reporter.offer(_report())
    writing.go_on(10)
    assert _health(writing) == [True]


def test_a_device_that_somebody_deleted_is_made_again(writing: _Writing) -> None:
    writing.reporter.offer(_report())
    writing.go_on(10)
    del writing.api.objects[DEVICE]
    writing.reporter.offer(_report(healthy=False))
    writing.go_on(10)
    assert _health(writing) == [False]


def test_a_deletion_is_noticed_although_nothing_changes(writing: _Writing) -> None:
    writing.reporter.offer(_report())
    writing.go_on(10)
    del writing.api.objects[DEVICE]
    writing.go_on(400)
    assert _health(writing) == [True]
    reads = len(writing.api.reads)
    writing.go_on(3600)
    assert 9 <= len(writing.api.reads) - reads <= 16, "an idle agent reads its Device every five minutes"
    assert len(writing.api.writes) == 2


def test_while_nothing_can_be_written_the_newest_state_is_kept_and_pauses_grow(writing: _Writing) -> None:
    writing.reporter.offer(_report())
    writing.go_on(10)
    writing.api.faults.extend([unavailable()] * 1000)
    asked = len(writing.api.reads) + len(writing.api.writes)
    for change in range(61):
        writing.reporter.offer(_report(healthy=change % 2 == 1))
        writing.go_on(10)
    attempts = len(writing.api.reads) + len(writing.api.writes) - asked
    assert 10 <= attempts <= 30, "in ten minutes"
    writing.api.faults.clear()
    writing.reporter.offer(_report(healthy=False))
    writing.go_on(61)
    assert _health(writing) == [False]


def test_a_refusal_of_the_device_ends_nothing(writing: _Writing) -> None:
    refusal = ApiRefused(method="POST", path="/", status=403, reason="no such right")
    writing.api.faults.extend([None, refusal])
    writing.reporter.offer(_report())
    writing.go_on(10)
    assert _health(writing) == [True]


def test_the_api_server_is_left_alone_for_as_long_as_it_asks(writing: _Writing) -> None:
    busy = TooManyRequests(method="GET", path="/", status=429, reason="busy", retry_after=30.0)
    writing.api.faults.append(busy)
    writing.reporter.offer(_report())
    assert writing.step() >= 30
    writing.go_on(29)
    assert writing.api.writes == []
    writing.go_on(2)
    assert writing.written() == ["POST devices"]


def test_labels_of_the_node_change_and_go_and_others_stay(writing: _Writing) -> None:
    writing.api.put(NODE, {"metadata": {"labels": {"muster.dev/gpu-driver": "1", "zone": "a"}}})
    labels = {"muster.dev/gpu-count": "8", "muster.dev/gpu-driver": None}
    before = {"muster.dev/gpu-driver": "1", "zone": "a"}
    writing.reporter.offer(_report(labels=labels, node_labels=before))
    writing.go_on(5)
    assert writing.api.objects[NODE]["metadata"]["labels"] == {"muster.dev/gpu-count": "8", "zone": "a"}
    assert writing.written() == ["POST devices", "PATCH n1"], (
        "once, although the watch of the Node lags behind"
    )
    writing.reporter.offer(_report(labels=labels, node_labels={"muster.dev/gpu-count": "8", "zone": "a"}))
    writing.go_on(100)
    assert len(writing.api.writes) == 2


def test_labels_that_somebody_took_off_are_written_again(writing: _Writing) -> None:
    labels = {"muster.dev/gpu-count": "8"}
    writing.reporter.offer(_report(labels=labels))
    writing.go_on(5)
    writing.reporter.offer(_report(labels=labels, node_labels=labels))
    writing.go_on(30)
    writing.reporter.offer(_report(labels=labels, node_labels={}))
    writing.go_on(30)
    assert writing.written().count("PATCH n1") >= 2


def test_only_the_agents_own_labels_are_compared() -> None:
    assert label_changes({"zone": "a"}, {}) == {}
    assert label_changes({"muster.dev/gpu-count": "8"}, {}) == {"muster.dev/gpu-count": None}


def test_a_node_without_devices_gets_no_device_object(writing: _Writing) -> None:
    writing.reporter.offer(Report(device=None, labels={}, node_labels={}))
    writing.go_on(100)
    assert writing.api.writes == []


def test_a_deleted_device_is_written_again_and_counted(writing: _Writing) -> None:
    writing.reporter.offer(_report(40))
    writing.go_on(10)
    assert writing.reporter.deletions == 0, "there was none to begin with"
    del writing.api.objects[DEVICE]
    writing.go_on(400)
    assert DEVICE in writing.api.objects
    writing.go_on(400)
    assert writing.reporter.deletions == 1

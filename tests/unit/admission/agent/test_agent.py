"""The loop of the agent, step by step."""

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from admission.agent.cluster.node_watch import WatchedNode
from admission.agent.device_watch import DeviceWatch
from admission.agent.readings import DeviceEvent, EventKind, NodeReading
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed
from queues.api import names
from tests.fakes.agent_api import unavailable
from tests.fakes.stepped_agent import NODE, ScriptedDevices, SteppedAgent, reading, running_pod, with_device

XID = DeviceEvent(kind=EventKind.XID, device="GPU-1", code=79)


@pytest.fixture
def agent(tmp_path: Path) -> SteppedAgent:
    return SteppedAgent(tmp_path)


def _registers(agent: SteppedAgent, **by_model: list[str]) -> None:
    """The kubelet writes which devices plugins have registered, by the model that their resource is named after."""
    registered = {f"nvidia.com/{model}": ids for model, ids in by_model.items()}
    agent.checkpoint.parent.mkdir(exist_ok=True)
    document = {"PodDeviceEntries": [], "RegisteredDevices": registered}
    agent.checkpoint.write_text(json.dumps({"Data": document, "Checksum": 1}))


def _resources(agent: SteppedAgent) -> list[str | None]:
    """The resource of each device, as the agent reports it."""
    assert agent.device is not None
    return [each["labels"].get(names.DEVICE_RESOURCE) for each in agent.device["spec"]["devices"]]


def _device_writes(agent: SteppedAgent) -> int:
    return sum("/devices" in path for _, path, _ in agent.api.writes)


def _gives(agent: SteppedAgent, pod: str, *devices: str) -> None:
    """The kubelet writes what it gave to the pod."""
    entry = {
        "PodUID": f"uid-of-{pod}",
        "ContainerName": "main",
        "ResourceName": "nvidia.com/gpu",
        "DeviceIDs": {"0": list(devices)},
    }
    agent.checkpoint.parent.mkdir(exist_ok=True)
    agent.checkpoint.write_text(json.dumps({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1}))


def test_devices_and_labels_are_reported_and_then_nothing_while_nothing_changes(agent: SteppedAgent) -> None:
    agent.turn()
    assert agent.health() == [True, True]
    labels = agent.api.objects["/api/v1/nodes/n1"]["metadata"]["labels"]
    assert labels["muster.dev/gpu-model"] == "H100-80GB-HBM3"
    agent.seen.node = WatchedNode(uid="uid-1", labels=labels)
    written = len(agent.api.writes)
    for temperature in range(40, 90):
        agent.library.answer = reading(temperature=temperature, power=temperature * 1000)
        agent.turn()
    assert len(agent.api.writes) == written == 2


def test_an_xid_is_reported_by_the_event_alone(agent: SteppedAgent) -> None:
    agent.turn()
    agent.happened(XID)
    agent.turn(0.1, answers=False)
    assert agent.health() == [True, False]
    assert "XidFault" in agent.conditions(1)


def test_a_loss_that_the_driver_told_ends_when_the_device_answers_a_later_reading(
    agent: SteppedAgent,
) -> None:
    agent.turn()
    agent.happened(DeviceEvent(kind=EventKind.LOST, device="GPU-1"))
    agent.turn(0.2, answers=False)
    agent.turn(0.2, answers=False)
    assert agent.conditions(1) == {"Lost"}
    agent.turn()
    assert agent.health() == [True, True]


def test_an_event_counts_once_so_a_restart_of_the_driver_ends_its_fault(agent: SteppedAgent) -> None:
    agent.library.answer = replace(reading(), driver_start="1")
    agent.turn()
    agent.happened(XID)
    agent.turn()
    assert agent.health() == [True, False]
    agent.library.answer = replace(reading(), driver_start="2")
    agent.turn()
    agent.turn()
    assert agent.health() == [True, True]


def test_events_that_come_while_nothing_can_be_reported_are_not_lost(agent: SteppedAgent) -> None:
    agent.api.faults.append(unavailable())
    agent.happened(XID)
    agent.turn()
    assert agent.device is None
    agent.turn()
    assert agent.health() == [True, False]


def test_an_agent_that_starts_again_goes_on_from_what_was_reported(agent: SteppedAgent) -> None:
    agent.turn()
    agent.happened(XID)
    agent.turn()
    before = json.dumps(agent.device)
    agent.start()
    agent.turn()
    assert agent.health() == [True, False]
    assert json.dumps(agent.device) == before, "nothing is written: since when and why stay as they are"


def test_a_library_that_hangs_makes_its_devices_lost_and_its_first_answer_ends_that(
    agent: SteppedAgent, caplog: pytest.LogCaptureFixture
) -> None:
    agent.turn()
    for _ in range(7):
        agent.turn(answers=False)
    assert agent.health() == [True, True]
    for _ in range(3):
        agent.turn(answers=False)
    assert agent.health() == [False, False]
    assert "Lost" in agent.conditions(0)
    told = [record for record in caplog.records if "has not answered for" in record.getMessage()]
    assert len(told) == 1
    agent.turn()
    assert "Lost" not in agent.conditions(0)


def test_a_library_that_fails_for_long_makes_its_devices_lost(agent: SteppedAgent) -> None:
    agent.turn()
    agent.library.answer = VendorFailed(vendor="NVIDIA", why="driver/library version mismatch")
    for _ in range(9):
        agent.turn()
    assert agent.health() == [False, False]


def test_an_agent_that_starts_where_the_library_hangs_reports_the_devices_of_before_as_lost(
    agent: SteppedAgent,
) -> None:
    agent.turn()
    before = agent.device
    assert before is not None
    agent.start()
    for _ in range(9):
        agent.turn(answers=False)
    assert agent.health() == [False, False]
    after = agent.device
    assert after is not None
    for one, other in zip(before["spec"]["devices"], after["spec"]["devices"], strict=True):
        for key in ("id", "minor", "resources", "topology"):
            assert one[key] == other[key]
    agent.turn()
    assert "Lost" not in agent.conditions(0)


def test_a_load_of_the_driver_is_noticed_by_an_agent_that_started_before_the_library_answered(
    agent: SteppedAgent,
) -> None:
    agent.library.answer = replace(reading(), driver_start="boot/7")
    agent.turn()
    agent.happened(XID)
    agent.turn()
    agent.start()
    agent.library.answer = VendorAbsent(vendor="NVIDIA", why="the driver is not loaded")
    for _ in range(2):
        agent.turn(60)
    agent.start()
    agent.library.answer = replace(reading(1), driver_start="boot/9")
    agent.turn()
    assert agent.conditions(1) == {"Lost"}, "the XID is one of the driver before"


def _numbers(agent: SteppedAgent) -> dict[str, str]:
    assert agent.device is not None
    return {each["id"]: each["labels"][names.DEVICE_INDEX] for each in agent.device["spec"]["devices"]}


def _without_the_first(count: int) -> NodeReading:
    """What a library says that was started when the first device was gone: the others are numbered anew."""
    whole = reading(count)
    others = (replace(device, index=place) for place, device in enumerate(whole.devices[1:]))
    return replace(whole, devices=tuple(others))


def _reasons(agent: SteppedAgent) -> dict[str, str]:
    """The reason of each device that is not healthy."""
    assert agent.device is not None
    return {
        each["id"]: condition["reason"]
        for each in agent.device["spec"]["devices"]
        for condition in each["conditions"]
        if condition["type"] == "Healthy" and condition["status"] == "False"
    }


def test_a_lost_device_stays_lost_over_a_restart_and_no_mark_moves_to_another_device(tmp_path: Path) -> None:
    agent = SteppedAgent(tmp_path, reading(3))
    agent.seen.node = WatchedNode(uid=NODE.uid, mark="1=fans")
    agent.turn()
    agent.library.answer = _without_the_first(3)
    agent.turn()
    before = _numbers(agent)
    told = {"GPU-0": "FallenOffTheBus", "GPU-1": "MarkedByPerson"}
    assert _reasons(agent) == told
    agent.library.answer = _without_the_first(3)
    for _ in range(2):
        agent.start()
        agent.turn()
        assert _numbers(agent) == before
        assert _reasons(agent) == told
    agent.library.answer = reading(3)
    agent.turn()
    assert _numbers(agent) == before
    assert _reasons(agent) == {"GPU-1": "MarkedByPerson"}


def test_after_somebody_deleted_the_device_what_is_lost_is_not_reported_any_more(agent: SteppedAgent) -> None:
    agent.turn()
    agent.start()
    agent.library.answer = _without_the_first(2)
    agent.turn()
    assert agent.health() == [False, True]
    del agent.api.objects[f"/apis/{names.KOORDINATOR_SCHEDULING}/devices/n1"]
    for _ in range(5):
        agent.turn(90)
    assert _numbers(agent) == {"GPU-1": "1"}
    agent.start()
    agent.turn()
    assert _numbers(agent) == {"GPU-1": "1"}


def test_of_a_node_that_was_made_again_under_the_same_name_nothing_is_remembered(agent: SteppedAgent) -> None:
    agent.turn()
    agent.happened(XID)
    agent.turn()
    agent.start()
    agent.seen.node = WatchedNode(uid="uid-2")
    agent.library.answer = _without_the_first(2)
    agent.turn()
    assert _numbers(agent) == {"GPU-1": "0"}
    assert agent.health() == [True]


def test_until_a_library_has_answered_nothing_is_reported(tmp_path: Path) -> None:
    agent = SteppedAgent(tmp_path)
    agent.turn(answers=False)
    assert agent.api.writes == []


def test_a_node_without_devices_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    agent = SteppedAgent(tmp_path, VendorAbsent(vendor="NVIDIA", why="there is no libnvidia-ml.so.1"))
    for _ in range(30):
        agent.turn(60)
    assert agent.api.writes == []
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_on_a_node_without_any_device_it_is_told_once_that_there_is_no_library(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = SteppedAgent(tmp_path, VendorAbsent(vendor="nvidia", why="there is no libnvidia-ml.so.1"))
    agent.turn(60)
    assert caplog.records == [], "the driver may still be starting"
    assert 'muster_agent_library_missing{vendor="nvidia"} 1.0' in agent.metrics()
    for _ in range(30):
        agent.turn(60)
    (record,) = caplog.records
    for part in (
        "no libnvidia-ml.so.1",
        "runtimeClassName: nvidia",
        "accept-nvidia-visible-devices-envvar-when-unprivileged",
    ):
        assert part in record.getMessage()
    agent.library.answer = reading()
    agent.turn()
    assert "muster_agent_library_missing{" not in agent.metrics()


def test_devices_that_an_administrator_took_out_are_reported_as_gone(agent: SteppedAgent) -> None:
    agent.turn()
    agent.library.answer = VendorAbsent(vendor="NVIDIA", why="the driver is not loaded")
    agent.turn()
    assert agent.health() == []


def test_an_agent_that_starts_before_the_driver_keeps_the_devices_of_before_and_then_reports_them_as_lost(
    agent: SteppedAgent,
) -> None:
    agent.turn()
    agent.happened(XID)
    agent.turn()
    before = json.dumps(agent.device)
    agent.start()
    agent.library.answer = VendorAbsent(vendor="NVIDIA", why="the driver is not loaded")
    agent.turn()
    agent.turn(59)
    assert json.dumps(agent.device) == before, "the driver may still be starting"
    agent.turn(60)
    assert agent.health() == [False, False]
    assert {"Lost", "XidFault"} <= agent.conditions(1)
    agent.start()
    for _ in range(4):
        agent.turn(60)
        assert agent.health() == [False, False]
    agent.library.answer = reading()
    agent.turn()
    assert "Lost" not in agent.conditions(0) | agent.conditions(1)


def test_of_two_vendors_one_that_never_had_devices_holds_nothing_up(agent: SteppedAgent) -> None:
    absent = ScriptedDevices(VendorAbsent(vendor="AMD", why="there is no amd-smi"))
    watch = DeviceWatch("amd", absent, poll_seconds=10, changed=lambda: None, clock=lambda: agent.now)
    agent.agent.devices = [*agent.agent.devices, watch]
    watch.read()
    agent.turn()
    assert agent.health() == [True, True]
    agent.turn(600)
    assert agent.health() == [True, True]


def test_what_a_person_says_of_a_device_is_reported_with_the_next_step(agent: SteppedAgent) -> None:
    agent.turn()
    agent.seen.node = WatchedNode(uid="uid-1", mark="0=smells")
    agent.turn(0.2, answers=False)
    assert agent.health() == [False, True]
    agent.seen.node = NODE
    agent.turn(0.2, answers=False)
    assert agent.conditions(0) == set()


def test_a_node_that_is_not_known_yet_is_not_written_about(agent: SteppedAgent) -> None:
    agent.seen.node = None
    agent.turn()
    agent.seen.node, agent.seen.pods = NODE, None
    agent.turn()
    assert agent.api.writes == []
    agent.seen.pods = {}
    agent.turn()
    assert agent.health() == [True, True]


def test_a_new_node_of_the_same_name_owns_the_device(agent: SteppedAgent) -> None:
    agent.turn()
    agent.seen.node = WatchedNode(uid="uid-2")
    agent.turn()
    assert agent.device is not None
    owners = agent.device["metadata"]["ownerReferences"]
    assert [each["uid"] for each in owners] == ["uid-2"]


def test_which_pod_has_which_device_is_reported(golden: Any, agent: SteppedAgent) -> None:
    agent.seen.pods = {"uid-of-train-0": running_pod()}
    _gives(agent, "train-0", "GPU-1")
    agent.turn()
    assert agent.device is not None
    assert agent.device["status"]["allocations"] == golden


def test_a_device_that_is_lost_stays_with_the_pod_that_has_it_by_its_processes_also_over_a_restart(
    agent: SteppedAgent,
) -> None:
    agent.seen.pods = {"uid-of-train-0": running_pod()}
    agent.library.answer = with_device(reading(), 1, processes=(77,))
    agent.agent.pod_of_pid = {77: "uid-of-train-0"}.get
    agent.turn()
    assert agent.device is not None
    had = agent.device["status"]["allocations"]
    assert had[0]["entries"][0]["minors"] == [1]
    agent.library.answer = reading(1)
    agent.turn()
    assert agent.health() == [True, False]
    assert agent.device["status"]["allocations"] == had
    agent.start()
    agent.seen.pods = None
    agent.turn()
    agent.seen.pods = {"uid-of-train-0": running_pod()}
    agent.turn()
    assert agent.device["status"]["allocations"] == had
    agent.seen.pods = {}
    agent.turn()
    assert agent.device["status"]["allocations"] == []


def test_the_resource_of_each_device_is_reported_once_and_kept_while_its_plugin_does_not_offer_it(
    agent: SteppedAgent,
) -> None:
    _registers(agent, h100=["GPU-0"], l40s=["GPU-1"])
    agent.turn()
    by_model: list[str | None] = ["nvidia.com/h100", "nvidia.com/l40s"]
    assert _resources(agent) == by_model
    written = _device_writes(agent)
    _registers(agent, h100=[], l40s=["GPU-1"])
    agent.turn()
    agent.checkpoint.write_text("{")
    agent.turn()
    agent.start()
    agent.turn()
    assert _resources(agent) == by_model
    assert _device_writes(agent) == written, "nothing has changed for anybody"
    _registers(agent, gpu=["GPU-0", "GPU-1"])
    agent.turn()
    assert _resources(agent) == [None, None], "that is the usual one"
    assert _device_writes(agent) == written + 1


def test_a_checkpoint_that_cannot_be_read_is_told_once_and_holds_nothing_up(
    agent: SteppedAgent, caplog: pytest.LogCaptureFixture
) -> None:
    agent.checkpoint.parent.mkdir()
    agent.checkpoint.write_text("{")
    for _ in range(3):
        agent.turn()
    assert agent.health() == [True, True]
    assert len([record for record in caplog.records if "the kubelet" in record.getMessage().lower()]) == 1


def test_the_agent_is_alive_while_it_waits_before_the_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: ticks[0])
    agent = SteppedAgent(tmp_path, start_spread_seconds=600)
    monkeypatch.setattr(agent.seen, "threads", lambda _: [], raising=False)
    alive: list[bool] = []

    class WaitsForNothing(threading.Event):
        """Stops the agent when its wait before the first request is over."""

        def wait(self, timeout: float | None = None) -> bool:
            if not self.is_set() and timeout and timeout > 60:
                for part in (0.0, timeout, 69.0, 2.0):
                    ticks[0] += part
                    alive.append(agent.agent.is_alive())
                self.set()
            return self.is_set()

    agent.agent.run(WaitsForNothing())
    assert alive == [True, True, True, False]


def test_a_step_that_fails_does_not_end_the_agent(
    agent: SteppedAgent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop, steps = threading.Event(), []

    def fails(*_: Any) -> None:
        steps.append(1)
        if len(steps) == 3:
            stop.set()
        agent.agent.wake.set()
        raise RuntimeError("a fault")

    monkeypatch.setattr(agent.agent, "step", fails)
    monkeypatch.setattr(agent.seen, "threads", lambda _: [], raising=False)
    agent.agent.run(stop)
    assert len(steps) == 3
    assert "could not be reported" in caplog.text

"""Events reach whoever waits for them, whatever happens to the library in between."""

from collections.abc import Callable
from typing import Any

import pynvml  # noqa: TID251
import pytest

from admission.agent.readings import DeviceEvent, EventKind
from admission.agent.vendors.nvidia.nvidia import Nvidia
from tests.fakes.nvml.fake_nvml import (
    DOUBLE_BIT_ECC,
    GPU_UNAVAILABLE,
    RECOVERY_ACTION,
    XID,
    FakeNvml,
)


@pytest.fixture
def ready(nvidia: Nvidia) -> Callable[[], None]:
    """Read once and register for events."""

    def begin() -> None:
        nvidia.read()
        assert nvidia.wait(0) == ()

    return begin


def test_an_xid_is_told_with_its_device(node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]) -> None:
    _, second = node.add_device(), node.add_device()
    ready()
    node.xid(second, 79)
    assert nvidia.wait(5) == (DeviceEvent(kind=EventKind.XID, device=second, code=79),)
    assert nvidia.wait(0) == ()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (DOUBLE_BIT_ECC, EventKind.ECC_UNCORRECTED),
        (GPU_UNAVAILABLE, EventKind.LOST),
        (RECOVERY_ACTION, EventKind.RECOVERY_CHANGED),
    ],
)
def test_other_events_have_their_kinds(
    kind: int, told: EventKind, node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]
) -> None:
    gpu = node.add_device()
    ready()
    node.event(gpu, kind, 5)
    assert nvidia.wait(5) == (DeviceEvent(kind=told, device=gpu, code=None),)


def test_events_that_come_together_are_told_together(
    node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]
) -> None:
    gpu = node.add_device()
    ready()
    for code in (48, 63, 94):
        node.xid(gpu, code)
    assert [event.code for event in nvidia.wait(5)] == [48, 63, 94]


def test_only_what_a_device_supports_is_asked_for(
    node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]
) -> None:
    old, none = node.add_device("T4", event_types=XID), node.add_device(event_types=0)
    ready()
    node.event(none, XID, 13)
    node.xid(old, 48)
    assert [(event.device, event.code) for event in nvidia.wait(5)] == [(old, 48)]


def test_before_the_first_read_nothing_is_waited_for(node: FakeNvml, nvidia: Nvidia) -> None:
    node.add_device()
    assert nvidia.wait(60) == ()
    assert node.calls == 0


def test_a_device_that_is_plugged_in_is_heard(
    node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]
) -> None:
    node.add_device()
    ready()
    second = node.add_device()
    ready()
    node.xid(second, 79)
    assert nvidia.wait(5) == (DeviceEvent(kind=EventKind.XID, device=second, code=79),)


def test_a_device_that_is_lost_is_told_once_and_others_are_heard_on(
    node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]
) -> None:
    first, second = node.add_device(), node.add_device()
    ready()
    node.lose(first)
    assert nvidia.wait(5) == (DeviceEvent(kind=EventKind.LOST, device=first),)
    assert nvidia.wait(0.02) == ()
    node.xid(second, 45)
    assert [event.device for event in nvidia.wait(5)] == [second]


def test_a_device_that_came_back_is_heard_again(
    node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]
) -> None:
    gpu, _ = node.add_device(), node.add_device()
    ready()
    node.lose(gpu)
    assert [event.kind for event in nvidia.wait(5)] == [EventKind.LOST]
    nvidia.read()
    assert nvidia.wait(0) == ()
    node.bring_back(gpu)
    nvidia.read()
    assert nvidia.wait(0) == ()
    node.xid(gpu, 13)
    assert [(event.device, event.code) for event in nvidia.wait(5)] == [(gpu, 13)]


def test_after_a_restart_of_the_driver_it_hears_again(
    node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]
) -> None:
    gpu = node.add_device()
    ready()
    node.restart_driver()
    assert nvidia.wait(60) == ()
    ready()
    node.xid(gpu, 48)
    assert nvidia.wait(5) == (DeviceEvent(kind=EventKind.XID, device=gpu, code=48),)


def test_a_set_of_a_session_that_is_over_is_left_alone(
    node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]
) -> None:
    node.add_device()
    ready()
    nvidia.close()
    nvidia.read()
    assert nvidia.wait(0) == ()
    assert node.misuses == 0


def test_a_device_without_events_is_waited_for_without_them(
    node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]
) -> None:
    node.add_device(event_types=0)
    ready()
    before = node.calls
    assert nvidia.wait(0.02) == ()
    assert node.calls == before


def test_an_error_after_an_event_does_not_lose_the_event(
    node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = node.add_device()
    ready()
    wait = pynvml.nvmlEventSetWait

    def once(event_set: Any, milliseconds: int) -> Any:
        if node.state.events_written > 1:
            raise pynvml.NVMLError(999)
        node.event(gpu, XID, 31)
        return wait(event_set, milliseconds)

    node.xid(gpu, 48)
    monkeypatch.setattr(pynvml, "nvmlEventSetWait", once)
    assert [event.code for event in nvidia.wait(5)] == [48]


def test_after_an_error_of_the_wait_the_next_wait_goes_on(
    node: FakeNvml, nvidia: Nvidia, ready: Callable[[], None]
) -> None:
    gpu = node.add_device()
    ready()
    node.fail("nvmlEventSetWait_v2", 999)
    assert nvidia.wait(5) == ()
    node.fail("nvmlEventSetWait_v2", 0)
    assert nvidia.wait(0) == ()
    node.xid(gpu, 48)
    assert [event.code for event in nvidia.wait(5)] == [48]

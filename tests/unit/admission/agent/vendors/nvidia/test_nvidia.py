"""A node's devices are read as they are, whatever comes, goes and fails."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml  # noqa: TID251
import pytest

from admission.agent.readings import (
    DeviceEvent,
    DeviceReading,
    EventKind,
    Fabric,
    MigInstance,
    RecoveryAction,
    RowRemapping,
)
from admission.agent.vendors.nvidia.library import DriverReplaced
from admission.agent.vendors.nvidia.nvidia import Nvidia
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed
from tests.fakes.nvml.fake_nvml import (
    DOUBLE_BIT_ECC,
    GPU_UNAVAILABLE,
    RECOVERY_ACTION,
    XID,
    FakeNvml,
)

GPU_IS_LOST, VERSION_MISMATCH, UNKNOWN = 15, 18, 999


def by_id(nvidia: Nvidia) -> dict[str, DeviceReading]:
    return {device.id: device for device in nvidia.read().devices}


def test_a_device_is_told_with_all_that_its_driver_says(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device("H100", numa=1, module=3, minor=5)
    node.set(gpu, ecc_uncorrected=1, remap_pending=1, recovery_action=1)
    node.set(
        gpu,
        memory_used=5 << 30,
        temperature=71,
        power=431_000,
        clock_reasons=0x1 | 0x4 | 0x40,
        utilisation=93,
    )
    reading = nvidia.read()
    (device,) = reading.devices
    assert (reading.vendor, reading.driver_version, reading.runtime_version) == (
        "nvidia",
        "570.124.06",
        "12.8",
    )
    assert (device.id, device.index, device.minor, device.module) == (gpu, 0, 5, 3)
    assert (device.model, device.memory_bytes) == ("NVIDIA H100 80GB HBM3", 81559 << 20)
    assert (device.bus_id, device.pcie_root, device.numa_node) == ("0000:18:00.0", "pci0000:17", 1)
    assert (device.mig_enabled, device.lost, device.uncorrected_errors) == (False, False, 1)
    assert device.remapping == RowRemapping(pending=True, failed=False)
    assert device.recovery is RecoveryAction.RESET
    telemetry = device.telemetry
    assert (telemetry.temperature, telemetry.power, telemetry.power_limit) == (71, 431_000, 700_000)
    assert telemetry.utilisation == 93
    assert telemetry.throttling == ("sw-power-cap", "hw-thermal")
    assert telemetry.memory_used_bytes == 5 << 30


def test_an_action_that_is_not_known_stays_unknown(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device(recovery_action=8)
    assert by_id(nvidia)[gpu].recovery is None


def test_what_a_device_does_not_tell_stays_unknown(node: FakeNvml, nvidia: Nvidia) -> None:
    node.add_device("RTX", numa=-1)
    node.unsupported(
        "field 230", "nvmlDeviceGetModuleId", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetMigMode"
    )
    node.unsupported("nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage")
    (device,) = nvidia.read().devices
    assert (device.module, device.numa_node, device.fabric, device.mig_enabled) == (None, None, None, None)
    assert (device.uncorrected_errors, device.remapping, device.recovery) == (None, None, None)
    assert (device.telemetry.temperature, device.telemetry.power) == (None, None)
    assert device.telemetry.utilisation == 0


# ── loss and return ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_device_that_only_a_new_session_sees_is_found_after_a_few_reads(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    gpu, _ = node.add_device(), node.add_device()
    before = nvidia.read()
    node.lose(gpu)
    for _ in range(5):
        nvidia.read()
    node.bring_back(gpu, to_running_sessions=False)
    reads = next(count for count in range(1, 20) if nvidia.read() == before)
    assert reads <= 4


def test_a_device_that_stays_lost_starts_the_library_again_only_now_and_then(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    gpu, _ = node.add_device(), node.add_device()
    nvidia.read()
    node.lose(gpu)
    before = node.sessions
    for _ in range(64):
        nvidia.read()
    assert node.sessions - before <= 8


def test_a_device_that_goes_away_during_a_read_is_not_in_this_read(node: FakeNvml, nvidia: Nvidia) -> None:
    node.add_device()
    nvidia.read()
    node.fail("nvmlDeviceGetPowerUsage", GPU_IS_LOST)
    assert nvidia.read().devices == ()


def test_a_device_that_is_plugged_in_is_read_at_once(node: FakeNvml, nvidia: Nvidia) -> None:
    first = node.add_device()
    nvidia.read()
    second = node.add_device("A100")
    assert [device.id for device in nvidia.read().devices] == [first, second]


def test_a_device_that_was_exchanged_between_two_reads_is_seen_by_the_next(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    old = node.add_device()
    nvidia.read()
    node.unplug(old)
    new = node.replace(old)
    assert [(device.id, device.index) for device in nvidia.read().devices] == [(new, 0)]


def test_where_the_library_does_not_start_again_the_other_devices_are_still_told(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    gpu, other = node.add_device(), node.add_device()
    nvidia.read()
    node.lose(gpu)
    node.state.init_result = UNKNOWN
    assert [device.id for device in nvidia.read().devices] == [other]
    with pytest.raises(VendorFailed):
        nvidia.read()


# ── the driver ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def booted(node: FakeNvml, tmp_path: Path) -> Iterator[Nvidia]:
    """A reader that knows the boot of the node."""
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("0f-boot\n")
    reader = Nvidia(node.library, node.sysfs, boot_id)
    yield reader
    reader.close()


def test_a_restart_of_the_driver_is_told_and_a_new_session_for_a_lost_device_is_none(
    node: FakeNvml, booted: Nvidia
) -> None:
    uuid = node.add_device("H100")
    first = booted.read()
    assert first.driver_start.startswith("0f-boot/")
    node.lose(uuid)
    booted.read()
    node.bring_back(uuid)
    assert booted.read().driver_start == first.driver_start
    node.restart_driver()
    second = booted.read().driver_start
    node.stop_driver()
    with pytest.raises(VendorFailed):
        booted.read()
    node.start_driver()
    assert len({first.driver_start, second, booted.read().driver_start}) == 3


def test_a_start_of_the_driver_while_nothing_was_held_is_told_also_to_another_agent(
    node: FakeNvml, booted: Nvidia, tmp_path: Path
) -> None:
    node.add_device("H100")
    first = booted.read().driver_start
    booted.close()
    assert booted.read().driver_start == first, "nothing has happened"
    booted.close()
    node.restart_driver()
    second = booted.read().driver_start
    assert second != first
    booted.close()
    again = Nvidia(node.library, node.sysfs, tmp_path / "boot_id")
    assert again.read().driver_start == second
    again.close()


def test_where_the_kernel_shows_no_module_the_boot_and_what_was_seen_are_told(
    node: FakeNvml, booted: Nvidia
) -> None:
    node.add_device("H100")
    (node.sysfs / "module/nvidia").rename(node.sysfs / "module/other")
    assert booted.read().driver_start == "0f-boot/"


def test_where_the_kernel_tells_nothing_the_first_device_is_found_all_the_same(
    node: FakeNvml, nvidia: Nvidia, tmp_path: Path
) -> None:
    reader = Nvidia(node.library, tmp_path / "empty")
    with pytest.raises(VendorAbsent):
        reader.read()
    gpu = node.add_device()
    (device,) = reader.read().devices
    assert (device.id, device.pcie_root, device.numa_node) == (gpu, "", None)
    reader.close()


def test_without_a_library_the_vendor_is_absent(tmp_path: Path) -> None:
    with pytest.raises(VendorAbsent, match="cannot open shared object file"):
        Nvidia(tmp_path / "libnvidia-ml.so.1").read()


def test_a_driver_of_another_version_than_the_library_takes_a_restart_of_the_agent(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    node.add_device()
    node.state.init_result = VERSION_MISMATCH
    with pytest.raises(DriverReplaced, match="Restart the agent"):
        nvidia.read()


def test_a_library_that_does_not_start_is_a_failure(node: FakeNvml, nvidia: Nvidia) -> None:
    node.state.init_result = UNKNOWN
    with pytest.raises(VendorFailed):
        nvidia.read()


def test_closed_it_lets_go_of_the_driver_and_the_next_read_starts_it_again(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    node.add_device()
    before = nvidia.read()
    nvidia.close()
    assert nvidia.read() == before
    assert node.sessions == 2


# ── cost ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_does_not_change_is_asked_once(node: FakeNvml, nvidia: Nvidia) -> None:
    for place in range(8):
        node.add_device(nvlinks="switched", numa=place // 4)

    def calls() -> int:
        before = node.calls
        nvidia.read()
        return node.calls - before

    first, later = calls(), calls()
    assert first <= 260
    assert later <= 120
    assert calls() == later


def test_eight_devices_with_seven_instances_each_take_no_more_than_three_hundred_calls(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    for _ in range(8):
        node.partition(node.add_device(), *["1g.10gb"] * 7)
    nvidia.read()
    before = node.calls
    nvidia.read()
    assert node.calls - before <= 300


# ── fabric ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_device_of_a_domain_across_nodes_tells_cluster_and_clique(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device(nvlinks="switched", fabric_clique=7)
    node.device(gpu).fabric_cluster[:] = [0xAB] * 16
    cluster = "abababab-abab-abab-abab-abababababab"
    assert nvidia.read().devices[0].fabric == Fabric(cluster=cluster, clique=7, complete=True)
    node.set(gpu, fabric_state=2)
    assert nvidia.read().devices[0].fabric == Fabric(cluster=cluster, clique=7, complete=False)


def test_the_fabric_of_one_node_has_no_cluster(node: FakeNvml, nvidia: Nvidia) -> None:
    node.add_device(nvlinks="switched")
    node.add_device("T4")
    assert [device.fabric for device in nvidia.read().devices] == [
        Fabric(cluster="", clique=0, complete=True),
        None,
    ]


# ── MIG instances ───────────────────────────────────────────────────────────────────────────────────────────


def instances(nvidia: Nvidia) -> tuple[MigInstance, ...]:
    return nvidia.read().devices[0].mig_instances


def test_each_instance_is_told_with_its_profile(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device()
    small, large = node.partition(gpu, "1g.10gb", "3g.40gb")
    assert nvidia.read().devices[0].mig_enabled is True
    assert instances(nvidia) == (
        MigInstance(id=small, profile="1g.10gb", gpu_instance=7),
        MigInstance(id=large, profile="3g.40gb", gpu_instance=8),
    )


def test_an_instance_that_does_not_say_what_it_is_is_left_out(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device()
    node.partition(gpu, "1g.10gb")
    nvidia.read()
    node.fail("nvmlDeviceGetName", 3)
    assert instances(nvidia) == ()


def test_media_extensions_are_named_as_the_device_plugin_does(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device()
    node.partition(gpu, "1g.10gb")
    node.instances(gpu)[0].profile = b"1g.10gb+me"
    assert [each.profile for each in instances(nvidia)] == ["1g.10gb.me"]


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────


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

"""A node's devices are read as they are, whatever comes, goes and fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from admission.agent.readings import DeviceReading, RecoveryAction, RowRemapping
from admission.agent.vendors.nvidia.library import DriverReplaced
from admission.agent.vendors.nvidia.nvidia import Nvidia
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed
from tests.fakes.nvml.fake_nvml import FakeNvml

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

"""AMD's devices, read from what amd-smi prints: two versions of it, lost devices, refusals, and any other output."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.agent.readings import (
    DeviceReading,
    EccErrors,
    Link,
    NodeReading,
    PciePath,
    Process,
    Telemetry,
)
from admission.agent.vendors.amd import Amd
from admission.agent.vendors.command_line import ToolMissing
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed
from tests.vectors.gpu_tools.recorded import RecordedTool

MIB = 1 << 20
FIXED = ["list", "static", "topology", "version"]


@pytest.fixture
def old():
    return RecordedTool("amd-smi-24.7")


@pytest.fixture
def new():
    return RecordedTool("amd-smi-26.1")


def amd(tool, tmp_path):
    """The vendor on a machine whose kernel says nothing."""
    return Amd(tool, sysfs=tmp_path)


def test_a_device_of_rocm_6_has_all_that_the_tool_tells(old, tmp_path):
    reading = amd(old, tmp_path).read()
    assert (reading.vendor, reading.driver_version, reading.runtime_version) == ("amd", "6.10.5", "6.3.0")
    assert reading.devices[0] == DeviceReading(
        id="0dff740c-0000-1000-800a-3f5b6c7d8e90",
        index=0,
        module=0,
        model="AMD Instinct MI250X",
        memory_bytes=65520 * MIB,
        bus_id="0000:c1:00.0",
        numa_node=3,
        ecc_enabled=True,
        ecc=EccErrors(corrected=0, uncorrected=0),
        processes=(
            Process(pid=4242, memory_bytes=46 << 30),
            Process(pid=4243, memory_bytes=1 << 30),
        ),
        telemetry=Telemetry(
            temperature=55,
            power=412_000,
            power_limit=560_000,
            sm_clock=1700,
            memory_clock=1600,
            throttling=("unspecified",),
            utilisation=97,
            memory_used_bytes=48123 * MIB,
        ),
    )


def test_what_the_tool_does_not_tell_is_unknown(old, tmp_path):
    second = amd(old, tmp_path).read().devices[1]
    assert second.telemetry == Telemetry(
        temperature=56,
        sm_clock=1700,
        memory_clock=1600,
        utilisation=0,
        memory_used_bytes=10 * MIB,
    )
    assert second.processes == ()
    assert (second.minor, second.pcie_root, second.mig_enabled, second.fabric) == (None, "", None, None)


def test_errors_of_memory_are_counted(old, tmp_path):
    devices = amd(old, tmp_path).read().devices
    assert devices[2].ecc == EccErrors(corrected=3, uncorrected=1)


def test_xgmi_links_are_counted_by_their_bandwidth_and_a_route_over_another_device_is_none(old, tmp_path):
    links = amd(old, tmp_path).read().links
    assert {link.between: link.nvlinks for link in links} == {
        (0, 1): 4,
        (0, 2): 1,
        (0, 3): 0,
        (1, 2): 0,
        (1, 3): 1,
        (2, 3): 4,
    }
    assert links[0] == Link(between=(0, 1), nvlinks=4, path=PciePath.NUMA_NODE, peer_access=True)


def test_xgmi_without_a_bandwidth_is_one_link_unless_its_weight_tells_of_more_devices(old, tmp_path):
    def no_bandwidth(gpus):
        for gpu in gpus:
            for link in gpu["links"]:
                link["bandwidth"] = "N/A"

    old.edits("topology", no_bandwidth)
    links = amd(old, tmp_path).read().links
    assert [link.nvlinks for link in links] == [1, 1, 0, 0, 1, 1]


def test_rocm_7_wraps_its_entries_and_has_limits_by_kind(new, tmp_path):
    reading = amd(new, tmp_path).read()
    assert (reading.driver_version, reading.runtime_version) == ("6.16.13", "7.1.0")
    first, second, _ = reading.devices
    assert (first.model, first.memory_bytes) == ("AMD Radeon RX 7800 XT", 16368 * MIB)
    assert first.telemetry == Telemetry(
        temperature=41,
        power=31_000,
        power_limit=212_000,
        sm_clock=45,
        memory_clock=96,
        utilisation=2,
        memory_used_bytes=14569 * MIB,
    )
    assert second.telemetry.throttling == ("hw-thermal", "sw-power-cap")
    assert (first.ecc, first.ecc_enabled) == (None, None)


def test_processes_of_rocm_7_are_read_in_both_of_its_forms(new, tmp_path):
    first, second, third = amd(new, tmp_path).read().devices
    assert first.processes == (Process(pid=991, memory_bytes=13 << 30),)
    assert second.processes == (Process(pid=992, memory_bytes=2048),)
    assert third.processes == ()


def test_memory_of_a_process_that_the_tool_does_not_know_is_unknown(new, tmp_path):
    def no_vram(gpus):
        gpus[0]["process_list"][0]["process_info"]["memory_usage"] = "N/A"

    new.edits("process", no_vram)
    assert amd(new, tmp_path).read().devices[0].processes == (Process(pid=991),)


def test_a_device_without_a_uuid_goes_by_its_bus_id(new, tmp_path):
    third = amd(new, tmp_path).read().devices[2]
    assert (third.id, third.model, third.numa_node) == ("0000:c5:00.0", "Phoenix3", None)


def test_devices_with_one_uuid_go_by_their_bus_ids_and_with_one_bus_id_by_their_numbers(old, tmp_path):
    def alike(gpus):
        for gpu in gpus:
            gpu["uuid"] = "0dff740c-0000-1000-800a-000000000000"
        gpus[1]["bdf"] = gpus[0]["bdf"]

    old.edits("list", alike)
    ids = [device.id for device in amd(old, tmp_path).read().devices]
    assert ids == ["0000:c1:00.0/0", "0000:c1:00.0/1", "0000:c9:00.0", "0000:ce:00.0"]


def test_links_over_pcie_have_their_distance_and_access(new, tmp_path):
    assert amd(new, tmp_path).read().links == (
        Link(between=(0, 1), path=PciePath.SYSTEM, peer_access=False),
        Link(between=(0, 2), path=PciePath.NUMA_NODE, peer_access=True),
        Link(between=(1, 2), path=PciePath.NUMA_NODE, peer_access=True),
    )


def test_the_kernel_tells_root_complex_numa_node_and_device_file(new, tmp_path):
    for bus, render in (("0000:03:00.0", 129), ("0000:83:00.0", 128)):
        device = tmp_path / "devices" / "pci0000:00" / "0000:00:01.1" / bus
        (device / "drm" / f"renderD{render}").mkdir(parents=True)
        (device / "drm" / "card1").mkdir()
        (device / "numa_node").write_text("1\n")
        (tmp_path / "bus" / "pci" / "devices").mkdir(parents=True, exist_ok=True)
        (tmp_path / "bus" / "pci" / "devices" / bus).symlink_to(device)
    reading = amd(new, tmp_path).read()
    first, second, third = reading.devices
    assert (first.pcie_root, first.numa_node, first.minor) == ("pci0000:00", 1, 1)
    assert (second.minor, third.minor, third.pcie_root) == (0, None, "")
    assert reading.links[0].path == PciePath.HOST_BRIDGE


def test_what_does_not_change_is_asked_for_seldom(old, tmp_path):
    vendor = amd(old, tmp_path)
    first = vendor.read()
    assert old.subcommands() == ["metric", *FIXED, "process"]
    for _ in range(19):
        assert vendor.read() == first
    assert old.subcommands() == ["metric", "process"] * 19
    vendor.read()
    assert old.subcommands() == ["metric", *FIXED, "process"]


def without(*gone):
    """A device fell off the bus, and the tool numbers the rest anew."""

    def change(document):
        listed = document["gpu_data"] if isinstance(document, dict) else document
        listed[:] = [entry for entry in listed if entry["gpu"] not in gone]
        for number, entry in enumerate(listed):
            entry["gpu"] = number
        return document

    return change


def lose(tool, *gone):
    for name in ("list", "static", "metric", "process"):
        tool.edits(name, without(*gone))
    tool.refuses("topology")


def test_a_lost_device_is_told_and_the_others_keep_their_indices(old, tmp_path):
    vendor = amd(old, tmp_path)
    before = vendor.read()
    lose(old, 1)
    after = vendor.read()
    assert [(device.index, device.lost) for device in after.devices] == [
        (0, False),
        (1, True),
        (2, False),
        (3, False),
    ]
    assert [device.id for device in after.devices] == [device.id for device in before.devices]
    assert after.devices[1].processes == ()
    assert (after.devices[1].ecc, after.devices[1].telemetry) == (None, Telemetry())
    assert after.devices[2].ecc == EccErrors(corrected=3, uncorrected=1)


def test_links_of_devices_that_are_left_have_the_first_indices(old, tmp_path):
    vendor = amd(old, tmp_path)
    vendor.read()
    lose(old, 1)
    row = {"link_type": "XGMI", "link_status": "ENABLED", "bandwidth": "50000-200000", "weight": 15}
    old.prints("topology", json.dumps([{"gpu": 1, "links": [{"gpu": 2, **row}]}]).encode())
    assert [(link.between, link.nvlinks) for link in vendor.read().links] == [((2, 3), 4)]


def test_a_device_that_comes_back_is_no_longer_lost(old, tmp_path):
    vendor = amd(old, tmp_path)
    before = vendor.read()
    lose(old, 1)
    vendor.read()
    old.as_recorded()
    assert vendor.read() == before


def test_a_new_device_does_not_take_the_index_of_a_lost_one(old, tmp_path):
    vendor = amd(old, tmp_path)
    driver = tmp_path / "bus" / "pci" / "drivers" / "amdgpu"
    (driver / "0000:c1:00.0").mkdir(parents=True)
    lose(old, 3)
    vendor.read()
    old.as_recorded()
    lose(old, 0)
    (driver / "0000:c1:00.0").rename(driver / "0000:ce:00.0")
    assert [(device.bus_id, device.index, device.lost) for device in vendor.read().devices] == [
        ("0000:c1:00.0", 0, True),
        ("0000:c6:00.0", 1, False),
        ("0000:c9:00.0", 2, False),
        ("0000:ce:00.0", 3, False),
    ]


def test_all_devices_may_be_lost(old, tmp_path):
    vendor = amd(old, tmp_path)
    vendor.read()
    for name in ("metric", "list", "static", "process", "topology"):
        old.prints(name, b"[]")
    assert [device.lost for device in vendor.read().devices] == [True] * 4


def test_a_tool_that_refuses_to_tell_of_topology_and_processes_still_tells_the_devices(old, tmp_path):
    for name in ("topology", "process", "version"):
        old.refuses(name)
    reading = amd(old, tmp_path).read()
    assert len(reading.devices) == 4
    assert (reading.links, reading.runtime_version, reading.devices[0].processes) == ((), "", ())


def test_without_the_tool_the_vendor_is_absent(tmp_path):
    def missing(command):
        raise ToolMissing(tool=command[0], why="No such file or directory")

    with pytest.raises(VendorAbsent, match=r"amd-smi cannot be started: No such file or directory\.$"):
        Amd(missing, sysfs=tmp_path).read()


@pytest.mark.parametrize(
    "said",
    [
        "exit code 255, ERROR: Driver not loaded (amdgpu not found in modules)",
        "exit code 0, ERROR:root:Unable to detect any GPU devices, check amdgpu version and module status",
    ],
)
def test_without_a_driver_the_vendor_is_absent_but_fails_where_there_were_devices(old, tmp_path, said):
    vendor = amd(old, tmp_path)
    old.refuses("metric", said)
    with pytest.raises(VendorAbsent):
        vendor.read()
    old.as_recorded()
    vendor.read()
    old.refuses("metric", said)
    with pytest.raises(VendorFailed):
        vendor.read()


def test_a_node_with_the_tool_and_without_devices_has_none(old, tmp_path):
    for name in ("metric", "list", "static"):
        old.prints(name, b"[]")
    with pytest.raises(VendorAbsent, match="lists no device"):
        amd(old, tmp_path).read()


def test_entries_of_processors_are_no_devices(old, tmp_path):
    def with_cpus(gpus):
        return [{"cpu": 0, "socket_power": "N/A"}, *gpus]

    old.edits("metric", with_cpus)
    old.edits("static", lambda gpus: {"cpu_data": [{"cpu": 0}], "gpu_data": gpus})
    assert len(amd(old, tmp_path).read().devices) == 4
    for name in ("metric", "list", "static"):
        old.prints(name, b'{"cpu_data": [{"cpu": 0}]}\n')
    with pytest.raises(VendorAbsent):
        amd(old, tmp_path).read()


def test_several_documents_one_after_the_other_count_together(old, tmp_path):
    gpus = []
    old.edits("metric", gpus.extend)
    old.prints(
        "metric", "\n".join(json.dumps([gpu], indent=4) for gpu in gpus).encode() + b"\n\nLegend:\n  *\n"
    )
    assert amd(old, tmp_path).read().devices[2].ecc == EccErrors(corrected=3, uncorrected=1)


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (b"", "found ''"),
        (b"GPU: 0\n    USAGE: N/A", "found 'GPU: 0 USAGE: N/A', expected JSON"),
        (b'[{"gpu": 0', "expected JSON"),
        (b"[" * 100_000, "JSON that cannot be read"),
        (b"[" + b"9" * 5000 + b"]", "JSON that cannot be read"),
        (b'{"gpus": []}', "an object with 'gpus', expected a list of entries by gpu"),
        (b'{"gpu_data": 3}', "found a int, expected a list of entries by gpu"),
        (b'[{"card": 0}]', "an object with 'card', expected an entry with the number of a gpu"),
        (b'[{"gpu": "zero"}]', "expected an entry with the number of a gpu"),
        (b'[{"gpu": -1}]', "expected an entry with the number of a gpu"),
        (b"[3]", "found a int, expected an entry"),
        (b'{"error": "Command is invalid", "code": -1}', "found the error 'Command is invalid'"),
    ],
)
@pytest.mark.parametrize("name", ["metric", "list", "static"])
def test_an_output_of_another_form_is_told_as_found_and_expected(old, tmp_path, name, printed, told):
    old.prints(name, printed)
    with pytest.raises(VendorFailed) as failed:
        amd(old, tmp_path).read()
    assert told in str(failed.value)
    assert f"amd-smi {name} --json" in str(failed.value)


@pytest.mark.parametrize("name", ["topology", "process"])
def test_a_broken_output_is_told_where_a_refusal_would_not_be(old, tmp_path, name):
    old.prints(name, b'[{"gpu": 0')
    with pytest.raises(VendorFailed, match="expected JSON"):
        amd(old, tmp_path).read()


def test_after_a_failure_everything_is_read_again(old, tmp_path):
    vendor = amd(old, tmp_path)
    before = vendor.read()
    old.prints("metric", b"?")
    with pytest.raises(VendorFailed):
        vendor.read()
    old.as_recorded()
    old.subcommands()
    assert vendor.read() == before
    assert old.subcommands() == ["metric", *FIXED, "process"]


def test_no_event_is_told(old, tmp_path):
    assert amd(old, tmp_path).wait(0) == ()


NAMES = ("metric", "process", "list", "static", "topology", "version")


def read(tool):
    try:
        return Amd(tool, sysfs=Path("/nowhere")).read()
    except (VendorAbsent, VendorFailed) as error:
        return error


@given(st.sampled_from(NAMES), st.binary())
def test_any_bytes_give_a_reading_or_the_named_error(name, printed):
    tool = RecordedTool("amd-smi-24.7")
    tool.prints(name, printed)
    assert isinstance(read(tool), NodeReading | VendorAbsent | VendorFailed)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["N/A", "", "12 W", "XGMI", "1-0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["value", "unit", "gpu", "cpu", "pid"]), inner)
    ),
    max_leaves=6,
)


@st.composite
def damaged(draw, folder):
    """A recorded output with other values in some places."""
    name = draw(st.sampled_from(NAMES))
    tool = RecordedTool(folder)

    def damage(value):
        if draw(st.integers(0, 9)) == 0:
            return draw(VALUES)
        if isinstance(value, dict):
            return {key: damage(inner) for key, inner in value.items()}
        return [damage(inner) for inner in value[:2]] if isinstance(value, list) else value

    tool.edits(name, damage)
    return tool


@given(damaged("amd-smi-24.7") | damaged("amd-smi-26.1"))
def test_any_value_in_place_of_a_known_one_gives_a_reading_or_the_named_error(tool):
    assert isinstance(read(tool), NodeReading | VendorAbsent | VendorFailed)

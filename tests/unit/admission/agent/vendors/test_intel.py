"""Intel's devices, read from what xpu-smi prints: two versions of it, lost devices, refusals, and any other output."""

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
from admission.agent.vendors.command_line import ToolMissing
from admission.agent.vendors.intel import Intel
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed
from tests.vectors.gpu_tools.recorded import RecordedTool

MIB = 1 << 20
NOWHERE = Path("/nowhere")


@pytest.fixture
def old():
    return RecordedTool("xpu-smi-1.2")


@pytest.fixture
def new():
    return RecordedTool("xpu-smi-2.0")


def intel(tool):
    """The vendor on a machine whose kernel says nothing."""
    return Intel(tool, sysfs=NOWHERE)


def test_a_device_of_version_1_has_all_that_the_tool_tells(old):
    reading = intel(old).read()
    assert (reading.vendor, reading.runtime_version) == ("intel", "1.16.0")
    assert reading.driver_version == "I915_24WW14.5_775.20_23.8.20_230810.22"
    assert reading.devices[0] == DeviceReading(
        id="00000000-0000-0029-0000-002f0bd58086",
        index=0,
        minor=1,
        module=0,
        model="Intel(R) Data Center GPU Max 1550",
        memory_bytes=128 << 30,
        bus_id="0000:29:00.0",
        ecc_enabled=True,
        ecc=EccErrors(corrected=5, uncorrected=0),
        processes=(Process(pid=5225, memory_bytes=1507 << 10), Process(pid=768707, memory_bytes=80 << 30)),
        telemetry=Telemetry(
            temperature=59,
            power=412_260,
            sm_clock=1550,
            utilisation=88,
            memory_used_bytes=round(81920.25 * MIB),
        ),
    )


def test_the_tool_itself_is_no_process_that_computes(old):
    assert intel(old).read().devices[1].processes == ()


def test_xe_links_of_all_tiles_are_added_and_routes_over_a_tile_are_none(old):
    assert intel(old).read().links == (Link(between=(0, 1), nvlinks=6),)


def test_xe_links_without_ports_are_one_for_each_pair_of_tiles(old):
    old.edits("topology", lambda told: [entry.pop("port_list", None) for entry in told["topo_list"]] and None)
    assert intel(old).read().links == (Link(between=(0, 1), nvlinks=2),)


def test_memory_in_use_that_does_not_fit_as_mebibytes_is_in_bytes(old):
    def in_bytes(stats):
        stats["device_level"] = []
        for tile in stats["tile_level"]:
            tile["data_list"] = [{"metrics_type": "XPUM_STATS_MEMORY_USED", "value": 8501719040}]

    old.edits("stats-0", in_bytes)
    assert intel(old).read().devices[0].telemetry == Telemetry(memory_used_bytes=2 * 8501719040)


def test_a_device_of_version_2_has_all_that_the_tool_tells(new):
    reading = intel(new).read()
    assert (reading.driver_version, reading.runtime_version) == ("xe", "1.28.2")
    assert reading.devices[0] == DeviceReading(
        id="00000000-0000-0017-0000-0000e2118086",
        index=0,
        minor=0,
        model="Intel(R) Arc(TM) Pro B60 Graphics",
        memory_bytes=25669140480,
        bus_id="0000:17:00.0",
        ecc_enabled=True,
        ecc=EccErrors(corrected=5, uncorrected=2),
        telemetry=Telemetry(
            temperature=71,
            power=118_700,
            sm_clock=2400,
            utilisation=92,
            memory_used_bytes=round(20480.5 * MIB),
        ),
    )
    second = reading.devices[1]
    assert (second.ecc_enabled, second.ecc) == (None, None)
    assert second.processes == (Process(pid=3131, memory_bytes=2 * MIB),)


def test_a_card_in_survivability_mode_is_lost(new):
    third = intel(new).read().devices[2]
    assert (third.index, third.lost, third.model) == (2, True, "Intel(R) Arc(TM) Pro B60 Graphics")
    assert {"discovery-2", "stats-2"}.isdisjoint(new.subcommands())


def test_links_over_pcie_have_their_distance_and_network_cards_none(new):
    assert intel(new).read().links == (
        Link(between=(0, 1), path=PciePath.SINGLE_SWITCH),
        Link(between=(0, 2), path=PciePath.SYSTEM),
        Link(between=(1, 2), path=PciePath.NUMA_NODE),
    )


def test_virtual_functions_count_only_where_there_is_nothing_else(new):
    def one_virtual(told):
        told["device_list"][1]["device_function_type"] = "virtual"

    def all_virtual(told):
        for device in told["device_list"]:
            device["device_function_type"] = "virtual"

    new.edits("discovery", one_virtual)
    assert [device.index for device in intel(new).read().devices] == [0, 2]
    new.edits("discovery", all_virtual)
    assert len(intel(new).read().devices) == 3


def test_devices_with_one_uuid_go_by_their_bus_ids(new):
    def alike(told):
        for device in told["device_list"]:
            device["uuid"] = "00000000-0000-0000-0000-000000000000"

    new.edits("discovery", alike)
    assert [device.id for device in intel(new).read().devices] == [
        "0000:17:00.0",
        "0000:18:00.0",
        "0000:97:00.0",
    ]


def test_the_kernel_tells_root_complex_and_numa_node(new, tmp_path):
    device = tmp_path / "devices" / "pci0000:15" / "0000:15:01.0" / "0000:17:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    (tmp_path / "bus" / "pci" / "devices").mkdir(parents=True)
    (tmp_path / "bus" / "pci" / "devices" / "0000:17:00.0").symlink_to(device)
    first, second, _ = Intel(new, sysfs=tmp_path).read().devices
    assert (first.pcie_root, first.numa_node) == ("pci0000:15", 1)
    assert (second.pcie_root, second.numa_node) == ("", None)


def test_what_does_not_change_is_asked_for_when_the_list_of_devices_does(old):
    vendor = intel(old)
    first = vendor.read()
    assert old.subcommands() == [
        "discovery",
        *("discovery-0", "discovery-1", "version", "topology"),
        "ps",
        *("stats-0", "stats-1"),
    ]
    assert vendor.read() == first
    assert old.subcommands() == ["discovery", "ps", "stats-0", "stats-1"]

    old.edits("discovery", lambda told: told["device_list"].pop() and None)
    vendor.read()
    assert old.subcommands() == ["discovery", "discovery-0", "version", "ps", "stats-0"]


def test_a_lost_device_is_told_and_one_that_comes_back_is_no_longer_lost(old):
    vendor = intel(old)
    before = vendor.read()
    old.edits("discovery", lambda told: told["device_list"].pop(0) and None)
    after = vendor.read()
    assert [(device.index, device.lost) for device in after.devices] == [(0, True), (1, False)]
    assert (after.devices[0].processes, after.devices[0].telemetry) == ((), Telemetry())
    assert after.links == ()
    old.as_recorded()
    assert vendor.read() == before


@pytest.mark.parametrize("printed", [b'{"device_list": null}', b'{"device_list": []}'])
def test_all_devices_may_be_lost(old, printed):
    vendor = intel(old)
    vendor.read()
    old.prints("discovery", printed)
    assert [device.lost for device in vendor.read().devices] == [True, True]


class WithoutErrors(RecordedTool):
    """A tool of 1.x that does not count errors of memory, or does not now."""

    counts = False

    def __call__(self, command):
        if "-r" in command and not self.counts:
            self.refuses("errors")
            return super().__call__(["xpu-smi", "errors"])
        return super().__call__(command)


def test_a_version_that_does_not_count_errors_is_asked_once(old):
    tool = WithoutErrors("xpu-smi-1.2")
    vendor = intel(tool)
    assert vendor.read() == intel(old).read()
    assert tool.subcommands().count("errors") == 1
    vendor.read()
    assert tool.subcommands().count("errors") == 0


def test_after_a_failure_the_tool_is_asked_for_errors_again():
    tool = WithoutErrors("xpu-smi-1.2")
    vendor = intel(tool)
    tool.prints("stats-0", b"?")
    with pytest.raises(VendorFailed):
        vendor.read()
    tool.as_recorded()
    tool.counts = True
    vendor.read()
    assert [command for command in tool.commands if "-r" in command][-1][3] == "1"


def test_a_tool_that_refuses_to_tell_of_topology_and_processes_still_tells_the_devices(old):
    for name in ("topology", "ps", "version"):
        old.refuses(name)
    reading = intel(old).read()
    assert len(reading.devices) == 2
    assert (reading.links, reading.runtime_version, reading.devices[0].processes) == ((), "", ())


def test_without_the_tool_the_vendor_is_absent():
    def missing(command):
        raise ToolMissing(tool=command[0], why="No such file or directory")

    with pytest.raises(VendorAbsent, match="xpu-smi cannot be started: No such file or directory"):
        intel(missing).read()


@pytest.mark.parametrize(
    "printed",
    [
        b'{"device_list": null}',
        b'{"device_list": "No device discovered"}',
        b'{"error": "Level Zero Initialization Error", "errno": 3}',
    ],
)
def test_without_a_driver_or_a_device_the_vendor_is_absent(old, printed):
    old.prints("discovery", printed)
    with pytest.raises(VendorAbsent):
        intel(old).read()


def test_a_driver_that_stops_is_a_failure_and_everything_is_read_again_afterwards(old):
    vendor = intel(old)
    before = vendor.read()
    old.prints("discovery", b'{"error": "Level Zero Initialization Error", "errno": 3}')
    with pytest.raises(VendorFailed, match="Level Zero Initialization Error"):
        vendor.read()
    old.as_recorded()
    old.subcommands()
    assert vendor.read() == before
    assert "discovery-0" in old.subcommands()


@pytest.mark.parametrize(
    ("name", "printed", "told"),
    [
        ("discovery", b"", "found '', expected JSON"),
        ("discovery", b"Segmentation fault", "found 'Segmentation fault', expected JSON"),
        ("discovery", b'{"devices": []}', "an object with 'devices', expected an object with device_list"),
        ("discovery", b'{"device_list": {"0": {}}}', "an object with '0', expected a list of devices"),
        ("discovery", b'{"device_list": [{"id": 0}]}', "expected a device with a number device_id"),
        ("discovery", b'{"device_list": [7]}', "found a int, expected a device with a number device_id"),
        ("discovery-1", b"[]", "found a list, expected an object for the device"),
        ("stats-0", b"[1, 2]", "found a list, expected an object for the device"),
        ("stats-0", b'{"device_id"', "expected JSON"),
        ("ps", b"{}", "an object with nothing in it, expected an object with device_util_by_proc_list"),
        ("topology", b'{"topo": []}', "an object with 'topo', expected an object with topo_list"),
        ("topology", b"{", "expected JSON"),
    ],
)
def test_an_output_of_another_form_is_told_as_found_and_expected(old, name, printed, told):
    old.prints(name, printed)
    with pytest.raises(VendorFailed) as failed:
        intel(old).read()
    assert told in str(failed.value)
    assert "xpu-smi" in str(failed.value)


def test_no_event_is_told(old):
    assert intel(old).wait(0) == ()


NAMES = ("discovery", "discovery-0", "stats-1", "topology", "ps", "version")


def read(tool):
    try:
        return intel(tool).read()
    except (VendorAbsent, VendorFailed) as error:
        return error


@given(st.sampled_from(NAMES), st.binary())
def test_any_bytes_give_a_reading_or_the_named_error(name, printed):
    tool = RecordedTool("xpu-smi-1.2")
    tool.prints(name, printed)
    assert isinstance(read(tool), NodeReading | VendorAbsent | VendorFailed)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["N/A", "", "12 W", "XL", "normal"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "current", "tile_0"]), inner)
    ),
    max_leaves=6,
)


@st.composite
def damaged(draw, folder):
    """A recorded output with other values in some places."""
    name = draw(st.sampled_from(NAMES[:-1]))
    tool = RecordedTool(folder)

    def damage(value):
        if draw(st.integers(0, 9)) == 0:
            return draw(VALUES)
        if isinstance(value, dict):
            return {key: damage(inner) for key, inner in value.items()}
        return [damage(inner) for inner in value[:3]] if isinstance(value, list) else value

    tool.edits(name, damage)
    return tool


@given(damaged("xpu-smi-1.2") | damaged("xpu-smi-2.0"))
def test_any_value_in_place_of_a_known_one_gives_a_reading_or_the_named_error(tool):
    assert isinstance(read(tool), NodeReading | VendorAbsent | VendorFailed)

"""AMD's devices, by what its tool ``amd-smi`` prints as JSON.

Known are the forms of amd-smi 24.7 to 26.1 (ROCm 6.3 to 7.1): lists of entries by ``gpu``, or the same inside
``{"gpu_data": [...]}``; numbers alone, or as ``{"value": 131, "unit": "W"}``; ``N/A`` where the driver does not
tell. The tool is a program of its own, so that what does not change is asked for seldom.

The tool tells of no events; what goes wrong is seen by reading.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from admission.agent.readings import (
    DeviceId,
    DeviceReading,
    EccErrors,
    Link,
    NodeReading,
    PciePath,
    Process,
    Telemetry,
)
from admission.agent.vendors import pci
from admission.agent.vendors.command_line import (
    Run,
    ToolRefused,
    at,
    bytes_of,
    changed_output,
    count,
    documents,
    entries,
    number,
    text_of,
    whole,
)
from admission.agent.vendors.seen_devices import device_ids
from admission.agent.vendors.tool_vendor import ToolFacts, ToolVendor, version_of

VENDOR: Final = "amd"
_TOOL: Final = "amd-smi"
#: The kernel's driver.
_DRIVER: Final = "amdgpu"

#: So many reads share what does not change: the devices themselves and their links.
_READS_OF_FIXED: Final = 20

#: What the tool says where there is no driver or no device.
_NO_DEVICE: Final = (
    "not found in modules",
    "Unable to detect any GPU",
    "DRIVER_NOT_LOADED",
    "AMDSMI_STATUS_NO_DRV",
)

#: Uuids of devices; where the tool cannot read one, it prints an error in its place.
_UUID: Final = re.compile(r"[0-9A-Za-z]{2,}(-[0-9A-Za-z]+)+", re.ASCII)

#: Reasons for lower clocks, as ``Telemetry.throttling`` names them, by the tool's word for the limit that is
#: exceeded.
_THROTTLING: Final = {
    "prochot": "hw-slowdown",
    "ppt": "sw-power-cap",
    "socket_thermal": "hw-thermal",
    "vr_thermal": "hw-thermal",
    "hbm_thermal": "hw-thermal",
}

#: Weight of an XGMI route for each device on it (amdkfd: the distance of a single hop).
_WEIGHT_OF_A_HOP: Final = 15


class Amd(ToolVendor):
    """The vendor AMD."""

    name = VENDOR
    tool = _TOOL
    no_device = _NO_DEVICE

    def __init__(self, run: Run | None = None, sysfs: Path = pci.SYSFS) -> None:
        super().__init__(run, sysfs)
        self._reads_left = 0
        self._bound: frozenset[str] = frozenset()

    def _read(self) -> NodeReading:
        # Metrics have no name but a number, which is another one when a device has come or gone.
        bound = pci.bound_devices(_DRIVER, self._sysfs)
        metrics = self._by_number("metric")
        fixed = self._fixed
        changed = fixed is None or bound != self._bound or set(metrics) != set(fixed.devices)
        if fixed is None or changed or self._reads_left <= 0:
            fixed, self._bound, self._reads_left = self._read_fixed(), bound, _READS_OF_FIXED
        self._fixed, self._reads_left = fixed, self._reads_left - 1
        processes = self._by_number("process", may_refuse=True)
        found = {
            key: replace(
                device,
                ecc=_ecc(metrics.get(key)),
                processes=_processes(processes.get(key)),
                telemetry=_telemetry(metrics.get(key), device.telemetry.power_limit),
            )
            for key, device in fixed.devices.items()
        }
        return self._reading(fixed, found)

    def _read_fixed(self) -> ToolFacts:
        listed, static = self._by_number("list"), self._by_number("static")
        ids = device_ids(
            listed,
            {key: uuid for key, one in listed.items() if _UUID.fullmatch(uuid := text_of(one.get("uuid")))},
            {key: bus for key, one in listed.items() if (bus := _bus_id(one, static.get(key, {})))},
        )
        devices = {
            key: _device(key, ids[key], listed[key], static.get(key, {}), self._sysfs) for key in listed
        }
        topology = self._by_number("topology", may_refuse=True)
        return ToolFacts(
            devices=devices,
            links=_links(topology, devices),
            driver_version=version_of(static.values(), "driver", "version"),
            runtime_version=self._rocm_version(),
        )

    def _rocm_version(self) -> str:
        try:
            printed = documents(self._run, _TOOL, "version", "--json")
        except ToolRefused:
            return ""
        for document in printed:
            for entry in entries(document if isinstance(document, list) else [document]):
                if version := text_of(entry.get("rocm_version")):
                    return version
        return ""

    def _by_number(self, subcommand: str, *, may_refuse: bool = False) -> dict[int, Mapping[str, Any]]:
        """Entries of all devices by the tool's number. ``may_refuse``: an error of the tool counts as none told."""
        command = (_TOOL, subcommand, "--json")
        try:
            printed = documents(self._run, *command)
        except ToolRefused:
            if may_refuse:
                return {}
            raise
        found: dict[int, Mapping[str, Any]] = {}
        for document in printed:
            told = document.get("gpu_data", document) if isinstance(document, Mapping) else document
            if not isinstance(told, list):
                if isinstance(document, Mapping) and "cpu_data" in document:
                    continue
                raise changed_output(command, told, "a list of entries by gpu, or gpu_data with such a list")
            for entry in told:
                key = count(at(entry, "gpu"))
                if key is not None:
                    found[key] = entry
                elif at(entry, "cpu") is None:
                    raise changed_output(command, entry, "an entry with the number of a gpu")
        return found


def _bus_id(listed: Mapping[str, Any], static: Mapping[str, Any]) -> str:
    return pci.bus_id(listed.get("bdf")) or pci.bus_id(at(static, "bus", "bdf"))


def _device(
    key: int, device_id: DeviceId, listed: Mapping[str, Any], static: Mapping[str, Any], sysfs: Path
) -> DeviceReading:
    bus = _bus_id(listed, static)
    module = count(at(static, "asic", "oam_id"))
    return DeviceReading(
        id=device_id,
        index=key,
        minor=pci.render_minor(bus, sysfs),
        module=module if module is not None and module < 255 else None,
        model=(
            text_of(at(static, "asic", "market_name"))
            or text_of(at(static, "board", "product_name"))
            or "AMD GPU"
        ),
        memory_bytes=bytes_of(at(static, "vram", "size"), "MB") or 0,
        bus_id=bus,
        pcie_root=pci.pcie_root(bus, sysfs),
        numa_node=_numa_node(bus, static, sysfs),
        ecc_enabled=_ecc_enabled(at(static, "ras", "ecc_block_state")),
        telemetry=Telemetry(power_limit=_power_limit(at(static, "limit"))),
    )


def _numa_node(bus: str, static: Mapping[str, Any], sysfs: Path) -> int | None:
    """The kernel's word; else the tool's: an affinity of -1 means that the device has none."""
    if (node := pci.numa_node(bus, sysfs)) is not None:
        return node
    affinity = whole(at(static, "numa", "affinity"))
    if affinity is not None:
        return affinity if affinity >= 0 else None
    return count(at(static, "numa", "node"))


def _ecc_enabled(blocks: object) -> bool | None:
    """Whether the memory (block UMC) corrects errors; None: unknown."""
    state = at(blocks, "UMC")
    if isinstance(blocks, list):
        state = next((one.get("status") for one in entries(blocks) if one.get("block") == "UMC"), None)
    return {"ENABLED": True, "DISABLED": False}.get(text_of(state))


def _power_limit(limit: object) -> int | None:
    """Milliwatts. ROCm 7 has limits by kind (``ppt0``: of the socket)."""
    for path in (
        ("socket_power",),
        ("ppt0", "socket_power_limit"),
        ("max_power",),
        ("ppt0", "max_power_limit"),
    ):
        if watts := number(at(limit, *path)):
            return round(watts * 1000)
    return None


def _ecc(metric: object) -> EccErrors | None:
    corrected = count(at(metric, "ecc", "total_correctable_count"))
    uncorrected = count(at(metric, "ecc", "total_uncorrectable_count"))
    if corrected is None or uncorrected is None:
        return None
    return EccErrors(corrected=corrected, uncorrected=uncorrected)


def _telemetry(metric: object, power_limit: int | None) -> Telemetry:
    temperature = at(metric, "temperature")
    watts = number(at(metric, "power", "socket_power"))
    # The edge is what other vendors call the temperature of the device; Instinct has only the hottest place.
    degrees = (whole(at(temperature, place)) for place in ("edge", "hotspot"))
    return Telemetry(
        temperature=next((value for value in degrees if value is not None), None),
        power=None if watts is None else round(watts * 1000),
        power_limit=power_limit,
        sm_clock=count(at(metric, "clock", "gfx_0", "clk")),
        memory_clock=count(at(metric, "clock", "mem_0", "clk")),
        throttling=_throttling(metric),
        utilisation=count(at(metric, "usage", "gfx_activity")),
        memory_used_bytes=bytes_of(at(metric, "mem_usage", "used_vram"), "MB"),
    )


def _throttling(metric: object) -> tuple[str, ...]:
    limits = at(metric, "throttle")
    reasons = {
        reason
        for word, reason in _THROTTLING.items()
        if text_of(at(limits, f"{word}_violation_status")) == "ACTIVE"
    }
    if not reasons and text_of(at(metric, "power", "throttle_status")) == "THROTTLED":
        reasons = {"unspecified"}
    return tuple(sorted(reasons))


def _processes(entry: object) -> tuple[Process, ...]:
    """Processes of a device; in place of one the tool may say in words that there is none."""
    found = {}
    for listed in entries(at(entry, "process_list")):
        process = listed.get("process_info", listed)
        if pid := count(at(process, "pid")):
            used = (
                bytes_of(value, "B")
                for value in (
                    at(process, "memory_usage", "vram_mem"),
                    at(process, "mem_usage"),
                    at(process, "mem"),
                )
            )
            found[pid] = Process(
                pid=pid, memory_bytes=next((value for value in used if value is not None), None)
            )
    return tuple(found[pid] for pid in sorted(found))


def _links(
    topology: Mapping[int, Mapping[str, Any]], devices: Mapping[int, DeviceReading]
) -> tuple[Link, ...]:
    links = {}
    for near, entry in sorted(topology.items()):
        for told in entries(entry.get("links")):
            far = count(told.get("gpu"))
            if far is not None and near < far and near in devices and far in devices:
                links[near, far] = _link(near, far, told, devices)
    return tuple(links[pair] for pair in sorted(links))


def _link(near: int, far: int, told: Mapping[str, Any], devices: Mapping[int, DeviceReading]) -> Link:
    return Link(
        between=(near, far),
        nvlinks=_xgmi_links(told) if text_of(told.get("link_type")) == "XGMI" else 0,
        path=_path(told, devices[near], devices[far]),
        peer_access={"ENABLED": True, "DISABLED": False}.get(text_of(told.get("link_status"))),
    )


def _xgmi_links(told: Mapping[str, Any]) -> int:
    """XGMI links between two devices; 0: the route goes over other devices.

    The tool does not count them, and its hops are 1 for any XGMI route. The driver gives the bandwidth of one
    link as the smallest and of all together as the largest, and a weight for each device on the route.
    """
    least, _, most = text_of(told.get("bandwidth")).partition("-")
    smallest, largest = number(least), number(most)
    if smallest and largest and largest >= smallest:
        return round(largest / smallest)
    weight = number(told.get("weight"))
    return 0 if weight is not None and weight > _WEIGHT_OF_A_HOP else 1


def _path(told: Mapping[str, Any], near: DeviceReading, far: DeviceReading) -> PciePath | None:
    """Distance on the PCI bus: by the root complex, else by the NUMA nodes, else by the hops of a PCIe route."""
    if near.pcie_root and near.pcie_root == far.pcie_root:
        return PciePath.HOST_BRIDGE
    if near.numa_node is not None and far.numa_node is not None:
        return PciePath.NUMA_NODE if near.numa_node == far.numa_node else PciePath.SYSTEM
    if text_of(told.get("link_type")) == "PCIE":
        return {2: PciePath.NUMA_NODE, 3: PciePath.SYSTEM}.get(whole(told.get("num_hops")) or 0)
    return None

"""Intel's devices, by what its tool ``xpu-smi`` prints as JSON.

Known are the forms of xpu-smi 1.2 and 1.3 (statistics as lists of ``metrics_type`` and ``value``, links in
``port_list``) and of 2.0 and 2.1 (statistics by name and tile). What does not change is asked for when the list
of devices does.

The tool tells of no events; what goes wrong is seen by reading. Uuids of Intel's devices are made from the bus
id, so that they are the same on equal nodes.
"""

import re
from collections.abc import Mapping, Sequence
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
    version_text,
)
from admission.agent.vendors.seen_devices import device_ids
from admission.agent.vendors.tool_vendor import ToolFacts, ToolVendor, version_of

VENDOR: Final = "intel"
_TOOL: Final = "xpu-smi"

#: What the tool says where there is no driver or no device.
_NO_DEVICE: Final = ("Level Zero Initialization Error", "No device discovered", "device not found")

_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.ASCII)
_CARD: Final = re.compile(r"/dev/dri/card(?P<number>[0-9]{1,4})", re.ASCII)
_LEVEL_ZERO: Final = re.compile(r"Level Zero Version:\s*(?P<version>[0-9][0-9A-Za-z.+-]{0,40})", re.ASCII)

#: Distances on the PCI bus, nearest first, by the symbols of ``xpu-smi topology -m``.
_PATHS: Final = {
    "PIX": PciePath.SINGLE_SWITCH,
    "PXB": PciePath.MULTIPLE_SWITCHES,
    "PHB": PciePath.HOST_BRIDGE,
    "NODE": PciePath.NUMA_NODE,
    "SYS": PciePath.SYSTEM,
}
_NEAREST: Final = tuple(_PATHS.values())

#: Errors that a memory could not correct, and those that it could: categories of 2.x, metrics of 1.x.
_MEMORY_CATEGORIES: Final = ("Cache Errors", "Mem Errors")
_UNCORRECTED: Final = (
    "RAS_ERROR_CAT_CACHE_ERRORS_UNCORRECTABLE",
    "RAS_ERROR_CAT_NON_COMPUTE_ERRORS_UNCORRECTABLE",
)
_CORRECTED: Final = ("RAS_ERROR_CAT_CACHE_ERRORS_CORRECTABLE", "RAS_ERROR_CAT_NON_COMPUTE_ERRORS_CORRECTABLE")


class Intel(ToolVendor):
    """The vendor Intel."""

    name = VENDOR
    tool = _TOOL
    no_device = _NO_DEVICE

    def __init__(self, run: Run | None = None, sysfs: Path = pci.SYSFS) -> None:
        super().__init__(run, sysfs)
        #: What the tool listed when the fixed facts were read.
        self._listed_then: Mapping[int, Mapping[str, Any]] = {}
        #: Whether this version counts errors of memory (``stats -r``).
        self._counts_errors = True

    def _forget(self) -> None:
        super()._forget()
        self._counts_errors = True

    def _read(self) -> NodeReading:
        listed = self._listed()
        fixed = self._fixed
        if fixed is None or self._listed_then != listed:
            fixed = self._fixed = self._read_fixed(listed)
            self._listed_then = listed
        processes = self._processes() if listed else {}
        found = {
            key: self._with_statistics(key, replace(device, processes=processes.get(key, ())))
            if _works(listed[key])
            else replace(device, lost=True)
            for key, device in fixed.devices.items()
        }
        return self._reading(fixed, found)

    def _listed(self) -> dict[int, Mapping[str, Any]]:
        """Devices by number. Virtual functions count only where there is nothing else: others are given to
        machines."""
        command = (_TOOL, "discovery", "-j")
        document = documents(self._run, *command)[0]
        if not isinstance(document, Mapping) or "device_list" not in document:
            raise changed_output(command, document, "an object with device_list")
        told = document["device_list"]
        if not told or told == "No device discovered":
            return {}
        if not isinstance(told, list):
            raise changed_output(command, told, "a list of devices")
        found: dict[int, Mapping[str, Any]] = {}
        for entry in told:
            if (key := count(at(entry, "device_id"))) is None:
                raise changed_output(command, entry, "a device with a number device_id")
            found[key] = entry
        virtual = {key for key, entry in found.items() if entry.get("device_function_type") == "virtual"}
        return (
            found if len(virtual) == len(found) else {key: found[key] for key in found if key not in virtual}
        )

    def _read_fixed(self, listed: Mapping[int, Mapping[str, Any]]) -> ToolFacts:
        ids = device_ids(
            listed,
            {key: uuid for key, one in listed.items() if _UUID.fullmatch(uuid := text_of(one.get("uuid")))},
            {key: bus for key, one in listed.items() if (bus := pci.bus_id(one.get("pci_bdf_address")))},
        )
        details = {key: self._of_device("discovery", key) if _works(listed[key]) else {} for key in listed}
        devices = {key: _device(key, ids[key], listed[key], details[key], self._sysfs) for key in listed}
        version = _LEVEL_ZERO.search(version_text(self._run, _TOOL, "-v"))
        return ToolFacts(
            devices=devices,
            links=self._links(devices),
            driver_version=version_of(details.values(), "driver_version"),
            runtime_version=version["version"] if version else "",
        )

    def _of_device(self, subcommand: str, key: int, *options: str) -> Mapping[str, Any]:
        command = (_TOOL, subcommand, "-d", str(key), *options, "-j")
        document = documents(self._run, *command)[0]
        # Some versions give a list of one.
        if isinstance(document, list) and len(document) == 1:
            document = document[0]
        if not isinstance(document, Mapping):
            raise changed_output(command, document, "an object for the device")
        return document

    def _with_statistics(self, key: int, device: DeviceReading) -> DeviceReading:
        if self._counts_errors:
            try:
                return _measured(device, self._of_device("stats", key, "-r"))
            except ToolRefused:
                self._counts_errors = False
        return _measured(device, self._of_device("stats", key))

    def _processes(self) -> dict[int, tuple[Process, ...]]:
        """Processes by number of the device: all that have it open, but not the tool itself. Empty: the tool
        refuses."""
        command = (_TOOL, "ps", "-j")
        try:
            document = documents(self._run, *command)[0]
        except ToolRefused:
            return {}
        if not isinstance(document, Mapping) or "device_util_by_proc_list" not in document:
            raise changed_output(command, document, "an object with device_util_by_proc_list")
        found: dict[int, dict[int, Process]] = {}
        for entry in entries(document["device_util_by_proc_list"]):
            key, pid = count(entry.get("device_id")), count(entry.get("process_id"))
            if key is None or not pid or text_of(entry.get("process_name")).endswith(_TOOL):
                continue
            memory = bytes_of(entry.get("mem_size"), "KB")
            found.setdefault(key, {})[pid] = Process(pid=pid, memory_bytes=memory)
        return {key: tuple(of[pid] for pid in sorted(of)) for key, of in found.items()}

    def _links(self, devices: Mapping[int, DeviceReading]) -> tuple[Link, ...]:
        """Links of all pairs; empty: one device, or the tool refuses."""
        if len(devices) < 2:
            return ()
        command = (_TOOL, "topology", "-m", "-j")
        try:
            document = documents(self._run, *command)[0]
        except ToolRefused:
            return ()
        told = at(document, "topo_list")
        if not isinstance(told, list):
            raise changed_output(command, document, "an object with topo_list")
        pairs: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
        for entry in entries(told):
            near, far = count(entry.get("local_device_id")), count(entry.get("remote_device_id"))
            if near in devices and far in devices and near is not None and far is not None and near < far:
                pairs.setdefault((near, far), []).append(entry)
        return tuple(_link(pair, pairs[pair]) for pair in sorted(pairs))


def _works(listed: Mapping[str, Any]) -> bool:
    """Whether a device answers; in survivability mode it takes new firmware, and nothing else."""
    return text_of(listed.get("device_state")).lower() in ("", "normal")


def _device(
    key: int, device_id: DeviceId, listed: Mapping[str, Any], detail: Mapping[str, Any], sysfs: Path
) -> DeviceReading:
    bus = pci.bus_id(listed.get("pci_bdf_address")) or pci.bus_id(detail.get("pci_bdf_address"))
    card = _CARD.fullmatch(text_of(listed.get("drm_device")) or text_of(detail.get("drm_device")))
    memory = bytes_of(detail.get("memory_physical_size_byte"), "B")
    return DeviceReading(
        id=device_id,
        index=key,
        minor=int(card["number"]) if card else None,
        module=count(detail.get("oam_socket_id")),
        model=text_of(listed.get("device_name")) or text_of(detail.get("device_name")) or "Intel GPU",
        memory_bytes=memory or bytes_of(detail.get("memory_physical_size"), "MiB") or 0,
        bus_id=bus,
        pcie_root=pci.pcie_root(bus, sysfs),
        numa_node=pci.numa_node(bus, sysfs),
        ecc_enabled={"enabled": True, "disabled": False}.get(text_of(detail.get("memory_ecc_state")).lower()),
    )


def _link(pair: tuple[int, int], told: Sequence[Mapping[str, Any]]) -> Link:
    """A link from the entries of all pairs of tiles of two devices."""
    kinds = [text_of(entry.get("link_type")) for entry in told]
    paths = [_PATHS[kind] for kind in kinds if kind in _PATHS]
    links = sum(_xe_links(entry) for entry in told)
    return Link(between=pair, nvlinks=links, path=min(paths, key=_NEAREST.index) if paths else None)


def _xe_links(entry: Mapping[str, Any]) -> int:
    """Xe Links of a pair of tiles: the ports with lanes. ``XL*`` is a route over another tile, and no link."""
    kind = text_of(entry.get("link_type"))
    if not kind.startswith("XL") or kind.endswith("*"):
        return 0
    ports = entry.get("port_list")
    return sum(bool(count(port)) for port in ports) if isinstance(ports, list) else 1


def _measured(device: DeviceReading, stats: Mapping[str, Any]) -> DeviceReading:
    new = "device_level" not in stats
    telemetry, ecc = (_by_name(stats), _errors(stats)) if new else _by_metric(stats, device.memory_bytes)
    return replace(device, telemetry=telemetry, ecc=ecc)


def _by_name(stats: Mapping[str, Any]) -> Telemetry:
    """Statistics of 2.x: by name and tile, each the mean, the bounds and the last value."""

    def of_tiles(*path: str) -> list[float]:
        tiles = at(stats, *path)
        values = tiles.values() if isinstance(tiles, Mapping) else ()
        told = (number(at(value, "current") if isinstance(value, Mapping) else value) for value in values)
        return [value for value in told if value is not None]

    watts, mebibytes = of_tiles("power", "gpu_power_w"), of_tiles("memory", "used_mib")
    utilisation = of_tiles("utilization", "gpu_percent")
    return Telemetry(
        temperature=_rounded(max(of_tiles("temperature", "gpu_core_celsius"), default=None)),
        power=_rounded(sum(watts) * 1000 if watts else None),
        sm_clock=_rounded(max(of_tiles("frequency", "gpu_frequency_mhz"), default=None)),
        utilisation=_rounded(sum(utilisation) / len(utilisation) if utilisation else None),
        memory_used_bytes=bytes_of(sum(mebibytes), "MiB") if mebibytes else None,
    )


def _errors(stats: Mapping[str, Any]) -> EccErrors | None:
    """Errors of memory and caches, of 2.x."""
    told = [at(stats, "ras_errors", category) for category in _MEMORY_CATEGORIES]
    corrected = [found for one in told if (found := count(at(one, "correctable_total"))) is not None]
    uncorrected = [found for one in told if (found := count(at(one, "uncorrectable_total"))) is not None]
    if not corrected and not uncorrected:
        return None
    return EccErrors(corrected=sum(corrected), uncorrected=sum(uncorrected))


def _by_metric(stats: Mapping[str, Any], memory_bytes: int) -> tuple[Telemetry, EccErrors | None]:
    """Statistics of 1.x: lists of metrics, of the device and of its tiles. A device's own value comes first."""
    own = _metrics(stats.get("device_level"))
    tiles = [_metrics(tile.get("data_list")) for tile in entries(stats.get("tile_level"))]

    def of(name: str) -> list[float]:
        return [own[name]] if name in own else [tile[name] for tile in tiles if name in tile]

    def total(names: Sequence[str]) -> int | None:
        told = [value for name in names for value in of(name)]
        return _rounded(sum(told)) if told else None

    watts, utilisation, used = of("POWER"), of("GPU_UTILIZATION"), of("MEMORY_USED")
    corrected, uncorrected = total(_CORRECTED), total(_UNCORRECTED)
    telemetry = Telemetry(
        temperature=_rounded(max(of("GPU_CORE_TEMPERATURE"), default=None)),
        power=_rounded(sum(watts) * 1000 if watts else None),
        sm_clock=_rounded(max(of("GPU_FREQUENCY"), default=None)),
        utilisation=_rounded(sum(utilisation) / len(utilisation) if utilisation else None),
        memory_used_bytes=_used(sum(used), memory_bytes) if used else None,
    )
    if corrected is None and uncorrected is None:
        return telemetry, None
    return telemetry, EccErrors(corrected=corrected or 0, uncorrected=uncorrected or 0)


def _metrics(told: object) -> dict[str, float]:
    """Values by name, without the common beginning of the names."""
    found = {}
    for entry in entries(told):
        name, value = text_of(entry.get("metrics_type")), number(entry.get("value"))
        if name and value is not None:
            found[name.removeprefix("XPUM_STATS_")] = value
    return found


def _used(value: float, memory_bytes: int) -> int | None:
    """Memory in use, which 1.x tells in MiB, and where a daemon counts for it in bytes: more than fits is bytes."""
    mebibytes = bytes_of(value, "MiB")
    return (
        bytes_of(value, "B")
        if mebibytes is None or (memory_bytes and mebibytes > memory_bytes)
        else mebibytes
    )


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)

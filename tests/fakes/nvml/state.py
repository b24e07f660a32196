"""The state file of the fake NVML, as ``state.h`` lays it out; and the models that it knows."""

import ctypes
from ctypes import c_char, c_uint8, c_uint32, c_uint64
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

DEVICES: Final = 16
LINKS: Final = 36
INSTANCES: Final = 8
PROCESSES: Final = 16
FAILURES: Final = 64
EVENTS: Final = 256
#: A GPU or compute instance that is none: the whole device.
NO_INSTANCE: Final = 0xFFFFFFFF


class Presence(IntEnum):
    """How a device answers, as ``enum presence``."""

    UNPLUGGED = 0
    PRESENT = 1
    LOST = 2
    #: It answers sessions that began after others did.
    BACK = 3


class LinkState(IntEnum):
    """As ``enum link_state``."""

    ABSENT = 0
    DOWN = 1
    UP = 2


class Link(ctypes.Structure):
    _fields_ = [("state", c_uint32), ("remote_type", c_uint32), ("remote_slot", c_uint32)]


class Instance(ctypes.Structure):
    _fields_ = [
        *((name, c_uint32) for name in ("used", "gpu_instance", "compute_instance")),
        ("uuid", c_char * 96),
        ("profile", c_char * 32),
    ]


class Process(ctypes.Structure):
    _fields_ = [
        ("memory", c_uint64),
        *((name, c_uint32) for name in ("pid", "gpu_instance", "compute_instance", "padding")),
    ]


class Device(ctypes.Structure):
    _fields_ = [
        ("uuid", c_char * 96),
        ("name", c_char * 96),
        ("bus_id", c_char * 32),
        *((name, c_uint64) for name in ("memory_total", "memory_used", "event_types", "clock_reasons")),
        ("ecc_uncorrected", c_uint64),
        *((name, c_uint32) for name in ("presence", "back_after", "minor", "module", "pcie_root")),
        *((name, c_uint32) for name in ("mig_supported", "mig_enabled", "ecc_supported", "ecc_enabled")),
        *((name, c_uint32) for name in ("remap_pending", "remap_failed", "recovery_action")),
        *((name, c_uint32) for name in ("fabric_state", "fabric_clique")),
        *((name, c_uint32) for name in ("temperature", "power", "power_limit")),
        *((name, c_uint32) for name in ("utilisation", "process_count")),
        ("fabric_cluster", c_uint8 * 16),
        ("links", Link * LINKS),
        ("instances", Instance * INSTANCES),
        ("processes", Process * PROCESSES),
    ]


class Failure(ctypes.Structure):
    _fields_ = [("function", c_char * 64), ("code", c_uint32)]


class Event(ctypes.Structure):
    _fields_ = [
        ("type", c_uint64),
        ("data", c_uint64),
        *((name, c_uint32) for name in ("slot", "gpu_instance", "compute_instance", "padding")),
    ]


class State(ctypes.Structure):
    _fields_ = [
        *((name, c_uint64) for name in ("size", "calls", "events_written")),
        *((name, c_uint32) for name in ("driver_loaded", "driver_starts", "delay_microseconds", "sessions")),
        *((name, c_uint32) for name in ("cuda_version", "init_result", "misuses", "padding")),
        ("driver_version", c_char * 80),
        ("failures", Failure * FAILURES),
        ("events", Event * EVENTS),
        ("devices", Device * DEVICES),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of GPU: what is the same for all of its devices."""

    name: str
    memory: int
    #: How many NVLinks it has.
    nvlinks: int = 0
    ecc: bool = True
    power_limit: int = 300_000
    #: The MIG instances that can be made of it.
    profiles: tuple[str, ...] = ()


MODELS: Final = {
    "H100": Model(
        name="NVIDIA H100 80GB HBM3",
        memory=81559 << 20,
        nvlinks=18,
        power_limit=700_000,
        profiles=("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"),
    ),
    "A100": Model(
        name="NVIDIA A100-SXM4-40GB",
        memory=40960 << 20,
        nvlinks=12,
        power_limit=400_000,
        profiles=("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"),
    ),
    "L40S": Model(name="NVIDIA L40S", memory=46068 << 20),
    "T4": Model(name="Tesla T4", memory=15360 << 20, power_limit=70_000),
    "RTX": Model(name="NVIDIA GeForce RTX 4090", memory=24564 << 20, ecc=False, power_limit=450_000),
}

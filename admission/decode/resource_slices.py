"""Devices of nodes (dynamic resource allocation, resource.k8s.io/v1): ResourceSlices and DeviceClasses → facts. Pure.

A DeviceClass selects devices by expressions in CEL. Those of drivers name the driver and attributes with their values;
these are read here. Others are a problem that is told where the class is used.
"""

import re
from sys import intern
from typing import Any, Final

import msgspec

from admission.decode.fields import one
from admission.facts import DeviceClassFact, ResourceSliceFact
from admission.wire import Int64, WireMetadata, WireStruct
from queues.api.reading.user_values import shortened
from queues.workload import NodeName

#: Attributes in which each device differs from every other one. No class selects by them, and there are many.
_OF_ONE_DEVICE: Final = frozenset(("uuid", "pciBusID", "pcieRoot", "serial", "serialNumber"))
_LONGEST_VALUE: Final = 64

_TEXT: Final = r"""(?:"[^"\\]*"|'[^'\\]*')"""
_DRIVER: Final = re.compile(rf"device\.driver ?== ?({_TEXT})")
_ATTRIBUTE: Final = re.compile(
    rf"device\.attributes\[ ?({_TEXT}) ?\]\.([A-Za-z_]\w*)(?: ?== ?({_TEXT}|true|false|-?\d+))?"
)
_EXPECTED: Final = "device.driver == '…' and device.attributes['…'].… == …, joined by &&"


class _Pool(WireStruct):
    name: str = ""
    generation: Int64 = 0


class _Taint(WireStruct):
    effect: str = ""


class _Device(WireStruct):
    attributes: dict[str, dict[str, Any]] | None = None
    taints: tuple[_Taint, ...] | None = None
    consumes_counters: tuple[msgspec.Raw, ...] | None = None
    node_name: str | None = None


class _SliceSpec(WireStruct):
    driver: str = ""
    pool: _Pool = msgspec.field(default_factory=_Pool)
    node_name: str | None = None
    devices: tuple[_Device, ...] | None = None


class WireResourceSlice(WireStruct):
    """A ResourceSlice."""

    metadata: WireMetadata
    spec: _SliceSpec = msgspec.field(default_factory=_SliceSpec)


class _Cel(WireStruct):
    expression: str = ""


class _Selector(WireStruct):
    cel: _Cel | None = None


class _ClassSpec(WireStruct):
    selectors: tuple[_Selector, ...] | None = None


class WireDeviceClass(WireStruct):
    """A DeviceClass."""

    metadata: WireMetadata
    spec: _ClassSpec = msgspec.field(default_factory=_ClassSpec)


def resource_slice_fact(slice_: WireResourceSlice) -> ResourceSliceFact | None:
    """The devices of a ResourceSlice that pods may get; None: it is not about one node.

    Devices that are parts of one another (``consumesCounters``) are left out: how many of them there are together
    depends on which are taken. So are devices with a taint that keeps pods off.
    """
    spec = slice_.spec
    if not spec.node_name:
        return None
    devices = tuple(
        one(_attributes(device, spec.driver))
        for device in spec.devices or ()
        if not device.consumes_counters
        and not any(taint.effect in ("NoSchedule", "NoExecute") for taint in device.taints or ())
    )
    return ResourceSliceFact(
        node=NodeName(spec.node_name),
        driver=intern(spec.driver),
        pool=spec.pool.name,
        generation=spec.pool.generation,
        devices=devices,
    )


def _attributes(device: _Device, driver: str) -> frozenset[tuple[str, str]]:
    found = set()
    for key, typed in (device.attributes or {}).items():
        domain, _, name = key.rpartition("/")
        if name in _OF_ONE_DEVICE:
            continue
        for kind, value in typed.items():
            if kind in ("string", "int", "bool") and len(text := _text(value)) <= _LONGEST_VALUE:
                found.add((intern(f"{domain or driver}/{name}"), intern(text)))
    return frozenset(found)


def _text(value: Any) -> str:
    """Type and value, as one text: in CEL true is not 1, and '1' is not 1."""
    return f"{type(value).__name__} {value}"


def device_class_fact(found: WireDeviceClass) -> DeviceClassFact:
    """A DeviceClass. Selectors that cannot be read are its problem."""
    driver, attributes = "", set()
    name = found.metadata.name
    for selector in found.spec.selectors or ():
        expression = selector.cel.expression if selector.cel is not None else ""
        for term in expression.split("&&"):
            plain = _without_brackets(" ".join(term.split()))
            if (by_driver := _DRIVER.fullmatch(plain)) is not None and driver in (
                "",
                _unquoted(by_driver[1]),
            ):
                driver = str(_unquoted(by_driver[1]))
            elif (by_attribute := _ATTRIBUTE.fullmatch(plain)) is not None:
                domain, attribute, value = by_attribute.groups()
                key = f"{_unquoted(domain)}/{attribute}"
                attributes.add((key, _text(True if value is None else _unquoted(value))))
            else:
                problem = f"found selector {shortened(plain, 120) or 'without cel'!r}, expected {_EXPECTED}"
                return DeviceClassFact(name=name, problem=problem)
    return DeviceClassFact(name=name, driver=driver, attributes=frozenset(attributes))


def _without_brackets(term: str) -> str:
    while term.startswith("(") and term.endswith(")"):
        term = term[1:-1].strip()
    return term


def _unquoted(literal: str) -> str | int | bool:
    if literal[0] in "\"'":
        return literal[1:-1]
    return literal == "true" if literal in ("true", "false") else int(literal)

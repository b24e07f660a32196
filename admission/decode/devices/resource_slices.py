"""Devices of nodes (dynamic resource allocation, resource.k8s.io/v1): ResourceSlices and DeviceClasses → facts. Pure.

A DeviceClass selects devices by expressions in CEL. Those of drivers name the driver and attributes with their values;
these are read here. Others are a problem that is shown where the class is used.
"""

import re
from sys import intern
from typing import Any, Final

import msgspec

from admission.decode.fields import one
from admission.facts.devices import DeviceClassFact, ResourceSliceFact, SliceDevice
from admission.wire import WireMetadata, WireResourceSlice, WireSliceDevice, WireStruct
from queues.api.reading.user_values import LONGEST_NAME, is_dns_name, shortened
from queues.workload import NodeName

#: Attributes by which an agent knows a device, or the device that it is a part of, in lower case.
_IDS: Final = frozenset(("uuid", "parentuuid", "pcibusid", "pciebusid"))
#: Those in which each device differs from every other one. No class selects by them, and there are many.
_OF_ONE_DEVICE: Final = _IDS | {"pcieroot", "serial", "serialnumber"}
#: Bounds of the API server: characters of an attribute's name with its domain, and of its value; attributes of a
#: device; devices of a slice.
_LONGEST_NAME: Final = 96
_LONGEST_VALUE: Final = 64
_MOST_ATTRIBUTES: Final = 32
_MOST_DEVICES: Final = 128

#: Characters of a term of a selector that names an attribute within these bounds.
_LONGEST_TERM: Final = 2 * (_LONGEST_NAME + _LONGEST_VALUE)

_TEXT: Final = r"""(?:"[^"\\]*"|'[^'\\]*')"""
_DRIVER: Final = re.compile(rf"device\.driver ?== ?({_TEXT})")
_ATTRIBUTE: Final = re.compile(
    rf"device\.attributes\[ ?({_TEXT}) ?\]\.([A-Za-z_]\w*)(?: ?== ?({_TEXT}|true|false|-?\d{{1,19}}))?"
)
_EXPECTED: Final = "device.driver == '…' and device.attributes['…'].… == …, joined by &&"


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
    """The devices of a ResourceSlice; None if it is not about one node, or names what cannot be one.

    Devices that are parts of one another (``consumesCounters``) are left out: how many of them there are together
    depends on which are taken.
    """
    spec = slice_.spec
    node, pool = spec.node_name or "", spec.pool
    if not (is_dns_name(node) and is_dns_name(spec.driver) and len(pool.name) <= LONGEST_NAME):
        return None
    devices = (
        SliceDevice(
            one(_attributes(device, spec.driver)),
            _ids(device),
            _is_tainted(device),
            intern(device.name[:LONGEST_NAME]),
        )
        for device in (spec.devices or ())[:_MOST_DEVICES]
        if not device.consumes_counters
    )
    return ResourceSliceFact(
        node=NodeName(node),
        driver=intern(spec.driver),
        pool=pool.name,
        generation=pool.generation,
        devices=tuple(devices),
    )


def _is_tainted(device: WireSliceDevice) -> bool:
    return any(taint.effect in ("NoSchedule", "NoExecute") for taint in device.taints or ())


def _ids(device: WireSliceDevice) -> tuple[str, ...]:
    found = set()
    for key, typed in (device.attributes or {}).items():
        text = typed.get("string")
        if key.rpartition("/")[2].lower() in _IDS and isinstance(text, str) and text:
            found.add(text[:_LONGEST_VALUE].lower())
    return tuple(sorted(found))


def _attributes(device: WireSliceDevice, driver: str) -> frozenset[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for key, typed in (device.attributes or {}).items():
        domain, _, name = key.rpartition("/")
        if name.lower() in _OF_ONE_DEVICE or len(key) > _LONGEST_NAME or len(found) >= _MOST_ATTRIBUTES:
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
            if len(plain) > _LONGEST_TERM:
                return _unreadable(name, plain)
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
                return _unreadable(name, plain)
    return DeviceClassFact(name=name, driver=driver, attributes=frozenset(attributes))


def _unreadable(name: str, term: str) -> DeviceClassFact:
    problem = f"found selector {shortened(term, 120) or 'without cel'!r}, expected {_EXPECTED}"
    return DeviceClassFact(name=name, problem=problem)


def _without_brackets(term: str) -> str:
    while term.startswith("(") and term.endswith(")"):
        term = term[1:-1].strip()
    return term


def _unquoted(literal: str) -> str | int | bool:
    if literal[0] in "\"'":
        return literal[1:-1]
    return literal == "true" if literal in ("true", "false") else int(literal)

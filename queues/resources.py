"""Vectors of exact integers: requests of pods, allocatable amounts of nodes, limits of queues.

Units, by resource name: ``cpu`` in milli-CPU; ``memory``, ``ephemeral-storage`` and ``hugepages-*`` in bytes;
``pods`` in pods; everything else (``nvidia.com/gpu``, ``aliyun.com/gpu-mem``, …) in thousandths, so that a
fraction of a device stays an integer.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Final

from queues.errors import InvalidQuantity, QuantityTooLarge

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
GPU: Final = "nvidia.com/gpu"

#: What whole devices of a vendor are registered as, unless their device plugin is set to another name.
_OF_VENDORS: Final = {"nvidia": GPU, "amd": "amd.com/gpu", "intel": "gpu.intel.com/xe"}

#: Resources of whole GPUs, the usual one first.
_GPUS: Final = (GPU, "amd.com/gpu", "gpu.intel.com/xe", "gpu.intel.com/i915")
#: Resources of one model, as NVIDIA's plugin names them where it is set up so. Others of its domain are parts of
#: devices, memory and cores of them, and network cards.
_OF_A_MODEL: Final = re.compile(
    r"nvidia\.com/(?!mig-|gpumem|gpucores|priority$|hostdev|.*(?:rdma|sriov|nic))[\w.-]+", re.IGNORECASE
)

#: The largest amount of anything that a quota may state, 1Ei of memory.
MOST: Final = 2**60
#: The most that a node counts as having of anything, 512Ti of memory: 16,000 nodes of it add up within an int64.
MOST_ON_NODE: Final = 2**49
#: The most that a pod counts as asking for of anything. No node has as much.
BEYOND_NODES: Final = 2 * MOST_ON_NODE
#: All of one device.
WHOLE: Final = 1000
#: Separates a resource from the number of a device, in the names of amounts of nodes that share devices.
DEVICE_MARK: Final = "#"
#: The most digits of a quantity's number, and the largest exponent.
_DIGITS: Final = 24
#: Characters of a quantity, and of the name of a resource. Longer ones are no such thing, and slow to take apart.
_LONGEST_QUANTITY: Final = 64
_LONGEST_NAME: Final = 317

_BYTES: Final = ("memory", "ephemeral-storage")
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_QUANTITY_EXPECTED: Final = "a quantity: a number with an optional suffix, such as 4, 500m, 32Gi or 1e3"
#: A number with a word, as people write amounts elsewhere.
_WITH_UNIT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)")
#: Words for what Kubernetes counts without a unit.
_NO_UNITS: Final = ("b", "byte", "bytes", "core", "cores", "cpu", "cpus", "gpu", "gpus")
_SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


def usual_resource(vendor: str) -> str:
    """What whole devices of a vendor are registered as, unless their device plugin is set to another name."""
    return _OF_VENDORS.get(vendor, f"{vendor}.com/gpu")


def is_whole_gpu(resource: str) -> bool:
    """Whether a resource counts whole GPUs."""
    return resource in _GPUS or _OF_A_MODEL.fullmatch(resource) is not None


def usual_gpus(counts: Mapping[str, int]) -> list[str]:
    """The resources that tell how many GPUs a node has: the usual one, or those of all models. ``counts``: of whole
    GPUs by resource."""
    usual = [name for name in _GPUS if counts.get(name)]
    return usual[:1] or [name for name in sorted(counts) if counts[name]]


def device(resource: str, index: int) -> str:
    """The name of the amount of one device of a node, in thousandths. Quotas and users never see it."""
    return f"{resource}{DEVICE_MARK}{index}"


def device_memory(resource: str) -> str:
    """The name of the MiB of memory of each device, of a node that shares its devices."""
    return f"{resource}{DEVICE_MARK}memory"


def is_device(resource: str) -> bool:
    """True for the name of one device of a node, or of its memory; false for resources that pods ask for."""
    return DEVICE_MARK in resource


def devices_text(takes: "Resources") -> str:
    """The numbers of the devices that a seat has parts of, as in the pod's annotation: ``0,3``; "": none."""
    numbers = [int(name.partition(DEVICE_MARK)[2]) for name in takes._amounts if DEVICE_MARK in name]
    return ",".join(map(str, sorted(set(numbers)))) if numbers else ""


def in_bytes(resource: str) -> bool:
    """Whether the resource is counted in bytes."""
    return resource in _BYTES or resource.startswith("hugepages-")


def scale(resource: str) -> int:
    """Units of this module in one unit of Kubernetes: 1 or 1000."""
    return 1 if in_bytes(resource) or resource == PODS else 1000


def quantity(text: str | int | float) -> Decimal:
    """The exact value of a Kubernetes quantity (``"500m"`` is 0.5).

    Raises InvalidQuantity.
    """
    return _quantity(str(text))


@lru_cache(maxsize=4096)
def _quantity(text: str) -> Decimal:
    if len(text) > _LONGEST_QUANTITY:
        raise InvalidQuantity(
            found=f"{text[:40]}… ({len(text)} characters)", expected=f"at most {_LONGEST_QUANTITY}"
        )
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise InvalidQuantity(found=text, expected=_quantity_meant(text) or _QUANTITY_EXPECTED)
    number, exponent, suffix = match.groups()
    if len(number) > _DIGITS or (exponent is not None and abs(int(exponent[1:6])) > _DIGITS):
        # Beyond any cluster, and slow to expand.
        raise InvalidQuantity(found=text, expected=f"at most {_DIGITS} digits")
    if exponent is not None:
        return Decimal(number + exponent)
    return Decimal(number) * _SUFFIXES.get(suffix or "", Decimal(1))


def _quantity_meant(text: str) -> str:
    """What to write instead of a text with a unit that Kubernetes does not have; "": not known."""
    match = _WITH_UNIT.fullmatch(text)
    if match is None:
        return ""
    number, unit = match.groups()
    if unit in _SUFFIXES:
        return f"{number}{unit}, without a space"
    lower = unit.lower()
    if lower in _NO_UNITS:
        meant = number
    elif (prefix := lower.removesuffix("b").removesuffix("i").upper()) in ("K", "M", "G", "T", "P", "E"):
        in_tens = "k" if prefix == "K" else prefix
        meant = f"{number}{prefix}i" + ("" if "i" in lower else f" or {number}{in_tens}")
    else:
        return ""
    return f"{meant}: {unit!r} is no unit"


@lru_cache(maxsize=16384)
def amount(resource: str, text: str | int | float) -> int:
    """A quantity in units of the resource, rounded up as Kubernetes rounds requests. Raises InvalidQuantity."""
    units = _rounded_up(resource, text)
    if abs(units) > MOST:
        raise QuantityTooLarge(found=text, most=show(resource, MOST), resource=resource)
    return units


@lru_cache(maxsize=16384)
def request(resource: str, text: str | int | float) -> int:
    """A container's request in units of the resource, rounded up, at most BEYOND_NODES. Raises InvalidQuantity."""
    return max(-BEYOND_NODES, min(_rounded_up(resource, text), BEYOND_NODES))


def _rounded_up(resource: str, text: str | int | float) -> int:
    if len(resource) > _LONGEST_NAME:
        raise InvalidQuantity(
            found=f"{text} of a resource with a name of {len(resource)} characters",
            expected=f"a name of at most {_LONGEST_NAME}",
        )
    return int((_quantity(str(text)) * scale(resource)).to_integral_value(ROUND_CEILING))


@lru_cache(maxsize=16384)
def capacity(resource: str, text: str | int | float) -> int:
    """A node's allocatable in units of the resource, rounded down, at most MOST_ON_NODE. Raises InvalidQuantity."""
    units = int((_quantity(str(text)) * scale(resource)).to_integral_value(ROUND_FLOOR))
    return min(units, MOST_ON_NODE)


@lru_cache(maxsize=16384)
def show(resource: str, units: int) -> str:
    """An amount as a Kubernetes quantity: 8000 of ``nvidia.com/gpu`` is "8", 2**30 of ``memory`` is "1Gi"."""
    if in_bytes(resource):
        for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
            size = int(_SUFFIXES[suffix])
            if units and units % size == 0:
                return f"{units // size}{suffix}"
        return str(units)
    size = scale(resource)
    if units % size == 0:
        return str(units // size)
    return f"{units}m"


class Resources(Mapping[str, int]):
    """An immutable vector of amounts by resource name. Absent resources count as 0; zeros are dropped."""

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        self._amounts: dict[str, int] = {name: units for name, units in dict(amounts).items() if units}
        self._hash: int | None = None

    @classmethod
    def parse(cls, quantities: Mapping[str, str | int | float]) -> "Resources":
        """From a ``requests``-like mapping. Raises InvalidQuantity."""
        return cls({name: amount(name, text) for name, text in quantities.items()})

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def get(self, name: str, default: int = 0) -> int:  # type: ignore[override]
        """The amount of one resource."""
        return self._amounts.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __add__(self, other: "Resources") -> "Resources":
        total = dict(self._amounts)
        for name, units in other._amounts.items():
            total[name] = total.get(name, 0) + units
        return Resources(total)

    def __sub__(self, other: "Resources") -> "Resources":
        rest = dict(self._amounts)
        for name, units in other._amounts.items():
            rest[name] = rest.get(name, 0) - units
        return Resources(rest)

    def __mul__(self, times: int) -> "Resources":
        return Resources({name: units * times for name, units in self._amounts.items()})

    def fits(self, room: Mapping[str, int]) -> bool:
        """Whether every amount is at most the one in ``room``."""
        return all(units <= room.get(name, 0) for name, units in self._amounts.items())

    def largest(self, other: "Resources") -> "Resources":
        """The larger amount of each resource."""
        names = self._amounts.keys() | other._amounts.keys()
        return Resources({name: max(self.get(name), other.get(name)) for name in names})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self._amounts == other._amounts

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._amounts.items()))
        return self._hash

    def __str__(self) -> str:
        return (
            ", ".join(f"{show(name, units)} {name}" for name, units in sorted(self._amounts.items()))
            or "nothing"
        )

    def __repr__(self) -> str:
        return f"Resources({dict(sorted(self._amounts.items()))})"


NOTHING: Final = Resources()


def total(vectors: Iterable[Resources]) -> Resources:
    """The sum of many vectors."""
    sums: dict[str, int] = {}
    for vector in vectors:
        for name, units in vector._amounts.items():
            sums[name] = sums.get(name, 0) + units
    return Resources(sums)

"""Facts about devices of dynamic resource allocation."""

from dataclasses import dataclass
from typing import NamedTuple

from queues.workload import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaimFact:
    """A ResourceClaim, or what a ResourceClaimTemplate makes: devices for a pod."""

    namespace: str
    name: str
    #: Numbers of devices by DeviceClass: as they were allocated, else as they are asked for.
    devices: tuple[tuple[str, int], ...] = ()
    #: Why they cannot be counted as they are asked for, as found and expected; "": they can.
    problem: str = ""
    #: Uid of the first pod that it is reserved for; "": none.
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClassFact:
    """A DeviceClass: which devices it selects."""

    name: str
    #: "": of all drivers.
    driver: str = ""
    #: Attributes that a device must have, as in ``ResourceSliceFact.devices``.
    attributes: frozenset[tuple[str, str]] = frozenset()
    #: Why its selectors cannot be read, as found and expected; "": they can.
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSliceFact:
    """Devices of one driver on one node: a ResourceSlice."""

    node: NodeName
    driver: str
    pool: str
    #: Slices of older generations than the pool's newest count no more.
    generation: int
    #: Devices that pods may get: attributes, (``domain/name``, type and value), and how many devices have these.
    devices: tuple[tuple[frozenset[tuple[str, str]], int], ...] = ()


class PodResourceClaim(NamedTuple):
    """An entry of a pod's ``resourceClaims``."""

    name: str
    #: The ResourceClaimTemplate of its namespace that a claim is made from for each pod; "": it names a claim.
    template: str = ""
    #: The ResourceClaim: the one it names, or the one that was made for it; "": not made yet.
    claim: str = ""

"""Which reported devices pods have by their ResourceClaims: what was allocated names devices of ResourceSlices, and
these give the uuid or the place on the PCI bus by which the agent of the node knows them. Pure.

The kubelet's list has no claimed devices, and of a device that fell off the bus no processes can be read. A claim with
a device that is not in the newest slices (its driver took it out) says nothing: what is left would hide that device.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from admission.facts.devices import AllocatedDevice, NodeDevicesFact, ResourceClaimFact, ResourceSliceFact
from admission.world.admissions import KeyIndex
from admission.world.devices.resource_claims import Place

#: Driver and name of a pool.
Pool = tuple[str, str]


class ClaimedDevices:
    """Allocated devices of ResourceClaims."""

    def __init__(self) -> None:
        self._allocated: dict[Place, tuple[AllocatedDevice, ...]] = {}
        self._claims_on: KeyIndex[Pool, Place] = KeyIndex()

    def put(self, place: Place, fact: ResourceClaimFact | None) -> set[Pool]:
        """A ResourceClaim appeared, changed or went away; returns pools in which its devices are others than before."""
        before = self._allocated.pop(place, ())
        after = fact.allocated if fact is not None else ()
        if after:
            self._allocated[place] = after
        for pool in {each.of for each in before}:
            self._claims_on.discard(pool, place)
        for pool in {each.of for each in after}:
            self._claims_on.add(pool, place)
        return {each.of for each in {*before} ^ {*after}}

    def pools_of(self, place: Place) -> set[Pool]:
        """Pools with devices of a claim."""
        return {each.of for each in self._allocated.get(place, ())}

    def ids_in(self, slices: Sequence[ResourceSliceFact]) -> dict[Place, frozenset[str]]:
        """What agents may call the devices of each claim on a node with these slices, all of the newest generation."""
        pools = {(each.driver, each.pool) for each in slices}
        claims = {place for pool in pools for place in self._claims_on.of(pool)}
        if not claims:
            return {}
        ids = {
            AllocatedDevice(part.driver, part.pool, device.name): device.ids
            for part in slices
            for device in part.devices
        }
        return {
            place: frozenset(name for each in self._allocated[place] for name in ids.get(each, ()))
            for place in claims
            if all(each in ids for each in self._allocated[place] if each.of in pools)
        }


def with_claims(
    reported: NodeDevicesFact, claims: Mapping[Place, frozenset[str]], pods: Mapping[Place, Iterable[str]]
) -> NodeDevicesFact:
    """The devices of a node, with the pods that have them by claims. ``pods``: uids of those that name each claim."""
    numbers = {name: each.number for each in reported.devices for name in each.names}
    holders = dict(reported.holders)
    for place, ids in claims.items():
        if found := frozenset(numbers[name] for name in ids & numbers.keys()):
            for uid in pods[place]:
                holders[uid] = holders.get(uid, frozenset()) | found
    return reported if holders == reported.holders else replace(reported, holders=holders)

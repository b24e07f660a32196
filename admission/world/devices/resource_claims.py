"""What pods claim of devices: amounts of the resources that these count as, and which devices they have. Pure.

What counts of a pod is its own ResourceClaim, once that is made: a template may have changed since, and a user
who may write claims could have made another one for the pod. Before that, and of a workload without pods, it is the
template.

What was allocated names devices of ResourceSlices, and
these give the uuid or the place on the PCI bus by which the agent of the node knows them.

The kubelet's list has no claimed devices, and of a device that fell off the bus no processes can be read. A claim with
a device that is not in the newest slices (its driver took it out) says nothing: what is left would hide that device.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from admission.decode.fields import one
from admission.facts.devices import (
    AllocatedDevice,
    NodeDevicesFact,
    PodResourceClaim,
    ResourceClaimFact,
    ResourceSliceFact,
)
from admission.facts.pods import PodFact
from admission.facts.workloads import NOTHING_BY_NAME, WorkloadFact
from admission.world.admissions import KeyIndex, replaced
from admission.world.devices.slice_devices import DeviceClasses
from queues.api.reading.user_values import LONGEST_MESSAGE, shortened
from queues.reason_codes import ReasonCode
from queues.resources import WHOLE, Resources
from queues.workload import Obstacle

#: Namespace and name.
Place = tuple[str, str]
#: Driver and name of a pool.
Pool = tuple[str, str]


class ResourceClaims:
    """ResourceClaims and ResourceClaimTemplates."""

    def __init__(self, classes: DeviceClasses) -> None:
        self._classes = classes
        self._templates: dict[Place, ResourceClaimFact] = {}
        self._claims: dict[Place, ResourceClaimFact] = {}
        #: Claims with devices, by the pool of these.
        self._claims_on: KeyIndex[Pool, Place] = KeyIndex()

    def put_template(self, place: Place, fact: ResourceClaimFact | None) -> None:
        """A ResourceClaimTemplate appeared or went away."""
        replaced(self._templates, place, fact)

    def put_claim(self, place: Place, fact: ResourceClaimFact | None) -> set[Pool]:
        """A ResourceClaim appeared, changed or went away; returns pools in which its devices are others than before."""
        before = self.allocated(place)
        replaced(self._claims, place, fact)
        after = self.allocated(place)
        self._claims_on.move(place, {each.of for each in before}, {each.of for each in after})
        return {each.of for each in {*before} ^ {*after}}

    def allocated(self, place: Place) -> tuple[AllocatedDevice, ...]:
        """The devices of a claim."""
        claim = self._claims.get(place)
        return () if claim is None else claim.allocated

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
            place: frozenset(name for each in self.allocated(place) for name in ids.get(each, ()))
            for place in claims
            if all(each in ids for each in self.allocated(place) if each.of in pools)
        }

    def in_pod(self, pod: PodFact) -> PodFact:
        """A pod with what it claims in its shape; one that claims something that cannot be counted has an obstacle."""
        takes, problem = self._amounts(pod.namespace, pod.claims, pod.uid)
        shape = one(replace(pod.shape, takes=pod.shape.takes + takes)) if takes else pod.shape
        return replace(
            pod,
            shape=shape,
            claims=(),
            claims_uncounted=bool(problem) or any(self._is_of_another_pod(pod, each) for each in pod.claims),
            obstacle=pod.obstacle or _obstacle(problem),
        )

    def in_workload(self, fact: WorkloadFact) -> WorkloadFact:
        """The same for the pods that are to be made for a workload."""
        pod_sets, obstacle = [], fact.obstacle
        for pods in fact.pod_sets:
            takes, problem = self._amounts(fact.namespace, fact.claims.get(pods.name, ()))
            obstacle = obstacle or _obstacle(problem and f"pods of {pods.name}: {problem}")
            pod_sets.append(one(replace(pods, takes=pods.takes + takes)) if takes else pods)
        return replace(fact, pod_sets=tuple(pod_sets), claims=NOTHING_BY_NAME, obstacle=obstacle)

    def _is_of_another_pod(self, pod: PodFact, claim: PodResourceClaim) -> bool:
        """Whether the devices of a claim count for another pod that shares it."""
        own = None if claim.template else self._claims.get((pod.namespace, claim.claim))
        return own is not None and own.user != pod.uid and bool(own.devices)

    def _amounts(
        self, namespace: str, claims: Sequence[PodResourceClaim], uid: str = ""
    ) -> tuple[Resources, str]:
        """What a pod claims, and the first thing that is wrong with that; "": nothing. ``uid``: of the pod."""
        found: Counter[str] = Counter()
        problems: list[str] = []
        for claim in claims:
            fact, problem = self._known(namespace, claim, uid)
            problems.append(problem)
            for device_class, number in fact.devices if fact is not None else ():
                resource, problem = self._classes.resource_of(device_class)
                problems.append(problem)
                if resource is not None:
                    found[resource] += number * WHOLE
        return Resources(found), next(filter(None, problems), "")

    def _known(
        self, namespace: str, claim: PodResourceClaim, uid: str
    ) -> tuple[ResourceClaimFact | None, str]:
        """What says what a pod gets by a claim, and what is wrong with it. Shared claims count for their first pod.

        That a pod shares a claim was noted when the pod was read.
        """
        own = self._claims.get((namespace, claim.claim)) if claim.claim else None
        if not claim.template:
            return (own if own is not None and own.user == uid else None), ""
        fact = own or self._templates.get((namespace, claim.template))
        if fact is None:
            return None, (
                f"resourceClaims[{claim.name}]: found no ResourceClaimTemplate {claim.template} in namespace "
                f"{namespace}, expected one; create it"
            )
        return fact, fact.problem and f"ResourceClaimTemplate {claim.template}: {fact.problem}"


def _obstacle(problem: str) -> Obstacle | None:
    return Obstacle(ReasonCode.INVALID_SPEC, shortened(problem, LONGEST_MESSAGE)) if problem else None


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

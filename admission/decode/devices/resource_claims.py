"""Claims for devices (dynamic resource allocation, resource.k8s.io/v1) → facts. Pure.

Only a number of devices of one DeviceClass can be counted before kube-scheduler has chosen them. What else a claim may
ask is a problem that its workloads show: found, expected. Selectors, constraints and capacities of a request narrow the
choice among devices; kube-scheduler sees to them.
"""

from collections import Counter
from sys import intern
from typing import Final

import msgspec

from admission.decode.fields import one
from admission.facts.devices import AllocatedDevice, PodResourceClaim, ResourceClaimFact
from admission.wire import Int64, WireMetadata, WirePodStatus, WireStruct
from queues.api.reading.user_values import (
    LONGEST_NAME,
    UserValues,
    is_dns_name,
    shared_claim_problem,
    shortened,
)
from queues.api.types.pod import WirePodResourceClaim, WirePodSpec

#: Entries of ``resourceClaims`` of one pod.
MOST_CLAIMS: Final = 64
#: Devices that Kubernetes allocates to one claim at most (AllocationResultsMaxSize).
MOST_DEVICES: Final = 32
_EXPECTED: Final = "a number of devices of one class (exactly.deviceClassName, exactly.count)"


class _Exactly(WireStruct):
    device_class_name: str = ""
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None


class _SubRequest(WireStruct):
    name: str = ""
    device_class_name: str = ""


class _Request(WireStruct):
    name: str = ""
    exactly: _Exactly | None = None
    first_available: tuple[_SubRequest, ...] | None = None


class _Devices(WireStruct):
    requests: tuple[_Request, ...] | None = None


class _Spec(WireStruct):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _Result(WireStruct):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class _Results(WireStruct):
    results: tuple[_Result, ...] | None = None


class _Allocation(WireStruct):
    devices: _Results = msgspec.field(default_factory=_Results)


class _Consumer(WireStruct):
    resource: str = ""
    uid: str = ""


class _Status(WireStruct):
    allocation: _Allocation | None = None
    reserved_for: tuple[_Consumer, ...] | None = None


class WireResourceClaim(WireStruct):
    """A ResourceClaim."""

    metadata: WireMetadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status | None = None


class _TemplateSpec(WireStruct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


class WireResourceClaimTemplate(WireStruct):
    """A ResourceClaimTemplate."""

    metadata: WireMetadata
    spec: _TemplateSpec = msgspec.field(default_factory=_TemplateSpec)


def resource_claim_fact(claim: WireResourceClaim) -> ResourceClaimFact:
    """A ResourceClaim: the devices that were allocated to it, or that it asks for."""
    meta, status = claim.metadata, claim.status or _Status()
    pods = [each.uid for each in status.reserved_for or () if each.resource == "pods"]
    requests = claim.spec.devices.requests or ()
    results: tuple[_Result, ...] = ()
    if status.allocation is None:
        devices, problem = _asked(requests)
    else:
        results = tuple(each for each in status.allocation.devices.results or () if not each.admin_access)
        devices, problem = _allocated(requests, results), ""
    return ResourceClaimFact(
        namespace=one(meta.namespace),
        name=meta.name,
        devices=one(devices),
        problem=one(problem),
        user=pods[0] if pods else "",
        allocated=tuple(
            AllocatedDevice(*(intern(name[:LONGEST_NAME]) for name in (each.driver, each.pool, each.device)))
            for each in results[:MOST_DEVICES]
        ),
    )


def resource_claim_template_fact(template: WireResourceClaimTemplate) -> ResourceClaimFact:
    """What claims of a ResourceClaimTemplate ask for."""
    meta = template.metadata
    devices, problem = _asked(template.spec.spec.devices.requests or ())
    return ResourceClaimFact(
        namespace=one(meta.namespace), name=meta.name, devices=one(devices), problem=one(problem)
    )


def _asked(requests: tuple[_Request, ...]) -> tuple[tuple[tuple[str, int], ...], str]:
    """Devices by class, and the first thing that cannot be counted."""
    devices: Counter[str] = Counter()
    problem = ""
    for request in requests:
        found = _uncountable(request)
        problem = problem or (
            found and f"request {shortened(request.name)}: found {found}, expected {_EXPECTED}"
        )
        if not found and request.exactly is not None:
            devices[request.exactly.device_class_name] += max(request.exactly.count, 0) or 1
    if devices.total() > MOST_DEVICES:
        return (
            (),
            f"found {devices.total()} devices, expected at most {MOST_DEVICES}, as many as a claim can get",
        )
    return tuple(sorted(devices.items())), problem


def _uncountable(request: _Request) -> str:
    """What a request asks beyond a number of devices of a class; "": nothing."""
    exactly = request.exactly
    if exactly is None:
        return "firstAvailable" if request.first_available else "no request that is known here"
    if exactly.admin_access:
        return "adminAccess"
    if exactly.allocation_mode not in ("", "ExactCount"):
        return f"allocationMode {shortened(exactly.allocation_mode)}"
    return "" if is_dns_name(exactly.device_class_name) else "no deviceClassName"


def _allocated(requests: tuple[_Request, ...], results: tuple[_Result, ...]) -> tuple[tuple[str, int], ...]:
    """Devices by class."""
    classes = {each.name: each.exactly.device_class_name for each in requests if each.exactly is not None}
    for request in requests:
        for choice in request.first_available or ():
            classes[f"{request.name}/{choice.name}"] = choice.device_class_name
    devices = Counter(classes[each.request] for each in results if each.request in classes)
    return tuple(sorted(devices.items()))


def claims_of(
    spec: WirePodSpec, status: WirePodStatus | None, values: UserValues, where: str = ""
) -> tuple[PodResourceClaim, ...]:
    """What a pod or template claims. ``status``: of a pod. Claims that are shared with other pods are noted.

    ``where``: what paths begin with, "" for a pod.
    """
    if not spec.resource_claims:
        return ()
    path = f"{where}spec.resourceClaims"
    values.at_most(path, len(spec.resource_claims), MOST_CLAIMS, "claims")
    made = {
        each.name: each.resource_claim_name or ""
        for each in (status.resource_claim_statuses if status is not None else None) or ()
    }
    return one(
        tuple(
            _claim_of(each, made.get(each.name, ""), values, path)
            for each in spec.resource_claims[:MOST_CLAIMS]
        )
    )


def _claim_of(entry: WirePodResourceClaim, made: str, values: UserValues, path: str) -> PodResourceClaim:
    name = shortened(entry.name)
    if entry.resource_claim_template_name:
        return PodResourceClaim(name, template=shortened(entry.resource_claim_template_name), claim=made)
    values.refuse(f"{path}[{name}]", *shared_claim_problem(entry.resource_claim_name or ""))
    return PodResourceClaim(name, claim=shortened(entry.resource_claim_name or ""))

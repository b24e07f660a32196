"""ResourceClaims, DeviceClasses and ResourceSlices → what of them can be counted."""

from typing import Any

import msgspec
import pytest

from admission.decode.admin_documents import flavor_fact
from admission.decode.devices.resource_claims import (
    WireResourceClaim,
    WireResourceClaimTemplate,
    resource_claim_fact,
    resource_claim_template_fact,
)
from admission.decode.devices.resource_slices import WireDeviceClass, device_class_fact, resource_slice_fact
from admission.facts.devices import (
    AllocatedDevice,
    DeviceClassFact,
    PodResourceClaim,
    ResourceClaimFact,
    ResourceSliceFact,
    SliceDevice,
)
from admission.facts.pods import PodFact
from admission.wire import WirePod, WireResourceSlice
from admission.workloads.kinds import read_pod
from tests.builders.devices import (
    CLASS,
    DRIVER,
    RESOURCE,
    Document,
    claim,
    claim_template,
    device,
    device_class,
    flavor,
    request,
    reserved,
    resource_slice,
)
from tests.tables import with_rows


def read(document: Document, struct: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(document), type=struct)


def template(*requests: Document) -> ResourceClaimFact:
    return resource_claim_template_fact(read(claim_template(*requests), WireResourceClaimTemplate))


def a_claim(*requests: Document, **status: Any) -> ResourceClaimFact:
    return resource_claim_fact(read(claim(*requests, name="c", **status), WireResourceClaim))


def a_class(*expressions: str) -> DeviceClassFact:
    return device_class_fact(read(device_class("c", *expressions), WireDeviceClass))


def a_slice(*devices: Document) -> ResourceSliceFact:
    return resource_slice_fact(read(resource_slice("n1", *devices), WireResourceSlice))


def a_pod(claims: list[Document], **status: Any) -> PodFact:
    spec = {"containers": [{"name": "c"}], "resourceClaims": claims}
    metadata = {"name": "p", "namespace": "ns", "uid": "u"}
    return read_pod(read({"metadata": metadata, "spec": spec, "status": status}, WirePod))


# ── claims ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_devices_of_a_class_are_counted_over_the_requests_of_a_template() -> None:
    by_default = {"name": "other", "exactly": {"deviceClassName": "nic.example.com"}}
    narrowed = request(2, "b", selectors=[{"cel": {"expression": "true"}}], allocationMode="ExactCount")
    found = template(request(1), narrowed, by_default)
    assert (dict(found.devices), found.problem) == ({CLASS: 3, "nic.example.com": 1}, "")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (request(allocationMode="All"), "request gpu: found allocationMode All, expected a number of devices"),
        (request(adminAccess=True), "request gpu: found adminAccess, expected a number of devices"),
        ({"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": CLASS, "count": 1}]},
         "request any: found firstAvailable, expected a number of devices"),
        ({"name": "new", "tomorrow": {}}, "request new: found no request that is known here, expected"),
        (request(33), "found 33 devices, expected at most 32"),
        (request(2**62), f"found {2**62} devices, expected at most 32"),
    ],
)  # fmt: skip
def test_what_is_no_number_of_devices_of_a_class_is_a_problem(asked: Document, found: str) -> None:
    assert template(asked).problem.startswith(found)


def test_a_claim_counts_with_what_was_allocated_to_it() -> None:
    choice = {"name": "any", "firstAvailable": [{"name": "small", "deviceClassName": "mig", "count": 2}]}
    watching = request(name="watch", adminAccess=True)
    status = reserved("pod-uid", "gpu", "gpu", "any/small", "watch")
    status["allocation"]["devices"]["results"][3]["adminAccess"] = True
    found = a_claim(request(allocationMode="All"), choice, watching, **status)
    assert (dict(found.devices), found.problem, found.user) == ({CLASS: 2, "mig": 1}, "", "pod-uid")
    assert found.allocated == tuple(AllocatedDevice(DRIVER, "n1", f"gpu-{index}") for index in range(3))
    assert a_claim(request(2)).devices == ((CLASS, 2),)


def test_a_pod_names_the_template_and_the_claim_that_was_made_for_it() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    made = [{"name": "gpu", "resourceClaimName": "p-gpu-x7"}]
    found = a_pod(claims, resourceClaimStatuses=made)
    assert found.claims == (PodResourceClaim("gpu", "one-gpu", "p-gpu-x7"),)
    assert a_pod(claims).claims == (PodResourceClaim("gpu", "one-gpu"),)
    assert found.obstacle is None


@with_rows("entry", "found")
def test_claims_that_pods_may_share_are_told_to_be_uncounted(entry: Document, found: str) -> None:
    told = f"spec.resourceClaims[gpu]: {found}, expected resourceClaimTemplateName"
    assert a_pod([entry]).obstacle.message.startswith(told)


def test_a_pod_with_countless_claims_is_not_considered() -> None:
    found = a_pod([{"name": str(each), "resourceClaimTemplateName": "t"} for each in range(1000)])
    assert found.obstacle.message.startswith("spec.resourceClaims: found 1000 claims, expected at most 64")
    assert len(found.claims) == 64


# ── devices ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_class_selects_by_driver_and_attributes_as_drivers_write_it() -> None:
    found = a_class(
        "device.driver == 'gpu.example.com' &&\n  device.attributes['gpu.example.com'].type == 'gpu'",
        '(device.attributes["gpu.example.com"].healthy) && device.attributes["x.io"].index == 3',
    )
    selected = {(f"{DRIVER}/type", "str gpu"), (f"{DRIVER}/healthy", "bool True"), ("x.io/index", "int 3")}
    assert found == DeviceClassFact(name="c", driver=DRIVER, attributes=frozenset(selected))


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'a' || device.driver == 'b'",
        "!(device.driver == 'a')",
        "device.driver == 'a' && device.driver == 'b'",
        "device.attributes['a'].model.startsWith('H')",
        "device.capacity['a'].memory.compareTo(quantity('10Gi')) >= 0",
        "device.driver == 'a && b'",
        f"device.driver == '{'9' * 400}'",
        f"device.attributes['a'].index == {'9' * 20}",
        "",
    ],
)
def test_other_selectors_are_a_problem(expression: str) -> None:
    assert "expected device.driver == " in a_class(expression).problem


def test_devices_show_what_classes_select_by_and_equal_ones_are_kept_once() -> None:
    found = a_slice(device(0), device(0))
    attributes = {
        (f"{DRIVER}/type", "str gpu"),
        (f"{DRIVER}/index", "int 0"),
        (f"{DRIVER}/healthy", "bool True"),
    }
    assert [each.attributes for each in found.devices] == [attributes, attributes]
    assert found.devices[0].attributes is found.devices[1].attributes


def test_devices_that_differ_only_in_what_they_are_known_by_share_their_attributes() -> None:
    known_by = ("uuid", "UUID", "parentUUID", "pciBusID", "resource.kubernetes.io/pcieBusID", "serialNumber")
    parts = []
    for index in range(2):
        attributes = {"type": {"string": "mig"}, **{key: {"string": f"x-{index}"} for key in known_by}}
        parts.append(device(index) | {"attributes": attributes})
    found = a_slice(*parts).devices
    assert found[0].attributes == {(f"{DRIVER}/type", "str mig")}
    assert found[0].attributes is found[1].attributes


def test_devices_that_are_parts_of_one_another_are_left_out_and_those_with_a_taint_are_marked() -> None:
    effects = ("NoSchedule", "NoExecute")
    broken = [device(1, taints=[{"key": "broken", "effect": effect}]) for effect in effects]
    parted = device(2, consumesCounters=[{"counterSet": "gpu-2", "counters": {}}])
    noted = device(3, taints=[{"key": "note", "effect": "None"}])
    found = a_slice(device(0), *broken, parted, noted).devices
    assert [each.is_tainted for each in found] == [False, True, True, False]


@pytest.mark.parametrize(
    ("attributes", "ids"),
    [
        ({"uuid": {"string": "GPU-5F0C"}}, {"gpu-5f0c"}),
        ({"uuid": {"string": "MIG-1"}, "parentUUID": {"string": "GPU-5f0c"}}, {"mig-1", "gpu-5f0c"}),
        ({"resource.kubernetes.io/pciBusID": {"string": "0000:1B:00.0"}}, {"0000:1b:00.0"}),
        ({"gpu.example.com/uuid": {"string": "x"}, "uuid": {"int": 7}, "serial": {"string": "9"}}, {"x"}),
        ({"uuid": {"string": "9" * 10_000}}, {"9" * 64}),
        ({"uuid": {"string": ""}}, set()),
        ({}, set()),
    ],
)
def test_a_device_is_known_by_its_uuid_that_of_its_parent_and_its_place_on_the_bus(
    attributes: Document, ids: set[str]
) -> None:
    [found] = a_slice(device(0) | {"attributes": attributes}).devices
    assert set(found.ids) == ids


def test_what_is_kept_of_a_slice_is_bounded() -> None:
    long, numbers = "9" * 10_000, range(1000)
    many = device(0) | {"attributes": {f"{DRIVER}/a{number}": {"int": number} for number in numbers}}
    named = device(0) | {"attributes": {f"{long}/type": {"string": "gpu"}, "type": {"string": long}}}
    [found] = a_slice(many).devices
    assert len(found.attributes) == 32
    assert a_slice(named).devices == (SliceDevice(frozenset(), name="gpu-0"),)
    assert len(a_slice(*(device(0) for _ in numbers)).devices) == 128
    assert len(a_slice(device(0) | {"name": long}).devices[0].name) == 253
    status = reserved("pod-uid", *("gpu" for _ in numbers))
    status["allocation"]["devices"]["results"][0]["pool"] = long
    allocated = a_claim(**status).allocated
    assert (len(allocated), len(allocated[0].pool)) == (32, 253)


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "N" * 300},
        {"driver": "9" * 300},
        {"pool": {"name": "p" * 300}},
        {"nodeName": None, "allNodes": True},
    ],
)
def test_a_slice_of_no_single_node_or_with_a_name_that_cannot_be_is_left_out(spec: dict[str, Any]) -> None:
    document = resource_slice("n1", device(0))
    document["spec"] |= spec
    assert resource_slice_fact(read(document, WireResourceSlice)) is None


def test_a_flavor_names_classes_and_what_cannot_be_a_resource_is_left_out() -> None:
    names = {CLASS: RESOURCE, "a": "cpu", "b": "x/y z", "c": "kubernetes.io/x", "UPPER": RESOURCE}
    assert flavor_fact(msgspec.json.encode(flavor(**names))).device_classes == {CLASS: RESOURCE}

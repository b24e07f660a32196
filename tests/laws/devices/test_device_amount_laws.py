"""What a node offers of its devices, whatever its device plugin, its driver and its agent say of each of them."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from admission.facts.cluster import FlavorFact, NodeFact
from admission.facts.devices import (
    DeviceClassFact,
    NodeDevicesFact,
    ReportedDevice,
    ResourceSliceFact,
    SliceDevice,
)
from admission.world.devices.reported_devices import with_reported
from admission.world.devices.slice_devices import DeviceClasses, slice_amounts, with_devices
from queues.resources import GPU, WHOLE, Resources
from queues.workload import NodeName
from tests.builders.facts import node
from tests.builders.node_agents.node_devices import fault

H100, L40S = "nvidia.com/h100", "nvidia.com/l40s"
RESOURCES = (GPU, H100, L40S, "amd.com/gpu")
PROFILES = ("1g.10gb", "3g.40gb")


@st.composite
def devices(draw: st.DrawFn) -> list[ReportedDevice]:
    """At most eight devices, whole or cut in parts, some of them unhealthy."""
    made = []
    for number in range(draw(st.integers(1, 8))):
        parts = (
            draw(st.dictionaries(st.sampled_from(PROFILES), st.integers(1, 4))) if draw(st.booleans()) else {}
        )
        made.append(
            ReportedDevice(
                id=f"GPU-{number}",
                number=number,
                bus_id=f"0000:{number:02x}:00.0",
                resource=draw(st.sampled_from(RESOURCES)),
                fault=fault(number) if draw(st.booleans()) else None,
                is_partitioned=bool(parts),
                instances=parts,
            )
        )
    return made


def units_of(device: ReportedDevice) -> Counter[str]:
    """What a device plugin offers a device as."""
    if not device.is_partitioned:
        return Counter({device.resource: 1})
    domain = device.resource.partition("/")[0]
    return Counter({f"{domain}/mig-{profile}": count for profile, count in device.instances.items()})


def sums(found: list[ReportedDevice]) -> Counter[str]:
    return sum(map(units_of, found), Counter())


def amounts(units: Counter[str], shares: int) -> Resources:
    return Resources({name: count * shares * WHOLE for name, count in units.items()})


def report(found: list[ReportedDevice]) -> NodeDevicesFact:
    return NodeDevicesFact(node=NodeName("n1"), devices=tuple(found))


def offered(found: list[ReportedDevice], called_unhealthy: list[ReportedDevice], shares: int) -> NodeFact:
    """The node as its kubelet has it: a plugin that offers each device so many times, and withholds some."""
    withheld = amounts(sums(called_unhealthy), shares)
    return replace(node("n1"), allocatable=amounts(sums(found), shares) - withheld, withheld=withheld)


@given(devices(), st.data(), st.integers(1, 3))
def test_no_unhealthy_device_is_offered_and_no_healthy_one_is_withheld(
    found: list[ReportedDevice], data: st.DataObject, shares: int
) -> None:
    by_plugin = data.draw(st.lists(st.sampled_from(found), unique_by=lambda each: each.id))
    left = with_reported(offered(found, by_plugin, shares), report(found)).allocatable
    by_agent = [each for each in found if each.fault is not None]
    well = amounts(sums([each for each in found if each not in by_agent and each not in by_plugin]), shares)
    not_faulty = amounts(sums([each for each in found if each not in by_agent]), shares)
    for name in sums(found):
        assert well[name] <= left[name] <= not_faulty[name]


@given(devices(), st.sampled_from(RESOURCES), st.integers(1, 3))
def test_a_fault_changes_no_other_resource_of_its_node(
    found: list[ReportedDevice], resource: str, shares: int
) -> None:
    whole = [replace(each, is_partitioned=False, instances={}) for each in found]
    others_well = [each if each.resource == resource else replace(each, fault=None) for each in whole]
    fact = offered(whole, [], shares)
    everything, alone = (with_reported(fact, report(each)).allocatable for each in (whole, others_well))
    assert everything[resource] == alone[resource]
    assert all(alone[name] == fact.allocatable[name] for name in fact.allocatable if name != resource)


@given(devices(), st.data())
def test_claimed_devices_are_those_that_neither_driver_nor_agent_calls_unhealthy(
    found: list[ReportedDevice], data: st.DataObject
) -> None:
    tainted = data.draw(st.sets(st.sampled_from([each.id for each in found])))
    counts_as = {model: data.draw(st.sampled_from((f"example.com/{model}", GPU))) for model in ("a", "b")}
    model = {each.id: data.draw(st.sampled_from("ab")) for each in found}
    named = {each.id: data.draw(st.sampled_from((each.id, each.bus_id))).lower() for each in found}
    classes = DeviceClasses()
    for name in counts_as:
        classes.put_class(
            name, DeviceClassFact(name=name, attributes=frozenset({("d/model", f"str {name}")}))
        )
    classes.put_flavor("f", FlavorFact(name="f", node_labels={}, device_classes=counts_as))
    published = [
        SliceDevice(frozenset({("d/model", f"str {model[each.id]}")}), (named[each.id],), each.id in tainted)
        for each in found
    ]
    part = ResourceSliceFact(
        node=NodeName("n1"), driver="d", pool="p", generation=1, devices=tuple(published)
    )
    # With the agent of a node that has no device plugin, every device is of the usual resource of its vendor.
    reported = report([replace(each, resource=GPU, is_partitioned=False, instances={}) for each in found])
    fact = with_devices(node("n1", count=0), slice_amounts([part], classes, reported), reported)
    well = [each for each in found if each.fault is None and each.id not in tainted]
    expected = Counter(counts_as[model[each.id]] for each in well)
    assert {name: fact.allocatable[name] for name in set(counts_as.values())} == {
        name: expected[name] * WHOLE for name in set(counts_as.values())
    }

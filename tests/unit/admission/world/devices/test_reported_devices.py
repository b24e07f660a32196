"""What nodes offer of devices that an agent reports, whatever their device plugin says meanwhile."""

from dataclasses import replace
from typing import Any

from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NodeFact
from admission.facts.devices import NodeDevicesFact
from admission.world.devices.device_facts import DeviceFacts
from admission.world.devices.reported_devices import with_reported
from queues.api.names import SHARES_DEVICES
from queues.api.reading.device_shares import with_devices
from queues.resources import GPU, Resources, device
from queues.workload import DevicePlace, DevicePlaces, NodeName
from tests.builders.facts import node, seen
from tests.builders.node_agents.node_devices import fault, node_devices, reported
from tests.tables import named_rows, with_rows

XE, I915 = "gpu.intel.com/xe", "gpu.intel.com/i915"
SMALL, LARGE = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"


def offers(allocatable: int, withheld: int = 0, resource: str = GPU, **more: int) -> NodeFact:
    amounts = {resource: allocatable * 1000, "pods": 110, **more}
    held_back = Resources({resource: withheld * 1000})
    return replace(node("n1"), allocatable=Resources(amounts), withheld=held_back)


def sharing(count: int) -> NodeFact:
    """A node that shares its devices."""
    fact = node("n1", count=count, labels={SHARES_DEVICES: "true"})
    return replace(fact, allocatable=with_devices(fact.allocatable, fact.labels))


def left(fact: NodeFact, found: NodeDevicesFact, resource: str = GPU) -> float:
    return with_reported(fact, found).allocatable[resource] / 1000


@named_rows(
    ("allocatable", "withheld", "faulty", "expected"),
    {
        "the plugin tells as well": (7, 1, (3,), 7),
        "the plugin tells one of two": (7, 1, (3, 5), 6),
        "the plugin knows one fewer, which may be another one": (7, 0, (3,), 6),
        "each is offered four times": (32, 0, (3,), 28),
        "each is offered four times and the plugin tells as well": (28, 4, (3,), 28),
    },
)
def test_a_device_that_is_not_well_counts_once_whichever_of_the_two_tells(
    allocatable: int, withheld: int, faulty: tuple[int, ...], expected: int
) -> None:
    assert left(offers(allocatable, withheld), node_devices("n1", faulty=faulty)) == expected


def told_apart(offered: dict[int, bool], faulty: tuple[int, ...]) -> NodeDevicesFact:
    """Of these unhealthy devices the agent tells whether the kubelet may give them."""
    found = node_devices("n1", faulty=faulty)
    devices = (replace(each, is_offered=offered.get(each.number)) for each in found.devices)
    return replace(found, devices=tuple(devices))


@named_rows(
    ("allocatable", "withheld", "offered", "expected"),
    {
        "the plugin holds another one back": (7, 1, {3: True}, 6),
        "the plugin holds it back": (7, 1, {3: False}, 7),
        "the plugin holds one of two back": (7, 1, {3: True, 5: False}, 6),
        "the plugin holds two others back": (6, 2, {3: True, 5: True}, 4),
        "the plugin offers it again, which the agent has not told yet": (8, 0, {3: False}, 7),
        "the other way round": (7, 1, {3: False, 5: True}, 6),
        "another one of which each is offered four times": (28, 4, {3: True}, 24),
    },
)
def test_which_devices_the_plugin_holds_back_counts_where_it_is_told(
    allocatable: int, withheld: int, offered: dict[int, bool], expected: int
) -> None:
    assert left(offers(allocatable, withheld), told_apart(offered, tuple(offered))) == expected


ONE_FAULTY, TWO_FAULTY = node_devices("n1", faulty=(3,)), node_devices("n1", faulty=(3, 5))
OTHER_HELD_BACK = replace(offers(8), withheld=Resources({GPU: 0, "rdma/hca": 1000}))


@named_rows(
    ("fact", "found", "expected"),
    {
        "all well": (offers(8), node_devices("n1"), False),
        "the plugin holds none back": (offers(8), ONE_FAULTY, True),
        "the plugin holds one back": (offers(7, 1), ONE_FAULTY, False),
        "one of two": (offers(7, 1), TWO_FAULTY, True),
        "one share of four": (offers(31, 1), ONE_FAULTY, True),
        "all four shares": (offers(28, 4), ONE_FAULTY, False),
        "another one is held back": (offers(7, 1), told_apart({3: True}, (3,)), True),
        "it is held back": (offers(7, 1), told_apart({3: False}, (3,)), False),
        "nothing is told of the other of the two": (offers(7, 1), told_apart({3: False}, (3, 5)), True),
        "another resource is held back": (OTHER_HELD_BACK, ONE_FAULTY, True),
    },
)
def test_a_node_offers_an_unhealthy_device_while_the_kubelet_may_give_it(
    fact: NodeFact, found: NodeDevicesFact, expected: bool
) -> None:
    assert with_reported(fact, found).offers_faulty_devices is expected


@with_rows("offered", "withheld", "expected")
def test_devices_of_intel_count_as_the_resource_of_the_driver_that_the_node_has(
    offered: dict[str, int], withheld: dict[str, int], expected: dict[str, int]
) -> None:
    fact = replace(node("n1"), allocatable=Resources(offered), withheld=Resources(withheld))
    found = node_devices("n1", faulty=(3, 5))
    found = replace(found, devices=tuple(replace(each, resource=XE) for each in found.devices))
    assert with_reported(fact, found).allocatable == Resources(expected)


def test_linked_devices_of_intel_are_of_the_resource_of_their_driver() -> None:
    devices = tuple(reported(number, island=number // 2, resource=XE) for number in range(4))
    fact = replace(node("n1"), allocatable=Resources({I915: 4000}))
    (places,) = with_reported(fact, replace(node_devices("n1"), devices=devices)).devices
    assert places.resource == I915


def test_other_resources_of_the_node_stay() -> None:
    found = with_reported(offers(8, cpu=64_000), node_devices("n1", faulty=(0,)))
    assert found.allocatable == Resources({GPU: 7000, "pods": 110, "cpu": 64_000})
    assert [each.number for each in found.faults] == [0]


def test_shared_mig_instances_count_by_the_name_that_the_plugin_gives_them() -> None:
    parts = {"is_partitioned": True, "instances": {"1g.10gb": 7}}
    found = NodeDevicesFact(
        node=NodeName("n1"), devices=(reported(0, fault=fault(0), **parts), reported(1, **parts))
    )
    assert left(offers(28, resource=f"{SMALL}.shared"), found, f"{SMALL}.shared") == 14


def test_a_device_with_mig_and_without_instances_takes_no_whole_one_with_it() -> None:
    found = node_devices("n1", 7)
    empty = reported(7, fault=fault(7), is_partitioned=True)
    assert left(offers(7), replace(found, devices=(*found.devices, empty))) == 7


def test_an_unhealthy_device_gives_no_part_to_volcanos_vgpus() -> None:
    rows = {device("volcano.sh/gpu", index): 1000 for index in range(4)}
    fact = offers(4, resource="volcano.sh/gpu", **rows)
    found = with_reported(fact, node_devices("n1", 4, faulty=(1,))).allocatable
    assert [found[device("volcano.sh/gpu", index)] for index in range(4)] == [1000, 0, 1000, 1000]
    assert found["volcano.sh/gpu"] == 3000


def test_mig_instances_that_are_called_by_the_resource_of_whole_devices_are_counted_as_well() -> None:
    parts = {"is_partitioned": True, "instances": {"1g.10gb": 7}}
    devices = (reported(0, **parts), reported(1, fault=fault(1), **parts))
    assert left(offers(14), replace(node_devices("n1"), devices=devices)) == 7


def test_of_a_node_that_shares_its_devices_the_very_device_is_taken_out() -> None:
    # Of the second one the plugin has taken it out, and the rows of the node cannot tell which one that was.
    for fact in (sharing(4), replace(sharing(3), withheld=Resources({GPU: 1000}))):
        assert device(GPU, 0) in fact.allocatable
        offered = with_reported(fact, node_devices("n1", 4, faulty=(1,)))
        assert (rows(offered), offered.allocatable[GPU]) == ([0, 2, 3], 3000)


def test_a_device_that_the_plugin_does_not_offer_hides_no_unhealthy_one() -> None:
    """Four of five are offered, one is kept for a display: which one the plugin does not tell."""
    found = node_devices("n1", 5, faulty=(2,))
    assert [left(offers(4), found), left(offers(3, 1), found)] == [3, 3]
    assert left(sharing(4), node_devices("n1", 5, faulty=(4,))) == 3


H100, L40S = "nvidia.com/h100", "nvidia.com/l40s"


def two_models(*faulty: int) -> NodeDevicesFact:
    """Four H100 and four L40S."""
    found = node_devices("n1", faulty=faulty)
    devices = (replace(each, resource=H100 if each.number < 4 else L40S) for each in found.devices)
    return replace(found, devices=tuple(devices))


def test_mig_instances_of_one_profile_are_one_resource_for_all_models(golden: Any) -> None:
    parts = {"is_partitioned": True, "instances": {"1g.10gb": 7}}
    devices = (
        reported(0, resource=GPU, fault=fault(0), **parts),
        reported(1, resource=H100, **parts),
        reported(2, resource=L40S),
    )
    fact = offers(14, resource=SMALL, **{L40S: 1000})
    found = replace(node_devices("n1"), devices=devices)
    assert [left(fact, found, name) for name in (SMALL, L40S)] == golden


def test_the_devices_of_each_model_are_linked_by_themselves() -> None:
    islands = (0, 0, 2, 2, 4, 5, 6, 6)
    found = two_models(3)
    devices = (replace(each, island=island) for each, island in zip(found.devices, islands, strict=True))
    fact = offers(4, resource=H100, **{L40S: 4000})
    offered = with_reported(fact, replace(found, devices=tuple(devices)))
    links = {one.resource: [(each.number, each.island) for each in one.each] for one in offered.devices}
    assert links == {H100: [(0, 0), (1, 0), (2, 2)], L40S: [(4, 4), (5, 5), (6, 6), (7, 6)]}
    assert [number for number in range(8) if offered.allocatable[device(H100, number)]] == [0, 1, 2]
    assert [number for number in range(8) if offered.allocatable[device(L40S, number)]] == [4, 5, 6, 7]


def test_links_are_those_of_the_devices_of_one_vendor() -> None:
    found = linked(0, 0, 2, 2)
    others = tuple(reported(number, resource="amd.com/gpu") for number in range(4))
    offered = with_reported(offers(4), replace(found, devices=(*found.devices, *others)))
    assert rows(offered) == [0, 1, 2, 3]


def test_pods_on_a_device_that_is_not_well_are_known_by_it() -> None:
    holders = {"a": frozenset((0, 1)), "b": frozenset((2, 3))}
    found = with_reported(offers(8), node_devices("n1", faulty=(1, 2), holders=holders))
    assert {uid: each.number for uid, each in found.faulty_pods.items()} == {"a": 1, "b": 2}


def linked(*islands: int | None, faulty: tuple[int, ...] = (), **more: Any) -> NodeDevicesFact:
    """Devices of these islands, two on each root complex and four in each NUMA node."""
    devices = (
        reported(
            number,
            island=island,
            pcie_root=f"pci{number // 2}",
            numa=number // 4,
            fault=fault(number) if number in faulty else None,
            **more,
        )
        for number, island in enumerate(islands)
    )
    return replace(node_devices("n1"), devices=tuple(devices))


def all_called_three(found: NodeDevicesFact) -> NodeDevicesFact:
    return replace(found, devices=tuple(replace(each, number=3) for each in found.devices))


def rows(fact: NodeFact) -> list[int]:
    return [number for number in range(16) if fact.allocatable[device(GPU, number)]]


def test_devices_of_several_islands_are_offered_by_number() -> None:
    found = with_reported(offers(4), linked(0, 0, 2, 2, faulty=(1,)))
    assert rows(found) == [0, 2, 3]
    assert found.allocatable[GPU] == 3000
    places = (DevicePlace(0, 0, "pci0", 0), DevicePlace(2, 2, "pci1", 0), DevicePlace(3, 2, "pci1", 0))
    assert found.devices == (DevicePlaces(resource=GPU, each=places),)


@named_rows(
    "found",
    {
        "all joined": linked(0, 0, 0, 0),
        "all that are well": linked(0, 0, 0, 3, faulty=(3,)),
        "nobody tells of one that is not well": linked(0, 0, None, 2, faulty=(2, 3)),
    },
)
def test_devices_of_one_island_are_only_counted(found: NodeDevicesFact) -> None:
    offered = with_reported(offers(4), found)
    assert (rows(offered), offered.devices) == ([], (DevicePlaces(resource=GPU),))


@named_rows(
    ("fact", "found"),
    {
        "koordlet's": (offers(4), linked(None, None, None, None)),
        "not of all": (offers(4), linked(0, 0, 2, None)),
        "offered several times": (offers(16), linked(0, 0, 2, 2)),
        "another resource": (offers(4, resource="amd.com/gpu"), linked(0, 0, 2, 2)),
        "one number": (offers(4), all_called_three(linked(0, 0, 2, 2))),
        "only in parts": (offers(4), linked(0, 0, 2, 2, is_partitioned=True)),
    },
)
def test_devices_that_cannot_be_told_apart_are_only_counted(fact: NodeFact, found: NodeDevicesFact) -> None:
    offered = with_reported(fact, found)
    assert (rows(offered), offered.devices) == ([], ())


def test_of_a_node_with_mig_the_whole_devices_are_offered_by_number() -> None:
    parts = {"is_partitioned": True, "instances": {"1g.10gb": 7}}
    found = linked(0, 1, 2)
    found = replace(found, devices=(replace(found.devices[0], **parts), *found.devices[1:]))
    assert rows(with_reported(offers(2, **{SMALL: 7000}), found)) == [1, 2]


def test_devices_have_the_numbers_that_pods_know_them_by() -> None:
    found = linked(0, 1)
    by_index = tuple(replace(each, number=1 - each.number) for each in found.devices)
    offered = with_reported(offers(2), replace(found, devices=by_index))
    [links] = offered.devices
    assert [(place.number, place.island) for place in links.each] == [(0, 1), (1, 0)]


def test_a_node_that_shares_devices_keeps_its_rows_and_knows_their_places() -> None:
    fact = sharing(4)
    offered = with_reported(fact, linked(0, 0, 2, 2))
    assert offered.allocatable == fact.allocatable
    [links] = offered.devices
    assert (links.in_parts, len(links.each)) == (True, 4)


def told(facts: DeviceFacts, fact: NodeDevicesFact | None) -> list[Any]:
    changes = facts.resolved([Change(FactKind.NODE_DEVICES, "n1", fact)])
    return [change.fact for change in changes]


def test_a_node_is_told_anew_when_its_devices_change_what_it_offers_and_only_then() -> None:
    facts = DeviceFacts()
    list(facts.resolved([seen(offers(8))]))
    assert told(facts, node_devices("n1")) == []
    assert told(facts, node_devices("n1", holders={"a": frozenset((0,))})) == []
    [found] = told(facts, node_devices("n1", faulty=(0,)))
    assert found.allocatable[GPU] == 7000
    [found] = told(facts, None)
    assert found == offers(8)


def test_devices_may_be_reported_before_their_node_is_seen() -> None:
    facts = DeviceFacts()
    assert told(facts, node_devices("n1", faulty=(0,))) == []
    [change] = facts.resolved([seen(offers(8))])
    assert change.fact.name == NodeName("n1")
    assert change.fact.allocatable[GPU] == 7000

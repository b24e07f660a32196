"""What nodes have, and what of it is taken."""

from dataclasses import replace

from admission.facts.changes import Change, FactKind
from admission.facts.cluster import FlavorFact, TopologyFact
from admission.world.nodes import NodeInventory
from queues.admissions import Seat
from queues.resources import BEYOND_NODES, GPU, NOTHING, Resources, device
from queues.workload import DevicePlaces, NodeName
from tests.builders.facts import gpus, node

N1, N2 = NodeName("n1"), NodeName("n2")


def stock(*names: str) -> NodeInventory:
    found = NodeInventory()
    for name in names:
        found.put_node(NodeName(name), node(name))
    found.unsaved.clear()
    return found


def seat(node: NodeName, takes: Resources) -> Seat:
    return Seat(pod_set="main", ordinal=0, node=node, takes=takes)


def free(of: NodeInventory, name: NodeName) -> int:
    table = of.table()
    column, row = table.layout.names.index(name), table.resources.index(GPU)
    return int(table.allocatable[row, column] - table.used[row, column]) // 1000


def test_foreign_pods_and_seats_take_from_a_node_and_give_back() -> None:
    known = stock("n1", "n2")
    assert known.charge("p", (N1, gpus(3))) == (N1,)
    known.hold([seat(N1, gpus(4))])
    assert (free(known, N1), free(known, N2)) == (1, 8)
    known.charge("p", None)
    known.give_back([seat(N1, gpus(4))])
    assert free(known, N1) == 8


def test_a_pod_that_moved_is_charged_where_it_is() -> None:
    known = stock("n1", "n2")
    known.charge("p", (N1, gpus(3)))
    assert set(known.charge("p", (N2, gpus(3)))) == {N1, N2}
    assert (free(known, N1), free(known, N2)) == (8, 5)
    assert known.charge("p", (N2, gpus(3))) == ()


def test_pods_bound_to_a_node_in_any_number_and_size_stop_nobody() -> None:
    known = stock("n1", "n2")
    known.table()
    for number in range(10_000):
        known.charge(f"p{number}", (N1, Resources({GPU: BEYOND_NODES})))
    assert free(known, N1) < 0
    assert free(known, N2) == 8
    known.charge("one-more", (N1, gpus(1)))
    known.hold([seat(N2, gpus(3))])
    assert free(known, N1) < 0
    assert free(known, N2) == 5
    for number in range(10_000):
        known.charge(f"p{number}", None)
    assert free(known, N1) == 7


def test_a_table_that_was_kept_up_to_date_equals_a_new_one() -> None:
    kept, late = stock("n1", "n2"), stock("n1", "n2")
    kept.table()
    for known in (kept, late):
        known.charge("p", (N2, gpus(2)))
        known.hold([seat(N1, gpus(5))])
    assert (kept.table().used == late.table().used).all()


def test_what_was_taken_is_remembered_while_the_node_is_away() -> None:
    known = stock("n1")
    known.hold([seat(N1, gpus(8))])
    known.put_node(N1, None)
    assert known.limit(N1) is None
    known.put_node(N1, node("n1"))
    assert free(known, N1) == 0


def test_the_limit_of_a_node_is_what_foreign_pods_leave() -> None:
    known = stock("n1")
    known.charge("p", (N1, gpus(3)))
    known.hold([seat(N1, gpus(1))])
    assert known.limit(N1)[GPU] == 5000
    assert known.unsaved.keys() == {N1}


def test_a_node_is_overfull_for_those_who_need_what_others_have_taken() -> None:
    known = stock("n1")
    known.hold([seat(N1, gpus(8))])
    known.charge("p", (N1, gpus(1)))
    assert known.is_overfull(N1, gpus(1))
    assert not known.is_overfull(N1, Resources({"pods": 1}))


def test_seats_with_devices_by_number_are_kept_when_nobody_reports_the_numbers_any_more() -> None:
    numbered = gpus(2) + Resources({device(GPU, 0): 1000, device(GPU, 1): 1000})
    by_number = {device(GPU, index): 1000 for index in range(8)}
    known = stock("n1")
    known.hold([seat(N1, numbered)])
    for gone, overfull in (((), False), ((1,), True), (range(8), False)):
        left = {name: units for name, units in by_number.items() if int(name[-1]) not in gone}
        fact = node("n1")
        known.put_node(N1, replace(fact, allocatable=fact.allocatable + Resources(left)))
        assert known.is_overfull(N1, numbered) is overfull
    half = gpus(1) + Resources({device(GPU, 0): 500})
    assert known.is_overfull(N1, half)


def test_how_devices_are_linked_is_in_the_table() -> None:
    known = stock("n1")
    known.put_node(N1, replace(node("n1"), devices=(DevicePlaces(resource=GPU),)))
    assert known.table().layout.devices == {N1: (DevicePlaces(resource=GPU),)}


def test_only_ready_nodes_that_are_not_cordoned_take_pods() -> None:
    known = stock("n1")
    assert known.can_take_pods(N1)
    assert not known.can_take_pods(N2)
    for facts in ({"ready": False}, {"unschedulable": True}):
        known.put_node(N1, node("n1", **facts))
        assert not known.can_take_pods(N1)
        assert known.table().capacity() == NOTHING


def test_of_two_flavors_that_match_the_first_by_name_counts() -> None:
    known = NodeInventory()
    known.put_node(N1, node("n1", labels={"gpu": "h100"}))
    known.unsaved.clear()
    for name in ("b", "a"):
        known.put_flavor(name, FlavorFact(name=name, node_labels={"gpu": "h100"}))
    assert known.table().flavor(N1) == "a"
    assert known.unsaved.keys() == {N1}, "the ledger must learn the node's flavor"


def test_a_flavor_without_labels_has_no_nodes() -> None:
    known = stock("n1")
    known.put_flavor("every", FlavorFact(name="every"))
    assert known.table().flavor(N1) == ""


def test_a_topology_changes_the_levels() -> None:
    known = stock("n1")
    known.observe(Change(FactKind.TOPOLOGY, "t", TopologyFact(name="t", levels=("rack", "host"))))
    (chain,) = known.table().layout.chains
    assert [level.key for level in chain][:2] == ["rack", "host"]


def test_what_can_be_added_is_in_the_table_if_any_flavor_states_it() -> None:
    known = NodeInventory()
    known.put_flavor("b", FlavorFact(name="b", node_labels={"gpu": "b"}))
    assert known.table().layout.growth == ()
    known.put_flavor("a", FlavorFact(name="a", may_grow={"cpu": 1000}))
    before = known.table().layout
    assert [(each.flavor, each.labels, each.largest) for each in before.growth] == [
        ("a", {}, {"cpu": 1000}),
        ("b", {"gpu": "b"}, None),
    ]
    known.put_flavor("a", FlavorFact(name="a", may_grow={"cpu": 2000}))
    assert known.table().layout is not before
    known.put_flavor("a", None)
    assert known.table().layout.growth == ()

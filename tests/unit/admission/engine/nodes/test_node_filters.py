"""Nodes as arrays, which of them a pod may use, and where pods of one shape go."""

from typing import Any

import numpy as np
import pytest

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.placement.domain_search import DomainQuery, assign_nodes
from queues.plugins.built_in import Spread
from queues.resources import Resources
from queues.workload import NodeFilter, NodeName, Requirement, Taint, Toleration
from tests.builders.decided_work import a_node
from tests.tables import with_rows

NODES = [
    Node(name=NodeName("a"), allocatable=Resources({"cpu": 4000}), labels={"zone": "x", "cores": "8"}),
    Node(name=NodeName("b"), allocatable=Resources({"cpu": 4000}), labels={"zone": "y", "cores": "16"}),
    Node(name=NodeName("c"), allocatable=Resources({"cpu": 4000}), labels={"cores": "many"}),
]


def chosen(*terms: tuple[Requirement, ...]) -> set[str]:
    layout = NodeTable.build(NODES).layout
    mask = layout.allowed(NodeFilter(affinity=terms))
    return {name for name, allowed in zip(layout.names, mask, strict=True) if allowed}


def takes(node: Node, *tolerations: Toleration) -> bool:
    (allowed,) = NodeTable.build([node]).layout.allowed(NodeFilter(tolerations=tolerations))
    return bool(allowed)


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("zone", "In", ("x", "z")), {"a"}),
        (Requirement("zone", "NotIn", ("x",)), {"b", "c"}),
        (Requirement("zone", "Exists"), {"a", "b"}),
        (Requirement("zone", "DoesNotExist"), {"c"}),
        (Requirement("zone", "Nonsense"), set()),
        (Requirement("cores", "Gt", ("8",)), {"b"}),
        (Requirement("cores", "Lt", ("8",)), set()),
        (Requirement("metadata.name", "In", ("c",), field=True), {"c"}),
    ],
)
def test_operators_over_labels(requirement: Requirement, expected: set[str]) -> None:
    assert chosen((requirement,)) == expected


@pytest.mark.parametrize("value", ["1_0", "99999999999999999999", "0x9", "1.5"])
def test_what_the_scheduler_does_not_read_as_an_integer_is_neither_greater_nor_less(value: str) -> None:
    node = Node(name=NodeName("a"), allocatable=Resources(), labels={"cores": value})
    layout = NodeTable.build([node]).layout
    for operator, bound in (("Gt", "8"), ("Lt", "11"), ("Gt", value), ("Lt", value)):
        filter_ = NodeFilter(affinity=((Requirement("cores", operator, (bound,)),),))
        assert not layout.allowed(filter_).any()


def test_terms_are_alternatives_of_which_each_is_met_whole_and_an_empty_one_matches_nothing() -> None:
    assert chosen((Requirement("zone", "Exists"), Requirement("cores", "In", ("16",)))) == {"b"}
    assert chosen((Requirement("zone", "In", ("x",)),), (Requirement("zone", "In", ("y",)),)) == {"a", "b"}
    assert chosen(()) == set()


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", value="no"), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(value="yes"), False),
    ],
)
def test_tolerations_match_taints_as_in_the_core_api(toleration: Toleration, tolerated: bool) -> None:
    assert takes(a_node("a", {}, taints=(Taint("gpu", "yes", "NoSchedule"),)), toleration) is tolerated


def test_a_taint_that_only_prefers_keeps_nobody_away() -> None:
    assert takes(a_node("a", {}, taints=(Taint("gpu", "", "PreferNoSchedule"),)))


def test_used_amounts_change_in_a_new_table_and_new_resources_get_a_row() -> None:
    table = NodeTable.build(NODES)
    changed = table.with_used(
        {NodeName("a"): Resources({"cpu": 500, "x/y": 1}), NodeName("gone"): Resources()}
    )
    assert changed[NodeName("a")] == (Resources({"cpu": 4000}), Resources({"cpu": 500, "x/y": 1}))
    assert table[NodeName("a")] == (Resources({"cpu": 4000}), Resources())
    assert changed.layout is table.layout
    back = changed.with_used({NodeName("a"): Resources({"cpu": -500, "x/y": -1})})
    assert back[NodeName("a")] == table[NodeName("a")]


def test_domains_of_one_name_in_two_blocks_are_two_domains() -> None:
    blocks = enumerate(["b1", "b2", "b1"])
    nodes = [a_node(f"n{number}", {}, labels={"block": block, "rack": "r1"}) for number, block in blocks]
    table = NodeTable.build(nodes, [("block", "rack")])
    block, rack, host = table.layout.chains[0]
    assert rack.domains == ("b1/r1", "b2/r1")
    assert table.layout.names == ("n0", "n2", "n1")
    assert rack.sums(np.array([1, 2, 4])).tolist() == [3, 4]
    assert (block.key, host.key) == ("block", HOST)


def test_levels_of_a_second_topology_need_no_order_of_the_nodes() -> None:
    nodes = [a_node(f"n{n}", {}, labels={"rack": f"r{n}", "power": f"p{n % 2}"}) for n in range(4)]
    table = NodeTable.build(nodes, [("rack",), ("power",)])
    found = table.layout.chain("power")
    power = found[0][found[1]]
    assert power.sums(np.array([1, 2, 4, 8])).tolist() == [5, 10]
    assert power.members(1).tolist() == [1, 3]
    assert table.layout.chain("moon") is None


def racks(*sizes: int) -> NodeTable:
    """Racks of nodes named by their rack, sizes in nodes."""
    nodes = [
        a_node(f"r{rack}-{number}", {}, labels={"rack": f"r{rack}"})
        for rack, size in enumerate(sizes)
        for number in range(size)
    ]
    return NodeTable.build(nodes, [("rack",)])


def placed(table: NodeTable, room: list[int], pods: int, **rest: Any) -> dict[str, int] | None:
    chain = table.layout.chains[0]
    found = assign_nodes(DomainQuery(pods=pods, room=np.array(room), chain=chain, level=1, **rest))
    if found is None:
        return None
    assert found.counts.sum() == pods
    assert len(found.node_per_pod()) == pods
    return dict(zip([table.layout.names[c] for c in found.columns], found.counts.tolist(), strict=True))


@with_rows("room", "pods", "expected")
def test_the_tightest_place_that_holds_all(
    room: list[int], pods: int, expected: dict[str, int] | None
) -> None:
    assert placed(racks(2, 2), room, pods) == expected


def test_spread_puts_pods_evenly_onto_nodes() -> None:
    assert placed(racks(2, 2), [1, 8, 8, 8], 7, placement=Spread()) == {
        "r0-0": 1,
        "r0-1": 2,
        "r1-0": 2,
        "r1-1": 2,
    }

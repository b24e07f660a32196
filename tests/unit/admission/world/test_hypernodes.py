"""HyperNodes: whom each contains, and the levels that they make."""

import json
from typing import Any

import pytest

from admission.decode.admin_documents import hypernode_fact
from admission.facts.changes import Change, FactKind
from admission.facts.cluster import HyperNodeFact, HyperNodeMember, NodeFact
from admission.world.hypernodes import hypernode_tree
from queues.errors import InvalidDocument
from queues.resources import Resources
from queues.workload import NodeName
from tests.builders.facts import node, world


def hypernode(name: str, tier: int, *members: dict[str, Any], **spec: Any) -> HyperNodeFact:
    document = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": list(members), **spec},
    }
    fact = hypernode_fact(json.dumps(document).encode())
    assert fact is not None
    return fact


def nodes_by(**selector: Any) -> dict[str, Any]:
    return {"type": "Node", "selector": selector}


def inner(name: str) -> dict[str, Any]:
    return {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}}


NODES = [
    NodeFact(name=NodeName(f"n{i}"), allocatable=Resources(), labels={"row": str(i // 4)}) for i in range(6)
]


def domains(*hypernodes: HyperNodeFact) -> dict[str, list[str | None]]:
    return {key: [at.get(node.name) for node in NODES] for key, at in hypernode_tree(hypernodes, NODES)}


@pytest.mark.parametrize("pattern", ["n(", "n{99999999999}", "n(?=[1-5])", r"(n)\1?", "", r"\C"])
def test_a_pattern_that_cannot_be_used_contains_nobody_and_says_why(pattern: str) -> None:
    fact = hypernode("s0", 1, nodes_by(regexMatch={"pattern": pattern}), nodes_by(exactMatch={"name": "n0"}))

    assert list(domains(fact).values()) == [["s0", None, None, None, None, None]]
    (problem,) = fact.problems
    assert problem.startswith("spec.members[0].selector.regexMatch.pattern: found ")


@pytest.mark.parametrize("pattern", ["[[:alpha:]][135]", r"\pL[135]\z", "(?P<odd>[135])", r"(?i)\QN\E[135]$"])
def test_a_pattern_is_read_as_go_reads_it(pattern: str) -> None:
    found = domains(hypernode("s0", 1, nodes_by(regexMatch={"pattern": pattern})))

    assert list(found.values()) == [[None, "s0", None, "s0", None, "s0"]]


def test_labels_choose_by_every_requirement() -> None:
    def chosen(*expressions: dict[str, Any], **labels: str) -> list[str | None]:
        selector = {"matchLabels": labels, "matchExpressions": list(expressions)}
        return next(iter(domains(hypernode("s0", 1, nodes_by(labelMatch=selector))).values()))

    first, second = {"key": "row", "operator": "In", "values": ["0"]}, {"key": "row", "operator": "Exists"}
    assert chosen(first, second) == ["s0"] * 4 + [None] * 2
    assert chosen({**first, "values": ["1", "0", "1"]}) == ["s0"] * 6
    assert chosen(first, row="1") == [None] * 6
    assert chosen({**first, "operator": "NotIn"}) == [None] * 4 + ["s0"] * 2
    assert chosen(second) == chosen() == ["s0"] * 6


def test_hypernodes_contain_nodes_by_name_pattern_and_labels_and_one_another() -> None:
    found = domains(
        hypernode("s0", 1, nodes_by(exactMatch={"name": "n0"}), nodes_by(exactMatch={"name": "n1"})),
        hypernode("s1", 1, nodes_by(regexMatch={"pattern": "n[23]"})),
        hypernode("s2", 1, nodes_by(labelMatch={"matchLabels": {"row": "1"}})),
        hypernode("top", 2, inner("s0"), inner("s1"), tierName="spine"),
    )

    assert found == {
        "topology.volcano.sh/tier-2": ["top"] * 4 + ["s2"] * 2,
        "topology.volcano.sh/tier-1": ["top/s0", "top/s0", "top/s1", "top/s1", "s2", "s2"],
    }


def test_a_tier_that_is_left_out_costs_nothing() -> None:
    found = domains(
        hypernode("s0", 1, nodes_by(regexMatch={"pattern": "n[01]"})),
        hypernode("mid", 2, nodes_by(regexMatch={"pattern": "n[23]"})),
        hypernode("top", 3, inner("s0"), inner("mid")),
    )

    assert found["topology.volcano.sh/tier-2"] == ["top/s0"] * 2 + ["top/mid"] * 2 + [None] * 2
    assert found["topology.volcano.sh/tier-1"] == ["top/s0"] * 2 + [None] * 4


@pytest.mark.parametrize(
    "members",
    [
        [inner("s0")],
        [inner("nobody")],
        [nodes_by(regexMatch={"pattern": "("})],
        [nodes_by(labelMatch={"matchLabels": 3})],
        [nodes_by()],
        [],
    ],
    ids=["itself", "nobody", "no pattern", "no selector", "nothing", "no members"],
)
def test_a_hypernode_that_contains_nobody_harms_nobody(members: list[dict[str, Any]]) -> None:
    found = domains(hypernode("s0", 1, *members), hypernode("s1", 1, nodes_by(exactMatch={"name": "n0"})))

    assert found == {"topology.volcano.sh/tier-1": ["s1"] + [None] * 5}


def test_hypernodes_that_contain_one_another_have_the_same_nodes_in_whatever_order_they_are_named() -> None:
    one = hypernode("a", 1, inner("c"), nodes_by(exactMatch={"name": "n0"}))
    two = hypernode("b", 1, inner("a"), nodes_by(exactMatch={"name": "n1"}))
    last = hypernode("c", 1, inner("b"))

    assert domains(one, two, last) == {"topology.volcano.sh/tier-1": ["a", "a"] + [None] * 4}
    assert domains(last, two, one) == domains(one, two, last)


def test_a_long_chain_of_hypernodes_is_followed_to_its_end() -> None:
    chain = [hypernode(f"h{i:04}", 1, inner(f"h{i + 1:04}")) for i in range(1500)]

    found = domains(*chain, hypernode("h1500", 1, nodes_by(exactMatch={"name": "n0"})))

    assert found == {"topology.volcano.sh/tier-1": ["h0000"] + [None] * 5}


def test_one_that_cannot_be_read_is_none() -> None:
    with pytest.raises(InvalidDocument, match=r"spec\.tier"):
        hypernode_fact(b'{"metadata":{"name":"x"},"spec":{"tier":"one"}}')
    assert HyperNodeMember().labels is None


def test_hypernodes_are_levels_of_the_worlds_nodes() -> None:
    there = world([node("n0"), node("n1"), node("n2")])
    fact = hypernode("s", 1, nodes_by(regexMatch={"pattern": "n[02]"}))
    there.observe([Change(FactKind.HYPERNODE, "s", fact)])

    layout = there.freeze(1).nodes.layout
    found = layout.chain("topology.volcano.sh/tier-1")

    assert layout.names == ("n0", "n2", "n1")  # nodes of one domain are side by side
    assert found[0][found[1]].of.tolist() == [0, 0, -1]

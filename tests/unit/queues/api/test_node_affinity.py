"""Tying pods to nodes by their affinity."""

from typing import Any

from queues.api.node_affinity import REQUIRED, own_affinity, pinned, pinned_affinity, unpinned, without_pin
from queues.workload import NodeFilter, Requirement

ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
DISK = {"key": "disk", "operator": "Exists"}
OWN = NodeFilter(affinity=((Requirement("zone", "In", ("a",)),), (), (Requirement("disk", "Exists"),)))
WRITTEN = [{"matchExpressions": [ZONE]}, {}, {"matchExpressions": [DISK]}]


def on(node: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def terms(affinity: dict[str, Any]) -> Any:
    return affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def test_a_pod_without_terms_is_tied_by_field_to_each_node() -> None:
    assert terms(pinned(None, ["n1", "n2"])) == [on("n1"), on("n2")]
    assert terms(pinned_affinity(["n1"], NodeFilter())) == [on("n1")]


def test_the_pin_narrows_every_term_in_its_place_and_revives_none_that_matches_nothing() -> None:
    affinity = {
        "podAntiAffinity": {"kept": True},
        "nodeAffinity": {"preferred": "kept", REQUIRED: {"nodeSelectorTerms": WRITTEN}},
    }
    narrowed = [{"matchExpressions": [ZONE], **on("n1")}, {}, {"matchExpressions": [DISK], **on("n1")}]
    found = pinned(affinity, ["n1"])
    assert terms(found) == narrowed
    assert found["podAntiAffinity"] == {"kept": True}
    assert found["nodeAffinity"]["preferred"] == "kept"
    assert terms(pinned_affinity(["n1"], OWN)) == narrowed
    assert WRITTEN[0] == {"matchExpressions": [ZONE]}, "what was given stays as it is"


def test_several_nodes_are_crossed_with_the_terms() -> None:
    found = terms(pinned_affinity(["n1", "n2"], NodeFilter(affinity=OWN.affinity[:1])))
    assert found == [{"matchExpressions": [ZONE], **on(node)} for node in ("n1", "n2")]


def test_a_pod_that_can_never_be_placed_stays_so() -> None:
    assert terms(pinned_affinity(["n1"], NodeFilter(affinity=((),)))) == [{}]


def test_a_pod_is_untied_by_writing_its_own_terms_only() -> None:
    assert terms(own_affinity(OWN)) == WRITTEN
    assert own_affinity(NodeFilter()) == {"nodeAffinity": {REQUIRED: None}}


def test_a_pin_that_was_written_on_a_document_is_removed_from_it() -> None:
    for node_affinity in ({"preferred": "kept"}, {REQUIRED: {"nodeSelectorTerms": WRITTEN}}):
        own = {"nodeAffinity": node_affinity, "podAntiAffinity": {"kept": True}}
        assert unpinned(pinned(own, ["n1"])) == own
        assert unpinned(pinned(own, ["n1", "n2"])) == own
    assert unpinned(pinned(None, ["n1", "n2"])) == {}


def test_a_field_of_the_users_own_stays_on_a_document() -> None:
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [on("n2")]}}}
    assert unpinned(pinned(own, ["n1"])) == own


def test_a_pin_on_several_nodes_is_removed_from_a_filter() -> None:
    zone = OWN.affinity[0]
    crossed = tuple((*zone, Requirement("metadata.name", "In", (node,), field=True)) for node in ("n1", "n2"))
    assert without_pin(NodeFilter(affinity=crossed)) == NodeFilter(affinity=(zone,))
    pins = tuple(term[-1:] for term in crossed)
    assert without_pin(NodeFilter(affinity=pins)) == NodeFilter()

"""Shapes of pods: what makes two pods interchangeable, and the names that are stored for it."""

from dataclasses import fields, replace
from typing import Any

import pytest

from admission.decode.workload_facts import MAIN, digest
from admission.facts.pods import PodShape
from admission.workloads.pod_shapes import shape_name
from queues.resources import GPU, Resources
from queues.workload import (
    ApartRule,
    DeviceShare,
    HostPort,
    NodeFilter,
    Partition,
    PlacementRules,
    PodSelection,
    PodTerm,
    Preference,
    Requirement,
    Toleration,
)
from tests.builders.facts import gated

TAKES = Resources({"cpu": 1000, GPU: 2000, "pods": 1})

FILTER = NodeFilter(
    selector=(("a", "b"),),
    affinity=((Requirement("k", "In", ("v",)),),),
    tolerations=(Toleration(key="x"),),
)

PLAIN = PodShape(takes=TAKES)

#: Another value of every field.
OTHERS: dict[str, Any] = {
    "takes": TAKES + TAKES,
    "nodes": FILTER,
    "required_topology": "rack",
    "preferred_topology": "rack",
    "prefers": (Preference(5, (Requirement("k", "Exists"),)),),
    "ports": (HostPort(80),),
    "partitions": (Partition(size=2, level="rack"),),
    "together": "x",
    "balanced": True,
    "share": DeviceShare(2, 500),
    "in_one_island": True,
    "rules": PlacementRules(apart=(ApartRule("zone", PodSelection("s", (PodTerm(("ns",), ()),))),)),
}


def name_of(shape: PodShape, **facts: Any) -> str:
    return shape_name(gated("p", shape=shape, **facts))


def test_names_that_are_stored_stay_as_they_are() -> None:
    assert name_of(PLAIN) == "member-4a8683440a"
    assert name_of(replace(PLAIN, nodes=FILTER, required_topology="rack"), task="w") == "w-8b523896a8"
    assert name_of(replace(PLAIN, balanced=True)) == "member-6c2968bad9"
    details = ("prefers", "ports", "partitions", "together", "balanced", "share")
    assert name_of(replace(PLAIN, **{each: OTHERS[each] for each in details})) == "member-cf0676b712"


def test_generations_that_are_stored_stay_as_they_are() -> None:
    assert digest(4, replace(PLAIN, nodes=FILTER).pod_set(MAIN, 4)) == "77dee1f820702d28"
    close = replace(PLAIN, required_topology="r", ports=(HostPort(80),))
    assert digest(4, close.pod_set(MAIN, 4)) == "b7142130d65eb493"


def test_every_field_has_another_value_here() -> None:
    assert {each.name for each in fields(PodShape)} == set(OTHERS)


@pytest.mark.parametrize("field", sorted(OTHERS))
def test_a_shape_that_differs_in_any_field_is_another(field: str) -> None:
    other = replace(PLAIN, **{field: OTHERS[field]})
    assert name_of(other) != name_of(PLAIN)
    assert digest(other.pod_set(MAIN)) != digest(PLAIN.pod_set(MAIN))
    if field != "takes":
        assert getattr(other.pod_set(MAIN), field) == OTHERS[field]


def test_equal_filters_are_the_same_key_whoever_asked_for_their_hash_before() -> None:
    tolerations = (Toleration(key="a", operator="Exists"),)
    asked, fresh = NodeFilter(tolerations=tolerations), NodeFilter(tolerations=tolerations)
    assert {asked: 1}[fresh] == 1
    other = replace(asked, selector=(("rack", "r1"),))
    assert hash(other) == hash(NodeFilter(selector=(("rack", "r1"),), tolerations=tolerations)) != hash(asked)
    assert repr(asked) == repr(NodeFilter(tolerations=tolerations))

"""The table of what kube-scheduler compares has every field of a pod."""

import re

import pytest

from queues.api.check.pod_fields import pod_types
from queues.api.check.scheduler_fields import FIELDS, IN_TREE, NOT_ABOUT_NODES, Handling

PATHS = [
    field.path.removesuffix("[]").replace("[]", "").split(".") for field in FIELDS if " " not in field.path
]

#: Types whose fields are in the table one by one, and where they are.
PARTS = {
    "PodSpec": "",
    "Affinity": "affinity",
    "NodeAffinity": "affinity.nodeAffinity",
    "PodAffinity": "affinity.podAffinity",
    "PodAntiAffinity": "affinity.podAntiAffinity",
    "PodAffinityTerm": "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "TopologySpreadConstraint": "topologySpreadConstraints",
}


@pytest.mark.parametrize("part", PARTS)
def test_no_field_of_a_pod_is_missing(part: str) -> None:
    at = PARTS[part].split(".") if PARTS[part] else []
    listed = {path[len(at)] for path in PATHS if path[: len(at)] == at and len(path) > len(at)}
    listed |= {"volumes"} if part == "PodSpec" else set()
    beside = NOT_ABOUT_NODES.get(part, frozenset())
    assert listed | beside == set(pod_types()[part])
    assert not listed & beside, "in one place only"


def test_terms_of_anti_affinity_have_the_fields_of_terms_of_affinity() -> None:
    near, apart = (
        {path[-1] for path in PATHS if path[:2] == ["affinity", kind] and path[2].startswith("required")}
        for kind in ("podAffinity", "podAntiAffinity")
    )
    assert near == apart == set(pod_types()["PodAffinityTerm"])


def test_no_kind_of_volume_is_missing() -> None:
    listed = {path[1] for path in PATHS if path[0] == "volumes"}
    assert listed | IN_TREE | NOT_ABOUT_NODES["Volume"] == set(pod_types()["Volume"])


def test_every_row_says_what_it_means() -> None:
    for field in FIELDS:
        assert field.says, field.path
        assert re.fullmatch(r"[A-Za-z, ]+", field.plugin), field.path
        assert field.handling in Handling

"""Sentences of reasons."""

import pytest

from admission.engine.reasons import unknown_resource

OFFERED = ("pods", "cpu", "memory", "nvidia.com/gpu")


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("nvidia.com/gpus", "did you mean nvidia.com/gpu? "),
        ("gpu", "did you mean nvidia.com/gpu? "),
        ("amd.com/gpu", ""),
        ("hugepages-2Mi", ""),
    ],
)
def test_a_resource_that_no_node_offers_is_told_with_the_one_that_may_be_meant(
    asked: str, meant: str
) -> None:
    told = unknown_resource(asked, OFFERED)
    assert told.message == f"no node offers {asked}; {meant}nodes offer cpu, memory, nvidia.com/gpu, pods"

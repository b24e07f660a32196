"""Sentences of reasons."""

from admission.engine.reasons import unknown_resource
from tests.tables import with_rows

OFFERED = ("pods", "cpu", "memory", "nvidia.com/gpu")


@with_rows("asked", "meant")
def test_a_resource_that_no_node_offers_is_told_with_the_one_that_may_be_meant(
    asked: str, meant: str
) -> None:
    told = unknown_resource(asked, OFFERED)
    assert told.message == f"no node offers {asked}; {meant}nodes offer cpu, memory, nvidia.com/gpu, pods"

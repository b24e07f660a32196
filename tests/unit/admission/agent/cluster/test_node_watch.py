"""What the agent needs of its Node."""

import json

import pytest

from admission.agent.cluster.node_watch import watched_node
from queues.api import names


@pytest.mark.parametrize(
    ("annotation", "is_recovered"),
    [
        (json.dumps({"phase": "recovering"}), True),
        ("[" * 100_000, False),
        (json.dumps({"phase": "draining"}), False),
        ("", False),
        ("x", False),
        ("[]", False),
        ("7", False),
    ],
)
def test_a_job_may_recover_the_node_while_its_annotation_says_so(annotation: str, is_recovered: bool) -> None:
    metadata = {
        "name": "n1",
        "uid": "u",
        "annotations": {names.RECOVERY: annotation, names.GPU_UNHEALTHY: "3"},
    }
    found = watched_node({"metadata": metadata})
    assert (found.is_recovered, found.mark) == (is_recovered, "3")
    assert not watched_node({"metadata": {"name": "n1", "uid": "u"}}).is_recovered

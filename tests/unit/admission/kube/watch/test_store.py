"""What is known of the objects of one kind."""

import logging
from typing import Any

import msgspec
import pytest

from admission.decode.admin_documents import topology_fact
from admission.facts import TopologyFact
from admission.kube.watch.store import ObjectChange, ObjectStore, WatchedKind
from admission.wire import Bare
from queues.api.api_resources import TOPOLOGIES


def document(*levels: str) -> msgspec.Raw:
    return msgspec.Raw(
        msgspec.json.encode(
            {
                "metadata": {"name": "racks", "uid": "u", "resourceVersion": "1"},
                "spec": {"levels": [{"nodeLabel": level} for level in levels]},
            }
        )
    )


def test_a_document_that_cannot_be_used_any_more_is_gone_and_its_fault_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kind: WatchedKind[Bare, TopologyFact] = WatchedKind(
        name="topologies",
        resource=TOPOLOGIES,
        struct=Bare,
        translate=lambda bare, raw: topology_fact(bytes(raw)),
    )
    known, shifts = ObjectStore(kind), list[ObjectChange[Any]]()
    known.put(document("rack"), shifts)
    with caplog.at_level(logging.WARNING):
        known.put(document(), shifts)

    assert [shift.after is None for shift in shifts] == [False, True]
    (told,) = caplog.records
    assert "spec.levels" in vars(told)["why"]
    assert told.exc_info is None

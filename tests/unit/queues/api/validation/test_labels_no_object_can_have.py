"""Labels that something has to have: those that no object can have are refused, wherever they are written."""

from typing import Any

import pytest

from queues.api.validation.known import NOTHING_KNOWN
from queues.api.validation.validation import violations_of
from tests.builders.valid_documents import of_kind
from tests.tables import with_rows

Document = dict[str, Any]


def _flavor(labels: Document) -> Document:
    return of_kind("ResourceFlavor", {"nodeLabels": labels})


def _drain(labels: Document) -> Document:
    return of_kind("NodeDrain", {"nodeSelector": labels, "at": "2027-01-01T00:00:00Z", "for": "1h"})


def _queue(labels: Document) -> Document:
    return _selecting({"matchLabels": labels})


def _queue_by_expressions(labels: Document) -> Document:
    ((key, value),) = labels.items()
    return _selecting({"matchExpressions": [{"key": key, "operator": "In", "values": ["fine", value]}]})


def _hyper_node(labels: Document) -> Document:
    members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": labels}}}]
    return of_kind("HyperNode", {"tier": 1, "members": members})


def _selecting(selector: Document) -> Document:
    return of_kind("Queue", {"access": {"namespaceSelector": selector}})


@pytest.mark.parametrize("written", [_flavor, _drain, _queue, _queue_by_expressions, _hyper_node])
@with_rows("key", "value")
def test_a_label_that_no_object_can_have_is_refused(written: Any, key: str, value: str) -> None:
    refused = [each for each in violations_of(written({key: value})) if not each.tolerable]
    assert len(refused) == 1
    assert "label" in refused[0].expected


@pytest.mark.parametrize("written", [_flavor, _drain, _queue, _queue_by_expressions, _hyper_node])
@pytest.mark.parametrize("value", ["", "a", "A-1_b.c", "x" * 63])
def test_labels_that_objects_can_have_are_accepted(written: Any, value: str) -> None:
    assert violations_of(written({"example.com/a": value})) == []


def test_a_selector_lists_a_bounded_number_of_values() -> None:
    def told(*counts: int) -> list[str]:
        expressions = [
            {"key": "a", "operator": "In", "values": [f"v{number}" for number in range(count)]}
            for count in counts
        ]
        return [each.message for each in violations_of(_selecting({"matchExpressions": expressions}))]

    assert told(2500, 2500) == []
    assert told(2500, 2501) == [
        "spec.access.namespaceSelector.matchExpressions: found 5001 values together, expected at most 5000"
    ]


@pytest.mark.parametrize("written", [_flavor, _drain, _queue])
def test_what_is_stored_with_one_can_be_edited(written: Any) -> None:
    stored = written({"a": "x y"})
    edited = (
        {**stored, "spec": {**stored["spec"], "parent": "root"}} if "access" in stored["spec"] else stored
    )
    refused = [each for each in violations_of(edited, NOTHING_KNOWN, old=stored) if not each.tolerable]
    assert refused == []

"""Quota in documents of Queues: what is stated, how it is changed, and what differs between two versions."""

from typing import Any

import pytest

from queues.api.quota.loans import end_of
from queues.api.quota.quota_document import (
    SHOWN_CHANGES,
    SHOWN_CHARACTERS,
    QuotaField,
    changes_between,
    merged,
    parent_of,
    patch_for,
    quota_of,
)
from queues.read_api.bodies import FieldChangeBody
from tests.tables import with_rows

GPU = "nvidia.com/gpu"
PLAIN = {
    "guarantee": {"resource": {GPU: 8}},
    "deserved": {GPU: "32", "cpu": "0.5k"},
    "capability": {GPU: 48},
}
H100 = {"name": "h100", "deserved": {GPU: "16"}}


def plain(limit: str, resource: str = GPU) -> QuotaField:
    return QuotaField("", limit, resource)


def test_limits_are_read_in_the_usual_form_of_quantities() -> None:
    assert quota_of({**PLAIN, "flavors": [H100]}) == {
        plain("guarantee"): "8",
        plain("deserved"): "32",
        plain("deserved", "cpu"): "500",
        plain("capability"): "48",
        QuotaField("h100", "deserved", GPU): "16",
    }


@with_rows("spec")
def test_a_document_of_any_form_can_be_read(spec: dict[str, Any]) -> None:
    assert quota_of(spec) == {}


def test_what_is_no_quantity_is_told_as_it_is_written_and_not_at_any_length() -> None:
    assert quota_of({"deserved": {GPU: "eight"}}) == {plain("deserved"): "eight"}
    (told,) = quota_of({"deserved": {GPU: "x" * 10_000}}).values()
    assert len(told) == SHOWN_CHARACTERS


@pytest.mark.parametrize(
    "changes",
    [
        {plain("deserved"): "48"},
        {plain("guarantee"): None, plain("capability", "cpu"): "1k"},
        {QuotaField("h100", "deserved", GPU): "24", plain("deserved"): "40"},
        {QuotaField("h100", "deserved", GPU): None},
        {QuotaField("a100", "capability", GPU): "8"},
    ],
)
def test_a_patch_changes_exactly_these_limits(changes: dict[QuotaField, str | None]) -> None:
    before = {**PLAIN, "flavors": [{**H100, "kept": "as it is"}], "weight": 3}

    after = merged(before, patch_for(before, changes))

    stated = {**quota_of(before), **changes}
    assert {field: text and text.replace("1k", "1000") for field, text in stated.items() if text} == quota_of(
        after
    )
    assert after["weight"] == 3
    assert after["flavors"][0]["kept"] == "as it is"
    assert before["flavors"] == [{**H100, "kept": "as it is"}]


def test_changes_are_told_field_by_field_limits_first() -> None:
    before = {**PLAIN, "weight": 1, "policy": {"paused": True, "order": "fifo"}}
    after = {
        **PLAIN,
        "deserved": {GPU: 48, "cpu": "500"},
        "flavors": [H100],
        "weight": 2,
        "policy": {"order": "fifo"},
    }

    assert changes_between(before, after) == (
        FieldChangeBody(field=f"deserved[{GPU}]", before="32", after="48"),
        FieldChangeBody(field=f"flavors[h100].deserved[{GPU}]", before=None, after="16"),
        FieldChangeBody(field="flavors", before=None, after="h100"),
        FieldChangeBody(field="policy.paused", before="true", after=None),
        FieldChangeBody(field="weight", before="1", after="2"),
    )


def test_a_queue_that_is_made_or_removed_has_all_its_fields_changed() -> None:
    made = changes_between(None, {"deserved": {GPU: 8}})
    gone = changes_between({"deserved": {GPU: 8}}, None)

    assert made == (FieldChangeBody(field=f"deserved[{GPU}]", before=None, after="8"),)
    assert gone == (FieldChangeBody(field=f"deserved[{GPU}]", before="8", after=None),)


def test_what_is_told_of_a_change_is_bounded() -> None:
    huge = {"affinity": {"x" * 9: {str(number): "y" * 9_000 for number in range(2 * SHOWN_CHANGES)}}}

    found = changes_between(None, huge)

    assert len(found) == SHOWN_CHANGES
    assert all(each.after is not None and len(each.after) == SHOWN_CHARACTERS for each in found)
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"a": deep}
    assert len(changes_between(None, deep)) == 1


@with_rows("name", "spec", "parent")
def test_a_queue_without_a_parent_is_below_root(name: str, spec: dict[str, Any], parent: str | None) -> None:
    assert parent_of(name, spec) == parent


@pytest.mark.parametrize("until", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "soon", 7])
def test_a_loan_whose_end_cannot_be_reckoned_with_is_none(until: object) -> None:
    assert end_of({"until": until}) is None

"""Queues that cannot work are refused."""

import pytest

from queues.api.validation.known import Known
from queues.api.validation.queue_rules import queue_deletion_violations
from queues.api.validation.validation import violations_of
from queues.quota.queue import Queue
from tests.builders.valid_documents import QUEUE, TREE, changed, messages
from tests.tables import with_rows


@with_rows("spec")
def test_a_queue_that_cannot_work_is_refused(spec):
    assert messages(changed(QUEUE, ("spec", spec)), queues=TREE) != []


def test_a_queue_within_its_parent_is_accepted():
    spec = {"parent": "inner", "guarantee": {"resource": {"cpu": 1}}, "deserved": {"cpu": 2}}
    assert messages(changed(QUEUE, ("spec", spec)), queues=TREE) == []


def test_a_capability_above_the_ancestors_is_only_worth_a_warning():
    found = violations_of(
        changed(QUEUE, ("spec", {"parent": "inner", "capability": {"cpu": 9}})), Known(queues=TREE)
    )
    assert [one.tolerable for one in found] == [True]


def test_a_circle_of_parents_is_refused_with_the_way_round():
    circle = changed(QUEUE, ("metadata", "name", "inner"), ("spec", "parent", "leaf"))
    assert ["inner → leaf → inner" in one for one in messages(circle, queues=TREE)] == [True]


@pytest.mark.parametrize(("guarantee", "fine"), [(2, False), (3, True)])
def test_a_queue_cannot_shrink_below_what_its_children_are_guaranteed(guarantee, fine):
    spec = {"parent": "root", "guarantee": {"resource": {"cpu": guarantee}}}
    smaller = changed(QUEUE, ("metadata", "name", "inner"), ("spec", spec))
    assert any("guarantees of 3 cpu" in one for one in messages(smaller, queues=TREE)) is not fine


def test_a_parent_without_a_guarantee_is_said_to_count_as_one_of_nothing():
    spec = {"parent": "inner", "guarantee": {"resource": {"nvidia.com/gpu": 2}}}
    [message] = messages(changed(QUEUE, ("spec", spec)), queues=TREE)
    assert "at most 0 (it states no guarantee of this, which counts as 0)" in message


def test_queues_that_others_need_cannot_be_deleted():
    assert queue_deletion_violations("leaf", TREE) == []
    assert [one.message for one in queue_deletion_violations("default", TREE)] == [
        "metadata.name: found default, expected another queue: this one cannot be deleted"
    ]
    assert "leaf" in queue_deletion_violations("inner", TREE)[0].message


def deep(levels: int) -> dict[str, Queue]:
    """A chain of queues below root: q1, q2 and so on."""
    names = [f"q{level}" for level in range(1, levels + 1)]
    return {
        name: Queue(name=name, parent=above) for name, above in zip(names, ["root", *names], strict=False)
    }


def below(parent: str, name: str = "new") -> dict[str, object]:
    return changed(QUEUE, ("metadata", "name", name), ("spec", {"parent": parent}))


def test_a_tree_has_thirty_two_levels_at_most():
    assert messages(below("q31"), queues=deep(32)) == []
    assert messages(below("q32"), queues=deep(32)) == [
        "spec.parent: found 'q32', with which queue new is at level 33, "
        "expected a queue at level 31 below root at most"
    ]


def test_a_queue_is_not_moved_to_where_those_below_it_are_too_deep():
    queues = {**deep(31), "top": Queue(name="top"), "leaf": Queue(name="leaf", parent="top")}
    assert messages(below("q30", "top"), queues=queues) == []
    assert messages(below("q31", "top"), queues=queues) == [
        "spec.parent: found 'q31', with which queue leaf is at level 33, "
        "expected a queue at level 30 below root at most"
    ]


def test_a_queue_that_is_too_deep_already_may_be_changed_and_moved_up():
    queues = deep(40)
    assert messages(below("q39", "q40"), queues=queues) == []
    assert messages(below("q20", "q40"), queues=queues) == []


def test_a_cycle_can_be_broken_whatever_is_below_it():
    queues = {"a": Queue(name="a", parent="b"), "b": Queue(name="b", parent="a")}
    assert messages(below("root", "a"), queues=queues) == []


def lending(**loan):
    entry = {"to": "leaf", "resources": {"cpu": 1}, "until": "2030-01-01T00:00:00Z", **loan}
    return changed(QUEUE, ("spec", {"parent": "inner", "deserved": {"cpu": 2}, "loans": [entry]}))


def test_a_loan_to_a_queue_that_exists_is_accepted():
    assert violations_of(lending(), Known(queues=TREE)) == []


@with_rows("loan", "path")
def test_a_loan_that_says_nothing_that_can_count_is_refused(loan, path):
    found = [one for one in violations_of(lending(**loan), Known(queues=TREE)) if not one.tolerable]
    assert [one.path for one in found] == [path]


@with_rows("loan", "path")
def test_a_loan_without_effect_as_things_are_is_worth_a_warning(loan, path):
    assert [(one.path, one.tolerable) for one in violations_of(lending(**loan), Known(queues=TREE))] == [
        (path, True)
    ]


def test_root_lends_nothing():
    document = lending()
    document["metadata"]["name"], document["spec"]["parent"] = "root", ""
    assert "spec.loans[0]" in [
        one.path for one in violations_of(document, Known(queues=TREE)) if not one.tolerable
    ]

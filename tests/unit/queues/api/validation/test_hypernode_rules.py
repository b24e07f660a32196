"""HyperNodes that contain nothing by mistake are refused."""

import pytest

from queues.api.validation.validation import violations_of
from tests.builders.valid_documents import HYPERNODE, changed, messages
from tests.tables import with_rows


@with_rows("member", "message")
def test_a_hypernode_that_contains_nothing_by_mistake_is_refused(member, message):
    found = messages(changed(HYPERNODE, ("spec", "members", [member])))
    assert [one for one in found if message in one], found


@pytest.mark.parametrize("pattern", ["[[:alpha:]]", r"^\pL+\d\z", r"\Qn.1\E", "(?U)n.*", "(?P<rack>r[0-9]+)"])
def test_a_pattern_that_go_reads_is_accepted(pattern):
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}
    assert messages(changed(HYPERNODE, ("spec", "members", [member]))) == []


def test_an_empty_hypernode_is_only_worth_a_warning():
    (found,) = violations_of(changed(HYPERNODE, ("spec", "members", [])))
    assert found.tolerable

"""HyperNodes that contain nothing by mistake are refused."""

import pytest

from queues.api.validation.validation import violations_of
from tests.builders.valid_documents import HYPERNODE, changed, messages


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"type": "Node", "selector": {}}, "members[0].selector: found nothing, expected exactly one of"),
        (
            {"type": "Node", "selector": {"exactMatch": {"name": "n"}, "regexMatch": {"pattern": "n"}}},
            "members[0].selector: found exactMatch and regexMatch, expected exactly one of",
        ),
        ({"type": "Node", "selector": {"exactMatch": {"name": ""}}}, "exactMatch.name: found nothing"),
        ({"type": "Node", "selector": {"exactMatch": {"name": "No De"}}}, "expected the name of an object"),
        ({"type": "Node", "selector": {"regexMatch": {"pattern": ""}}}, "pattern: found nothing"),
        (
            {"type": "Node", "selector": {"regexMatch": {"pattern": "n{99999999999}"}}},
            "found 'n{99999999999}' (invalid repetition size: {99999999999), expected a regular expression",
        ),
        ({"type": "Node", "selector": {"regexMatch": {"pattern": "n("}}}, "expected a regular expression"),
        ({"type": "Node", "selector": {"regexMatch": {"pattern": "n(?!0)"}}}, "it knows no look-around"),
        (
            {
                "type": "Node",
                "selector": {"labelMatch": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            },
            "labelMatch.matchExpressions[0].operator: found 'Is'",
        ),
        (
            {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "s"}}},
            "exactMatch: a HyperNode is a member by its name only",
        ),
        (
            {"type": "HyperNode", "selector": {"exactMatch": {"name": "s1"}}},
            "another HyperNode than this one",
        ),
        ({"type": "Rack", "selector": {"exactMatch": {"name": "s0"}}}, "spec.members[0].type"),
    ],
)
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

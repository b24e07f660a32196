"""Label selectors: what they select, and how people read them."""

import pytest

from queues.label_selectors import labels_text, selector_of, selector_text, selects
from queues.workload import Requirement
from tests.tables import with_rows

TEAM = Requirement("team", "In", ("a",))


@pytest.mark.parametrize(
    ("requirement", "labels", "expected"),
    [
        (TEAM, {"team": "a"}, True),
        (TEAM, {"team": "b"}, False),
        (TEAM, {}, False),
        (Requirement("team", "NotIn", ("a",)), {"team": "b"}, True),
        (Requirement("team", "NotIn", ("a",)), {}, True),
        (Requirement("team", "NotIn", ("a",)), {"team": "a"}, False),
        (Requirement("team", "Exists"), {"team": ""}, True),
        (Requirement("team", "Exists"), {}, False),
        (Requirement("team", "DoesNotExist"), {}, True),
        (Requirement("team", "DoesNotExist"), {"team": ""}, False),
        (Requirement("team", "Is", ("a",)), {"team": "a"}, False),
    ],
)
def test_each_operator_is_that_of_kubernetes(
    requirement: Requirement, labels: dict[str, str], expected: bool
) -> None:
    assert selects([requirement], labels) is expected


def test_all_requirements_must_hold_and_none_selects_everything() -> None:
    assert selects((), {})
    assert not selects((TEAM, Requirement("tier", "Exists")), {"team": "a"})


def test_a_selector_is_written_as_kubectl_writes_it() -> None:
    selector = (
        TEAM,
        Requirement("tier", "In", ("gold", "silver")),
        Requirement("env", "NotIn", ("test",)),
        Requirement("gpu", "Exists"),
        Requirement("legacy", "DoesNotExist"),
    )
    assert selector_text(selector) == "team=a,tier in (gold, silver),env notin (test),gpu,!legacy"


def test_only_labels_that_the_selector_asks_about_are_told() -> None:
    asked = (TEAM, Requirement("tier", "Exists"))
    assert labels_text(asked, {"team": "b", "secret": "x"}) == "team=b, no label tier"


@with_rows("text", "read")
def test_a_selector_is_read_as_kubectl_takes_it(text: str, read: str) -> None:
    found = selector_of(text)
    assert found is not None
    assert selector_text(found) == read


@pytest.mark.parametrize("text", ["(a)", "a b", "a=b=c", "a in r1", "a in (r1", "=a", ",", "!", "a,,b"])
def test_what_is_no_selector_is_not_read_as_one(text: str) -> None:
    assert selector_of(text) is None

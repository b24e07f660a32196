"""PodGroups: rules that are not Volcano's."""

import pytest

from queues.api.types.podgroup import PodGroup
from queues.api.validation.known import NOTHING_KNOWN
from queues.api.validation.podgroup_rules import podgroup_violations
from queues.api.validation.violations import Violation

HOLD = "muster.dev/hold-min-resources"
GPU = {"nvidia.com/gpu": "8"}


def found(annotations: dict[str, str], **spec: object) -> list[Violation]:
    document = {"metadata": {"name": "g", "annotations": annotations}, "spec": {"minMember": 2, **spec}}
    return podgroup_violations(PodGroup.model_validate(document), NOTHING_KNOWN)


@pytest.mark.parametrize("text", ["10m", "1h", "1s"])
def test_quota_may_be_held_for_up_to_an_hour(text: str) -> None:
    assert found({HOLD: text}, minResources=GPU) == []


@pytest.mark.parametrize("text", ["0s", "61m", "-5m", "soon", ""])
def test_any_other_time_is_refused(text: str) -> None:
    [violation] = found({HOLD: text}, minResources=GPU)
    assert violation.path == f"metadata.annotations[{HOLD}]"
    assert violation.expected == "a duration above 0s and of at most 1h, such as 10m"
    assert not violation.tolerable


def test_without_min_resources_there_is_nothing_to_hold() -> None:
    [violation] = found({HOLD: "10m"})
    assert violation.tolerable
    assert violation.expected == "spec.minResources beside it: they are what is held"


def test_a_run_time_that_cannot_be_read_is_told() -> None:
    [violation] = found({"muster.dev/run-time": "long"})
    assert violation.path == "metadata.annotations[muster.dev/run-time]"

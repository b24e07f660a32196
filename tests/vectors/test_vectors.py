"""The committed conformance vectors pass, but for those that need what is not built yet."""

from pathlib import Path
from typing import Any

import pytest

from tests.vectors import topology_placement
from tests.vectors.cases import KINDS, load

HERE = Path(__file__).parent


def cases(kind: str) -> list[Any]:
    later = topology_placement.later if kind == "topology_placement" else lambda case: None
    return [
        pytest.param(case, id=case["case"]) for case in load(HERE / f"{kind}.json") if later(case) is None
    ]


@pytest.mark.parametrize("case", cases("quota_tree"))
def test_what_a_queue_may_still_use_and_could_ever_use(case: dict[str, Any]) -> None:
    assert KINDS["quota_tree"](case) is None


@pytest.mark.parametrize("case", cases("topology_placement"))
def test_pods_are_placed_as_close_together_as_wanted(case: dict[str, Any]) -> None:
    assert KINDS["topology_placement"](case) is None


def test_no_placement_case_is_left_out_unnoticed() -> None:
    assert len(cases("topology_placement")) == 31

"""Planted bugs are planted where the code is. That runs find them is shown by ``make chaos BUG=name``."""

from typing import Any

import pytest

from tests.chaos import planted_bugs
from tests.chaos.planted_bugs import BUGS


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_replaces_what_is_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = []

    def look(owner: Any, attribute: str, wrong: Any) -> None:
        assert getattr(owner, attribute) is not wrong
        replaced.append(attribute)

    monkeypatch.setattr(planted_bugs, "_set", look)
    planted_bugs.plant(name)
    assert replaced


def test_there_are_at_least_twenty_bugs() -> None:
    assert len(BUGS) >= 20

"""What the tests of the writers share."""

import pytest

from admission.kube.writers import work_queue


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "FIRST_PAUSE", 0.01)

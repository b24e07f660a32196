"""Expected starts as they are told some time after they were worked out."""

import pytest

from admission.web.lists.expected import told_at
from queues.read_api.bodies import ExpectedStartBody


def start(
    earliest: str, latest: str | None, overdue: str | None = None, *, never: bool = False
) -> ExpectedStartBody:
    def at(text: str | None) -> str | None:
        return None if text is None else f"2026-11-21T{text}:00Z"

    begin, since = at(earliest), at(overdue)
    assert begin is not None
    return ExpectedStartBody(computed="", earliest=begin, latest=at(latest), never=never, overdue_since=since)


@pytest.mark.parametrize(
    ("was", "told"),
    [
        (start("10:10", "10:40"), start("10:10", "10:40")),
        (start("09:10", "10:40"), start("10:00", "10:40")),
        (start("09:10", "10:00"), start("10:00", "10:00")),
        (start("09:10", "09:59"), start("10:00", None, "09:59")),
        (start("09:10", None), start("10:00", None)),
        (start("09:10", None, never=True), start("09:10", None, never=True)),
        # Told once more.
        (start("09:59", None, "09:58"), start("10:00", None, "09:58")),
    ],
)
def test_no_part_of_an_interval_is_in_the_past(was: ExpectedStartBody, told: ExpectedStartBody) -> None:
    assert told_at(was, "2026-11-21T10:00:00Z") == told

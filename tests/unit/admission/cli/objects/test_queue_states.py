"""What tables of queues say of a queue that is stopped in two ways."""

from typing import Any

from admission.cli.objects.queues import overview_table, queue_table


def stopped(**about: Any) -> dict[str, Any]:
    given = {"name": "dev", "parent": None, "accounts": [], "pending": 0, "admitted": 0, "changedBy": ""}
    return {**given, "usageHalfLifeSeconds": None, "share": None, "message": "", **about}


def test_a_queue_that_is_closed_and_paused_says_both() -> None:
    both, closed = stopped(state="closed", paused=True), stopped(state="closed", paused=False)
    for wide in (False, True):
        assert " closed,paused " in queue_table([both], resource="pods", wide=wide, headers=False)
        assert " closed " in queue_table([closed], resource="pods", wide=wide, headers=False)
    assert "dev (closed,paused)" in overview_table([both], resource="pods", width=80)

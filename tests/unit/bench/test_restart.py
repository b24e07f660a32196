"""What the benchmark of a restart promises, from its figures."""

from typing import Any

from tests.bench import restart
from tests.bench.mark import Mark
from tests.bench.model_objects import ClusterSize
from tests.bench.restart import RestartFigures

PHASES = ("first start", "restart", "departures", "admissions")


def mark(end: str, **figures: Any) -> Mark:
    """The mark with a name that ends so. ``figures``: those that are not 0."""
    nothing = dict.fromkeys(PHASES, 0.0)
    given = {"longest_block": nothing, "longest_transaction": nothing, **figures}
    (found,) = (
        each for each in restart.marks(RestartFigures(ClusterSize(), **given)) if each.name.endswith(end)
    )
    return found


def test_the_leader_that_takes_more_memory_counts() -> None:
    assert mark("peak memory of the leader", memory_first_mb=701.0, memory_mb=600.0).reached == 701
    assert mark("peak memory of the leader", memory_first_mb=600.0, memory_mb=701.0).reached == 701


def test_no_phase_after_the_first_start_may_block_the_loop_or_write_for_long() -> None:
    for phase in PHASES:
        figures = {**dict.fromkeys(PHASES, 0.0), phase: 1.5}
        counts = phase != "first start"
        assert mark("leader's loop", longest_block=figures).holds is not counts
        assert mark("transaction that writes", longest_transaction=figures).holds is not counts

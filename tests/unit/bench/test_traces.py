"""What is read off a simulated week, and that a run goes on where it was stopped."""

from pathlib import Path
from typing import Any

from tests.bench import flood, restart
from tests.bench.flood import FloodFigures, GangTimes
from tests.bench.mark import Mark
from tests.bench.model_objects import ClusterSize
from tests.bench.restart import RestartFigures
from tests.bench.simulate import rules
from tests.bench.simulate.gangs import Segment
from tests.bench.traces.results import Results
from tests.bench.traces.scoring import ABLATIONS, NO_PREEMPTION, Score, evictions_in_a_day, longest_wait
from tests.bench.traces.tables import summary
from tests.bench.traces.weeks import Week, every_week

HOUR = 3600


def ran(job: str, *hours: tuple[int, int]) -> list[Segment]:
    """A job that started and stopped at these hours."""
    return [Segment(job=job, start=start * HOUR, end=end * HOUR, nodes=()) for start, end in hours]


def score(case: str, **more: float) -> Score:
    figures = dict.fromkeys((name for name in Score.__slots__ if name not in ("case", "violations")), 0.0)
    return Score(case=case, violations={}, **{**figures, **more})  # type: ignore[arg-type]


def test_evictions_are_counted_by_job_and_day_and_the_last_stop_of_a_job_is_none() -> None:
    often = ran("often", (0, 1), (2, 3), (4, 24), (25, 28), (29, 30))
    assert evictions_in_a_day([*often, *ran("once", (0, 1), (2, 3)), *ran("never", (0, 99))]) == 3
    assert evictions_in_a_day(ran("never", (0, 99))) == 0


def test_the_longest_wait_is_that_before_the_first_start() -> None:
    segments = [*ran("a", (5, 6), (90, 91)), *ran("b", (3, 4)), *ran("single", (50, 51))]
    assert longest_wait(segments, {"a": 2 * HOUR, "b": 1 * HOUR}) == 3 * HOUR


def test_scores_are_found_again_by_rules_and_week(tmp_path: Path) -> None:
    week, file = Week(tmp_path / "gang" / "w", 2), tmp_path / "scores.jsonl"
    Results.read(file).add(rules.DEFAULT, score(week.name, util_eff=0.5))
    with file.open("a") as lines:
        lines.write('{"configuration": "cut o')
    again = Results.read(file)
    found = again.get(rules.DEFAULT, week)
    assert found is not None
    assert found.util_eff == 0.5
    assert again.get(ABLATIONS[NO_PREEMPTION], week) is None
    assert again.get(rules.DEFAULT, Week(week.recorded)) is None


def test_every_recorded_week_comes_with_others_like_it(tmp_path: Path) -> None:
    for name in ("gang/a", "gang2/b"):
        (tmp_path / name).mkdir(parents=True)
    assert [week.name for week in every_week(tmp_path, seeds=1)] == ["a", "b", "a-p1", "b-p1"]


def test_mean_worst_and_spread_are_told_by_what_is_better() -> None:
    mean, worst, spread = summary(
        "x", [score("a", util_eff=0.9, wasted=0.01), score("b", util_eff=1.0)]
    ).splitlines()
    assert mean.startswith("| x, mean | 0.950 |")
    assert worst.startswith("| x, worst | 0.900 |")
    assert spread.startswith("| x, spread | 0.050 |")
    assert "| 0.50 % |" in mean


# ── floods ──────────────────────────────────────────────────────────────────────────────────────────────────


def figures(own: float, starved: float = 0.0) -> FloodFigures:
    quiet, flooded = (
        GangTimes(own=[seconds] * 3, starved=[starved] * 3, api_server=[0.01] * 3) for seconds in (0.03, own)
    )
    return FloodFigures(jobs=1000, quiet=quiet, flooded=flooded, cpu_seconds=5.0, seconds=10.0)


def test_a_gang_takes_at_most_twice_as_long() -> None:
    assert [mark.holds for own in (0.05, 0.07) for mark in flood.marks(figures(own))] == [True, False]


def test_the_part_of_the_api_server_is_printed_apart() -> None:
    lines = flood.table(figures(0.05, starved=0.2)).splitlines()
    assert lines[2].split()[-7:] == ["0.050", "0.050", "0.200", "0.200", "0.010", "0.010", "3"]


# ── restarts ────────────────────────────────────────────────────────────────────────────────────────────────


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

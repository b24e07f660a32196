"""What the benchmark of a flood promises, from its figures."""

from tests.bench import flood
from tests.bench.flood import FloodFigures, GangTimes


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

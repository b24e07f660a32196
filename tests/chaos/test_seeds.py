"""A few seeds of the chaos runs, which have every kind of fault; ``make chaos`` plays hundreds."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.__main__ import summary
from tests.chaos.drawn.combinations import COMBINATIONS
from tests.chaos.drawn.plan import plan
from tests.chaos.seeds import Result, Results
from tests.waiting import LIMIT

#: Seeds that are played, chosen for what goes wrong in them and for runs that are short.
DOZEN: Final = (2, 3, 4, 5, 6, 7, 9, 15, 144, 150, 155, 172)
#: Those of them that ``make test`` plays: every kind of fault, and fewer of the combinations.
FEW: Final = (2, 5, 15, 144, 150, 155, 172)


@pytest.mark.parametrize(
    "seeds", [pytest.param(FEW, id="few"), pytest.param(DOZEN, id="dozen", marks=pytest.mark.long)]
)
def test_runs_under_random_faults_break_no_law(seeds: tuple[int, ...], tmp_path: Path) -> None:
    # A process of its own: replicas are forked from one that has neither a loop nor threads.
    command = [
        *(sys.executable, "-m", "tests.chaos", "--these", *map(str, seeds)),
        *("--lanes", "2", "--folder", str(tmp_path)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10 * LIMIT)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"


def test_the_few_have_every_kind_of_fault_that_is_ever_drawn_and_the_dozen_every_combination() -> None:
    drawn = {fault.name for seed in range(1, 301) for fault in plan(seed).faults}
    played = {fault.name for seed in FEW for fault in plan(seed).faults}
    assert drawn - played == set()
    assert {seed % len(COMBINATIONS) for seed in DOZEN} == set(range(len(COMBINATIONS)))


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ((9.0, 4.5), "0 took more than 10 s; the slowest was seed 1 with 9.0 s"),
        ((9.0, 10.5, 12.25), "2 took more than 10 s: 2, 3; the slowest was seed 3 with 12.2 s"),
    ],
)
def test_a_summary_tells_which_seeds_took_too_long(seconds: tuple[float, ...], told: str) -> None:
    found = [Result(seed=number, seconds=each) for number, each in enumerate(seconds, 1)]
    assert told in summary(found, 1.0).splitlines()


def test_an_interrupted_run_goes_on_with_the_seeds_that_it_has_not_played(tmp_path: Path) -> None:
    first = Results.of_these_sources(tmp_path)
    for played in (
        Result(seed=1),
        Result(seed=2, breaches=("a pod twice",)),
        Result(seed=3, failure="no port"),
    ):
        first.add(played)
    with first.path.open("ab") as file:
        file.write(b'{"seed":4,"brea')
    again = Results.of_these_sources(tmp_path)
    assert [each.is_good for each in again.done.values()] == [True, False], (
        "what could not be played is played again"
    )
    again.add(Result(seed=4))
    assert list(Results.of_these_sources(tmp_path).done) == [1, 2, 4]

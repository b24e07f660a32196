"""``python -m tests.bench.traces``: the engine over recorded gangs, judged by an independent scorer.

The folder of traces has ``score.py``, ``perturb.py``, ``gang/*`` and ``gang2/*``: see docs/reference/benchmarks.md.
With ``--ablation`` every rule is switched off in turn, and what that costs is printed as a table. Scores are kept, so a
run that was stopped goes on where it was.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Final

from tests.bench.simulate.rules import configuration
from tests.bench.traces.results import Results, plain
from tests.bench.traces.scoring import ABLATIONS, FULL, NO_PREEMPTION, Score, play
from tests.bench.traces.tables import HEAD, comparison, marks, row, summary
from tests.bench.traces.weeks import KEPT_APART, SEEDS, Week, cache, every_week, fast_weeks

#: Beside the repository unless told otherwise.
TRACES: Final = Path(__file__).parents[4] / "shared" / "traces"


def main() -> int:
    """Exit code 1: something that must hold does not."""
    options = _options()
    weeks = fast_weeks(options.traces) if options.fast else every_week(options.traces, seeds=options.seeds)
    weeks = [week for week in weeks if not options.cases or week.name in options.cases]
    if not weeks:
        print(f"no such week in {options.traces}", file=sys.stderr)
        return 2
    names = list(ABLATIONS) if options.ablation else [FULL] if options.fast else [FULL, NO_PREEMPTION]
    if options.only:
        names = [name for name in ABLATIONS if name in options.only]
    results = Results.read(cache() / "scores.jsonl")
    print(f"configuration {configuration(ABLATIONS[FULL])}, {len(weeks)} weeks")
    _play_all(names, weeks, results, options.processes)
    reached = {name: list(_scores(name, weeks, results)) for name in names}
    held = True
    for name, scores in reached.items():
        print(f"\n{name}\n{HEAD}\n" + "\n".join(map(row, scores)))
        print(f"{summary(name, scores)}\n{_seconds(scores)}\n")
        if name in (FULL, NO_PREEMPTION):
            apart = {week.name for week in weeks if week.group == KEPT_APART}
            judged = [score for score in scores if score.case in apart] or scores
            every = marks(judged, preemption=name == FULL)
            held = held and all(mark.holds for mark in every)
            print("\n".join(mark.line() for mark in every), flush=True)
    if len(names) > 1:
        print(f"\n{comparison(reached)}")
    if options.json is not None:
        figures = {name: [plain(score) for score in scores] for name, scores in reached.items()}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if held else 1


def _play_all(names: Sequence[str], weeks: Sequence[Week], results: Results, processes: int) -> None:
    """Play what was not played before, the longest first, and tell how long it will take."""
    missing = [(name, week) for name in names for week in weeks if results.get(ABLATIONS[name], week) is None]
    known = results.seconds()
    usual = fmean(known.values()) if known else 60.0
    expected = {each: known.get(each[1].name, usual) for each in missing}
    progress = _Progress(len(missing), sum(expected.values()))
    with ProcessPoolExecutor(processes) as pool:
        asked = {
            pool.submit(play, week, ABLATIONS[name]): (name, week)
            for name, week in sorted(missing, key=lambda each: -expected[each])
        }
        for answer in as_completed(asked):
            name, week = asked[answer]
            results.add(ABLATIONS[name], answer.result())
            progress.step(expected[name, week])
    progress.end()


class _Progress:
    """A line on the terminal: how much is done, and about how long the rest takes."""

    def __init__(self, many: int, seconds: float) -> None:
        """``seconds``: what all of it takes in one process, as far as known."""
        self._many, self._seconds = many, seconds
        self._done, self._done_seconds, self._began = 0, 0.0, monotonic()

    def step(self, seconds: float) -> None:
        """One more is done, which was expected to take so long."""
        self._done += 1
        self._done_seconds += seconds
        share = self._done_seconds / self._seconds
        left = (monotonic() - self._began) * (1 - share) / share
        bar = "#" * round(30 * share)
        print(
            f"\r[{bar:<30}] {self._done} of {self._many}, {left / 60:4.0f} min left", end="", file=sys.stderr
        )

    def end(self) -> None:
        """Leave the line."""
        if self._done:
            print(file=sys.stderr)


def _scores(name: str, weeks: Sequence[Week], results: Results) -> Iterator[Score]:
    for week in weeks:
        score = results.get(ABLATIONS[name], week)
        assert score is not None, f"{week.name} was not played"
        yield score


def _seconds(scores: Sequence[Score]) -> str:
    rate = fmean(score.decisions_per_second for score in scores)
    broken = sum(sum(score.violations.values()) for score in scores)
    return f"{sum(score.seconds for score in scores):.0f} s, {rate:,.0f} decisions/s, {broken} invariants violated"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.traces", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="WEEK", help="names of weeks; without them all")
    parser.add_argument(
        "--traces",
        type=Path,
        default=TRACES,
        metavar="DIR",
        help="folder with score.py, perturb.py and weeks",
    )
    parser.add_argument("--fast", action="store_true", help="a dozen weeks, in less than five minutes")
    parser.add_argument(
        "--seeds",
        type=int,
        default=SEEDS,
        metavar="N",
        help="weeks made of each recorded one (default: %(default)s)",
    )
    parser.add_argument("--ablation", action="store_true", help="switch every rule off in turn")
    parser.add_argument("--only", action="append", metavar="RULES", help=f"one of: {', '.join(ABLATIONS)}")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.chaos --seeds 300`` or ``--seed 17``: see ``make chaos``."""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.chaos.checker.checker import breaches
from tests.chaos.drawn.pace import PACE
from tests.chaos.drawn.plan import plan
from tests.chaos.objectives import objectives
from tests.chaos.replicas.fork_server import ForkServer
from tests.chaos.seeds import ROOT, Lane, Result, Results, fork_server, play_all
from tests.chaos.timeline import timeline

#: Seconds that a seed on the model API server may take, on a machine that does nothing else.
MOST_SECONDS: Final = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=100, help="play seeds 1 to this; finished ones are not repeated"
    )
    parser.add_argument("--first", type=int, default=1, help="begin with this one")
    parser.add_argument("--these", type=int, nargs="+", metavar="SEED", help="play these and no others")
    parser.add_argument("--seed", type=int, help="play this one only, and tell all that happened")
    parser.add_argument("--real", action="store_true", help="on real API servers, one for each seed")
    parser.add_argument("--lanes", type=int, default=1, help="seeds at a time")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "chaos", help="results, histories of breaches"
    )
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with fork_server() as server:
        if chosen.seed is not None:
            return asyncio.run(_play_one(server, chosen.seed, chosen))
        results = Results.of_these_sources(chosen.folder, real=chosen.real)
        seeds = chosen.these or range(chosen.first, chosen.first + chosen.seeds)
        began = time.monotonic()
        asyncio.run(play_all(server, seeds, results, lanes=chosen.lanes, tell=_tell))
    print(f"pace {PACE:g}")
    found = [results.done[seed] for seed in seeds]
    print(summary(found, time.monotonic() - began))
    return 0 if all(result.is_good for result in found) else 1


async def _play_one(server: ForkServer, seed: int, chosen: argparse.Namespace) -> int:
    print(plan(seed).timeline(), flush=True)
    async with Lane.open(0, server) as lane:
        began = time.monotonic()
        history = await lane.play(seed, real=chosen.real)
        seconds = time.monotonic() - began
    path = chosen.folder / f"{'real-' if chosen.real else ''}seed-{seed}.json"
    history.save(path)
    print(f"\n{objectives.told([objectives.measured(history)])}")
    print(f"\nwhat happened, in {seconds:.1f} s; the whole history is in {path}\n{timeline(history)}")
    found = breaches(history)
    print(*([f"\nBREACH {each}" for each in found] or ["\nno breach"]), sep="\n")
    return 1 if found else 0


def _tell(result: Result) -> None:
    verdict = "good" if result.is_good else "BREACH" if result.breaches else "FAILED"
    print(
        f"seed {result.seed:5} {verdict} {result.seconds:5.1f} s, {result.terms} terms, {result.admissions} admissions"
    )
    for line in (*result.breaches, *([result.failure] if result.failure else ())):
        print(f"    {line[:600]}")
    if not result.is_good:
        print(f"    again: make chaos SEED={result.seed}")
    sys.stdout.flush()


def summary(found: Sequence[Result], seconds: float) -> str:
    """All results together, in a few lines. ``seconds``: how long it took to play those that had none yet."""
    bad = [result.seed for result in found if not result.is_good]
    faults: Counter[str] = Counter()
    for result in found:
        faults.update(result.faults)
    long = [result.seed for result in found if result.seconds > MOST_SECONDS]
    slowest = max(found, key=lambda result: result.seconds)
    told = ", ".join(f"{name} {count}" for name, count in sorted(faults.items()))
    measured = objectives.told(result.measured for result in found if result.measured is not None)
    return (
        f"{len(found)} seeds, {len(bad)} not good{': ' + ', '.join(map(str, bad)) if bad else ''}\n"
        f"{seconds:.0f} s now, {sum(result.seconds for result in found):.0f} s in all; "
        f"{sum(result.terms for result in found)} terms, "
        f"{sum(result.admissions for result in found)} admissions, {sum(result.pods for result in found)} pods\n"
        f"{len(long)} took more than {MOST_SECONDS:g} s{': ' + ', '.join(map(str, long)) if long else ''}; "
        f"the slowest was seed {slowest.seed} with {slowest.seconds:.1f} s\n"
        f"faults: {told}" + (f"\n{measured}" if measured else "")
    )


if __name__ == "__main__":
    sys.exit(main())

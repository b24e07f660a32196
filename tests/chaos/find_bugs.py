"""``python -m tests.chaos.find_bugs any-lease-renewed``: play seeds with a planted bug until one has a breach.

Without names all bugs are planted, one after the other. Exit status 1: a bug was not found.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.chaos.checker.ending import the_run_comes_to_rest
from tests.chaos.planted_bugs import BUGS, VARIABLE
from tests.chaos.replicas.fork_server import ForkServer
from tests.chaos.seeds import Lane, Result, Results, fork_server, play_one

_REST: Final = the_run_comes_to_rest.__name__.replace("_", " ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bugs", nargs="*", metavar="BUG", help=f"one of {', '.join(BUGS)}; none: all")
    parser.add_argument("--seeds", type=int, default=50, help="the most to be played for each bug")
    parser.add_argument("--first", type=int, default=1, help="begin with this seed")
    chosen = parser.parse_args()
    if unknown := set(chosen.bugs) - BUGS.keys():
        parser.error(f"found {', '.join(sorted(unknown))}, expected one of {', '.join(BUGS)}")
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    found = [find(bug, seeds) for bug in chosen.bugs or BUGS]
    return 0 if all(found) else 1


def find(bug: str, seeds: Sequence[int]) -> bool:
    """Whether a seed brings a bug to light; says which, and by which check."""
    os.environ[VARIABLE] = bug
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, fork_server() as server:
        played = asyncio.run(_play_until_breach(server, bug, seeds, Path(folder)))
    del os.environ[VARIABLE]
    last, seconds = played[-1], time.monotonic() - began
    if not any(each.terms for each in played):
        raise RuntimeError(f"no replica could lead with bug {bug}: {last}")
    failures = sum(bool(each.failure) for each in played)
    told = f"{len(played)} seeds ({failures} not played), {seconds:.0f} s, seed {last.seed}"
    print(
        f"{bug}: {BUGS[bug].about}",
        told,
        *(_first_of_each_check(last.breaches) or ["no breach"]),
        sep="\n    ",
        flush=True,
    )
    return _tells(bug, last)


def _first_of_each_check(breaches: Sequence[str]) -> list[str]:
    return list({each.partition(":")[0]: each[:300] for each in reversed(breaches)}.values())[::-1]


def _tells(bug: str, result: Result) -> bool:
    """Whether a run brings a bug to light. On a busy machine one may have too little time to come to rest."""
    if BUGS[bug].stops:
        return bool(result.breaches)
    return any(not each.startswith(_REST) for each in result.breaches)


async def _play_until_breach(
    server: ForkServer, bug: str, seeds: Sequence[int], folder: Path
) -> list[Result]:
    played: list[Result] = []
    results = Results.of_these_sources(folder)
    async with Lane.open(0, server) as lane:
        for seed in seeds:
            played.append(await play_one(lane, seed, results))
            if _tells(bug, played[-1]):
                break
    return played


if __name__ == "__main__":
    sys.exit(main())

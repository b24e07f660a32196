"""The weeks that rules are judged on: recorded ones, and others like them.

A rule that helps only on the recorded weeks does not help. ``perturb.py``, beside the recorded weeks, makes another
week like one of them: jobs come at other times, and their run times are exchanged.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Folders of recorded weeks: those that the rules were made on, and those that were kept apart until then.
MADE_ON: Final = "gang"
KEPT_APART: Final = "gang2"
#: Other weeks that are made of each recorded one.
SEEDS: Final = 5
#: A dozen that take less than five minutes together on two cores: name of the recorded week, seed (0: itself).
FAST: Final = (
    ("itp-w1-r08", 0),
    ("philly-w4-r095", 0),
    ("itp-d24-r095", 0),
    ("itp-w5-r085", 0),
    ("itp-w5-r10", 0),
    ("itp-w6-r095-eq", 0),
    ("philly-w7-r11", 0),
    ("philly-w9-r095-eq", 0),
    ("philly-w9-r095-eq", 1),
    ("philly-w11-r10", 0),
    ("philly-w12-r095", 0),
    ("philly-w12-r095", 1),
)


@dataclass(frozen=True, slots=True)
class Week:
    """A week of gangs."""

    #: Folder of the recorded week.
    recorded: Path
    #: Number of the week that is made of it; 0: the recorded one.
    seed: int = 0

    @property
    def name(self) -> str:
        """Name, the same on every machine."""
        return f"{self.recorded.name}-p{self.seed}" if self.seed else self.recorded.name

    @property
    def group(self) -> str:
        """``MADE_ON`` or ``KEPT_APART``."""
        return self.recorded.parent.name

    @property
    def scorer(self) -> Path:
        """The program that judges a schedule of it."""
        return self.recorded.parents[1] / "score.py"

    def folder(self) -> Path:
        """The folder that it is read from, made now if it is not there."""
        if not self.seed:
            return self.recorded
        made = cache() / "weeks" / self.name
        if not made.is_dir():
            unfinished = made.with_name(f"{made.name}.{os.getpid()}")
            shutil.rmtree(unfinished, ignore_errors=True)
            perturb = self.recorded.parents[1] / "perturb.py"
            seed = ("--seed", str(self.seed))
            subprocess.run([sys.executable, perturb, self.recorded, unfinished, *seed], check=True)
            unfinished.rename(made)
        return made


def cache() -> Path:
    """The folder for what is made from the recorded weeks."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "muster" / "traces"


def every_week(traces: Path, *, seeds: int = SEEDS) -> list[Week]:
    """All recorded weeks in that folder and so many others like each, the recorded ones first."""
    recorded = [
        folder
        for group in (MADE_ON, KEPT_APART)
        if (traces / group).is_dir()
        for folder in sorted((traces / group).iterdir())
        if folder.is_dir()
    ]
    return [Week(folder, seed) for seed in range(seeds + 1) for folder in recorded]


def fast_weeks(traces: Path) -> list[Week]:
    """The dozen for trying."""
    return _those(every_week(traces), FAST)


def _those(weeks: Iterable[Week], wanted: Iterable[tuple[str, int]]) -> list[Week]:
    by_name = {(week.recorded.name, week.seed): week for week in weeks}
    return [by_name[each] for each in wanted if each in by_name]

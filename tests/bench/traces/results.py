"""Scores of weeks that were played already, so that a run that was stopped goes on where it was."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from queues.quota.queue import Queue
from tests.bench.simulate.rules import configuration
from tests.bench.traces.scoring import Score
from tests.bench.traces.weeks import Week


@dataclass(slots=True)
class Results:
    """Scores by deciding code, rules and week, in a file of one JSON object per line."""

    file: Path
    _scores: dict[tuple[str, str], Score] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> "Results":
        """What the file holds. A line that was cut off when a run was stopped is left out."""
        return cls(
            file, {(line["configuration"], line["score"]["case"]): _score(line) for line in _lines(file)}
        )

    def get(self, root: Queue, week: Week) -> Score | None:
        """The score of a week under these rules and the code as it is. None: it was not played."""
        return self._scores.get((configuration(root), week.name))

    def add(self, root: Queue, score: Score) -> None:
        """Keep a score."""
        played = configuration(root)
        self._scores[played, score.case] = score
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as lines:
            lines.write(json.dumps({"configuration": played, "score": plain(score)}) + "\n")

    def seconds(self) -> Mapping[str, float]:
        """How long each week took when it was last played, whatever the rules."""
        return {week: score.seconds for (_, week), score in self._scores.items()}


def plain(score: Score) -> dict[str, Any]:
    """A score as it is stored."""
    return {name: getattr(score, name) for name in Score.__slots__}


_FIELDS: Final = frozenset(Score.__slots__)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if not file.exists():
        return
    for text in file.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if line["score"].keys() == _FIELDS:  # another version counted other things
            yield line


def _score(line: Mapping[str, Any]) -> Score:
    return Score(**line["score"])

"""Preferred node affinity: nodes of the highest score first."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from admission.engine.ask import Ask
from admission.engine.topology import Amounts


def by_score(score: Amounts, room: Amounts) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Places of equal score that have room, the highest first."""
    usable = room > 0
    for value in np.unique(score[usable])[::-1].tolist():
        yield value, usable & (score == value)


def best_scores(ask: Ask, at: int) -> Amounts:
    """(D,) the most that ``pods`` pods in each domain of the level can score; parts aside."""
    assert ask.score is not None
    level = ask.chain[at]
    left = np.full(len(level.domains), ask.pods, np.int64)
    scores = np.zeros(len(level.domains), np.int64)
    for score, nodes in by_score(ask.score, ask.room):
        fit = np.minimum(level.sums(ask.room * nodes), left)
        scores += score * fit
        left -= fit
    return scores

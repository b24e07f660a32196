"""Pods over places that have some room each: the fewest places, or the same number to each."""

import numpy as np
from numpy.typing import NDArray

from admission.engine.topology import Amounts


def fewest(room: Amounts, pods: int, cost: Amounts | None = None) -> NDArray[np.intp]:
    """The roomiest places until the rest fits into one; that one the tightest, and last in the answer."""
    order = np.argsort(-room, kind="stable") if cost is None else np.lexsort((cost, -room))
    sums = np.cumsum(room[order])
    full = int(np.searchsorted(sums, pods))
    rest = pods - (int(sums[full - 1]) if full else 0)
    others = order[full:]
    # Descending room: the last of those that hold the rest is the tightest; of equals the first.
    holding = int(np.count_nonzero(room[others] >= rest))
    tightest = room[others[holding - 1]]
    last = others[int(np.flatnonzero(room[others] == tightest)[0])]
    return np.append(order[:full], last)


def evenly(room: Amounts, pods: int, unit: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Places that get pods, and as equal numbers (multiples of the unit) as the room allows.

    Roomier places get what is left over.
    """
    units = room // unit
    asked = pods // unit
    low, high = 0, asked  # the largest number per place that all together do not exceed what is asked
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(units, middle).sum()) <= asked:
            low = middle
        else:
            high = middle - 1
    counts = np.minimum(units, low)
    rest = asked - int(counts.sum())
    more = np.argsort(-(units - counts), kind="stable")[:rest]
    counts[more] += 1
    used = np.flatnonzero(counts)
    return used, counts[used] * unit

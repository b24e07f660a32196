"""How long gangs waited until they were admitted, by queue and class of size: a histogram of bounded size."""

from bisect import bisect_left
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from admission.figures.exposition import head, labels_text
from queues.workload import QueueName

#: Upper ends of the classes of size, in devices, and their names.
_SIZES: Final = ((0, "0"), (1, "1"), (7, "2-7"), (8, "8"), (64, "9-64"), (512, "65-512"))
LARGEST: Final = "513+"
SIZE_CLASSES: Final = (*(name for _, name in _SIZES), LARGEST)
#: Upper ends of the buckets, in seconds: a second to three days.
BUCKETS: Final = (1, 10, 60, 300, 1800, 7200, 43_200, 259_200)
#: Pairs of queue and size that are shown; of more, those that were counted longest ago are left out.
MOST_PAIRS: Final = 5000


class GangWait(NamedTuple):
    """One gang that was admitted."""

    queue: QueueName
    #: Devices of all its pods, rounded up.
    devices: int
    #: From the creation of its object to the commit of its admission.
    seconds: float


def size_class(devices: int) -> str:
    """The class of a gang with so many devices."""
    place = bisect_left([most for most, _ in _SIZES], devices)
    return _SIZES[place][1] if place < len(_SIZES) else LARGEST


class GangWaits:
    """Counts since this process began. Mutable."""

    def __init__(self) -> None:
        #: Number in each bucket (the last one: longer than all) and the sum of seconds; last counted last.
        self._counts: dict[tuple[QueueName, str], tuple[list[int], float]] = {}
        #: As they were written last; pairs that were counted since are missing.
        self._written: dict[tuple[QueueName, str], str] = {}

    def add(self, wait: GangWait) -> None:
        """Count one gang."""
        key = wait.queue, size_class(wait.devices)
        counts, seconds = self._counts.pop(key, ([0] * (len(BUCKETS) + 1), 0.0))
        counts[bisect_left(BUCKETS, wait.seconds)] += 1
        self._counts[key] = counts, seconds + wait.seconds
        self._written.pop(key, None)
        if len(self._counts) > MOST_PAIRS:
            self._forget(next(iter(self._counts)))

    def keep(self, queues: Container[QueueName]) -> None:
        """Forget queues that are gone."""
        for key in [key for key in self._counts if key[0] not in queues]:
            self._forget(key)

    def _forget(self, key: tuple[QueueName, str]) -> None:
        del self._counts[key]
        self._written.pop(key, None)

    def text(self, name: str, about: str) -> str:
        """The histogram as Prometheus reads it; empty: nothing was counted."""
        for key in self._counts.keys() - self._written.keys():
            self._written[key] = "".join(self._lines(name, key))
        return head(name, "histogram", about) + "".join(self._written.values()) if self._counts else ""

    def _lines(self, name: str, key: tuple[QueueName, str]) -> Iterator[str]:
        queue, size = key
        counts, seconds = self._counts[key]
        labels = labels_text(queue=queue, size=size)
        total = 0
        for most, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{most}"}} {total}\n'
        yield f"{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {total}\n"

"""Which workloads a long decision spends its time on: a look at its progress every now and then."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from admission.engine.progress import Progress
from queues.text_format import listed
from queues.workload import Workload, WorkloadKey

#: Looks that it takes to blame a workload.
FEWEST: Final = 20
#: Characters of a workload's name that are shown.
_LONGEST: Final = 100


class DecisionSamples:
    """Looks taken at one decision. A decision that is over before the first look has none."""

    def __init__(self) -> None:
        self.progress = Progress()
        self._seen: Counter[WorkloadKey | None] = Counter()

    def look(self) -> None:
        """Note what the decision is busy with now."""
        self._seen[self.progress.workload] += 1

    def count(self) -> int:
        """Looks taken so far."""
        return self._seen.total()

    def culprit(self) -> WorkloadKey | None:
        """The workload that was being tried at most of the looks. None if none was, or there were too few looks."""
        found = next(iter(self._seen.most_common(1)), (None, 0))
        return found[0] if self.count() >= FEWEST and 2 * found[1] > self.count() else None

    def slowest(self, workloads: Mapping[WorkloadKey, Workload]) -> str:
        """The workloads that took most of the time, for people. ``workloads``: all that are pending."""
        tried = [(key, seen) for key, seen in self._seen.most_common() if key is not None]
        if not tried:
            return "It had not begun to try a workload."
        named = [
            f"{_name(key, workloads)} ({100 * seen // self.count()} % of the time)" for key, seen in tried
        ]
        last = self.progress.workload
        told = f"It tried {listed(named)}."
        return (
            told if last is None or last == tried[0][0] else f"{told} The last was {_name(last, workloads)}."
        )


def _name(key: WorkloadKey, workloads: Mapping[WorkloadKey, Workload]) -> str:
    name = str(workloads.get(key, key))
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"

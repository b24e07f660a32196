"""Why everybody waits, kept by class: one reason for all workloads of one shape in one queue."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from admission.engine.plan import Reason
from queues.order.policies import Candidate
from queues.workload import QueueName, WorkloadKey


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """One reason for several workloads of a queue. The same object as long as neither changes."""

    queue: QueueName
    reason: Reason
    members: Sequence[Candidate]

    def workloads(self) -> Iterator[WorkloadKey]:
        """Whom it is about."""
        return (each.workload.key for each in self.members)


class Verdicts(Mapping[WorkloadKey, Reason]):
    """The reason of every workload that waits. Read as a mapping it is sorted by workload.

    ``classes`` is what it is made of: whoever follows many turns looks at those that are new.
    """

    __slots__ = ("_index", "_size", "classes", "overlap", "singles")

    def __init__(
        self, classes: Mapping[Hashable, Verdict], singles: Mapping[WorkloadKey, Reason], overlap: int = 0
    ) -> None:
        """``overlap``: how many of the singles are in a class as well."""
        #: By class; a workload is in one of them at most.
        self.classes = classes
        #: Reasons of workloads for themselves; they count before that of the class.
        self.singles = singles
        self.overlap = overlap
        self._index: dict[WorkloadKey, Reason] | None = None
        self._size: int | None = None

    def _all(self) -> dict[WorkloadKey, Reason]:
        if self._index is None:
            index: dict[WorkloadKey, Reason] = {}
            for verdict in self.classes.values():
                index.update(dict.fromkeys(verdict.workloads(), verdict.reason))
            index.update(self.singles)
            self._index = {key: index[key] for key in sorted(index)}
        return self._index

    def __getitem__(self, key: WorkloadKey) -> Reason:
        return self._all()[key]

    def __iter__(self) -> Iterator[WorkloadKey]:
        return iter(self._all())

    def __len__(self) -> int:
        if self._size is None:
            members = sum(len(each.members) for each in self.classes.values())
            self._size = members + len(self.singles) - self.overlap
        return self._size

    def __repr__(self) -> str:
        return repr(self._all())

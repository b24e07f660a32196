"""How long workloads run: as they declare it, else as workloads like them did. Pure.

What is known of ended and running work is an estimate of survival (Kaplan and Meier 1958), so that long work that still
runs counts as well. Beyond what was ever seen, and where nothing was seen, holds an honest prior: what has run for some
time runs for as long again, give or take an hour, in the middle of all cases.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from operator import neg
from typing import Final, NamedTuple, TypeVar

from queues.admissions import Admission
from queues.resources import Resources
from queues.workload import QueueName, Workload

#: Workloads of a group that ran at least as long as the one that is asked about, so that the group answers.
LEAST_SAMPLES: Final = 8
#: Seconds: the median of run times where nothing is known.
PRIOR_MEDIAN: Final = 3600
#: No run time is taken to be longer (seconds): one year.
LONGEST: Final = 365 * 86_400
#: Shares are whole numbers below this one.
SHARES: Final = 1 << 32


class WorkloadShape(NamedTuple):
    """What a workload asks, coarsely: workloads of one shape are expected to run equally long."""

    #: Number of binary digits of the number of pods: 1, 2-3, 4-7, 8-15 pods and so on are one size each.
    size: int
    #: Requests of its pods, each once, in order.
    requests: tuple[tuple[tuple[str, int], ...], ...]

    @classmethod
    def of(cls, pods: Iterable[tuple[Resources, int]]) -> "WorkloadShape":
        """The shape of so many pods with these requests each."""
        counted = [(tuple(sorted(takes.items())), count) for takes, count in pods if count]
        number = sum(count for _, count in counted)
        return cls(number.bit_length(), tuple(sorted({takes for takes, _ in counted})))

    @classmethod
    def of_workload(cls, workload: Workload) -> "WorkloadShape":
        """The shape of what a workload asks in all."""
        return cls.of((pods.takes, pods.count) for pods in workload.pod_sets)

    @classmethod
    def of_admission(cls, admission: Admission) -> "WorkloadShape":
        """The shape of all seats of an admission, those of pods that have ended among them."""
        return cls.of((seat.takes, 1) for seat in admission.seats)


class Likeness(NamedTuple):
    """By what workloads are compared."""

    #: "": unknown.
    user: str
    queue: QueueName
    shape: WorkloadShape
    #: Image of its pods' first container; "": unknown.
    image: str = ""

    @classmethod
    def of_workload(cls, workload: Workload) -> "Likeness":
        """By what a workload is compared with ended ones."""
        return cls(workload.user, workload.queue, WorkloadShape.of_workload(workload), workload.image)

    @classmethod
    def of_admission(cls, admission: Admission, image: str) -> "Likeness":
        """The same of an admission of a workload with that image."""
        return cls(admission.user, admission.queue, WorkloadShape.of_admission(admission), image)

    def identity(self) -> str:
        """What identifies it, as a text; without an image the same as before images were known."""
        told = f"Likeness(user={self.user!r}, queue={self.queue!r}, shape={self.shape!r})"
        return f"{told} {self.image}" if self.image else told

    def groups(self) -> Iterator[tuple["Basis", Hashable]]:
        """The groups that it belongs to, the closest first.

        An image of many users, such as that of a framework, says less than what the user does with it.
        """
        if self.user and self.image:
            yield Basis.USER_IMAGE_AND_SHAPE, (self.user, self.image, self.shape)
        if self.user:
            yield Basis.USER_AND_SHAPE, (self.user, self.shape)
        if self.image:
            yield Basis.IMAGE_AND_SHAPE, (self.image, self.shape)
        yield Basis.QUEUE_AND_SHAPE, (self.queue, self.shape)
        if self.user:
            yield Basis.USER, self.user
        yield Basis.SHAPE, self.shape
        yield Basis.EVERYTHING, None


class Basis(StrEnum):
    """What an expected run time goes by, the closest first."""

    DECLARED = "declared"
    USER_IMAGE_AND_SHAPE = "user, image and shape"
    USER_AND_SHAPE = "user and shape"
    IMAGE_AND_SHAPE = "image and shape"
    QUEUE_AND_SHAPE = "queue and shape"
    USER = "user"
    SHAPE = "shape"
    EVERYTHING = "everything"
    #: Too little has ended yet.
    PRIOR = "prior"


class Run(NamedTuple):
    """How long one workload ran, or has run so far."""

    likeness: Likeness
    seconds: int
    #: False: it still runs, or was evicted; it would have run longer.
    is_over: bool = True


#: Seconds, or another measure.
_Value = TypeVar("_Value", int, float)


def survival_curve(samples: Iterable[tuple[_Value, bool]]) -> tuple[list[_Value], list[float]]:
    """The values of samples, ascending, each once, and the part of the samples that is larger (Kaplan and Meier 1958).

    A sample with False is larger than its value. One more that is larger than all is counted in, so that the part does
    not come to 0.
    """
    ordered = sorted(samples, key=lambda sample: (sample[0], not sample[1]))
    at_risk, left = len(ordered) + 1, 1.0
    survives: dict[_Value, float] = {}
    for value, is_over in ordered:
        if is_over:
            left *= 1 - 1 / at_risk
            survives[value] = left
        at_risk -= 1
    return list(survives), list(survives.values())


@dataclass(frozen=True, slots=True)
class Survival:
    """The part of a group's workloads that runs longer than some time."""

    #: Run times of those that ended, ascending, each once …
    seconds: list[int]
    #: … and the part that ran longer.
    survives: list[float]
    #: All run times, also of those that still run, ascending.
    every: list[int]
    #: Number of those that ended.
    ended: int

    @classmethod
    def of(cls, runs: Iterable[tuple[int, bool]]) -> "Survival":
        """Estimate it from run times; False next to one: it would have run longer."""
        known = list(runs)
        seconds, survives = survival_curve(known)
        return cls(seconds, survives, sorted(length for length, _ in known), sum(over for _, over in known))

    def longer_than(self, ran: int) -> int:
        """Number of workloads that ran longer, or as long and still run."""
        return len(self.every) - bisect_right(self.every, ran)

    def total(self, ran: int, share: int) -> int:
        """Seconds of a whole run that has run for ``ran`` seconds, at that share (of ``SHARES``) of all such runs."""
        wanted = 1 - (share + 0.5) / SHARES
        first = bisect_right(self.seconds, ran)
        now = self.survives[first - 1] if first else 1.0
        # The parts descend.
        end = bisect_left(self.survives, -wanted * now, first, key=neg)
        if end < len(self.seconds):
            return max(self.seconds[end], ran + 1)
        last = max(ran, self.every[-1] if self.every else 0)
        left = self.survives[-1] / now if first < len(self.seconds) else 1.0
        return max(ran + 1, min(LONGEST + ran, int((last + PRIOR_MEDIAN) * left / wanted - PRIOR_MEDIAN)))


_NOTHING_KNOWN: Final = Survival([], [], [], 0)


@dataclass(frozen=True, eq=False)
class RunTimes:
    """Run times that were learned from workloads of the past and of now."""

    runs: tuple[Run, ...] = ()
    _estimates: dict[tuple[Basis, Hashable], Survival] = field(default_factory=dict)

    @cached_property
    def _groups(self) -> Mapping[tuple[Basis, Hashable], list[tuple[int, bool]]]:
        groups: dict[tuple[Basis, Hashable], list[tuple[int, bool]]] = {}
        for run in self.runs:
            for group in run.likeness.groups():
                groups.setdefault(group, []).append((run.seconds, run.is_over))
        return groups

    @cached_property
    def _all_ended(self) -> int:
        return sum(run.is_over for run in self.runs)

    def basis(self, likeness: Likeness, declared: int | None = None, ran: int = 0) -> Basis:
        """What the run time of a workload goes by that has run for ``ran`` seconds so far."""
        return Basis.DECLARED if declared is not None else self._closest(likeness, ran)[0]

    def total(self, likeness: Likeness, share: int, declared: int | None = None, ran: int = 0) -> int:
        """Seconds that a workload runs in all, at a share (0 … SHARES - 1) of what is likely: half of it at the middle.

        ``declared``: its declared run time, None if unknown. ``ran``: the seconds that it has run so far; the answer
        is more than that. A workload that is over its declared time is expected to take as long again, and again.
        """
        if declared is not None:
            seconds = max(1, declared)
            while seconds <= ran:
                seconds *= 2
            return min(seconds, LONGEST + ran)
        return self._closest(likeness, ran)[1].total(ran, share)

    def ended(self, likeness: Likeness, declared: int | None = None) -> int:
        """Number of ended runs that the run time of a workload that has not begun goes by; where it declares one, or
        too little like it has ended, of all."""
        basis, survival = self._closest(likeness, 0)
        return self._all_ended if declared is not None or basis is Basis.PRIOR else survival.ended

    def median(self, likeness: Likeness, declared: int | None) -> int:
        """Seconds that half of all runs like one that has not begun are over in, or those that it declares."""
        return self.total(likeness, SHARES // 2, declared)

    def longest_so_far(self, likeness: Likeness) -> int:
        """Seconds that one of the same user and shape has run which was not over then; 0: there is none."""
        runs = self._groups.get((Basis.USER_AND_SHAPE, (likeness.user, likeness.shape)), ())
        return max((seconds for seconds, is_over in runs if not is_over), default=0)

    def _closest(self, likeness: Likeness, ran: int) -> tuple[Basis, Survival]:
        """The closest group with enough known runs."""
        for basis, name in likeness.groups():
            runs = self._groups.get((basis, name), ())
            if len(runs) < LEAST_SAMPLES:
                continue
            survival = self._estimates.get((basis, name))
            if survival is None:
                survival = self._estimates[basis, name] = Survival.of(runs)
            if survival.ended >= LEAST_SAMPLES and survival.longer_than(ran) >= LEAST_SAMPLES:
                return basis, survival
        everything = self._estimates.get((Basis.EVERYTHING, None))
        return Basis.PRIOR, everything or _NOTHING_KNOWN


def share_of(identity: str, draw: int, draws: int) -> int:
    """The share of one workload in one of so many draws: as good as random, and the same wherever it is worked out.

    The draws of one workload are spread evenly, each over a part of its own: so a few of them show the whole of what
    is likely. ``draws``: a power of two.
    """
    digest = int.from_bytes(blake2b(identity.encode(), digest_size=16).digest())
    flips, stride, offset = digest % draws, (digest >> 16) | 1, digest >> 32
    part = ((draw ^ flips) * stride + offset) % draws
    within = (digest >> 64) * (2 * draw + 1) % SHARES
    return (part * SHARES + within) // draws

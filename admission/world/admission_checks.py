"""AdmissionChecks, what was asked of them and answered, and what is to be asked or taken back. Pure.

All of it follows from the objects, so that nothing is remembered from one leader to the next.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from admission.facts.admission_checks import AdmissionCheckFact, CheckAnswer, CheckRequestFact
from admission.facts.changes import Change
from admission.workloads.admission_checks import CheckProgress, check_progress
from admission.workloads.state import WorkloadState
from queues.text_format import listed
from queues.workload import QueueName, Workload, WorkloadKey

#: Characters of a check's name in the name of a request.
_LONGEST_PREFIX: Final = 180


def request_name(check: str, key: WorkloadKey) -> str:
    """Name of the CheckRequest about a workload: each asks each check by one object."""
    digest = blake2b(f"{check} {key}".encode(), digest_size=8).hexdigest()
    return f"{check[:_LONGEST_PREFIX].rstrip('.-')}-{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckQuestion:
    """What a check is asked about a workload: a CheckRequest that is made or, if there is one, renewed."""

    workload: Workload
    progress: CheckProgress

    @property
    def uid(self) -> str:
        """Names the question, until its answer may be another one."""
        return f"{self.workload.key} {self.progress.check} {self.workload.generation} {self.progress.attempt}"


class AdmissionChecks:
    """Part of the world."""

    #: Whether there is, or was, any object about checks.
    is_used: bool = False

    def __init__(self, checks_of: Callable[[QueueName], tuple[str, ...]]) -> None:
        """``checks_of``: names of the checks of a queue and those above it, as they are now."""
        self._checks_of = checks_of
        self.known: dict[str, AdmissionCheckFact] = {}
        #: By uid.
        self._requests: dict[str, CheckRequestFact] = {}
        #: By workload, and by the name of the check.
        self._by_workload: defaultdict[WorkloadKey, dict[str, CheckRequestFact]] = defaultdict(dict)
        self._to_ask: dict[WorkloadKey, WorkloadState] = {}
        #: Requests of checks that the workload's queue has not, or that are gone.
        self._surplus: dict[WorkloadKey, tuple[CheckRequestFact, ...]] = {}

    def observe_request(self, change: Change) -> tuple[WorkloadKey, ...]:
        """A CheckRequest appeared, changed or is gone."""
        assert isinstance(change.fact, CheckRequestFact | None)
        self.is_used = True
        before, after = self._requests.pop(change.key, None), change.fact
        if before is not None:
            of_workload = self._by_workload[before.workload]
            if of_workload.get(before.check) is before:
                del of_workload[before.check]
            if not of_workload:
                del self._by_workload[before.workload]
        if after is not None and after.name == request_name(after.check, after.workload):
            self._requests[change.key] = after
            self._by_workload[after.workload][after.check] = after
        return tuple(dict.fromkeys(each.workload for each in (before, after) if each is not None))

    def observe_check(self, change: Change) -> bool:
        """An AdmissionCheck appeared, changed or is gone. False: it means the same as before."""
        assert isinstance(change.fact, AdmissionCheckFact | None)
        self.is_used = True
        before = self.known.pop(change.key, None)
        if change.fact is not None:
            self.known[change.key] = change.fact
        return before != change.fact

    def of(
        self, key: WorkloadKey, names: tuple[str, ...], generation: str, now: int
    ) -> tuple[CheckProgress, ...]:
        """How far the checks with these names are for a workload. ``now``: seconds since the epoch."""
        asked: Mapping[str, CheckRequestFact] = self._by_workload.get(key, {})
        return tuple(
            check_progress(name, self.known.get(name), asked.get(name), generation, now) for name in names
        )

    def note_state(self, key: WorkloadKey, state: WorkloadState | None) -> None:
        """The state of a workload was derived; None: it has none."""
        self._to_ask.pop(key, None)
        self._surplus.pop(key, None)
        if state is None:
            return
        if state.asks:
            self._to_ask[key] = state
        if key in self._by_workload:
            needed = self.known.keys() & self._checks_of(state.workload.queue)
            requests = self._by_workload[key]
            self._surplus[key] = tuple(each for name, each in requests.items() if name not in needed)

    def questions(self) -> Iterator[CheckQuestion]:
        """What is to be asked now, by arrival of the workloads."""
        for state in sorted(self._to_ask.values(), key=lambda each: each.workload.arrival):
            for progress in state.asks:
                yield CheckQuestion(workload=state.workload, progress=progress)

    def surplus(self) -> Iterator[CheckRequestFact]:
        """Requests that are taken back: of checks that are gone, or that the workload's queue does not have."""
        return (request for requests in self._surplus.values() for request in requests)

    def silent(self, now: int) -> dict[str, list[int]]:
        """By check when the requests were made that have no answer for longer than it says. Seconds since the epoch."""
        found: dict[str, list[int]] = {name: [] for name in self.known}
        for request in self._requests.values():
            check = self.known.get(request.check)
            if check is None or request.answer is not CheckAnswer.NONE:
                continue
            if now >= request.asked_at + check.silent_after:
                found[check.name].append(request.asked_at)
        return found

    def unknown(self, names: Iterable[str]) -> str | None:
        """What a queue says that lists AdmissionChecks which do not exist; None if all do."""
        lacking = [name for name in names if name not in self.known]
        return (
            f"spec.admissionChecks: there is no AdmissionCheck {listed(lacking)}; new work waits"
            if lacking
            else None
        )

"""Reasons to store after a turn, found class by class, so that it costs what changed.

A turn stores a bounded number of them; the rest is put off to the next turns.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from admission.engine.pending.classes import ClassAnswer, ClassAnswers, WorkloadClass
from queues.plan import Plan, Reason
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, Workload, WorkloadKey

#: Reasons that one turn stores or deletes.
REASONS_PER_TURN: Final = 5000
#: Workloads that are looked at in one slice of the event loop: a look takes about a microsecond.
LOOKS: Final = 2000

_NO_REASONS: Mapping[WorkloadKey, Reason] = {}


@dataclass(slots=True)
class ReasonChanges:
    """Reasons that one turn changed, and what the ledger holds once they are stored."""

    stored_after: "StoredReasons"
    changed: dict[WorkloadKey, Reason] = field(default_factory=dict)
    #: Workloads that have a reason in the ledger and do not wait any more.
    gone: list[WorkloadKey] = field(default_factory=list)
    #: Some of the changed ones have the same code as before.
    with_numbers: bool = False
    #: Some numbers changed and are not among the changed ones yet.
    numbers_postponed: bool = False
    #: Other changes are not among them either, because there are too many for one turn.
    postponed: bool = False


@dataclass(frozen=True, slots=True)
class StoredReasons:
    """Answers of classes; every member has that reason in the ledger. Empty at the start of a term."""

    classes: Mapping[WorkloadClass, ClassAnswer] = field(default_factory=dict)
    singles: Mapping[WorkloadKey, Reason] = field(default_factory=dict)
    begun: bool = False
    #: Workloads that may wait no more, and have not been looked at yet.
    maybe_gone: Sequence[WorkloadKey] = ()

    def next(
        self,
        plan: Plan,
        pending: Mapping[WorkloadKey, Workload],
        stored: Mapping[WorkloadKey, Reason],
        *,
        with_numbers: bool,
        limit: int = REASONS_PER_TURN,
    ) -> Generator[None, None, ReasonChanges]:
        """The changes of a turn, at most ``limit``. ``stored``: reasons in the ledger; ``with_numbers``: changed
        numbers too. Classes that a plan that has stopped says nothing about keep what they have. Yields after each
        slice of the work.
        """
        reasons = plan.reasons if isinstance(plan.reasons, ClassAnswers) else ClassAnswers({}, plan.reasons)
        changes = ReasonChanges(self)
        compare = _Comparison(changes, stored, with_numbers, limit)
        classes: dict[WorkloadClass, ClassAnswer] = {}
        admitted = {admit.workload for admit in plan.admits}
        maybe_gone: dict[WorkloadKey, None] = dict.fromkeys((*self.maybe_gone, *admitted))
        for name, verdict in reasons.classes.items():
            before = self.classes.get(name)
            if before is verdict:
                classes[name] = verdict
            elif before is not None and not with_numbers and _same_but_numbers(before, verdict):
                classes[name] = before
                changes.numbers_postponed = True
            else:
                own = reasons.own_reasons
                members = (key for key in verdict.workloads() if not own or key not in own)
                if (yield from compare((key, verdict.reason) for key in members)):
                    classes[name] = verdict
                if before is not None:
                    maybe_gone.update(dict.fromkeys(before.workloads()))
        for name in self.classes.keys() - reasons.classes.keys():
            if plan.stopped:
                classes[name] = self.classes[name]
            else:
                maybe_gone.update(dict.fromkeys(self.classes[name].workloads()))
        singles: Mapping[WorkloadKey, Reason] = self.singles
        if reasons.own_reasons is not self.singles and not (plan.stopped and not reasons.own_reasons):
            whole = yield from compare(reasons.own_reasons.items())
            maybe_gone.update(dict.fromkeys(self.singles))
            singles = reasons.own_reasons if whole else _NO_REASONS
        candidates = iter(maybe_gone if self.begun else list(stored))

        def waits_no_more(key: WorkloadKey) -> bool:
            return key in stored and (key not in pending or key in admitted)

        changes.gone = yield from _first(candidates, waits_no_more, limit)
        later = list(candidates)
        changes.postponed |= bool(later)
        changes.stored_after = StoredReasons(classes, singles, begun=True, maybe_gone=later)
        return changes


def _first(
    keys: Iterator[WorkloadKey], chosen: Callable[[WorkloadKey], bool], limit: int
) -> Generator[None, None, list[WorkloadKey]]:
    found: list[WorkloadKey] = []
    for looked, key in enumerate(keys, 1):
        if looked % LOOKS == 0:
            yield
        if chosen(key):
            found.append(key)
            if len(found) >= limit:
                break
    return found


def _same_but_numbers(before: ClassAnswer, after: ClassAnswer) -> bool:
    return before.reason.code == after.reason.code and before.members == after.members


@dataclass(slots=True)
class _Comparison:
    """Notes reasons that are not stored as they are now."""

    changes: ReasonChanges
    stored: Mapping[WorkloadKey, Reason]
    with_numbers: bool
    limit: int
    #: Workloads of all calls: most classes have few.
    looked: int = 0

    def __call__(self, reasons: Iterable[tuple[WorkloadKey, Reason]]) -> Generator[None, None, bool]:
        """False: some are put off."""
        changes, stored, whole = self.changes, self.stored, True
        for key, reason in reasons:
            self.looked += 1
            if self.looked % LOOKS == 0:
                yield
            before = stored.get(key)
            if before is not None and before.code == reason.code:
                if before is reason or before.message == reason.message:
                    continue
                if not self.with_numbers:
                    changes.numbers_postponed = True
                    whole = False
                    continue
                changes.with_numbers = True
            if len(changes.changed) >= self.limit:
                changes.postponed = True
                return False
            changes.changed[key] = reason
        return whole


def counts(
    reasons: Mapping[WorkloadKey, Reason], pending: Mapping[WorkloadKey, Workload]
) -> Mapping[tuple[QueueName, ReasonCode], int]:
    """Waiting workloads by queue and code."""
    found: Counter[tuple[QueueName, ReasonCode]] = Counter()
    if isinstance(reasons, ClassAnswers):
        own = reasons.own_reasons
        mixed = {pending[key].queue for key in own} if reasons.overlap else ()
        for verdict in reasons.classes.values():
            members = len(verdict.members)
            if verdict.queue in mixed:
                members = sum(key not in own for key in verdict.workloads())
            if members:
                found[verdict.queue, verdict.reason.code] += members
        reasons = own
    for key, reason in reasons.items():
        found[pending[key].queue, reason.code] += 1
    return found

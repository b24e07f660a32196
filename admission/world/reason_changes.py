"""Reasons to store after a turn, found class by class, so that it costs what changed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from admission.engine.pending.classes import ClassAnswer, ClassAnswers, WorkloadClass
from queues.plan import Plan, Reason
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, Workload, WorkloadKey

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


@dataclass(frozen=True, slots=True)
class StoredReasons:
    """Answers of classes; every member has that reason in the ledger. Empty at the start of a term."""

    classes: Mapping[WorkloadClass, ClassAnswer] = field(default_factory=dict)
    singles: Mapping[WorkloadKey, Reason] = field(default_factory=dict)
    begun: bool = False

    def next(
        self,
        plan: Plan,
        pending: Mapping[WorkloadKey, Workload],
        stored: Mapping[WorkloadKey, Reason],
        *,
        with_numbers: bool,
    ) -> ReasonChanges:
        """The changes of a turn. ``stored``: reasons in the ledger; ``with_numbers``: changed numbers too."""
        reasons = plan.reasons if isinstance(plan.reasons, ClassAnswers) else ClassAnswers({}, plan.reasons)
        changes = ReasonChanges(self)
        classes: dict[WorkloadClass, ClassAnswer] = {}
        maybe_gone: set[WorkloadKey] = {admit.workload for admit in plan.admits}
        for name, verdict in reasons.classes.items():
            before = self.classes.get(name)
            if before is verdict:
                classes[name] = verdict
            elif before is not None and not with_numbers and _same_but_numbers(before, verdict):
                classes[name] = before
                changes.numbers_postponed = True
            else:
                compared = {
                    key: verdict.reason for key in verdict.workloads() if key not in reasons.own_reasons
                }
                if _compare(changes, compared, stored, with_numbers):
                    classes[name] = verdict
                if before is not None:
                    maybe_gone.update(before.workloads())
        for name in self.classes.keys() - reasons.classes.keys():
            maybe_gone.update(self.classes[name].workloads())
        singles: Mapping[WorkloadKey, Reason] = self.singles
        if reasons.own_reasons is not self.singles:
            whole = _compare(changes, reasons.own_reasons, stored, with_numbers)
            maybe_gone.update(self.singles)
            singles = reasons.own_reasons if whole else _NO_REASONS
        admitted = {admit.workload for admit in plan.admits}
        candidates: Iterable[WorkloadKey] = maybe_gone if self.begun else list(stored)
        changes.gone = [
            key for key in candidates if key in stored and (key not in pending or key in admitted)
        ]
        changes.stored_after = StoredReasons(classes, singles, begun=True)
        return changes


def _same_but_numbers(before: ClassAnswer, after: ClassAnswer) -> bool:
    return before.reason.code == after.reason.code and before.members == after.members


def _compare(
    changes: ReasonChanges,
    reasons: Mapping[WorkloadKey, Reason],
    stored: Mapping[WorkloadKey, Reason],
    with_numbers: bool,
) -> bool:
    """Note what is not stored as it is now. False: some numbers are put off."""
    whole = True
    for key, reason in reasons.items():
        before = stored.get(key)
        if before is None or before.code != reason.code:
            changes.changed[key] = reason
        elif before.message != reason.message:
            if with_numbers:
                changes.changed[key] = reason
                changes.with_numbers = True
            else:
                changes.numbers_postponed = True
                whole = False
    return whole


def counts(
    reasons: Mapping[WorkloadKey, Reason], pending: Mapping[WorkloadKey, Workload]
) -> Mapping[tuple[QueueName, ReasonCode], int]:
    """Waiting workloads by queue and code."""
    found: Counter[tuple[QueueName, ReasonCode]] = Counter()
    if isinstance(reasons, ClassAnswers) and not reasons.overlap:
        for verdict in reasons.classes.values():
            found[verdict.queue, verdict.reason.code] += len(verdict.members)
        reasons = reasons.own_reasons
    for key, reason in reasons.items():
        found[pending[key].queue, reason.code] += 1
    return found

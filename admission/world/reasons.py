"""Reasons to store after a turn, found class by class, so that it costs what changed. Pure.

A turn stores a bounded number of them; the rest is put off to the next turns. Gangs with a request for nodes show how
far that is: the decision knows of no requests.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from admission.engine.pending.classes import ClassAnswer, ClassAnswers, WorkloadClass
from admission.engine.reasons import with_room_alone
from admission.provisioning.found_requests import RequestPhase
from admission.provisioning.request_progress import FACT, NodesAsked, RequestProgress, is_for_nodes
from queues.plan import NODES_REFUSED, Plan, Reason
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
                # Its members are alike in all that this depends on. Outside the engine they only have their keys.
                first, reason = next(verdict.workloads(), None), verdict.reason
                reason = reason if first is None else with_room_alone(reason, pending[first])
                if (yield from compare((key, reason) for key in members)):
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
            own_reasons = reasons.own_reasons.items()
            whole = yield from compare(
                (key, with_room_alone(each, pending[key])) for key, each in own_reasons
            )
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
                if before is reason or (
                    before.message == reason.message and before.facts.get("of") == reason.facts.get("of")
                ):
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


class ToldRequests:
    """What the gangs of one term show about their requests. ``stored``: reasons as the ledger has them at its start."""

    def __init__(self, stored: Mapping[WorkloadKey, Reason]) -> None:
        #: None if this term has not looked at the requests yet.
        self._known: Mapping[WorkloadKey, NodesAsked] | None = None
        #: Gangs whose stored reason names a request, or may do so.
        self._told = {key for key, reason in stored.items() if FACT in reason.facts}
        #: Gangs that were refused nodes for good.
        self.refused = without_more_nodes(stored)

    def put(self, known: Mapping[WorkloadKey, NodesAsked]) -> bool:
        """What a look has found. True if gangs are to show something else."""
        known = {key: self._as_before(key, each) for key, each in known.items()}
        changed = known != (self._known or {})
        # What the term before has stored about requests that are gone has to go as well.
        changed |= self._known is None and bool(self._told)
        self._known = known
        self.refused = frozenset(
            key for key, each in known.items() if isinstance(each, RequestProgress) and each.refused
        )
        return changed

    def _as_before(self, key: WorkloadKey, asked: NodesAsked) -> NodesAsked:
        """A further request that is not answered yet changes nothing for a gang that was refused nodes for good."""
        if not isinstance(asked, RequestProgress) or key not in self.refused:
            return asked
        is_open = asked.phase is RequestPhase.OPEN and asked.next_at is None
        return replace(asked, refused=True) if is_open else asked

    def told_in(
        self, plan: Plan, pending: Mapping[WorkloadKey, Workload], stored: Mapping[WorkloadKey, Reason]
    ) -> Plan:
        """The plan with the reasons that gangs show. ``stored``: reasons as the ledger has them now."""
        self._told = {key for key in self._told if key in stored and FACT in stored[key].facts}
        about = self._told | (self._known or {}).keys()
        if not about:
            return plan
        reasons = plan.reasons if isinstance(plan.reasons, ClassAnswers) else ClassAnswers({}, plan.reasons)
        of_classes = _reasons_in_classes(reasons, about, pending)
        own: dict[WorkloadKey, Reason] = {}
        for key in about:
            reason = reasons.own_reasons.get(key) or of_classes.get(key)
            if reason is not None:
                # Also where nothing is shown any more: the reason of its class may be an old one, compared long ago.
                own[key] = self._of(key, reason, stored)
                self._told.add(key)
        overlap = reasons.overlap + sum(key in of_classes and key not in reasons.own_reasons for key in own)
        return replace(plan, reasons=ClassAnswers(reasons.classes, {**reasons.own_reasons, **own}, overlap))

    def _of(self, key: WorkloadKey, reason: Reason, stored: Mapping[WorkloadKey, Reason]) -> Reason:
        if not is_for_nodes(reason):
            return reason
        if self._known is None:
            before = stored.get(key)
            return reason if before is None or before.code is not ReasonCode.PROVISIONING else before
        progress = self._known.get(key)
        return reason if progress is None else progress.told(reason)


def without_more_nodes(stored: Mapping[WorkloadKey, Reason]) -> frozenset[WorkloadKey]:
    """Gangs that were refused nodes for good, by their stored reasons."""
    return frozenset(key for key, reason in stored.items() if reason.facts.get(NODES_REFUSED))


def _reasons_in_classes(
    reasons: ClassAnswers, about: AbstractSet[WorkloadKey], pending: Mapping[WorkloadKey, Workload]
) -> dict[WorkloadKey, Reason]:
    """Reasons of some workloads by their classes, without an index of all that wait."""
    queues = {pending[key].queue for key in about if key in pending}
    return {
        key: answer.reason
        for answer in reasons.classes.values()
        if answer.queue in queues
        for key in answer.workloads()
        if key in about
    }

"""Statuses, conditions and events of objects as plain values. Pure.

Builders make a ``StatusWanted`` from what is known of an object; ``settled`` and ``merge_patch`` compare it with the
status that the object has, and give what must be written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from admission.engine.reasons import not_enough_pods
from admission.facts.cluster import QueueFact
from admission.facts.workloads import ADMITTED, NO_CONDITION
from admission.reconcile.expected_starts import ExpectedStart, tells_news, with_start
from admission.reconcile.named_workloads import reason_told_in
from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.dependencies import not_started
from admission.volcano_jobs.state import JobState
from admission.volcano_jobs.view import JobView
from admission.workloads.kinds.gang_words import UNSCHEDULABLE, code_in, gang_sentence, word_of
from admission.world.queues import Standing
from queues.api.api_resources import QUEUES, VOLCANO_JOBS, ObjectRef
from queues.api.reading.user_values import shortened
from queues.api.types.podgroup import PodGroupPhase
from queues.api.types.queue import CLOSED_BY_PARENT, QueueState
from queues.api.types.volcano_job import JobPhase
from queues.plan import Reason
from queues.quota.queue import ROOT
from queues.reason_codes import NEEDS_A_CHANGE, ReasonCode
from queues.resources import show
from queues.text_format import go_duration, rfc3339
from queues.workload import QueueName

#: Conditions of the queue root. Another queue has the first one only while Postgres is away.
DECIDING: Final = "Deciding"
FREEING: Final = "FreeingSeats"
#: Conditions of a PodGroup, in Volcano's words.
SCHEDULED: Final = "Scheduled"
READY_TO_BE_SCHEDULED: Final = "tasks in gang are ready to be scheduled"
#: Type of the condition, and its reason.
UNSUPPORTED_FIELD: Final = ReasonCode.UNSUPPORTED_FIELD.value

#: Characters of a condition's message.
_LONGEST_MESSAGE: Final = 4000

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCondition:
    """One condition. It changes when its status or reason does, or when its message has another expected start that is
    news; not when other numbers of its message do."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    message: str = ""
    #: Written only over another condition of the type: a Job that never waited need not say so.
    quiet: bool = False
    #: It changes with its message too.
    follows_message: bool = False


def _because(
    type_: str,
    status: Literal["True", "False"],
    reason: Reason,
    word: str = "",
    expected: ExpectedStart | None = None,
) -> StatusCondition:
    """A condition that gives a reason. ``word``: Volcano's word for it; ``expected``: when that should be over."""
    message = with_start(shortened(reason.message, _LONGEST_MESSAGE), expected)
    return StatusCondition(
        type=type_,
        status=status,
        reason=word or reason.code,
        message=message,
        # What is asked and answered changes what there is to wait for, in one word.
        follows_message=reason.code == ReasonCode.WAITS_FOR_CHECK,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWanted:
    """What the status of an object should say."""

    ref: ObjectRef
    #: Fields that are Muster's, conditions with times of their own included.
    fields: Mapping[str, Any] = field(default_factory=dict)
    conditions: tuple[StatusCondition, ...] = ()
    #: Types of conditions that are Muster's and do not hold any more, in either direction.
    dropped: tuple[str, ...] = ()
    #: Others write this status too: only our conditions are touched.
    shared: bool = False
    #: Of a shared one: conditions are written as a whole list, with those of others as they are now.
    custom: bool = False
    #: Fields that are written elsewhere: they stay as they are.
    kept: tuple[str, ...] = ()
    #: Phase that the informer last showed; "" if nothing of ours is in the status yet, None if not known.
    seen: str | None = None
    #: The object said all of this already when it was seen first.
    shown: bool = field(default=False, compare=False)
    #: It may soon be over by itself, as that pods are on their way: it is not worth a write at once.
    is_passing: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNote:
    """An event about an object."""

    ref: ObjectRef
    #: CamelCase: Admitted, Evicted, or the code of a reason.
    reason: str
    message: str
    action: str
    warning: bool = False
    #: Written each time, also if the last event of the object had the same reason.
    always: bool = False
    #: What makes it another event than the last one; None if the reason does.
    code: ReasonCode | None = None
    #: What makes it the same event for every leader that writes it: a second since the epoch, and a number. None if it
    #: has no such moment of its own.
    once: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStatus:
    """What is known of a workload that is not a Volcano Job, or of the PodGroup that stands for one."""

    ref: ObjectRef
    minimum: int
    #: Holds an open admission.
    admitted: bool
    #: Its owner has no pods now: it waits for nothing.
    is_idle: bool = False
    #: Why it waits; None if it does not, or if no decision was made yet.
    reason: Reason | None = None
    #: When it should start; None if that is not shown.
    expected: ExpectedStart | None = None
    #: What is wrong though it is admitted.
    problem: Reason | None = None
    #: Fields that are accepted and not acted on.
    unsupported: tuple[str, ...] = ()
    #: Live pods by phase; ``bound``: live pods that have a node.
    pending: int = 0
    running: int = 0
    bound: int = 0
    succeeded: int = 0
    failed: int = 0
    #: Pods that the workload asks for, made or not.
    wanted: int = 0
    #: It lacks pods, and its queue has room for them.
    enqueued: bool = False
    #: Phase of the object that the informer last showed; None if not known.
    seen: str | None = None
    #: Status and reason of the condition that the object had when it was seen first; None if not known.
    told: tuple[str, str] | None = None
    #: Type of the condition on which the object's own controller has it fail; "": it is not to fail.
    fails_by: str = ""

    @property
    def ended(self) -> int:
        """Pods that ended."""
        return self.succeeded + self.failed

    def sentence(self, reason: Reason) -> str:
        """Why the gang waits, as its PodGroup says it."""
        there = self.pending + self.running + self.ended
        unready = max(0, self.minimum - self.bound - self.ended)
        return gang_sentence(reason, unready=unready, pods=max(there, self.wanted, self.minimum))

    def phase(self) -> PodGroupPhase:
        """Volcano's rule, with our admission for its enqueueing.

        Inqueue: admitted, and its pods are being let go; or its queue has room, and its pods may be made. Unknown: pods
        run, but no longer as a gang.
        """
        live = self.pending + self.running
        if self.ended and not live and self.ended >= self.minimum:
            return PodGroupPhase.COMPLETED
        if self.admitted:
            if self.bound + self.ended >= self.minimum:
                return PodGroupPhase.RUNNING
            lost_members = self.running and self.seen in (PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN)
            return PodGroupPhase.UNKNOWN if lost_members else PodGroupPhase.INQUEUE
        if self.running:
            return PodGroupPhase.UNKNOWN
        return PodGroupPhase.INQUEUE if self.enqueued else PodGroupPhase.PENDING


def pod_group_status(workload: WorkloadStatus) -> StatusWanted:
    """Phase, counts, and conditions Scheduled and Unschedulable as Volcano's scheduler writes them."""
    phase = workload.phase()
    conditions: list[StatusCondition] = []
    if phase in (PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED) or workload.admitted:
        conditions.append(StatusCondition(type=SCHEDULED, status="True", reason=READY_TO_BE_SCHEDULED))
        conditions.append(
            StatusCondition(type=UNSCHEDULABLE, status="False", reason=READY_TO_BE_SCHEDULED, quiet=True)
            if workload.problem is None
            else _because(UNSCHEDULABLE, "True", workload.problem)
        )
    elif (reason := _reason(workload)) is not None:
        word = word_of(reason.code)
        told = replace(reason, message=workload.sentence(reason))
        conditions.append(_because(UNSCHEDULABLE, "True", told, word, workload.expected))
        conditions.append(StatusCondition(type=SCHEDULED, status="False", reason=word, quiet=True))
    dropped = (SCHEDULED, UNSCHEDULABLE) if workload.is_idle and not conditions else ()
    if workload.unsupported:
        conditions += _without_effect((_not_acted_on(workload.unsupported),))
    else:
        dropped = (*dropped, UNSUPPORTED_FIELD)
    return StatusWanted(
        ref=workload.ref,
        fields={
            "phase": phase.value,
            "running": workload.running,
            "succeeded": workload.succeeded,
            "failed": workload.failed,
        },
        conditions=tuple(conditions),
        dropped=dropped,
        seen=workload.seen,
        # A permit to make pods is waited for.
        is_passing=(phase is PodGroupPhase.PENDING or (phase is PodGroupPhase.INQUEUE and workload.admitted))
        and _may_pass(workload.problem or workload.reason),
    )


def _may_pass(reason: Reason | None) -> bool:
    """Whether what keeps a workload may be over without a change by somebody."""
    return reason is None or reason.code not in NEEDS_A_CHANGE


def _not_acted_on(fields: Sequence[str]) -> str:
    return f"accepted, but not acted on: {', '.join(fields)}"


def _reason(workload: WorkloadStatus) -> Reason | None:
    if workload.reason is not None or workload.admitted or workload.is_idle:
        return workload.reason
    present = workload.pending + workload.running + workload.ended
    if present >= workload.minimum:
        return None
    return not_enough_pods(exist=present, minimum=workload.minimum)


def admitted_condition(workload: WorkloadStatus, *, custom: bool = False) -> StatusWanted:
    """Condition ``muster.dev/Admitted`` of an object whose other conditions other controllers write.

    ``custom``: of a custom resource.
    """
    told: tuple[StatusCondition, ...] = ()
    if workload.admitted and workload.problem is not None:
        told = (_because(ADMITTED, "True", workload.problem),)
    elif workload.admitted:
        told = (StatusCondition(type=ADMITTED, status="True", reason="Admitted", quiet=True),)
    elif workload.reason is not None:
        told = (_because(ADMITTED, "False", workload.reason, expected=workload.expected),)
    # The start that it shows is read from the object itself.
    is_start_known = workload.admitted or workload.expected is None
    shown = is_start_known and workload.told is not None and all(_says(workload.told, each) for each in told)
    if workload.fails_by and workload.reason is not None:
        told = (*told, _because(workload.fails_by, "True", workload.reason))
        shown = False
    # Where the object had no condition of ours, there is nothing to ask it for before the first one is written.
    seen = "" if workload.told == NO_CONDITION else None
    if custom:
        # Schemas of conditions mostly ask for a message.
        told = tuple(replace(each, message=each.message or each.reason) for each in told)
        seen = None
    return StatusWanted(
        ref=workload.ref,
        conditions=told,
        shared=True,
        custom=custom,
        seen=seen,
        shown=shown,
        is_passing=not workload.admitted and _may_pass(workload.reason) and not workload.fails_by,
    )


def with_others(conditions: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]]) -> list[Document]:
    """The list of conditions of an object with ours in it."""
    types = {each.get("type") for each in ours}
    return [dict(each) for each in (*(one for one in conditions if one.get("type") not in types), *ours)]


def _says(told: tuple[str, str], wanted: StatusCondition) -> bool:
    return told == (wanted.status, wanted.reason) or (wanted.quiet and told == NO_CONDITION)


def job_status(
    view: JobView,
    state: JobState,
    *,
    companions: Sequence[Companion] = (),
    reason: Reason | None = None,
    expected: ExpectedStart | None = None,
    seen: str | None = None,
) -> StatusWanted:
    """A Volcano Job's status, field by field as Volcano writes it.

    ``reason``: why it waits or cannot go on, shown while it is Pending; ``expected``: when it should start, None if
    that is not shown; ``seen``: the phase that the informer last showed, None if not known.
    """
    spec, counts = view.spec, view.counts(state)
    waiting = not_started(state, view) if view.admissions else ()
    why = (state.reason, state.message)
    if reason is not None and state.wants_pods():
        why = (reason.code, with_start(reason.message, expected))
    elif waiting and state.wants_pods():
        why = (ReasonCode.WAITS_FOR_TASK, "; ".join(each.told() for each in waiting))
    conditions = [{"status": phase.value, "lastTransitionTime": rfc3339(at)} for phase, at in state.history]
    if spec.unsupported:
        conditions.append(
            {
                "status": UNSUPPORTED_FIELD,
                "lastTransitionTime": rfc3339(state.history[0][1] if state.history else 0),
                "reason": ReasonCode.UNSUPPORTED_FIELD.value,
                "message": _not_acted_on(spec.unsupported),
            }
        )
    fields: Document = {
        "state": without_blanks(
            {
                "phase": state.phase.value,
                "reason": why[0],
                "message": why[1],
                "lastTransitionTime": rfc3339(state.last_transition),
            }
        ),
        "minAvailable": spec.minimum,
        "taskStatusCount": {task: {"phase": dict(phases)} for task, phases in counts.tasks.items() if phases},
        "pending": counts.pending,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "terminating": counts.terminating,
        "unknown": counts.unknown,
        "version": state.version,
        "retryCount": state.retry_count,
        "controlledResources": dict(one.status_entry for one in companions if one.status_entry is not None),
        "conditions": conditions,
    }
    if state.finished_at and state.started_at:
        fields["runningDuration"] = go_duration(state.finished_at - state.started_at)
    ref = ObjectRef(resource=VOLCANO_JOBS, namespace=spec.namespace, name=spec.name, uid=spec.uid)
    is_passing = state.phase is JobPhase.PENDING and _may_pass(reason)
    return StatusWanted(ref=ref, fields=without_blanks(fields), seen=seen, is_passing=is_passing)


#: Condition of a queue: whether all of it is read.
WITHIN_BOUNDS: Final = "WithinBounds"
#: Condition of a queue: False while a plug-in that it names cannot be used.
PLUGINS_USABLE: Final = "PluginsUsable"
#: Condition of a queue: False while it lists AdmissionChecks that do not exist.
CHECKS_KNOWN: Final = "ChecksKnown"
_NAMED: Final = {PLUGINS_USABLE: ReasonCode.PLUGIN_NOT_USABLE, CHECKS_KNOWN: ReasonCode.UNKNOWN_CHECK}
#: Condition of an AdmissionCheck: whether its account answers.
ANSWERING: Final = "Answering"
#: Reason of statuses and events of objects that are beyond their bounds.
BEYOND_BOUNDS: Final = "BeyondBounds"


def unread_words(unread: str) -> str:
    """What an object says of the parts that are not read, because they are beyond their bounds."""
    return f"what is beyond these bounds is not read: {unread}"


def deciding_condition(failing: Reason | None) -> StatusCondition:
    """Condition of root: whether turns are made."""
    # Every user who may get the queue reads it.
    return _true_unless(DECIDING, None if failing is None else reason_told_in("", failing))


def _true_unless(type_: str, problem: Reason | None) -> StatusCondition:
    """A condition that is False with a reason; else it is True, which is written only over False."""
    if problem is not None:
        return _because(type_, "False", problem)
    return StatusCondition(type=type_, status="True", reason=type_, quiet=True)


def queue_status(
    fact: QueueFact,
    allocated: Mapping[str, int] = MappingProxyType({}),
    counts: Mapping[Standing, int] = MappingProxyType({}),
    *,
    closed_by: QueueName | None = None,
    busy: bool = False,
    broken: str | None = None,
    lacks: Mapping[ReasonCode, str] = MappingProxyType({}),
    of_root: tuple[Reason | None, Reason | None] = (None, None),
) -> StatusWanted:
    """State, use and counts of workloads. A closed queue in which something is left is Closing.

    ``closed_by``: the nearest closed queue, itself or one above it, None if it takes work; ``busy``: something runs or
    waits in it, or in a queue below it; ``broken``: why it cannot be used, None if it can; ``lacks``: which plug-ins
    and AdmissionChecks that it names cannot; ``of_root``: why nothing is decided, and why seats of Jobs that are
    gone are not given back; None if all is well.
    """
    name = fact.queue.name
    state = QueueState.OPEN
    if closed_by is not None:
        state = QueueState.CLOSING if busy else QueueState.CLOSED
    by_parent = StatusCondition(type=CLOSED_BY_PARENT, status="False", reason="Usable", quiet=True)
    if closed_by not in (None, name):
        message = f"queue {closed_by} is closed, and with it all queues below it"
        by_parent = StatusCondition(
            type=CLOSED_BY_PARENT, status="True", reason=ReasonCode.QUEUE_CLOSED, message=message
        )
    why_broken = None if broken is None else Reason(code=ReasonCode.QUEUE_BROKEN, message=broken)
    usable, bounded = _true_unless("Usable", why_broken), _true_unless(WITHIN_BOUNDS, None)
    named = (
        _true_unless(type_, Reason(code=code, message=lacks[code]) if code in lacks else None)
        for type_, code in _NAMED.items()
    )
    named = (replace(each, follows_message=True) for each in named)
    if fact.unread:
        message = unread_words(fact.unread)
        bounded = StatusCondition(type=WITHIN_BOUNDS, status="False", reason=BEYOND_BOUNDS, message=message)
    failing, keeping = of_root
    own = (deciding_condition(failing), _true_unless(FREEING, keeping)) if name == ROOT else (by_parent,)
    without_effect = _without_effect(fact.without_effect)
    return StatusWanted(
        ref=ObjectRef(resource=QUEUES, name=name, uid=fact.uid),
        fields=without_blanks(
            {
                "state": state.value,
                "allocated": {name: show(name, units) for name, units in sorted(allocated.items())},
                **{each.value: counts.get(each, 0) for each in Standing},
            }
        ),
        conditions=(usable, bounded, *named, *own, *without_effect),
        dropped=(
            *(() if without_effect else (UNSUPPORTED_FIELD,)),
            *(() if name == ROOT else (DECIDING,)),
        ),
        kept=("ledger",) if name == ROOT else (),
        seen=fact.shown,
    )


def _without_effect(sentences: Sequence[str]) -> tuple[StatusCondition, ...]:
    """The condition that names what an object says to no effect; (): nothing."""
    if not sentences:
        return ()
    reason = Reason(code=ReasonCode.UNSUPPORTED_FIELD, message="; ".join(sentences))
    return (replace(_because(UNSUPPORTED_FIELD, "True", reason), follows_message=True),)


def without_blanks(fields: Mapping[str, Any]) -> Document:
    """The fields that say anything."""
    return {key: value for key, value in fields.items() if value not in ("", {}, None)}


def settled(wanted: StatusWanted, before: Mapping[str, Any], now: int) -> Document:
    """The status to have, given the present one: conditions and reasons with an unchanged code are kept whole."""
    after: Document = {name: before[name] for name in wanted.kept if name in before} | dict(wanted.fields)
    if "state" in before and isinstance(after.get("state"), Mapping):
        told = (
            *(("message",) if after["state"].get("reason") == ReasonCode.WAITS_FOR_TASK else ()),
            "phase",
            "reason",
        )
        same = all(before["state"].get(key) == after["state"].get(key) for key in told)
        if same and not tells_news(_message(before["state"]), _message(after["state"])):
            after["state"] = before["state"]
    if "conditions" in wanted.fields:
        return after
    old = {one.get("type"): one for one in before.get("conditions") or ()}
    kept = [_condition(one, old.get(one.type), now, shared=wanted.shared) for one in wanted.conditions]
    conditions = [one for one in kept if one is not None]
    ours = {*wanted.dropped, *(one.type for one in wanted.conditions)}
    others = [one for name, one in old.items() if name not in ours]
    if conditions or others:
        after["conditions"] = conditions if wanted.shared else [*others, *conditions]
    return after


def _condition(
    wanted: StatusCondition, before: Mapping[str, Any] | None, now: int, *, shared: bool
) -> Mapping[str, Any] | None:
    if before is None and wanted.quiet:
        return None
    at = rfc3339(now)
    if before is not None and before.get("status") == wanted.status and _has_code_of(before, wanted):
        changed = wanted.follows_message and _message(before) != wanted.message
        if not (changed or tells_news(_message(before), wanted.message)):
            return before
        # Another start is no transition.
        at = before.get("lastTransitionTime") or at
    after = without_blanks(
        {
            "type": wanted.type,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
            "lastTransitionTime": at,
        }
    )
    if shared and before is not None and before.get("message"):
        after["message"] = wanted.message  # merged field by field: what is not named stays
    return after


def _has_code_of(before: Mapping[str, Any], wanted: StatusCondition) -> bool:
    return code_in(before.get("reason", ""), _message(before)) == code_in(wanted.reason, wanted.message)


def _message(told: Mapping[str, Any]) -> str:
    return told.get("message") or ""


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """The JSON merge patch (RFC 7386) that makes one document of the other; {} if they are equal."""
    patch: Document = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := merge_patch(old, value):
                patch[key] = inner
        elif old != value:
            patch[key] = value
    return patch


def only_numbers(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether two statuses differ in counts only."""
    return all(before.get(key) == after.get(key) for key in ("phase", "state", "conditions"))

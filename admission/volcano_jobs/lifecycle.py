"""A Volcano Job's lifecycle: the phase that follows from its pods, from an action, and from Commands.

Volcano's rules (its ``pkg/controllers/job/state``), as tables that are data: ``RULES`` for what is observed,
``ACTIONS`` for what policies and Commands ask. Pure: the plan applier stores the state. A Command is
carried out once, whichever leader sees it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from admission.facts.volcano_jobs import JobSpec
from admission.volcano_jobs.dependencies import can_never_start
from admission.volcano_jobs.state import MOST_COMMANDS, TARGETED, Action, Cause, JobState, Phase
from admission.volcano_jobs.view import Counts, JobView
from queues.command import Command
from queues.reason_codes import ReasonCode


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep:
    """A phase to enter, and the reason."""

    phase: Phase
    #: None if the phase needs no explanation.
    reason: Cause | None = None
    message: str = ""


Rule = Callable[[JobState, JobView, Counts], JobStep | None]


def enough_started(_state: JobState, view: JobView, counts: Counts) -> JobStep | None:
    """Pending → Running: as many pods run or have ended as must start together."""
    if counts.running + counts.ended < view.spec.minimum:
        return None
    return JobStep(phase=Phase.RUNNING)


def enough_succeeded(_state: JobState, view: JobView, counts: Counts) -> JobStep | None:
    """Running → Completed: minSuccess is reached, whatever the other pods do."""
    wanted = view.spec.min_success
    if wanted is None or counts.succeeded < wanted:
        return None
    return JobStep(
        phase=Phase.COMPLETED,
        reason=ReasonCode.MIN_SUCCESS,
        message=f"{counts.succeeded} pods succeeded, {wanted} were needed",
    )


def all_ended(_state: JobState, view: JobView, counts: Counts) -> JobStep | None:
    """Running → Completed or Failed: every pod has ended."""
    spec = view.spec
    if not spec.replicas or counts.ended < spec.replicas:
        return None
    if spec.minimum >= sum(task.minimum for task in spec.tasks):
        for task in spec.tasks:
            done = counts.succeeded_of(task.name)
            if done < task.minimum:
                return JobStep(
                    phase=Phase.FAILED,
                    reason=ReasonCode.TASK_FAILED,
                    message=f"{done} of the {task.minimum} pods that task {task.name} needs succeeded",
                )
    needed = max(spec.minimum, spec.min_success or 0)
    enough = counts.succeeded >= needed
    return JobStep(
        phase=Phase.COMPLETED if enough else Phase.FAILED,
        reason=ReasonCode.ALL_ENDED,
        message=f"{counts.succeeded} of {spec.replicas} pods succeeded, {needed} were needed",
    )


def cannot_go_on(state: JobState, view: JobView, counts: Counts) -> JobStep | None:
    """Pending or Running → Failed: nothing runs, and a task waits for others with too many failed pods."""
    if counts.left or not counts.failed or view.policy_waits:
        return None
    stuck = can_never_start(state, view, counts)
    if stuck is None:
        return None
    message = f"task {stuck.task} cannot start: too many pods of {' and '.join(stuck.after)} failed"
    return JobStep(phase=Phase.FAILED, reason=ReasonCode.TASK_FAILED, message=message)


def too_few_left(_state: JobState, view: JobView, counts: Counts) -> JobStep | None:
    """Running → Pending: fewer pods than the gang needs run or have ended."""
    spec = view.spec
    missing = spec.replicas - counts.running - counts.ended
    if missing <= spec.replicas - spec.minimum or missing <= 0:
        return None
    return JobStep(
        phase=Phase.PENDING,
        reason=ReasonCode.PODS_MISSING,
        message=f"{counts.running + counts.ended} of {spec.minimum} needed pods run",
    )


def retries_used_up(state: JobState, view: JobView, _counts: Counts) -> JobStep | None:
    """Restarting → Failed: the Job was restarted as often as maxRetry allows."""
    if state.retry_count < view.spec.max_retry:
        return None
    return JobStep(
        phase=Phase.FAILED, reason=ReasonCode.MAX_RETRY, message=f"restarted {state.retry_count} times"
    )


def enough_cleared(_state: JobState, view: JobView, counts: Counts) -> JobStep | None:
    """Restarting → Pending: so few old pods are left that the gang can start next to them."""
    if view.spec.replicas - counts.terminating < view.spec.minimum:
        return None
    return JobStep(phase=Phase.PENDING)


def none_left(into: Phase) -> Rule:
    """Aborting → Aborted, and so on: the last pod is gone. What it was for is still said."""

    def rule(state: JobState, _view: JobView, counts: Counts) -> JobStep | None:
        return None if counts.left else JobStep(phase=into, reason=state.reason, message=state.message)

    return rule


#: Rules of each phase, by what is observed; the first rule that applies decides.
RULES: Final[Mapping[Phase, tuple[Rule, ...]]] = {
    Phase.PENDING: (enough_started, cannot_go_on),
    Phase.RUNNING: (enough_succeeded, all_ended, cannot_go_on, too_few_left),
    Phase.RESTARTING: (retries_used_up, enough_cleared),
    Phase.ABORTING: (none_left(Phase.ABORTED),),
    Phase.COMPLETING: (none_left(Phase.COMPLETED),),
    Phase.TERMINATING: (none_left(Phase.TERMINATED),),
    Phase.ABORTED: (),
    Phase.COMPLETED: (),
    Phase.FAILED: (),
    Phase.TERMINATED: (),
}

#: Phases in which an action has an effect, and the phase to which it leads. A Job that is Aborting is not resumed
#: before it is Aborted, as it is in Volcano: some seats are given back already, and the rest would be half a gang.
ACTIONS: Final[Mapping[tuple[Phase, Action], Phase]] = {
    **{
        (phase, action): into
        for phase in (Phase.PENDING, Phase.RUNNING)
        for action, into in (
            (Action.RESTART, Phase.RESTARTING),
            (Action.ABORT, Phase.ABORTING),
            (Action.COMPLETE, Phase.COMPLETING),
            (Action.TERMINATE, Phase.TERMINATING),
            *((action, Phase.RESTARTING) for action in TARGETED),
        )
    },
    # A Job that restarts can be asked to end as well; Volcano ignores that.
    **{
        (Phase.RESTARTING, action): into
        for action, into in (
            (Action.ABORT, Phase.ABORTING),
            (Action.COMPLETE, Phase.COMPLETING),
            (Action.TERMINATE, Phase.TERMINATING),
        )
    },
    (Phase.ABORTED, Action.RESUME): Phase.RESTARTING,
}


def advance(state: JobState, view: JobView, now: int) -> JobState:
    """The state that follows from what is observed; the same object if no rule applies.

    Rules are applied until none applies any more: a Job with pods that all ended unobserved passes through Running.
    """
    if view.deleting:
        return state
    state = _begun(state, now)
    for _ in range(len(Phase)):
        counts = view.counts(state)
        step = next((step for rule in RULES[state.phase] if (step := rule(state, view, counts))), None)
        if step is None:
            break
        state = state.entered(step.phase, now, step.reason, step.message)
    return state


def act(state: JobState, action: Action, now: int, message: str = "", pods: Iterable[str] = ()) -> JobState:
    """The state after a policy or Command asked for an action; the same object if it has no effect in this phase.

    ``pods``: uids of those that are restarted, where it is not the whole Job.
    """
    into = ACTIONS.get((state.phase, action))
    if into is None:
        return state
    state = _begun(state, now)
    # A resumption, however often, is no failed attempt: where Volcano counts a retry, none is counted.
    restarts = into is Phase.RESTARTING and action is not Action.RESUME
    # An aborted Job has lost its pods already: they have an older version.
    whole = action is not Action.RESUME and action not in TARGETED
    return replace(
        state.entered(into, now, action, message),
        version=state.version + whole,
        restarted=frozenset() if whole else state.restarted.union(pods),
        retry_count=state.retry_count + restarts,
    )


def end(state: JobState, now: int, reason: ReasonCode, message: str) -> JobState:
    """The state of a Job that Muster ends for good, with its reason; the same object if it is over, or about to be."""
    into = ACTIONS.get((state.phase, Action.TERMINATE))
    if into is None:
        return state
    return replace(_begun(state, now).entered(into, now, reason, message), version=state.version + 1)


def _begun(state: JobState, now: int) -> JobState:
    """The state of a Job that has a first phase."""
    return state if state.history else state.entered(state.phase, now)


def expired(state: JobState, spec: JobSpec, now: int) -> bool:
    """Whether the Job ended ``ttlSecondsAfterFinished`` ago or earlier: its object is to be deleted."""
    return state.is_over() and spec.ttl is not None and now >= state.finished_at + spec.ttl


def carry_out(state: JobState, view: JobView, now: int) -> JobState:
    """The state after the Commands that were not carried out yet, and that remembers them; else the same object.

    One that has no effect in the Job's phase, or names no action on a whole Job, counts as carried out.
    """
    new = [command for command in view.commands if command.uid not in state.commands]
    if not new or view.deleting:
        return state
    done: list[Command] = []
    for command in new:
        action = _ACTIONS.get(command.action)
        if action is Action.RESUME and state.phase is Phase.ABORTING:
            break  # with those that come after it, once the last pod is gone
        if action is not None:
            state = act(state, action, now, _message(command))
        done.append(command)
    return replace(state, commands=_remembered(state, view, done)) if done else state


def _remembered(state: JobState, view: JobView, done: list[Command]) -> tuple[str, ...]:
    known = (*state.commands, *(command.uid for command in done))
    there = {command.uid for command in view.commands} | set(known[-MOST_COMMANDS:])
    return tuple(uid for uid in known if uid in there)


def _message(command: Command) -> str:
    return ": ".join(part for part in (f"Command {command.name}", command.message) if part)


_ACTIONS = {action.value: action for action in Action if action not in TARGETED}

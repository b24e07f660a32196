"""Commands for a Volcano Job: each is carried out once, whichever leader sees it."""

from dataclasses import replace

from admission.volcano_jobs.lifecycle import act
from admission.volcano_jobs.state import MOST_COMMANDS, TARGETED, Action, JobState, Phase
from admission.volcano_jobs.view import JobView
from queues.command import Command


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

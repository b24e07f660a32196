"""Rules for the lifecycle policies of a Volcano Job: known events and actions, without contradiction."""

from collections.abc import Iterator

from queues.api.model import excerpt
from queues.api.types.volcano_job import LifecyclePolicy
from queues.api.validation.violations import Violation

EVENTS = (
    "*",
    "PodFailed",
    "PodEvicted",
    "PodPending",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "JobUpdated",
)
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)


def policy_violations(policies: tuple[LifecyclePolicy, ...], path: str) -> Iterator[Violation]:
    """Violations of the policies of a Job or task: unknown events or actions, an event or exit code used twice."""
    events: set[str] = set()
    codes: set[int] = set()
    for index, policy in enumerate(policies):
        here = f"{path}[{index}]"
        own = _events_of(policy)
        yield from _trigger(policy, own, here)
        yield from _events(own, events, here)
        yield from _exit_code(policy.exit_code, codes, here)
        if policy.action not in ACTIONS:
            yield _choice(f"{here}.action", policy.action, "action", ACTIONS)
    if "*" in events and len(events) > 1:
        wording = "if there's * here, no other policy should be here"
        yield Violation(path, ", ".join(sorted(events)), "* alone", _with_choices(wording))


def _events_of(policy: LifecyclePolicy) -> tuple[str, ...]:
    """The events of a policy, each once."""
    return tuple(dict.fromkeys([*policy.events, *([policy.event] if policy.event else [])]))


def _trigger(policy: LifecyclePolicy, events: tuple[str, ...], path: str) -> Iterator[Violation]:
    if events and policy.exit_code is not None:
        wording = "must not specify event and exitCode simultaneously"
        yield Violation(path, "event and exitCode", "one of them", _with_choices(wording))
    elif not events and policy.exit_code is None:
        wording = "either event and exitCode should be specified"
        yield Violation(path, "neither event nor exitCode", "one of them", _with_choices(wording))
    if "PodPending" in events and policy.timeout is None:
        yield Violation(f"{path}.timeout", "nothing", "a timeout with event PodPending")


def _events(events: tuple[str, ...], seen: set[str], path: str) -> Iterator[Violation]:
    for event in events:
        if event not in EVENTS:
            yield _choice(f"{path}.event", event, "event", EVENTS)
        elif event in seen:
            wording = f"duplicate event {event}  across different policy"
            yield Violation(path, excerpt(event), "an event that no other policy has", _with_choices(wording))
        seen.add(event)


def _exit_code(code: int | None, seen: set[int], path: str) -> Iterator[Violation]:
    if code is None:
        return
    if code == 0:
        wording = _with_choices("0 is not a valid error code")
        yield Violation(f"{path}.exitCode", "0", "another code than 0", wording)
    elif code in seen:
        wording = _with_choices(f"duplicate exitCode {code}")
        yield Violation(f"{path}.exitCode", str(code), "a code that no other policy has", wording)
    seen.add(code)


def _with_choices(wording: str) -> str:
    return f"{wording} valid events are [{' '.join(EVENTS)}], valid actions are [{' '.join(ACTIONS)}];"


def _choice(path: str, found: str, what: str, choices: tuple[str, ...]) -> Violation:
    wording = f'{path}: Invalid value: "{found}": invalid policy {what}'
    return Violation(path, excerpt(found), f"one of {', '.join(choices)}", _with_choices(wording))

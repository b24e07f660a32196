"""Rules for the lifecycle policies of a Volcano Job: known events and actions, without contradiction."""

from collections.abc import Iterator
from typing import Final

from queues.api.types.volcano_job import JobAction, JobEvent, LifecyclePolicy
from queues.api.validation.violations import Violation
from queues.text_format import excerpt

EVENTS: Final = tuple(JobEvent)
ACTIONS: Final = tuple(JobAction)


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
            yield Violation(f"{here}.action", excerpt(policy.action), f"one of {', '.join(ACTIONS)}")
    if "*" in events and len(events) > 1:
        yield Violation(path, ", ".join(sorted(events)), "* alone")


def _events_of(policy: LifecyclePolicy) -> tuple[str, ...]:
    """The events of a policy, each once."""
    return tuple(dict.fromkeys([*policy.events, *([policy.event] if policy.event else [])]))


def _trigger(policy: LifecyclePolicy, events: tuple[str, ...], path: str) -> Iterator[Violation]:
    if events and policy.exit_code is not None:
        yield Violation(path, "event and exitCode", "one of them")
    elif not events and policy.exit_code is None:
        yield Violation(path, "neither event nor exitCode", "one of them")
    if "PodPending" in events and policy.timeout is None:
        yield Violation(f"{path}.timeout", "nothing", "a timeout with event PodPending")


def _events(events: tuple[str, ...], seen: set[str], path: str) -> Iterator[Violation]:
    for event in events:
        if event not in EVENTS:
            yield Violation(f"{path}.event", excerpt(event), f"one of {', '.join(EVENTS)}")
        elif event in seen:
            yield Violation(path, excerpt(event), "an event that no other policy has")
        seen.add(event)


def _exit_code(code: int | None, seen: set[int], path: str) -> Iterator[Violation]:
    if code is None:
        return
    if code == 0:
        yield Violation(f"{path}.exitCode", "0", "another code than 0")
    elif code in seen:
        yield Violation(f"{path}.exitCode", str(code), "a code that no other policy has")
    seen.add(code)

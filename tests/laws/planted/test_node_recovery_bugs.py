"""Planted bugs in the recovery of nodes: random histories have to bring each to light."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from admission.node_recovery import circuit_breaker, phases, step, transitions
from admission.node_recovery.phases import PHASES
from admission.node_recovery.state import RecoveryPhase, RecoveryState, read_state
from admission.node_recovery.step_input import StepInput
from tests.laws.node_recovery.test_node_recovery_laws import NodesUnderFaults

#: Histories of one search, and searches: each begins anew.
AT_A_TIME, SEARCHES = 60, 12


@dataclass(frozen=True)
class Bug:
    """Something wrong in place of one attribute, or of one entry of a table."""

    about: str
    owner: Any
    name: Any
    wrong: Any
    #: Number of the search to begin with: of one that finds a history soon.
    first: int = 0

    def __str__(self) -> str:
        return self.about

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put it in."""
        if isinstance(self.owner, dict):
            monkeypatch.setitem(self.owner, self.name, self.wrong)
        else:
            monkeypatch.setattr(self.owner, self.name, self.wrong)


_annotation, _keep, _wait, _next_attempt, _create_job, _outcome, _writes, _seen = (
    RecoveryState.annotation,
    StepInput.keep,
    transitions.wait_for,
    phases.next_attempt,
    phases.create_job,
    step._automatic,
    step._writes,
    phases.job_seen,
)


def _stays(here: StepInput) -> Any:
    return here.keep()


def _without(field: str, value: Any) -> Callable[[RecoveryState], str]:
    return lambda self: _annotation(replace(self, **{field: value}))


def _told_each_time(here: StepInput, waits: Any, message: str, **more: Any) -> Any:
    return _wait(replace(here, state=replace(here.state, waits=None)), waits, message, **more)


def _endless(here: StepInput, cause: Any, why: str) -> Any:
    policy = replace(here.policy, attempts=1000)
    return _next_attempt(replace(here, policy=policy), cause, why)


def _what_is_written(view: Any, now: int) -> RecoveryState:
    return read_state(view.annotation) or RecoveryState()


def _never_consumed(here: Any, outcome: Any) -> Any:
    return tuple(replace(write, consumes_order=False) for write in _writes(here, outcome))


BUGS = (
    Bug("nodes that are out do not count", circuit_breaker, "_is_out", lambda view: False),
    Bug("the bound is one too high", circuit_breaker, "most_out", lambda policy, nodes: 3),
    Bug("nodes that are not ready do not count", circuit_breaker, "_is_unavailable", lambda view: False),
    Bug("a Job is made on a node that is not ready", phases, "create_job",
        lambda here: _create_job(replace(here, view=replace(here.view, ready=True))), first=9),
    Bug("hold is not looked at", step, "_held", _outcome),
    Bug("a cordoned node stays so when its fault is gone", PHASES, RecoveryPhase.CORDONED,
        lambda here: phases.drain(here, "") if here.is_faulty else here.keep()),
    Bug("a failed node stays so when its fault is gone", PHASES, RecoveryPhase.FAILED, _stays, first=2),
    Bug("a drained node without a fault waits", PHASES, RecoveryPhase.DRAINING,
        lambda here: phases.draining(here) if here.is_faulty else here.keep()),
    Bug("a recovery ends with its annotation", step, "known_state", _what_is_written, first=5),
    Bug("that a Job was there is forgotten", phases, "job_seen",
        lambda here, *, look_again: here.keep(look_again=look_again), first=9),
    Bug("attempts are forgotten", RecoveryState, "annotation", _without("attempts", 0)),
    Bug("who began a phase is forgotten", RecoveryState, "annotation", _without("by", None)),
    Bug("attempts have no end", phases, "next_attempt", _endless),
    Bug("waiting is told again and again", phases, "wait_for", _told_each_time),
    Bug("a step that a person asked for is taken again and again", step, "_writes", _never_consumed),
    Bug("a Job is made under gangs that came late", phases, "drain_first",
        lambda here, why: _create_job(here), first=28),
    Bug("Jobs of phases that are over go on", step, "_leftovers", lambda here, outcome: ()),
    Bug("a Job is tried for what only a person ends", StepInput, "for_person", ()),
    Bug("a lease that was renewed long ago is believed", StepInput, "agent_ran_after", lambda self, moment: True),
    Bug("the end of a fault is believed of nobody", StepInput, "agent_ran_after",
        lambda self, moment: self.view.lease_renewed_at is None or self.view.lease_renewed_at > moment),
    Bug("nodes come back without a test", phases, "_runs_pods_well", lambda here: True),
    Bug("the end of a Job's time is not told", phases, "job_seen",
        lambda here, *, look_again: replace(_seen(here, look_again=look_again), look_again=None)),
)  # fmt: skip


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    settled = settings(
        max_examples=AT_A_TIME,
        stateful_step_count=40,
        database=None,
        derandomize=False,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    for number in range(bug.first, bug.first + SEARCHES):

        class Searched(NodesUnderFaults):
            pass

        seed(number)(Searched)
        try:
            run_state_machine_as_test(Searched, settings=settled)  # type: ignore[no-untyped-call]
        except (AssertionError, ExceptionGroup):
            return
    raise AssertionError(f"no history shows that {bug}")

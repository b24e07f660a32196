"""Planted bugs in the recovery of nodes: random histories have to bring each to light."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from admission.node_recovery import step
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.state import RecoveryPhase, RecoveryState, read_state
from admission.node_recovery.step import PHASES, _Step
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


_annotation, _wait, _create_job, _while_job_runs = (
    RecoveryState.annotation,
    _Step.wait,
    step._create_job,
    step._while_job_runs,
)


def _stays(here: Any) -> Any:
    return here.stay()


def _without(field: str, value: Any) -> Callable[[RecoveryState], str]:
    return lambda self: _annotation(replace(self, **{field: value}))


def _told_each_time(here: Any, what: str, message: str, **more: Any) -> Any:
    return _wait(replace(here, state=replace(here.state, waits="")), what, message, **more)


def _what_is_written(view: Any, now: int) -> RecoveryState:
    return read_state(view.annotation) or RecoveryState()


def _job_under_pods(here: Any) -> Any:
    return _create_job(here) if here.job is None and not here.state.job else step._recovering(here)


def _forgets_its_job(here: Any, job: Any) -> Any:
    turn = _while_job_runs(here, job)
    return turn and replace(turn, state=replace(turn.state, job=""))


def _forgets_the_end(here: Any, job: Any) -> Any:
    turn = _while_job_runs(here, job)
    return turn and replace(turn, look_again=None)


BUGS = (
    Bug("nodes that are out do not count", step, "_is_out", lambda view: False),
    Bug("the bound is one too high", FaultPolicy, "most_out", lambda policy, nodes: 3),
    Bug("a Job is made on a node that is not ready", step, "_create_job",
        lambda here: _create_job(replace(here, view=replace(here.view, ready=True)))),
    Bug("a failed node stays so when its fault is gone", PHASES, RecoveryPhase.FAILED, _stays),
    Bug("a drained node without a fault waits", PHASES, RecoveryPhase.DRAINING,
        lambda here: step._draining(here) if here.is_faulty else here.stay()),
    Bug("a recovery ends with its annotation", step, "known_state", _what_is_written),
    Bug("that a Job was there is forgotten", step, "_while_job_runs", _forgets_its_job),
    Bug("attempts are forgotten", RecoveryState, "annotation", _without("attempts", 0)),
    Bug("that a test failed is forgotten", RecoveryState, "annotation", _without("test_failed", False)),
    Bug("attempts have no end", step, "ATTEMPTS", 1000),
    Bug("waiting is told again and again", _Step, "wait", _told_each_time),
    Bug("a Job is made under gangs that came late", PHASES, RecoveryPhase.RECOVERING, _job_under_pods),
    Bug("Jobs of phases that are over go on", step, "_leftovers", lambda view, state: ()),
    Bug("a Job is tried for what only a person ends", _Step, "for_person", ()),
    Bug("the end of a fault is believed of nobody", _Step, "is_unreported", False),
    Bug("nodes come back without a test", step, "_runs_pods_well", lambda here: True),
    Bug("the end of a Job's time is not told", step, "_while_job_runs", _forgets_the_end),
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

"""Planted bugs in the recovery of nodes: random histories have to bring each to light."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec import structs

from admission.node_recovery import step
from admission.node_recovery.state import RecoveryPhase, RecoveryState, read_state
from admission.node_recovery.step import PHASES, _Step
from tests.laws.node_recovery.test_node_recovery_laws import NodeUnderFaults
from tests.laws.worlds.node_recovery import PlayedNode

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


_annotation, _wait, _with_job, _init = (
    RecoveryState.annotation,
    _Step._wait,
    _Step._with_job,
    _Step.__init__,
)


def _stays(here: Any) -> Any:
    return here._stay()


def _without(field: str, value: Any) -> Callable[[RecoveryState], str]:
    return lambda self: _annotation(structs.replace(self, **{field: value}))


def _told_each_time(here: Any, what: str, message: str, **more: Any) -> Any:
    here.state = structs.replace(here.state, waits="")
    return _wait(here, what, message, **more)


def _what_is_written(view: Any, now: int) -> RecoveryState:
    return read_state(view.annotation)


def _knows(**known: Any) -> Callable[..., None]:
    """A step that takes this for known, whatever is seen."""

    def planted(here: Any, *seen: Any) -> None:
        _init(here, *seen)
        here.__dict__ |= known

    return planted


def _job_though_not_ready(here: Any) -> Any:
    here.view = replace(here.view, ready=True)
    return _with_job(here)


def _waits_for_a_fault(here: Any) -> Any:
    return _Step._draining(here) if here.fault else here._stay()


BUGS = (
    Bug("the circuit breaker is not asked", PHASES, RecoveryPhase.NONE,
        lambda here: here._drain(here.fault) if here.fault and here.rules.recovers else here._stay()),
    Bug("a Job is made on a node that is not ready", _Step, "_with_job", _job_though_not_ready),
    Bug("a failed node stays so when its fault is gone", PHASES, RecoveryPhase.FAILED, _stays, first=6),
    Bug("a drained node without a fault waits", PHASES, RecoveryPhase.DRAINING, _waits_for_a_fault),
    Bug("a recovery ends with its annotation", step, "_known_state", _what_is_written),
    Bug("attempts are forgotten", RecoveryState, "annotation", _without("attempts", 0)),
    Bug("that a test failed is forgotten", RecoveryState, "annotation", _without("test_failed", False)),
    Bug("attempts have no end", step, "ATTEMPTS", 1000),
    Bug("waiting is told again and again", _Step, "_wait", _told_each_time),
    Bug("a Job is made under gangs that came late", _Step, "__init__", _knows(is_occupied=False)),
    Bug("a Job is tried for what only a person ends", _Step, "__init__", _knows(for_person=())),
    Bug("the end of a fault is believed of nobody", _Step, "__init__", _knows(is_unreported=False)),
    Bug("nodes come back without a test", _Step, "_tested", lambda here: here._open("GpuNodeRecovered", "well")),
    Bug("Jobs of phases that are over go on", PlayedNode, "_delete_job", lambda node, turn: None),
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

        class Searched(NodeUnderFaults):
            pass

        seed(number)(Searched)
        try:
            run_state_machine_as_test(Searched, settings=settled)  # type: ignore[no-untyped-call]
        except (AssertionError, ExceptionGroup):
            return
    raise AssertionError(f"no history shows that {bug}")

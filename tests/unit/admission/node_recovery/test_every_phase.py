"""Every phase of a node's recovery and everything that may be seen of the node: what follows. The table is complete."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.state import RecoveryPhase, RecoveryState, read_state
from admission.node_recovery.step import ATTEMPTS, JOB_TIMEOUT, SETTLE_TIMEOUT, NodeTurn
from admission.node_recovery.view import BlackHole, JobProgress, NodeView, TaintOwner
from tests.unit.admission.node_recovery.recovered_nodes import (
    LOST,
    MARKED,
    NOW,
    POLICY,
    SINCE,
    XID,
    fault_of,
    gang,
    job_of,
    state,
    turn,
    view,
)


class Seen(NamedTuple):
    """What is seen of a node in a phase, the policy, and when."""

    view: NodeView
    policy: FaultPolicy = POLICY
    now: int = NOW


def _see(policy: FaultPolicy = POLICY, now: int = NOW, **more: Any) -> Callable[[RecoveryState], Seen]:
    return lambda known: Seen(view(known, **more), policy, now)


def _job(progress: JobProgress, now: int = NOW, **more: Any) -> Callable[[RecoveryState], Seen]:
    return lambda known: Seen(view(known, jobs=job_of(known, progress), **more), now=now)


def _known(seen: Callable[[RecoveryState], Seen], **changes: Any) -> Callable[[RecoveryState], Seen]:
    return lambda known: seen(replace(known, **changes))


HOLE: Final = BlackHole(since=SINCE, gangs=3)
TIMED_OUT: Final = SINCE + 1 + JOB_TIMEOUT

SEEN: Final[dict[str, Callable[[RecoveryState], Seen]]] = {
    "well": _see(),
    "well, with a gang": _see(gangs=(gang("on", 3),)),
    "well, no agent reports": _see(is_reported=False),
    "well, its test failed": _known(_see(), test_failed=True),
    "well, its test failed, no repair Job in the policy": _known(
        _see(replace(POLICY, job=None)), test_failed=True
    ),
    "faulty": _see(faults=(XID,)),
    "faulty, a gang on the device, one beside it": _see(
        faults=(XID,), gangs=(gang("on", 3), gang("beside", 0))
    ),
    "faulty, a gang that is leaving": _see(faults=(XID,), gangs=(gang("on", 3, leaving=True),)),
    "faulty, foreign pods": _see(faults=(XID,), foreign_pods=1),
    "faulty, only a person ends it": _see(faults=(fault_of(LOST, MARKED),)),
    "faulty, not ready": _see(faults=(XID,), ready=False),
    "faulty, drain time is over": _see(
        replace(POLICY, drain_timeout=NOW - SINCE), faults=(XID,), gangs=(gang("beside", 0),)
    ),
    "faulty, time to settle is over": _see(now=SINCE + SETTLE_TIMEOUT, faults=(XID,)),
    "faulty, attempts used up": _known(_see(faults=(XID,)), attempts=ATTEMPTS),
    "faulty, no repair Job in the policy": _see(replace(POLICY, job=None), faults=(XID,)),
    "kills pods": _see(black_hole=HOLE),
    "kills pods, Job succeeded": _job(JobProgress.SUCCEEDED, black_hole=HOLE),
    "Job runs, faulty": _job(JobProgress.RUNNING, faults=(XID,)),
    "Job runs, well": _job(JobProgress.RUNNING),
    "Job runs too long": _job(JobProgress.RUNNING, TIMED_OUT, faults=(XID,)),
    "Job runs too long, well": _job(JobProgress.RUNNING, TIMED_OUT),
    "Job succeeded, faulty": _job(JobProgress.SUCCEEDED, faults=(XID,)),
    "Job succeeded, well": _job(JobProgress.SUCCEEDED),
    "Job failed, faulty": _job(JobProgress.FAILED, faults=(XID,)),
    "Job failed, well": _job(JobProgress.FAILED),
    "Job is gone, faulty": _known(_see(faults=(XID,)), job="seen"),
    "Job is gone, well": _known(_see(), job="seen"),
    "taint removed by hand": _see(faults=(XID,), taint=TaintOwner.ABSENT),
    "policy reports": _see(replace(POLICY, recovers=False), faults=(XID,)),
}


def shown(found: NodeTurn, attempts: int) -> str:
    """The phase afterwards, then what is done: the taint that is written with the annotation, Jobs, gangs."""
    words = [found.state.phase.value]
    if found.state.attempts != attempts:
        words.append(f"attempt {found.state.attempts}")
    if found.evicted:
        words.append("evict " + " ".join(key.uid for key in found.evicted))
    if found.writes:
        words.append("+taint" if found.state.phase.is_out else "-taint")
    if found.tries_gang:
        words.append("try")
    if found.creates is not None:
        words.append(f"create {found.creates.template}")
    return ", ".join([*words, *(["delete Job"] if found.deletes else [])])


@pytest.mark.parametrize("phase", RecoveryPhase)
def test_what_follows(phase: RecoveryPhase, golden: dict[str, str]) -> None:
    """By what is seen: the phase afterwards and what is done. A node begins in its first attempt, NONE without one."""
    follows = {}
    for seen, shows in SEEN.items():
        found = shows(state(phase))
        before = read_state(found.view.annotation) or state(phase)
        follows[seen] = shown(turn(found.view, found.policy, found.now), before.attempts)
    assert follows == golden

"""Every phase of a node's recovery and everything that may be seen of the node: what follows. The table is complete."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from admission.node_recovery.effects import CreateJob, DeleteJob, EvictGangs, TryNode, WriteNode
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.state import RecoveryPhase, RecoveryState
from admission.node_recovery.step import RecoveryTurn, step
from admission.node_recovery.view import BlackHole, JobProgress, NodeView, TaintOwner
from tests.unit.admission.node_recovery.recovered_nodes import (
    CONTEXT,
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
    view,
)


class Seen(NamedTuple):
    """What is seen of a node in a phase, and the policy."""

    view: NodeView
    policy: FaultPolicy = POLICY


def _see(**more: Any) -> Callable[[RecoveryState], Seen]:
    return lambda known: Seen(view(known, **more))


def _job(progress: JobProgress, **more: Any) -> Callable[[RecoveryState], Seen]:
    return lambda known: Seen(view(known, jobs=job_of(known, progress), **more))


def _job_is_gone(known: RecoveryState) -> Seen:
    return Seen(view(replace(known, job="seen"), faults=(XID,)))


def _job_takes_too_long(known: RecoveryState) -> Seen:
    policy = replace(POLICY, job_timeout=NOW - SINCE - 1)
    return Seen(view(known, faults=(XID,), jobs=job_of(known, JobProgress.RUNNING)), policy)


def _verify_time_is_over(known: RecoveryState) -> Seen:
    return Seen(view(known, faults=(XID,)), replace(POLICY, verify_timeout=NOW - SINCE))


def _report(known: RecoveryState) -> Seen:
    return Seen(view(known, faults=(XID,)), replace(POLICY, recovers=False))


def _drain_time_is_over(known: RecoveryState) -> Seen:
    policy = replace(POLICY, drain_timeout=NOW - SINCE)
    return Seen(view(known, faults=(XID,), gangs=(gang("beside", 0),)), policy)


def _attempts_used_up(known: RecoveryState) -> Seen:
    return Seen(view(known, faults=(XID,)), replace(POLICY, attempts=1))


def _no_recovery_job(known: RecoveryState) -> Seen:
    return Seen(view(known, faults=(XID,)), replace(POLICY, recovery_job=None))


HOLE: Final = BlackHole(since=SINCE, gangs=3)

SEEN: Final[dict[str, Callable[[RecoveryState], Seen]]] = {
    "well": _see(),
    "well, with a gang": _see(gangs=(gang("on", 3),)),
    "well, its agent has not run since": _see(lease_renewed_at=SINCE),
    "well, no agent reports": _see(lease_renewed_at=None),
    "faulty": _see(faults=(XID,)),
    "faulty, a gang on the device, one beside it": _see(
        faults=(XID,), gangs=(gang("on", 3), gang("beside", 0))
    ),
    "faulty, a gang that is leaving": _see(faults=(XID,), gangs=(gang("on", 3, leaving=True),)),
    "faulty, foreign pods": _see(faults=(XID,), foreign_pods=1),
    "faulty, only a person ends it": _see(faults=(fault_of(LOST, MARKED),)),
    "faulty, not ready": _see(faults=(XID,), ready=False),
    "faulty, drain time is over": _drain_time_is_over,
    "faulty, verify time is over": _verify_time_is_over,
    "faulty, attempts used up": _attempts_used_up,
    "faulty, no recovery Job in the policy": _no_recovery_job,
    "kills pods": _see(black_hole=HOLE),
    "kills pods, Job succeeded": _job(JobProgress.SUCCEEDED, black_hole=HOLE),
    "Job runs, faulty": _job(JobProgress.RUNNING, faults=(XID,)),
    "Job runs, well": _job(JobProgress.RUNNING),
    "Job runs too long": _job_takes_too_long,
    "Job succeeded, faulty": _job(JobProgress.SUCCEEDED, faults=(XID,)),
    "Job succeeded, well": _job(JobProgress.SUCCEEDED),
    "Job failed, faulty": _job(JobProgress.FAILED, faults=(XID,)),
    "Job failed, well": _job(JobProgress.FAILED),
    "Job is gone, faulty": _job_is_gone,
    "hold": _see(faults=(XID,), gangs=(gang("on", 3),), hold=True),
    "taint removed by hand": _see(faults=(XID,), taint=TaintOwner.ABSENT),
    "policy reports": _report,
    "order cordon": _see(order="cordon"),
    "order drain": _see(order="drain"),
    "order recover": _see(order="recover"),
    "order verify": _see(order="verify"),
    "order done": _see(faults=(XID,), order="done"),
    "order unknown": _see(order="repair"),
}


def told(turn: RecoveryTurn, attempts: int) -> str:
    """The phase afterwards, then what is done: the taint that is written with the annotation, Jobs, gangs."""
    words = [turn.state.phase.value]
    if turn.state.attempts != attempts:
        words.append(f"attempt {turn.state.attempts}")
    for effect in turn.effects:
        match effect:
            case WriteNode():
                words.append("+taint" if effect.tainted else "-taint")
            case CreateJob():
                words.append(f"create {effect.template}")
            case DeleteJob():
                words.append("delete Job")
            case EvictGangs():
                words.append("evict " + " ".join(key.uid for key in effect.gangs))
            case TryNode():
                words.append("try")
    return ", ".join(words)


#: Phase → what is seen → the phase afterwards and what is done. A node begins in its first attempt, NONE without one.
TABLE: Final[dict[RecoveryPhase, dict[str, str]]] = {
    RecoveryPhase.NONE: {
        "well": "none",
        "well, with a gang": "none",
        "well, its agent has not run since": "none",
        "well, no agent reports": "none",
        "faulty": "cordoned, +taint",
        "faulty, a gang on the device, one beside it": "cordoned, +taint",
        "faulty, a gang that is leaving": "cordoned, +taint",
        "faulty, foreign pods": "cordoned, +taint",
        "faulty, only a person ends it": "cordoned, +taint",
        "faulty, not ready": "cordoned, +taint",
        "faulty, drain time is over": "cordoned, +taint",
        "faulty, verify time is over": "cordoned, +taint",
        "faulty, attempts used up": "cordoned, +taint",
        "faulty, no recovery Job in the policy": "cordoned, +taint",
        "kills pods": "cordoned, +taint",
        "kills pods, Job succeeded": "cordoned, +taint",
        "Job runs, faulty": "cordoned, +taint",
        "Job runs, well": "none",
        "Job runs too long": "cordoned, +taint",
        "Job succeeded, faulty": "cordoned, +taint",
        "Job succeeded, well": "none",
        "Job failed, faulty": "cordoned, +taint",
        "Job failed, well": "none",
        "Job is gone, faulty": "cordoned, +taint",
        "hold": "none",
        "taint removed by hand": "cordoned, +taint",
        "policy reports": "none",
        "order cordon": "cordoned, +taint",
        "order drain": "draining, +taint",
        "order recover": "recovering, attempt 1, +taint",
        "order verify": "verifying, +taint",
        "order done": "none, -taint",
        "order unknown": "none, -taint",
    },
    RecoveryPhase.CORDONED: {
        "well": "verifying, +taint",
        "well, with a gang": "verifying, +taint",
        "well, its agent has not run since": "verifying, +taint",
        "well, no agent reports": "verifying, +taint",
        "faulty": "draining, +taint",
        "faulty, a gang on the device, one beside it": "draining, +taint",
        "faulty, a gang that is leaving": "draining, +taint",
        "faulty, foreign pods": "draining, +taint",
        "faulty, only a person ends it": "draining, +taint",
        "faulty, not ready": "draining, +taint",
        "faulty, drain time is over": "draining, +taint",
        "faulty, verify time is over": "draining, +taint",
        "faulty, attempts used up": "draining, +taint",
        "faulty, no recovery Job in the policy": "draining, +taint",
        "kills pods": "draining, +taint",
        "kills pods, Job succeeded": "draining, +taint",
        "Job runs, faulty": "draining, +taint",
        "Job runs, well": "verifying, +taint",
        "Job runs too long": "draining, +taint",
        "Job succeeded, faulty": "draining, +taint",
        "Job succeeded, well": "verifying, +taint",
        "Job failed, faulty": "draining, +taint",
        "Job failed, well": "verifying, +taint",
        "Job is gone, faulty": "draining, +taint",
        "hold": "cordoned",
        "taint removed by hand": "none, -taint",
        "policy reports": "none, -taint",
        "order cordon": "cordoned, +taint",
        "order drain": "draining, +taint",
        "order recover": "recovering, attempt 2, +taint",
        "order verify": "verifying, +taint",
        "order done": "none, -taint",
        "order unknown": "cordoned, +taint",
    },
    RecoveryPhase.DRAINING: {
        "well": "verifying, +taint",
        "well, with a gang": "verifying, +taint",
        "well, its agent has not run since": "verifying, +taint",
        "well, no agent reports": "verifying, +taint",
        "faulty": "recovering, attempt 2, +taint",
        "faulty, a gang on the device, one beside it": "draining, evict on",
        "faulty, a gang that is leaving": "draining",
        "faulty, foreign pods": "draining, +taint",
        "faulty, only a person ends it": "draining, +taint",
        "faulty, not ready": "recovering, attempt 2, +taint",
        "faulty, drain time is over": "draining, evict beside",
        "faulty, verify time is over": "recovering, attempt 2, +taint",
        "faulty, attempts used up": "failed, +taint",
        "faulty, no recovery Job in the policy": "recovering, attempt 2, +taint",
        "kills pods": "recovering, attempt 2, +taint",
        "kills pods, Job succeeded": "recovering, attempt 2, +taint",
        "Job runs, faulty": "recovering, attempt 2, +taint",
        "Job runs, well": "verifying, +taint",
        "Job runs too long": "recovering, attempt 2, +taint",
        "Job succeeded, faulty": "recovering, attempt 2, +taint",
        "Job succeeded, well": "verifying, +taint",
        "Job failed, faulty": "recovering, attempt 2, +taint",
        "Job failed, well": "verifying, +taint",
        "Job is gone, faulty": "recovering, attempt 2, +taint",
        "hold": "draining",
        "taint removed by hand": "none, -taint",
        "policy reports": "none, -taint",
        "order cordon": "cordoned, +taint",
        "order drain": "draining, +taint",
        "order recover": "recovering, attempt 2, +taint",
        "order verify": "verifying, +taint",
        "order done": "none, -taint",
        "order unknown": "draining, +taint",
    },
    RecoveryPhase.RECOVERING: {
        "well": "verifying, attempt 0, +taint",
        "well, with a gang": "verifying, attempt 0, +taint",
        "well, its agent has not run since": "verifying, attempt 0, +taint",
        "well, no agent reports": "verifying, attempt 0, +taint",
        "faulty": "recovering, create ops/recover-gpu",
        "faulty, a gang on the device, one beside it": "draining, attempt 0, +taint",
        "faulty, a gang that is leaving": "draining, attempt 0, +taint",
        "faulty, foreign pods": "draining, attempt 0, +taint",
        "faulty, only a person ends it": "draining, attempt 0, +taint",
        "faulty, not ready": "recovering, +taint",
        "faulty, drain time is over": "draining, attempt 0, +taint",
        "faulty, verify time is over": "recovering, create ops/recover-gpu",
        "faulty, attempts used up": "recovering, create ops/recover-gpu",
        "faulty, no recovery Job in the policy": "recovering",
        "kills pods": "recovering, create ops/recover-gpu",
        "kills pods, Job succeeded": "verifying, +taint",
        "Job runs, faulty": "recovering, +taint",
        "Job runs, well": "recovering, +taint",
        "Job runs too long": "recovering, attempt 2, +taint, delete Job",
        "Job succeeded, faulty": "verifying, +taint",
        "Job succeeded, well": "verifying, +taint",
        "Job failed, faulty": "recovering, +taint",
        "Job failed, well": "verifying, +taint",
        "Job is gone, faulty": "recovering, attempt 2, +taint",
        "hold": "recovering",
        "taint removed by hand": "none, -taint",
        "policy reports": "none, -taint",
        "order cordon": "cordoned, +taint",
        "order drain": "draining, +taint",
        "order recover": "recovering, attempt 2, +taint",
        "order verify": "verifying, +taint",
        "order done": "none, -taint",
        "order unknown": "recovering, +taint",
    },
    RecoveryPhase.VERIFYING: {
        "well": "verifying, create ops/test-gpu",
        "well, with a gang": "none, -taint",
        "well, its agent has not run since": "verifying",
        "well, no agent reports": "verifying",
        "faulty": "verifying",
        "faulty, a gang on the device, one beside it": "draining, +taint",
        "faulty, a gang that is leaving": "draining, +taint",
        "faulty, foreign pods": "verifying",
        "faulty, only a person ends it": "draining, +taint",
        "faulty, not ready": "verifying",
        "faulty, drain time is over": "draining, +taint",
        "faulty, verify time is over": "recovering, attempt 2, +taint",
        "faulty, attempts used up": "verifying",
        "faulty, no recovery Job in the policy": "verifying",
        "kills pods": "verifying, create ops/test-gpu",
        "kills pods, Job succeeded": "none, -taint, try",
        "Job runs, faulty": "recovering, attempt 2, +taint, delete Job",
        "Job runs, well": "verifying, +taint",
        "Job runs too long": "recovering, attempt 2, +taint, delete Job",
        "Job succeeded, faulty": "recovering, attempt 2, +taint",
        "Job succeeded, well": "none, -taint",
        "Job failed, faulty": "recovering, attempt 2, +taint",
        "Job failed, well": "recovering, attempt 2, +taint",
        "Job is gone, faulty": "recovering, attempt 2, +taint",
        "hold": "verifying",
        "taint removed by hand": "none, -taint",
        "policy reports": "none, -taint",
        "order cordon": "cordoned, +taint",
        "order drain": "draining, +taint",
        "order recover": "recovering, attempt 2, +taint",
        "order verify": "verifying, +taint",
        "order done": "none, -taint",
        "order unknown": "verifying, +taint",
    },
    RecoveryPhase.FAILED: {
        "well": "verifying, +taint",
        "well, with a gang": "verifying, +taint",
        "well, its agent has not run since": "failed",
        "well, no agent reports": "failed",
        "faulty": "failed",
        "faulty, a gang on the device, one beside it": "failed, evict on",
        "faulty, a gang that is leaving": "failed",
        "faulty, foreign pods": "failed",
        "faulty, only a person ends it": "failed",
        "faulty, not ready": "failed",
        "faulty, drain time is over": "failed",
        "faulty, verify time is over": "failed",
        "faulty, attempts used up": "failed",
        "faulty, no recovery Job in the policy": "failed",
        "kills pods": "failed",
        "kills pods, Job succeeded": "failed",
        "Job runs, faulty": "failed",
        "Job runs, well": "verifying, +taint",
        "Job runs too long": "failed",
        "Job succeeded, faulty": "failed",
        "Job succeeded, well": "verifying, +taint",
        "Job failed, faulty": "failed",
        "Job failed, well": "verifying, +taint",
        "Job is gone, faulty": "failed",
        "hold": "failed",
        "taint removed by hand": "none, -taint",
        "policy reports": "none, -taint",
        "order cordon": "cordoned, +taint",
        "order drain": "draining, +taint",
        "order recover": "recovering, attempt 2, +taint",
        "order verify": "verifying, +taint",
        "order done": "none, -taint",
        "order unknown": "failed, +taint",
    },
}


@pytest.mark.parametrize("phase", RecoveryPhase)
def test_what_follows(phase: RecoveryPhase) -> None:
    follows = {}
    for seen, shows in SEEN.items():
        known = state(phase)
        shown = shows(known)
        follows[seen] = told(step(shown.view, CONTEXT, shown.policy, NOW), known.attempts)
    assert follows == TABLE[phase]

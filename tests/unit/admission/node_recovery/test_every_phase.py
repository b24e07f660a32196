"""Every phase of a node's recovery and everything that may be seen of the node: what follows. The table is complete."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest
from msgspec import structs

from admission.node_recovery.state import RecoveryPhase, RecoveryState, read_state
from admission.node_recovery.step import (
    ATTEMPTS,
    DRAIN_TIMEOUT,
    JOB_TIMEOUT,
    SETTLE_TIMEOUT,
    NodeTurn,
    NodeView,
)
from queues.quota.queue import NodeRecoveryRules
from tests.unit.admission.node_recovery.recovered_nodes import (
    LOST,
    MARKED,
    NOW,
    RULES,
    SINCE,
    XID,
    fault_of,
    gang,
    state,
    turn,
    view,
    with_job,
)


class Seen(NamedTuple):
    """What is seen of a node in a phase, the rules, and when."""

    view: NodeView
    rules: NodeRecoveryRules = RULES
    now: int = NOW


def _see(rules: NodeRecoveryRules = RULES, now: int = NOW, **more: Any) -> Callable[[RecoveryState], Seen]:
    return lambda known: Seen(view(known, **more), rules, now)


def _job(succeeded: bool | None, now: int = NOW, **more: Any) -> Callable[[RecoveryState], Seen]:
    return lambda known: Seen(view(known, jobs=with_job(known, succeeded), **more), now=now)


def _known(seen: Callable[[RecoveryState], Seen], **changes: Any) -> Callable[[RecoveryState], Seen]:
    return lambda known: seen(structs.replace(known, **changes))


TIMED_OUT: Final = SINCE + 1 + JOB_TIMEOUT

SEEN: Final[dict[str, Callable[[RecoveryState], Seen]]] = {
    "well": _see(),
    "well, with a gang": _see(gangs=(gang("on", 3),)),
    "well, no agent reports": _see(reported=frozenset({"GPU-4"})),
    "well, its test failed": _known(_see(), test_failed=True),
    "well, its test failed, no repair Job in the policy": _known(
        _see(replace(RULES, job=None)), test_failed=True
    ),
    "faulty": _see(faults=(XID,)),
    "faulty, too many nodes are out": _see(faults=(XID,), held_back="3 nodes out of service"),
    "faulty, a gang on the device, one beside it": _see(
        faults=(XID,), gangs=(gang("on", 3), gang("beside", 0))
    ),
    "faulty, foreign pods": _see(faults=(XID,), foreign_pods=1),
    "faulty, only a person ends it": _see(faults=(fault_of(LOST, MARKED),)),
    "faulty, not ready": _see(faults=(XID,), ready=False),
    "faulty, drain time is over": _see(now=SINCE + DRAIN_TIMEOUT, faults=(XID,), gangs=(gang("beside", 0),)),
    "faulty, time to settle is over": _see(now=SINCE + SETTLE_TIMEOUT, faults=(XID,)),
    "faulty, attempts used up": _known(_see(faults=(XID,)), attempts=ATTEMPTS),
    "faulty, no repair Job in the policy": _see(replace(RULES, job=None), faults=(XID,)),
    "kills pods": _see(kills_pods="pods of 3 gangs failed"),
    "kills pods, Job succeeded": _job(True, kills_pods="pods of 3 gangs failed"),
    "Job runs, faulty": _job(None, faults=(XID,)),
    "Job runs, well": _job(None),
    "Job runs too long": _job(None, TIMED_OUT, faults=(XID,)),
    "Job runs too long, well": _job(None, TIMED_OUT),
    "Job succeeded, faulty": _job(True, faults=(XID,)),
    "Job succeeded, well": _job(True),
    "Job failed, faulty": _job(False, faults=(XID,)),
    "Job failed, well": _job(False),
    "taint removed by hand": _see(faults=(XID,), taint=None),
    "policy reports": _see(replace(RULES, recovers=False), faults=(XID,)),
}


def shown(found: NodeTurn, attempts: int) -> str:
    """The phase afterwards, then what is done: the taint that is written with the annotation, Jobs, gangs."""
    words = [found.state.phase.value]
    if found.state.attempts != attempts:
        words.append(f"{found.state.attempts} attempts over")
    if found.state.waits:
        words.append(f"waits for {found.state.waits}")
    if found.evicted:
        words.append("evict " + " ".join(key.uid for key in found.evicted))
    if found.writes:
        words.append("+taint" if found.state.phase.is_out else "-taint")
    if found.creates is not None:
        words.append(f"create from {found.creates.template}")
    return ", ".join([*words, *(["delete Job"] if found.deletes else [])])


@pytest.mark.parametrize("phase", RecoveryPhase)
def test_what_follows(phase: RecoveryPhase, golden: dict[str, str]) -> None:
    """By what is seen: the phase afterwards and what is done. One attempt is over, NONE begins without one."""
    follows = {}
    for seen, shows in SEEN.items():
        found = shows(state(phase))
        before = read_state(found.view.annotation)
        follows[seen] = shown(turn(found.view, found.rules, found.now), before.attempts)
    assert follows == golden

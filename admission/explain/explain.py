"""Why one workload waits: its position, what it waits behind, and the smallest changes that would let it in.

Derived on request from a Snapshot and its Plan alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from admission.engine.forced_changes import SeatLookup
from admission.engine.memo import EngineState
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from admission.explain.suggestions import suggestions
from queues.order.line import Line
from queues.plan import Plan
from queues.quota.usage import Usage
from queues.read_api.bodies import ChangeBody
from queues.text_format import listed
from queues.workload import Workload, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """Why one pending workload waits."""

    #: 1-based, among the workloads of its queue that are tried. None if the workload is not tried as it is.
    position: int | None
    #: Workloads of the queue that are tried. None if this one is not.
    queue_length: int | None
    #: What the workload waits behind, as a sentence; "": nothing.
    behind: str
    #: The smallest first; empty: no known change lets the workload in.
    changes: tuple[ChangeBody, ...]


def explain(
    snapshot: Snapshot, plan: Plan, key: WorkloadKey, classes: Mapping[str, int] = MappingProxyType({})
) -> Explained | None:
    """Why a workload waits after a turn. None if it does not wait. ``classes``: the priority classes that users may
    name."""
    workload = snapshot.pending.get(key)
    reason = plan.reasons.get(key)
    if workload is None or reason is None:
        return None
    line = _in_line(snapshot, workload)
    index = line.index(key) if key in line else None
    before = [] if index is None else line[:index]
    next_snapshot = snapshot.after(plan)
    waiting = sum(each.queue == workload.queue for each in snapshot.pending.values())
    return Explained(
        position=None if index is None else index + 1,
        queue_length=None if index is None else len(line),
        behind=_behind(
            next_snapshot,
            workload,
            [snapshot.pending[each] for each in before],
            all_tried=len(line) == waiting,
        ),
        changes=tuple(suggestions(next_snapshot, workload, reason, classes)),
    )


def _in_line(snapshot: Snapshot, workload: Workload) -> list[WorkloadKey]:
    """Workloads of its queue that are tried, in the order in which the engine tries them."""
    own = {key: each for key, each in snapshot.pending.items() if each.queue == workload.queue}
    alone = replace(snapshot, pending=own)
    state = EngineState.of(alone)
    usage, pending = Usage(state.tree), state.pending
    seats = SeatLookup(alone, state.open_admissions)
    pending.update(state.dirty_workloads, alone, seats, Trial.open(snapshot.nodes, usage))
    of_queue = pending.classes.get(workload.queue, {}).values()
    classes = [each.class_queue for each in of_queue if each.is_considered]
    line = Line(usage, classes, snapshot.now, users=state.users)
    found = []
    while (class_queue := line.head()) is not None:
        found.append(class_queue.head().workload.key)
        line.admitted()
    return found


def _behind(snapshot: Snapshot, workload: Workload, before: Sequence[Workload], *, all_tried: bool) -> str:
    """``all_tried``: of its queue. Places that lists of waiting work show count the others too."""
    parts = []
    if before:
        which = "" if all_tried else " that can be tried now"
        parts.append(
            f"{len(before)} before it in queue {workload.queue}{which}, right before it {before[-1]}"
        )
    others = [key for key in snapshot.claims if key != workload.key]
    if others:
        known = [snapshot.pending.get(key) or snapshot.holders.get(key) or key for key in sorted(others)]
        promised = listed([str(each) for each in known])
        parts.append(f"space is promised to {promised}")
    return "; ".join(parts)

"""``muster`` with a planted bug: gangs are let in piece by piece. The check of whole gangs must notice it."""

import sys
from dataclasses import replace

from admission.cli.muster import main
from admission.engine import decide as engine
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.plan_limit import Progress
from admission.engine.snapshot import Snapshot
from queues.plan import Plan
from queues.workload import Workload


def one_is_enough(workload: Workload) -> Workload:
    """The same with a gang of one pod."""
    pod_sets = tuple(replace(pods, minimum=0) for pods in workload.pod_sets)
    return replace(workload, minimum=1, pod_sets=pod_sets)


def decide_wrongly(snapshot: Snapshot, memo: Memo, limit: int, *, progress: Progress) -> tuple[Plan, Memo]:
    pending = {key: one_is_enough(workload) for key, workload in snapshot.pending.items()}
    return decide(replace(snapshot, pending=pending), memo, limit, progress=progress)


if __name__ == "__main__":
    engine.decide = decide_wrongly  # type: ignore[assignment]
    sys.exit(main())

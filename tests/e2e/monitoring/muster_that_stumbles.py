"""``muster`` of which the engine fails on workloads with a certain name, as on an object that it cannot handle."""

import sys
from typing import Any, Final

from admission.cli.muster import main
from admission.engine import decide as engine
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.plan import Plan

NAME: Final = "stumbles"


def decide_or_fail(snapshot: Snapshot, *rest: Any, **more: Any) -> tuple[Plan, Memo]:
    """Raises ZeroDivisionError as long as such a workload is pending."""
    if any(workload.name == NAME for workload in snapshot.pending.values()):
        raise ZeroDivisionError
    return decide(snapshot, *rest, **more)


if __name__ == "__main__":
    engine.decide = decide_or_fail
    sys.exit(main())

"""``muster`` with an engine that fails on workloads with one name, and is slow while one with another name waits."""

import sys
import time
from typing import Any, Final

from admission.cli.muster import main
from admission.engine import decide as engine
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.plan import Plan

#: The engine fails on it, as on an object that it cannot handle.
NAME: Final = "stumbles"
#: While it is pending a decision takes so many seconds longer, as with too little processor time.
SLOW: Final = "dawdles"
SECONDS: Final = 1.5


def decide_badly(snapshot: Snapshot, *rest: Any, **more: Any) -> tuple[Plan, Memo]:
    """Raises ZeroDivisionError as long as a workload of that name is pending."""
    pending = {workload.name for workload in snapshot.pending.values()}
    if NAME in pending:
        raise ZeroDivisionError
    if SLOW in pending:
        time.sleep(SECONDS)
    return decide(snapshot, *rest, **more)


if __name__ == "__main__":
    engine.decide = decide_badly
    sys.exit(main())

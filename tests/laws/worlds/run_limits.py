"""Worlds in which queues limit how long work may run, and work declares how long it will."""

from dataclasses import replace

from hypothesis import strategies as st

from admission.engine.snapshot import Snapshot
from queues.quota.queue import ROOT, Queue
from queues.workload import Workload
from tests.laws.worlds.snapshots import snapshots

#: Seconds.
LIMITS = (None, None, 60, 600, 3600)
DECLARED = (None, 1, 60, 61, 600, 4000)


@st.composite
def run_limited(draw: st.DrawFn) -> Snapshot:
    """A world with limits in some queues, perhaps in root."""
    snapshot = draw(snapshots())
    queues = {
        name: replace(queue, max_run_time=draw(st.sampled_from(LIMITS)))
        for name, queue in snapshot.queues.items()
    }
    if draw(st.integers(0, 4)) == 0:
        root = queues.get(ROOT, Queue(name=ROOT, parent=None))
        queues[ROOT] = replace(root, max_run_time=draw(st.sampled_from(LIMITS)))

    def declaring(workload: Workload) -> Workload:
        return replace(workload, run_time=draw(st.sampled_from(DECLARED)))

    return replace(
        snapshot,
        queues=queues,
        pending={key: declaring(each) for key, each in sorted(snapshot.pending.items())},
    )

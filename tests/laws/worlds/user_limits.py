"""Worlds in which queues limit what one user may use."""

from dataclasses import replace

from hypothesis import strategies as st

from admission.engine.snapshot import Snapshot
from queues.quota.queue import ROOT, Queue
from queues.workload import Workload
from tests.laws.worlds.snapshots import CPU, GPU, snapshots

USERS = ("", "ann", "ann", "bob")
LIMITS = ({}, {GPU: 1000}, {GPU: 2000}, {GPU: 4000, CPU: 3000}, {CPU: 2000})


@st.composite
def user_limited(draw: st.DrawFn, worlds: st.SearchStrategy[Snapshot] | None = None) -> Snapshot:
    """A world with limits per user in some queues; what runs may exceed them, as after a change of limits."""
    snapshot = draw(snapshots() if worlds is None else worlds)
    queues = {
        name: replace(queue, max_per_user=draw(st.sampled_from(LIMITS)))
        for name, queue in snapshot.queues.items()
    }
    if draw(st.integers(0, 4)) == 0:
        queues[ROOT] = replace(
            queues.get(ROOT, Queue(name=ROOT, parent=None)), max_per_user=draw(st.sampled_from(LIMITS))
        )
    keys = sorted({*snapshot.pending, *(each.workload for each in snapshot.admissions.values())})
    users = {key: draw(st.sampled_from(USERS)) for key in keys}

    def owned(workload: Workload) -> Workload:
        return replace(workload, user=users.get(workload.key, ""))

    return replace(
        snapshot,
        queues=queues,
        pending={key: owned(each) for key, each in snapshot.pending.items()},
        holders={key: owned(each) for key, each in snapshot.holders.items()},
        admissions={
            number: replace(each, user=users[each.workload]) for number, each in snapshot.admissions.items()
        },
    )

"""Gangs that lost members and find no room for others where they run: they start again whole."""

from collections.abc import Iterable, Sequence

from admission.engine.nodes.host_ports import ports_of
from admission.engine.placement.gangs import all_or_none
from admission.engine.placement.need import MissingMembers, missing_members
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import Admission, AdmissionState
from queues.plan import Evict, Reason
from queues.quota.accounts import charges
from queues.reason_codes import ReasonCode
from queues.workload import Workload


def restart_gang(
    snapshot: Snapshot, refused: Iterable[tuple[Workload, MissingMembers]], trial: Trial
) -> tuple[Evict, ...]:
    """Evictions of the first refused gang that lost members and can start again whole. Empty: there is none.

    Seated pods bind the missing ones to their domain and flavor, where there may be no room. The gang is evicted only
    if all of it, with its own seats freed, fits now: so it starts again at once. One gang a turn, since two may count
    on the same place. The trial is left as it was.
    """
    for workload, need in refused:
        if need.minimum and need.seated:
            own = sorted(
                (each for each in snapshot.admissions.values() if each.workload == workload.key),
                key=lambda each: each.id,
            )
            if _fits_whole(workload, own, trial):
                message = (
                    "it lost members, and there is no room for others where it runs; it starts again whole"
                )
                code = ReasonCode.TAKEN_BACK
                return tuple(Evict(admission=each.id, code=code, message=message) for each in own)
    return ()


def _fits_whole(workload: Workload, own: Sequence[Admission], trial: Trial) -> bool:
    """Whether the whole gang has a place once its seats are freed."""
    if not all(each.started and each.state is AdmissionState.OPEN for each in own):
        return False  # a gang that has not fully started is rolled back anyway
    if any(each.generation != workload.generation for each in own):
        return False  # the gang lost no members: it asks for more
    held = [(each.queue, each.holding()) for each in own]
    booked = [(queue, charges(seats), seats, ports_of(workload, seats)) for queue, seats in held]
    for each in booked:
        trial.remove_seats(*each)
    mark = trial.mark()
    whole = missing_members(workload, ())
    found = all_or_none(workload, whole, whole.missing, trial)
    if isinstance(found, Reason):
        found = all_or_none(workload, whole, whole.minimum, trial)
    trial.undo(mark)
    for each in booked:
        trial.remove_seats(*each, times=-1)
    return not isinstance(found, Reason)

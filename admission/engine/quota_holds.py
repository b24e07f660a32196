"""Quota for gangs whose pods are not made yet (``muster.dev/hold-min-resources``).

Some operators make the pods of a PodGroup when it is said to be Inqueue. Before the last pod is there others could take
the quota that was free then. A gang that asks for it gets a claim on its ``minResources``, on no node: once, when its
queue has them, for as long as it says. No workload is evicted for that, and no place is kept.
"""

from admission.engine import reasons
from admission.engine.claims import HeldClaims
from admission.engine.pending.pending import PendingWorkloads
from admission.engine.pending.waiting_time import arrival_order
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import Claim, Seat
from queues.plan import Reason
from queues.quota.accounts import charges
from queues.workload import NO_FLAVOR, NodeName, Workload, WorkloadKey


def hold_quota(
    snapshot: Snapshot, pending: PendingWorkloads, held: HeldClaims, trial: Trial, *, may_grant: bool
) -> tuple[list[Claim], dict[WorkloadKey, Reason]]:
    """New claims, charged in the trial, and why each gang that awaits its pods waits.

    By priority, then by arrival. ``may_grant`` False: nothing new is held in this turn. To be called when all else of
    the turn is decided.
    """
    new: list[Claim] = []
    told: dict[WorkloadKey, Reason] = {}
    for workload in sorted(pending.awaiting_pods.values(), key=_order):
        key = workload.key
        claim = snapshot.claims.get(key)
        if claim is not None and key in held.claims:
            told[key] = _held(workload, claim)
        elif claim is not None and key not in held.dropped:
            told[key] = reasons.hold_ended(_lack(workload), claim.until)
        elif (refusal := _refusal(workload, pending, trial)) is not None:
            told[key] = refusal
        elif not may_grant:
            told[key] = _lack(workload)
        elif isinstance(answer := _grant(workload, snapshot, trial), Claim):
            new.append(answer)
            told[key] = _held(workload, answer)
        else:
            told[key] = answer
    return new, told


def _order(workload: Workload) -> tuple[int, tuple[int, WorkloadKey]]:
    return -workload.priority, arrival_order(workload)


def _refusal(workload: Workload, pending: PendingWorkloads, trial: Trial) -> Reason | None:
    """Why nothing is held for a gang, whatever is free. None if it may be."""
    assert workload.hold is not None
    return pending.queue_refusal(workload) or pending.never_granted(workload, workload.hold.takes, trial)


def _grant(workload: Workload, snapshot: Snapshot, trial: Trial) -> Claim | Reason:
    """A claim on what a gang asks to be kept, or why it gets none now."""
    assert workload.hold is not None
    hits = []
    # The flavor of its nodes is not known before it has pods: any that has the quota will do.
    for flavor in trial.tree.flavors(workload.queue) or (NO_FLAVOR,):
        seat = Seat(pod_set="", ordinal=0, node=NodeName(""), flavor=flavor, takes=workload.hold.takes)
        amounts = charges((seat,))
        hit = trial.usage.refusal(workload.queue, amounts)
        if hit is not None:
            hits.append(hit)
            continue
        if (of_user := trial.user_hit(workload, amounts)) is not None:
            return reasons.use_per_user(of_user)
        trial.usage.add(workload.queue, amounts)
        trial.post_to_user(workload.queue, workload.user, amounts)
        return Claim(
            workload=workload.key,
            queue=workload.queue,
            generation=workload.generation,
            seats=(seat,),
            victims=(),
            until=snapshot.now + workload.hold.seconds,
        )
    return reasons.queue_limit(hits[0])


def _held(workload: Workload, claim: Claim) -> Reason:
    assert workload.hold is not None
    return reasons.quota_held(_lack(workload), workload.queue, workload.hold.takes, claim.until)


def _lack(workload: Workload) -> Reason:
    """What it waits for."""
    assert workload.obstacle is not None
    return Reason(code=workload.obstacle.code, message=workload.obstacle.message)

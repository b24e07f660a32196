"""Which flavor: the queue's flavors in order, in each the quota first, then nodes.

Pod sets that are placed together are of one flavor, and so are all pods of a set: a gang on two kinds of
hardware goes at the pace of the slower one, and quota is asked for one kind. ``flavorChoice`` says whether
the next flavor is looked at before this one is borrowed (``beforeBorrowing``) or, where nothing is free,
before somebody is preempted in it (``beforePreempting``): ``try-next`` or ``stop``.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.table import Mask
from admission.engine.placement.co_location import seat_together
from admission.engine.placement.pod_set import NodeScope, PodSetRequest
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.plan import Reason
from queues.quota.accounts import Account, flavor_charges, pod_charges
from queues.quota.queue import ROOT
from queues.quota.usage import LimitHit
from queues.reason_codes import ReasonCode
from queues.resources import total
from queues.workload import NO_FLAVOR, FlavorName, QueueName


def seat(
    trial: Trial, queue: QueueName, wants: Sequence[PodSetRequest], inside: Mask | None = None
) -> list[Seat] | Reason:
    """Seats for everything that is wanted, taken in the trial; else the reason, with nothing taken.

    ``wants``: one pod set, or several that go together. A queue without flavors uses any node, and is charged
    in the flavor of each. ``inside``: nodes that may be used; None: all.
    """
    flavors = trial.tree.flavors(queue)
    if not flavors:
        return seat_together(_where(trial, queue, inside, None), wants)
    offered = _like_the_others(trial, wants, flavors)
    policy = trial.tree.policy(queue)
    refusals: list[Reason] = []
    borrowed: FlavorName | None = None
    for flavor in offered:
        mark = trial.mark()
        answer = _in_flavor(trial, queue, wants, inside, flavor)
        if isinstance(answer, Reason):
            refusals.append(answer)
            if policy.before_preempting == "stop" and _could_preempt(trial, queue, wants, inside, flavor):
                break
        elif policy.before_borrowing == "stop" or not _borrows(trial, queue, wants, flavor):
            return answer
        else:
            trial.undo(mark)
            borrowed = borrowed or flavor
    if borrowed is not None:
        return _in_flavor(trial, queue, wants, inside, borrowed)
    # What comes last on the way in says most: a quota that has room is of no use without nodes.
    placed = [each for each in refusals if each.code != ReasonCode.QUEUE_LIMIT]
    return _elsewhere(trial, wants, inside, offered, len(refusals), (placed or refusals)[0])


def quota_hit(trial: Trial, queue: QueueName, amounts: Mapping[Account, int]) -> LimitHit | None:
    """A limit that is broken wherever the pods go.

    That the cluster as a whole is full is not told here: the search for nodes says it better.
    """
    hit = trial.usage.refusal(queue, amounts)
    return None if hit is not None and hit.queue == ROOT and not hit.kept else hit


def _in_flavor(
    trial: Trial, queue: QueueName, wants: Sequence[PodSetRequest], inside: Mask | None, flavor: FlavorName
) -> list[Seat] | Reason:
    hit = quota_hit(trial, queue, _asked(wants, flavor))
    if hit is not None:
        return reasons.queue_limit(hit)
    return seat_together(_where(trial, queue, inside, flavor), wants)


def _where(trial: Trial, queue: QueueName, inside: Mask | None, flavor: FlavorName | None) -> NodeScope:
    """Nodes of the flavor among those that may be used."""
    mask = np.ones(len(trial.table), np.bool_) if flavor is None else trial.layout.of_flavor(flavor)
    named = (flavor,) if inside is None else None
    return NodeScope(trial, queue, mask if inside is None else mask & inside, named)


def _asked(wants: Sequence[PodSetRequest], flavor: FlavorName) -> Mapping[Account, int]:
    if len(wants) == 1:
        return pod_charges(wants[0].pods.takes, flavor, len(wants[0].ordinals))
    return flavor_charges({flavor: total(want.pods.takes * len(want.ordinals) for want in wants)})


def _like_the_others(
    trial: Trial, wants: Sequence[PodSetRequest], flavors: tuple[FlavorName, ...]
) -> tuple[FlavorName, ...]:
    """Flavors to try: those of the members that sit already, if there are any."""
    theirs = {
        trial.table.flavor(node) for want in wants for node in want.seated.values() if node in trial.table
    }
    return tuple(flavor for flavor in flavors if flavor in theirs) or flavors


def _borrows(trial: Trial, queue: QueueName, wants: Sequence[PodSetRequest], flavor: FlavorName) -> bool:
    """Whether the queue, with these seats taken, uses more of the flavor than it deserves."""
    return any(
        trial.usage.used(queue, account) > trial.tree.deserved(queue, account)
        for account, units in _asked(wants, flavor).items()
        if units > 0 and account.flavor != NO_FLAVOR
    )


def _could_preempt(
    trial: Trial, queue: QueueName, wants: Sequence[PodSetRequest], inside: Mask | None, flavor: FlavorName
) -> bool:
    """Whether they would fit into the flavor if nobody else was there: then somebody can be asked to go."""
    for account, units in _asked(wants, flavor).items():
        for name in trial.tree.paths[queue]:
            limit = trial.tree.capability(name, account)
            if units > 0 and limit is not None and units > limit:
                return False
    mask = _where(trial, queue, inside, flavor).mask
    return all(
        int((trial.pods_per_empty_node(want.pods.takes, want.pods.nodes) * mask).sum()) >= len(want.ordinals)
        for want in wants
    )


def _elsewhere(
    trial: Trial,
    wants: Sequence[PodSetRequest],
    inside: Mask | None,
    flavors: Sequence[FlavorName],
    tried: int,
    reason: Reason,
) -> Reason:
    """Says so if a flavor that was not tried has room for a pod set, or only the flavors together have."""
    if len(flavors) < 2 or len(wants) > 1 or reason.code != ReasonCode.NO_FIT:
        return reason
    want = wants[0]
    room = _where(trial, QueueName(""), inside, None).pods_per_node(want.pods)
    fits = {flavor: int((room * trial.layout.of_flavor(flavor)).sum()) for flavor in flavors}
    whole = [flavor for flavor in flavors if fits[flavor] >= len(want.ordinals)]
    if whole:
        return (
            reasons.stopped(reason, flavors[tried - 1], whole[0]) if whole[0] in flavors[tried:] else reason
        )
    fits = {flavor: fit for flavor, fit in fits.items() if fit}
    return reason if sum(fits.values()) < len(want.ordinals) else reasons.not_split(reason, fits)

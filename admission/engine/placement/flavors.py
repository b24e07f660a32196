"""The choice of a flavor: the queue's flavors in order, in each the quota first, then the nodes.

Pod sets that are placed together are of one flavor, and so are all pods of a set: a gang on two kinds of hardware goes
at the pace of the slower one, and quota is asked for one kind. ``flavorChoice`` says whether the next flavor is tried
before this one is borrowed (``beforeBorrowing``) or, where nothing is free, before workloads are preempted in it
(``beforePreempting``): ``try-next`` or ``stop``.
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
    trial: Trial, queue: QueueName, requests: Sequence[PodSetRequest], inside: Mask | None = None
) -> list[Seat] | Reason:
    """Seats for all requests, taken in the trial; else the reason, with nothing taken.

    ``requests``: of one pod set, or of several that are placed together. A queue without flavors uses any node, and is
    charged in the flavor of each. ``inside``: (N,) nodes that may be used; None: all.
    """
    flavors = trial.tree.flavors(queue)
    if not flavors:
        return seat_together(_scope(trial, queue, inside, None), requests)
    to_try = _flavors_to_try(trial, requests, flavors)
    policy = trial.tree.policy(queue)
    refusals: list[Reason] = []
    borrowed: FlavorName | None = None
    for flavor in to_try:
        mark = trial.mark()
        answer = _in_flavor(trial, queue, requests, inside, flavor)
        if isinstance(answer, Reason):
            refusals.append(answer)
            if policy.before_preempting == "stop" and _could_preempt(trial, queue, requests, inside, flavor):
                break
        elif policy.before_borrowing == "stop" or not _borrows(trial, queue, requests, flavor):
            return answer
        else:
            trial.undo(mark)
            borrowed = borrowed or flavor
    if borrowed is not None:
        return _in_flavor(trial, queue, requests, inside, borrowed)
    # A refusal by nodes says more than one by quota, which is checked first.
    placed = [each for each in refusals if each.code != ReasonCode.QUEUE_LIMIT]
    return _with_other_flavors(trial, requests, inside, to_try, len(refusals), (placed or refusals)[0])


def quota_hit(trial: Trial, queue: QueueName, amounts: Mapping[Account, int]) -> LimitHit | None:
    """The limit that these amounts break wherever the pods go; None: there is none.

    That the cluster as a whole is full is left to the search for nodes: its reason says more.
    """
    hit = trial.usage.refusal(queue, amounts)
    return None if hit is not None and hit.queue == ROOT and not hit.kept else hit


def _in_flavor(
    trial: Trial, queue: QueueName, requests: Sequence[PodSetRequest], inside: Mask | None, flavor: FlavorName
) -> list[Seat] | Reason:
    hit = quota_hit(trial, queue, _charges_in(requests, flavor))
    if hit is not None:
        return reasons.queue_limit(hit)
    return seat_together(_scope(trial, queue, inside, flavor), requests)


def _scope(trial: Trial, queue: QueueName, inside: Mask | None, flavor: FlavorName | None) -> NodeScope:
    """Nodes of the flavor among those that may be used."""
    mask = np.ones(len(trial.table), np.bool_) if flavor is None else trial.layout.of_flavor(flavor)
    named = (flavor,) if inside is None else None
    return NodeScope(trial, queue, mask if inside is None else mask & inside, named)


def _charges_in(requests: Sequence[PodSetRequest], flavor: FlavorName) -> Mapping[Account, int]:
    if len(requests) == 1:
        return pod_charges(requests[0].pods.takes, flavor, len(requests[0].ordinals))
    return flavor_charges({flavor: total(request.pods.takes * len(request.ordinals) for request in requests)})


def _flavors_to_try(
    trial: Trial, requests: Sequence[PodSetRequest], flavors: tuple[FlavorName, ...]
) -> tuple[FlavorName, ...]:
    """Flavors to try: those of the seated members, if there are any, else all."""
    theirs = {
        trial.table.flavor(node)
        for request in requests
        for node in request.seated.values()
        if node in trial.table
    }
    return tuple(flavor for flavor in flavors if flavor in theirs) or flavors


def _borrows(trial: Trial, queue: QueueName, requests: Sequence[PodSetRequest], flavor: FlavorName) -> bool:
    """Whether the queue, with these seats taken, uses more of the flavor than it deserves."""
    return any(
        trial.usage.used(queue, account) > trial.tree.deserved(queue, account)
        for account, units in _charges_in(requests, flavor).items()
        if units > 0 and account.flavor != NO_FLAVOR
    )


def _could_preempt(
    trial: Trial, queue: QueueName, requests: Sequence[PodSetRequest], inside: Mask | None, flavor: FlavorName
) -> bool:
    """Whether the pods would fit into an empty flavor, so that preemption in it may help."""
    for account, units in _charges_in(requests, flavor).items():
        for name in trial.tree.paths[queue]:
            limit = trial.tree.capability(name, account)
            if units > 0 and limit is not None and units > limit:
                return False
    mask = _scope(trial, queue, inside, flavor).mask
    return all(
        int((trial.pods_per_empty_node(request.pods.takes, request.pods.nodes) * mask).sum())
        >= len(request.ordinals)
        for request in requests
    )


def _with_other_flavors(
    trial: Trial,
    requests: Sequence[PodSetRequest],
    inside: Mask | None,
    flavors: Sequence[FlavorName],
    tried: int,
    reason: Reason,
) -> Reason:
    """The reason, with a flavor that was not tried and has room, or with the flavors that have it only together."""
    if len(flavors) < 2 or len(requests) > 1 or reason.code != ReasonCode.NO_FIT:
        return reason
    request = requests[0]
    room = _scope(trial, QueueName(""), inside, None).pods_per_node(request.pods)
    fits = {flavor: int((room * trial.layout.of_flavor(flavor)).sum()) for flavor in flavors}
    whole = [flavor for flavor in flavors if fits[flavor] >= len(request.ordinals)]
    if whole:
        return (
            reasons.stopped(reason, flavors[tried - 1], whole[0]) if whole[0] in flavors[tried:] else reason
        )
    fits = {flavor: fit for flavor, fit in fits.items() if fit}
    return reason if sum(fits.values()) < len(request.ordinals) else reasons.not_split(reason, fits)

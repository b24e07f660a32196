"""The choice of a flavor: those of the queue that its policy names, in that order; the quota first, then the nodes.

Pod sets that are placed together are of one flavor, and so are all pods of a set: a gang on two kinds of hardware goes
at the pace of the slower one, and quota is asked for one kind. ``flavorChoice`` says whether the next flavor is tried
before this one is borrowed (``beforeBorrowing``) or, where nothing is free, before workloads are preempted in it
(``beforePreempting``): ``try-next`` or ``stop``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.table import Mask
from admission.engine.placement.co_location import seat_together
from admission.engine.placement.domains import NodeScope, PodSetRequest
from admission.engine.placement.policy_answers import flavors_to_try
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.plan import Reason
from queues.quota.accounts import Account, flavor_charges, pod_charges
from queues.quota.queue import ROOT
from queues.quota.usage import LimitHit
from queues.reason_codes import ReasonCode
from queues.resources import total
from queues.workload import NO_FLAVOR, FlavorName, QueueName, Workload


def quota_hit(trial: Trial, queue: QueueName, amounts: Mapping[Account, int]) -> LimitHit | None:
    """The limit that these amounts break wherever the pods go; None if there is none.

    That the cluster as a whole is full is left to the search for nodes: its reason says more.
    """
    hit = trial.usage.refusal(queue, amounts)
    return None if hit is not None and hit.queue == ROOT and not hit.kept else hit


def seat(
    trial: Trial, workload: Workload, requests: Sequence[PodSetRequest], inside: Mask | None = None
) -> list[Seat] | Reason:
    """Seats for all requests, taken in the trial; else the reason, with nothing taken.

    ``requests``: of one pod set, or of several that are placed together. A queue without flavors uses any node, and is
    charged in the flavor of each. ``inside``: (N,) nodes that may be used; None for all.
    """
    choice = _FlavorChoice(trial, workload, requests, inside)
    if not (listed := trial.tree.flavors(workload.queue)):
        return seat_together(choice.scope(None), requests)
    flavors = flavors_to_try(trial, workload, [request.pods for request in requests])
    if not flavors:
        return reasons.no_flavor(workload.queue, listed, trial.tree.policies(workload.queue).flavors_by.name)
    return choice.seat(flavors)


@dataclass(frozen=True, slots=True, eq=False)
class _FlavorChoice:
    """Requests that are seated in one flavor."""

    trial: Trial
    workload: Workload
    requests: Sequence[PodSetRequest]
    #: (N,) nodes that may be used; None for all.
    inside: Mask | None

    @property
    def queue(self) -> QueueName:
        """The queue of the workload."""
        return self.workload.queue

    def seat(self, flavors: tuple[FlavorName, ...]) -> list[Seat] | Reason:
        """Seats in the first of these flavors that the policy allows and that has room, or the reason."""
        # Flavors of the seated members, if there are any.
        seated = {node for request in self.requests for node in request.seated.values()}
        theirs = {self.trial.table.flavor(node) for node in seated if node in self.trial.table}
        to_try = tuple(flavor for flavor in flavors if flavor in theirs) or flavors
        policy = self.trial.tree.policy(self.queue)
        refusals: list[Reason] = []
        borrowed: FlavorName | None = None
        for flavor in to_try:
            mark = self.trial.mark()
            answer = self._in_flavor(flavor)
            if isinstance(answer, Reason):
                refusals.append(answer)
                if policy.before_preempting == "stop" and self._could_preempt(flavor):
                    break
            elif policy.before_borrowing == "stop" or not self._borrows(flavor):
                return answer
            else:
                self.trial.undo(mark)
                borrowed = borrowed or flavor
        if borrowed is not None:
            return self._in_flavor(borrowed)
        # Flavors without such devices refuse whatever is free in them: their reasons say least.
        told = [
            each for flavor, each in zip(to_try, refusals, strict=False) if self._offers(flavor)
        ] or refusals
        # A refusal by nodes says more than one by quota, which is checked first.
        placed = [each for each in told if each.code != ReasonCode.QUEUE_LIMIT]
        return self._with_other_flavors(to_try, len(refusals), (placed or told)[0])

    def scope(self, flavor: FlavorName | None) -> NodeScope:
        """Nodes of a flavor (of any if None) among those that may be used."""
        layout = self.trial.layout
        mask = np.ones(len(self.trial.table), np.bool_) if flavor is None else layout.of_flavor(flavor)
        if self.inside is None:
            return NodeScope(self.trial, self.workload, mask, (flavor,))
        return NodeScope(self.trial, self.workload, mask & self.inside)

    def _offers(self, flavor: FlavorName) -> bool:
        """Whether the flavor has nodes with all kinds of resources that each of the pods asks for."""
        trial = self.trial
        mask = trial.layout.of_flavor(flavor)
        asked = (trial.vector(request.pods.takes) > 0 for request in self.requests)
        return all(bool((trial.table.allocatable[kinds][:, mask] > 0).all(axis=0).any()) for kinds in asked)

    def _in_flavor(self, flavor: FlavorName) -> list[Seat] | Reason:
        hit = quota_hit(self.trial, self.queue, self._charges_in(flavor))
        return (
            reasons.queue_limit(hit) if hit is not None else seat_together(self.scope(flavor), self.requests)
        )

    def _charges_in(self, flavor: FlavorName) -> Mapping[Account, int]:
        if len(self.requests) == 1:
            return pod_charges(self.requests[0].pods.takes, flavor, len(self.requests[0].ordinals))
        takes = total(request.pods.takes * len(request.ordinals) for request in self.requests)
        return flavor_charges({flavor: takes})

    def _borrows(self, flavor: FlavorName) -> bool:
        """Whether the queue, with these seats taken, uses more of the flavor than it deserves."""
        return any(
            self.trial.usage.used(self.queue, account) > self.trial.tree.deserved(self.queue, account)
            for account, units in self._charges_in(flavor).items()
            if units > 0 and account.flavor != NO_FLAVOR
        )

    def _could_preempt(self, flavor: FlavorName) -> bool:
        """Whether the pods would fit into an empty flavor, so that preemption in it may help."""
        for account, units in self._charges_in(flavor).items():
            for name in self.trial.tree.paths[self.queue]:
                limit = self.trial.tree.capability(name, account)
                if units > 0 and limit is not None and units > limit:
                    return False
        mask = self.scope(flavor).mask
        return all(
            int((self.trial.pods_per_empty_node(request.pods.takes, request.pods.nodes) * mask).sum())
            >= len(request.ordinals)
            for request in self.requests
        )

    def _with_other_flavors(self, flavors: Sequence[FlavorName], tried: int, reason: Reason) -> Reason:
        """The reason, with a flavor that was not tried and has room, or with flavors that have it only together."""
        if len(flavors) < 2 or len(self.requests) > 1 or reason.code != ReasonCode.NO_FIT:
            return reason
        asked = len(self.requests[0].ordinals)
        room = self.scope(None).pods_per_node(self.requests[0].pods)
        fits = {flavor: int((room * self.trial.layout.of_flavor(flavor)).sum()) for flavor in flavors}
        whole = next((flavor for flavor in flavors if fits[flavor] >= asked), None)
        if whole is not None:
            waits = whole in flavors[tried:]
            return reasons.stopped(reason, flavors[tried - 1], whole) if waits else reason
        fits = {flavor: fit for flavor, fit in fits.items() if fit}
        return reason if sum(fits.values()) < asked else reasons.not_split(reason, fits)

"""What a workload lacks and asks for, and what keeps it out whatever the nodes and books are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from admission.engine import members, reasons
from admission.engine.members import Need
from admission.engine.plan import Reason
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.quota.accounts import Account
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import QueueName, Workload


@dataclass(frozen=True, slots=True, eq=False)
class Wants:
    """What a workload lacks and asks for: the same for all of one shape that hold no seat."""

    need: Need
    asked: Resources
    accounts: tuple[Account, ...]
    #: What its gang asks at the least, over all flavors, with these or those members; () if it is complete.
    leasts: tuple[Mapping[Account, int], ...]

    @classmethod
    def of(cls, workload: Workload, held: Sequence[Seat]) -> "Wants":
        """Beyond the seats that are held."""
        need = members.need(workload, held)
        asked = members.asked(workload, need.missing)
        takes = Resources({account.resource: units for account, units in asked.items()})
        leasts = tuple(members.asked(workload, each) for each in members.leasts(workload, need))
        return cls(need, takes, tuple(asked), leasts)

    @property
    def has_choice(self) -> bool:
        """Whether the gang's minimum can be met by more than one choice of members."""
        return len(self.leasts) > 1


def obstacle(workload: Workload, now: int) -> Reason | None:
    """What is wrong with the workload itself, or that it has to wait for its time."""
    if workload.obstacle is not None:
        code, message = workload.obstacle
        return Reason(code=code, message=message)
    if workload.not_before > now:
        return reasons.backoff(workload.not_before)
    return None


def never(workload: Workload, wants: Wants, trial: Trial) -> Reason | None:
    """What keeps all of a class out until queues or nodes are other ones."""
    return (
        _queue_refuses(trial.tree, workload.queue)
        or _nobody_has(wants.asked, trial)
        or _gang_refused(workload, wants.need, trial.tree)
    )


def _nobody_has(asked: Resources, trial: Trial) -> Reason | None:
    resource = trial.unknown(asked)
    if resource is None or not len(trial.table):
        return None
    offered = [
        name for name, row in zip(trial.table.resources, trial.table.allocatable, strict=True) if row.any()
    ]
    return reasons.unknown_resource(resource, offered)


def _queue_refuses(tree: QueueTree, queue: QueueName) -> Reason | None:
    if queue not in tree.queues:
        return reasons.unknown_queue(queue)
    if not tree.leaf(queue):
        return reasons.queue_not_leaf(queue, tree.children[queue])
    if not tree.usable(queue):
        return reasons.queue_broken(queue, tree.problems[queue])
    if (closed := tree.closed(queue)) is not None:
        return reasons.queue_closed(queue, closed)
    if (paused := tree.paused(queue)) is not None:
        return reasons.queue_paused(queue, paused)
    return None


def _gang_refused(workload: Workload, need: Need, tree: QueueTree) -> Reason | None:
    if need.short:
        minimum = max(workload.minimum, sum(pods.minimum for pods in workload.pod_sets))
        return reasons.not_enough_pods(wanted=minimum - need.short, minimum=minimum)
    if not need.missing:
        return reasons.nothing_missing()
    limit = tree.max_gang(workload.queue)
    if limit is not None and (pods := sum(each.count for each in workload.pod_sets)) > limit[1]:
        return reasons.gang_too_large(queue=limit[0], limit=limit[1], pods=pods)
    return None

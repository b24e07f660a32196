"""The plain form of limits: what a queue may still use."""

from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.quota.usage import Usage
from queues.workload import QueueName


def available(usage: Usage, queue: QueueName, account: Account) -> int | None:
    """What may still be added; negative: the queue or an ancestor is above its limit. None: no limit.

    An idle guarantee may be used even if the cluster is too small for all of them: ``root`` is exempt.
    """
    own = usage.tree.capability(queue, account)
    left = None if own is None else own - usage.counted(queue, account)
    if queue == ROOT:
        return left
    above = available(usage, usage.tree.paths[queue][1], account)
    if above is None:
        return left
    if usage.tree.paths[queue][1] == ROOT:
        above = max(0, above)
    above += max(0, usage.tree.guarantee(queue, account) - usage.counted(queue, account))
    return above if left is None else min(left, above)

"""Work that waits although its queue uses less than it deserves, because the queue takes nothing back. Pure.

Said on the object and in answers; neither the engine nor the ledger needs it.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from queues.quota.tree import QueueTree
from queues.reason_codes import ReasonCode
from queues.workload import QueueName

#: Reasons of work that what others have borrowed may be in the way of.
_FOR_LACK: Final = (ReasonCode.QUEUE_LIMIT, ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT)


class AskedOfShare(NamedTuple):
    """What work asks of one resource, next to its queue's use and what that deserves as written."""

    asked: int
    used: int
    deserved: int


def takes_nothing_back(
    code: ReasonCode, queue: QueueName, tree: QueueTree, asks: Iterable[AskedOfShare]
) -> str:
    """What is appended to a reason of this code; "": it is not so. ``asks``: of each resource that has a share."""
    if code not in _FOR_LACK or queue not in tree.paths or tree.policy(queue).reclaim != "never":
        return ""
    within = [each.asked + each.used <= each.deserved for each in asks if each.asked]
    if not within or not all(within):
        return ""
    return (
        f"; queue {queue} uses less than it deserves, and takes back nothing that others borrow"
        " (policy.preemption.reclaim: never)"
    )

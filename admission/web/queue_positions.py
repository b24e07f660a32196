"""The order of queues for positions that Postgres counts: the order in which the engine tries pending workloads.

One thing is not in the rows: which user is next where the use of each user counts, as under ``round-robin``. There
a position is counted as if all workloads were of one user, and ``counted_by`` says so.
"""

from collections.abc import Iterable
from typing import Final

from queues.api.names import SCHEDULING_VOLCANO
from queues.api.types.queue import QueueDocument
from queues.errors import InvalidDocument
from queues.order.policies import by_user, counts_use, small_first, urgency
from queues.quota.queue import ROOT, Queue
from queues.quota.tree import QueueTree
from queues.sql.read.rows import OrderTerms, QueueLine
from queues.workload import QueueName

#: An ageing that is even faster makes no other order, and its sums would leave 64 bits.
_LARGEST_FACTOR: Final = 10**9


def policies(lines: Iterable[QueueLine]) -> QueueTree:
    """The queues with their policies, own and inherited."""
    return QueueTree.build({line.name: _queue(line) for line in lines}, None)


def _queue(line: QueueLine) -> Queue:
    document = {
        "apiVersion": SCHEDULING_VOLCANO,
        "kind": "Queue",
        "metadata": {"name": line.name},
        "spec": line.document.get("spec") or {},
    }
    try:
        return QueueDocument.read(document).to_domain()
    except InvalidDocument:
        # The queue is shown as broken, with the reason; its workloads are in the default order.
        return Queue(name=line.name, parent=None if line.name == ROOT else line.parent)


def order_terms(tree: QueueTree) -> dict[QueueName, OrderTerms]:
    """The order of each queue as factors of columns, so that Postgres can sort as the engine does.

    ``queues.order.policies.urgency`` is a sum of multiples of its arguments: each factor is what one unit adds.
    """
    return {queue: _terms(tree, queue) for queue in tree.paths}


def _terms(tree: QueueTree, queue: QueueName) -> OrderTerms:
    def added(priority: int = 0, created: int = 0, run_time: int | None = 0) -> int:
        return urgency(tree, queue, priority, created, run_time)

    by_run = added(run_time=1)
    return OrderTerms(
        by_created=min(added(created=1), _LARGEST_FACTOR),
        by_priority=added(priority=1),
        most_priority=tree.priority_limit(queue).most,
        by_run=by_run,
        unknown_run=added(run_time=None) // by_run if by_run else 0,
        small_first=small_first(tree, queue),
    )


def counted_by(tree: QueueTree, queue: QueueName) -> str:
    """What positions in a queue are counted by, as a phrase."""
    queue = queue_or_root(tree, queue)
    counted = "arrival"
    match tree.order(queue):
        case "priority":
            first = "priority with age" if tree.ageing_per_hour(queue) else "priority"
            counted = f"{first}, then {'small before large' if small_first(tree, queue) else 'arrival'}"
        case "shortest":
            counted = "declared run time with age"
    if counts_use(tree, queue):
        return f"{counted}; of equal priority users who used less go first"
    return f"{counted}; users take turns" if by_user(tree, queue) else counted


def priority_limit(tree: QueueTree, queue: QueueName, priority: int) -> str:
    """How much of a priority counts in a queue, as a phrase; "": all of it."""
    limit = tree.priority_limit(queue_or_root(tree, queue))
    return limit.message(priority) if priority > limit.most else ""


def queue_or_root(tree: QueueTree, queue: QueueName) -> QueueName:
    """The queue; ``root`` in place of a queue that does not exist."""
    return queue if queue in tree.paths else ROOT

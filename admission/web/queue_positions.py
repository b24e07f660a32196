"""Places in queues, told from what is stored: the order in which the engine tries those who wait.

One thing cannot be told from rows: whose turn it is where it counts what each user has, as under ``round-robin``.
There places are what they would be for one user, and say so.
"""

from collections.abc import Iterable

from queues.api.names import SCHEDULING_VOLCANO
from queues.api.types.queue import QueueDocument
from queues.errors import InvalidDocument
from queues.order.policies import PATIENCE, Rank, by_user, counts_use, small_first, urgency
from queues.quota.queue import ROOT, Queue
from queues.quota.tree import QueueTree
from queues.sql.read import views
from queues.workload import QueueName


def policies(lines: Iterable[views.QueueLine]) -> QueueTree:
    """The queues with the policies that count for them, inherited ones too."""
    return QueueTree.build({line.name: _queue(line) for line in lines}, None)


def _queue(line: views.QueueLine) -> Queue:
    document = {
        "apiVersion": SCHEDULING_VOLCANO,
        "kind": "Queue",
        "metadata": {"name": line.name},
        "spec": line.document.get("spec") or {},
    }
    try:
        return QueueDocument.read(document).to_domain()
    except InvalidDocument:
        # It is shown as broken, with the reason; who waits in it lines up as by default.
        return Queue(name=line.name, parent=None if line.name == ROOT else line.parent)


def rank(tree: QueueTree, line: views.PendingLine) -> Rank:
    """The same as ``queues.order.policies.rank`` for the workload that the line is about."""
    queue = known(tree, line.queue)
    before = (line.waiting_since or line.created) + PATIENCE * line.devices if small_first(tree, queue) else 0
    urgent = urgency(tree, queue, line.priority, line.created, line.run_time)
    return Rank(line.joins, urgent, before, line.arrival, line.key)


def counted_by(tree: QueueTree, queue: QueueName) -> str:
    """What places in a queue are counted by."""
    queue = known(tree, queue)
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


def known(tree: QueueTree, queue: QueueName) -> QueueName:
    """The queue, or ``root`` in the place of one that does not exist."""
    return queue if queue in tree.paths else ROOT

"""Which queues are open, closing or closed: by Commands, by the state of their objects, and by queues above. Pure.

Volcano's rules (its ``pkg/controllers/queue``): what is closed takes nothing new, and what runs goes on; with a queue
all below it are closed, and open again with it, but for those that were closed themselves.
"""

from admission.world.queue_totals import Standing
from admission.world.world import World
from queues.quota.queue import path_upwards
from queues.workload import QueueName

_LEFT = (Standing.PENDING, Standing.INQUEUE, Standing.RUNNING, Standing.UNKNOWN)


class QueueStates:
    """The queues of a world as they are to be shown."""

    def __init__(self, world: World) -> None:
        queues = {name: fact.queue for name, fact in world.queues.items()}
        closed = {
            name
            for name, fact in world.queues.items()
            if _either(world.commands.wants_closed(name, fact.uid), fact.queue.closed)
        }
        #: Queues that take nothing: by the nearest queue that is closed, they themselves or one above them.
        self.closed_by: dict[QueueName, QueueName] = {}
        #: Queues in which, or below which, something runs or waits.
        self.busy: set[QueueName] = set()
        for name in queues:
            path = [each.name for each in path_upwards(name, queues.get)]
            nearest = next((each for each in path if each in closed), None)
            if nearest is not None:
                self.closed_by[name] = nearest
            if any(world.queue_totals.workloads[name, each] for each in _LEFT):
                self.busy.update(path)


def _either(wanted: bool | None, is_now: bool) -> bool:
    return is_now if wanted is None else wanted

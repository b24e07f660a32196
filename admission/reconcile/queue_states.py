"""Which queues are open, closing or closed: by Commands, by whoever writes a state, and by the queues above them. Pure.

Volcano's rules (its ``pkg/controllers/queue``): what is closed takes nothing new, and what runs goes on; with a queue
all below it are closed, and open again with it, but for those that were closed themselves.
"""

from collections.abc import Iterator

from admission.world.queue_totals import Standing
from admission.world.world import World
from queues.workload import QueueName

_LEFT = (Standing.PENDING, Standing.INQUEUE, Standing.RUNNING)


class QueueStates:
    """The queues of a world as they are to be shown."""

    def __init__(self, world: World) -> None:
        self._queues = world.queues
        self._closed = {
            name
            for name, fact in world.queues.items()
            if _either(world.commands.wants_closed(name, fact.uid), fact.queue.closed)
        }
        #: Queues in which, or below which, something runs or waits.
        self.busy: set[QueueName] = set()
        for name in world.queues:
            if any(world.queue_totals.workloads[name, each] for each in _LEFT):
                self.busy.update((name, *self._above(name)))

    def is_closed(self, name: QueueName) -> bool:
        """Whether a queue takes nothing: it is closed, or one above it."""
        return name in self._closed or self.closed_by(name) is not None

    def closed_by(self, name: QueueName) -> QueueName | None:
        """The nearest queue above that is closed, if the queue itself is not."""
        if name in self._closed:
            return None
        return next((each for each in self._above(name) if each in self._closed), None)

    def _above(self, name: QueueName) -> Iterator[QueueName]:
        """Queues on the path to the root, nearest first; queues that are above themselves once."""
        seen = {name}
        while (fact := self._queues.get(name)) is not None and fact.queue.parent is not None:
            name = fact.queue.parent
            if name in seen:
                return
            seen.add(name)
            yield name


def _either(wanted: bool | None, is_now: bool) -> bool:
    return is_now if wanted is None else wanted

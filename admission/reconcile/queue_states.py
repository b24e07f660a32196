"""States and statuses of queues: open, closing or closed, what they use and hold, what is wrong with them. Pure.

Volcano's rules (its ``pkg/controllers/queue``): what is closed takes nothing new, and what runs goes on; with a queue
all below it are closed, and open again with it, but for those that were closed themselves. Commands, the objects of
queues and queues above say what is closed.
"""

from collections.abc import Hashable, Iterator, Mapping
from types import MappingProxyType

from admission.reconcile.status import StatusWanted, queue_status
from admission.world.queues import Standing
from admission.world.world import World
from queues.plan import Reason
from queues.quota.queue import ROOT
from queues.workload import QueueName

_LEFT = (Standing.PENDING, Standing.INQUEUE, Standing.RUNNING, Standing.UNKNOWN)


class QueueStates:
    """The queues of a world as they are to be shown."""

    def __init__(self, world: World) -> None:
        closed = {name for name, fact in world.queues.items() if fact.queue.closed}
        for name in world.commands.queues():
            if (fact := world.queues.get(name)) is not None:
                wanted = world.commands.wants_closed(name, fact.uid)
                closed = closed if wanted is None else closed | {name} if wanted else closed - {name}
        #: Queues that take nothing: by the nearest queue that is closed, they themselves or one above them.
        self.closed_by: dict[QueueName, QueueName] = {}
        #: Closed queues in which, or below which, something runs or waits, and those above them.
        self.busy: set[QueueName] = set()
        if not closed:
            return
        tree = world.queue_facts.tree()
        for name in tree.with_below(closed) & world.queues.keys():
            self.closed_by[name] = next(each for each in tree.paths[name] if each in closed)
            if any(world.queue_totals.workloads[name, each] for each in _LEFT):
                self.busy.update(tree.paths[name])


class QueueStatuses:
    """Statuses of queues: of all of them at first, then of those that may have another one than before."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._has_looked = False
        #: What was said of queues that is not counted by queue.
        self._said: tuple[Mapping[QueueName, Hashable], ...] = ()

    def changed(
        self,
        failing: Reason | None = None,
        keeping: Reason | None = None,
        enqueued: Mapping[QueueName, int] = MappingProxyType({}),
    ) -> Iterator[StatusWanted]:
        """The statuses that may be others than in the last call. ``failing``: what root says about turns that fail;
        ``keeping``: about seats that are kept though their Jobs are gone; ``enqueued``: PodGroups in phase Inqueue
        whose pods are not made yet."""
        world = self._world
        totals, problems, states = world.queue_totals, world.queue_problems(), QueueStates(world)
        names = world.take_changed_queues()
        busy = dict.fromkeys(states.busy & states.closed_by.keys(), True)
        root = {ROOT: (failing, keeping)}
        said: tuple[Mapping[QueueName, Hashable], ...] = (
            problems,
            states.closed_by,
            busy,
            dict(enqueued),
            root,
        )
        before, self._said = self._said, said
        if self._has_looked:
            for was, now in zip(before, said, strict=True):
                names.update(_differing(was, now))
            names &= world.queues.keys()
        else:
            names, self._has_looked = set(world.queues), True
        for name in sorted(names):
            if (fact := world.queues.get(name)) is None:
                continue  # it went since
            waiting = enqueued.get(name, 0)
            counts = {each: totals.workloads[name, each] for each in Standing}
            counts[Standing.PENDING] -= waiting
            counts[Standing.INQUEUE] += waiting
            yield queue_status(
                fact,
                totals.allocated(name),
                counts,
                closed_by=states.closed_by.get(name),
                busy=name in busy,
                broken=problems.get(name),
                of_root=(failing, keeping),
            )


def _differing(one: Mapping[QueueName, Hashable], other: Mapping[QueueName, Hashable]) -> set[QueueName]:
    """Queues for which two mappings differ."""
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}

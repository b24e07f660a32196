"""Changes that wait for a turn, by the namespace of their objects: a tenant with many makes the others wait for few.

A turn takes as long as what it takes in, and a workload that asks meanwhile waits for its end. So while others ask for
admission now and then, a tenant with many changes has a part in a turn a few times a second only. In the time between,
a turn for the others begins at once.

Of an object that changes again before its turn the last state counts, as after a gap in a watch; but its end is never
left out, nor what it was before it went, nor a step in the life of a pod: whether a pod that was deleted had ended
before, only the states between tell. Changes of nodes, queues and other objects without a namespace come with the next
turn, all of them.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from queues.workload import QueueName

#: Objects whose changes one turn takes in: half a second of work.
MOST: Final = 1000
#: The same of a tenant with many while others ask, and the seconds from such a turn to the next.
MOST_BESIDE_OTHERS: Final = 96
HELD_FOR: Final = 0.25
#: Changed objects up to which a tenant has few.
FEW: Final = 24
#: Seconds for which a tenant that asked for admission counts as one that may ask again.
ASKED_WITHIN: Final = 30.0


def _is_replaced(before: Change, after: Change) -> bool:
    """Whether the earlier of two changes of an object in a row says nothing that the later one does not say."""
    if before.fact is None or after.fact is None:
        return False
    if isinstance(before.fact, PodFact) and isinstance(after.fact, PodFact):
        return (before.fact.phase, before.fact.deleting) == (after.fact.phase, after.fact.deleting)
    return True


class ChangeQueue:
    """Part of the informers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: seconds, of any beginning."""
        self._clock = clock
        #: The top-level queue above a queue.
        self.tenant_of: Callable[[QueueName], QueueName] = lambda queue: queue
        #: Of objects without a namespace, and of those that no tenant makes.
        self._common: list[Change] = []
        #: By namespace and object, what came first in front; and the queue that an object of the namespace named last.
        self._waiting: dict[str, dict[tuple[FactKind, str], list[Change]]] = {}
        self._queues: dict[str, QueueName] = {}
        #: Namespaces in which something asks for admission that waits.
        self._asking: set[str] = set()
        #: By tenant, when it asked for admission last.
        self._asked: dict[str, float] = {}
        #: Namespaces of the tenant with many, and the time until which their changes wait.
        self._held: frozenset[str] = frozenset()
        self.held_until = 0.0
        #: The last turn was one without those that have many changes.
        self._left_many = False

    def __bool__(self) -> bool:
        return bool(self._common or self._waiting)

    def put(self, change: Change, namespace: str = "", *, is_asking: bool = False) -> bool:
        """A change of an object of a namespace; "": it is of none. False: it is one that waits for its time."""
        if not namespace:
            self._common.append(change)
            return True
        objects = self._waiting.setdefault(namespace, {})
        of_object = objects.setdefault((change.kind, change.key), [])
        if of_object and _is_replaced(of_object[-1], change):
            of_object[-1] = change
        else:
            of_object.append(change)
        if isinstance(change.fact, PodFact | WorkloadFact) and change.fact.queue:
            self._queues[namespace] = change.fact.queue
        if is_asking:
            self._asking.add(namespace)
        return namespace not in self._held

    def take_all(self) -> list[Change]:
        """All changes."""
        taken, self._common = self._common, []
        for objects in self._waiting.values():
            for changes in objects.values():
                taken += changes
        self._waiting.clear()
        self._asking.clear()
        return taken

    def take(self) -> list[Change]:
        """The changes for the next turn."""
        now = self._clock()
        if now >= self.held_until:
            self._held = frozenset()
        tenants = self._tenants()
        self._note_asking(tenants, now)
        sizes = {tenant: sum(len(self._waiting[each]) for each in names) for tenant, names in tenants.items()}
        many = self._with_many(sizes, now)
        if many is None or self._held:
            self._left_many = False
            return self._taken(tenants, MOST)
        asking = any(name in self._asking for tenant in tenants if tenant != many for name in tenants[tenant])
        self._left_many = asking and not self._left_many
        if self._left_many:  # at most every other turn
            return self._taken({tenant: names for tenant, names in tenants.items() if tenant != many}, MOST)
        self._held, self.held_until = frozenset(tenants[many]), now + HELD_FOR
        of_many = tenants.pop(many)
        taken = self._taken(tenants, MOST)
        # A part of very many: what waits never becomes too much to be taken in.
        self._move(of_many, min(MOST, max(MOST_BESIDE_OTHERS, sizes[many] // 16)), taken)
        return taken

    def wait(self) -> float | None:
        """Seconds after which there is something for a turn, if nothing comes. None if nothing waits."""
        if not self:
            return None
        if self._common or self._waiting.keys() - self._held:
            return 0.0
        return max(0.0, self.held_until - self._clock())

    def _with_many(self, sizes: dict[str, int], now: float) -> str | None:
        """The tenant with many more changes than all others, if others ask now and then."""
        most = max(sizes, key=lambda tenant: (sizes[tenant], tenant), default=None)
        if most is None or sizes[most] <= max(FEW, 2 * (sum(sizes.values()) - sizes[most])):
            return None
        asked = (at for tenant, at in self._asked.items() if tenant != most)
        return most if any(at + ASKED_WITHIN > now for at in asked) else None

    def _taken(self, tenants: Mapping[str, list[str]], most: int) -> list[Change]:
        """Changes of these tenants, of those with the fewest first, and those without a namespace."""
        taken, self._common = self._common, []
        for _, names in sorted(
            tenants.items(), key=lambda each: sum(len(self._waiting[name]) for name in each[1])
        ):
            most -= self._move([name for name in names if name not in self._held], most, taken)
        return taken

    def _tenants(self) -> dict[str, list[str]]:
        """Namespaces with changes, by tenant; one without a queue is a tenant of its own."""
        tenants: dict[str, list[str]] = {}
        for name in self._waiting:
            queue = self._queues.get(name)
            tenants.setdefault(f"namespace {name}" if queue is None else self.tenant_of(queue), []).append(
                name
            )
        return tenants

    def _note_asking(self, tenants: Mapping[str, list[str]], now: float) -> None:
        for tenant, names in tenants.items():
            if not self._asking.isdisjoint(names):
                self._asked[tenant] = now
        if len(self._asked) > MOST:
            self._asked = {tenant: at for tenant, at in self._asked.items() if at + ASKED_WITHIN > now}

    def _move(self, names: list[str], most: int, taken: list[Change]) -> int:
        """Move the changes of at most so many objects of these namespaces, which take turns. Returns of how many."""
        turns, moved = deque(names), 0
        while turns and moved < most:
            name = turns.popleft()
            objects = self._waiting[name]
            changes = objects.pop(next(iter(objects)))
            taken += changes
            moved += 1
            if objects:
                turns.append(name)
            else:
                del self._waiting[name]
                self._asking.discard(name)
        return moved

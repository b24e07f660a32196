"""Changes that wait for a turn, by the namespace of their objects: a tenant with many makes the others wait for few.

A turn takes as long as what it takes in, and whoever asks meanwhile waits for its end. So a tenant with many changes
hands over a few at a time while others ask for admission now and then, and a tenant with few changes that asks for
admission gets a turn in which no such tenant has a part. Of an object that changes again before its turn the last state
counts, as after a gap in a watch; but its end is never left out, nor what it was before it went. Changes of nodes,
queues and other objects without a namespace come with the next turn, all of them.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from queues.workload import QueueName

#: Objects whose changes one turn takes in: half a second of work.
MOST: Final = 1000
#: The same of a tenant with many, while others ask.
MOST_BESIDE_OTHERS: Final = 24
#: Changed objects up to which a tenant has few.
FEW: Final = 24
#: Seconds for which a tenant that asked for admission counts as one that may ask again.
ASKED_WITHIN: Final = 30.0


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
        self._left_many = False

    def __bool__(self) -> bool:
        return bool(self._common or self._waiting)

    def put(self, change: Change, namespace: str = "", *, is_asking: bool = False) -> None:
        """A change of an object of a namespace; "": it is of none."""
        if not namespace:
            self._common.append(change)
            return
        objects = self._waiting.setdefault(namespace, {})
        of_object = objects.setdefault((change.kind, change.key), [])
        if of_object and change.fact is not None and of_object[-1].fact is not None:
            of_object[-1] = change
        else:
            of_object.append(change)
        if isinstance(change.fact, PodFact | WorkloadFact) and change.fact.queue:
            self._queues[namespace] = change.fact.queue
        if is_asking:
            self._asking.add(namespace)

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
        if sum(map(len, self._waiting.values())) <= FEW:
            self._note_asking(self._tenants())
            self._left_many = False
            return self.take_all()
        tenants = self._tenants()
        self._note_asking(tenants)
        sizes = {tenant: sum(len(self._waiting[each]) for each in names) for tenant, names in tenants.items()}
        few = {tenant for tenant, size in sizes.items() if size <= FEW}
        taken, self._common = self._common, []
        asking = any(name in self._asking for tenant in few for name in tenants[tenant])
        if asking and few != sizes.keys() and not self._left_many:
            # Every other turn at most is without those that have many.
            self._left_many = True
            for tenant in few:
                self._move(tenants[tenant], sizes[tenant], taken)
            return taken
        self._left_many = False
        most = max(sizes, key=lambda tenant: (sizes[tenant], tenant))
        others = sum(sizes.values()) - sizes[most]
        left = MOST
        for tenant in sorted(sizes, key=lambda tenant: (sizes[tenant], tenant)):
            size = left
            if tenant == most and others < sizes[most] // 2 and self._others_ask(tenant):
                # A part of very many: what waits never becomes too much to be taken in.
                size = min(left, max(MOST_BESIDE_OTHERS, sizes[most] // 32))
            left -= self._move(tenants[tenant], size, taken)
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

    def _note_asking(self, tenants: dict[str, list[str]]) -> None:
        now = self._clock()
        for tenant, names in tenants.items():
            if not self._asking.isdisjoint(names):
                self._asked[tenant] = now
        if len(self._asked) > MOST:
            self._asked = {tenant: at for tenant, at in self._asked.items() if at + ASKED_WITHIN > now}

    def _others_ask(self, tenant: str) -> bool:
        now = self._clock()
        return any(at + ASKED_WITHIN > now for other, at in self._asked.items() if other != tenant)

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

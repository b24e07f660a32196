"""Nodes that a Reservation or NodeDrain closes now, and which pods may use them all the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from queues.node_closures import NodeClosure
from queues.quota.queue import Queue, path_upwards
from queues.quota.tree import QueueTree
from queues.text_format import rfc3339
from queues.workload import NodeFilter, QueueName, Workload

Mask = NDArray[np.bool_]

#: Closures that a reason names.
_MOST_TOLD: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class ClosedNodes:
    """The nodes of one closure. ``mask``: (N,)."""

    closure: NodeClosure
    mask: Mask
    #: The window has begun: work of the holder's queue is placed there.
    in_window: bool

    def is_of_holder(self, path: Sequence[QueueName]) -> bool:
        """Whether work of a queue is the holder's. ``path``: that queue and all above it."""
        return self.closure.queue is not None and self.closure.queue in path


class Entry(NamedTuple):
    """Closures whose nodes a workload may use."""

    names: tuple[str, ...] = ()
    #: The first second at which it may not use some of them any more. None if it stays so until closures change.
    until: int | None = None


def longest_run(workload: Workload, queues: Mapping[QueueName, Queue]) -> int | None:
    """Seconds after which a workload has ended: as it declares, or as its queues let it run. None if unknown."""
    allowed = (queue.max_run_time for queue in path_upwards(workload.queue, queues.get))
    known = [seconds for seconds in (workload.run_time, *allowed) if seconds is not None]
    return max(1, min(known)) if known else None


def entry_of(workload: Workload, closed: Sequence[ClosedNodes], tree: QueueTree, now: int) -> Entry:
    """Which closed nodes a workload may use if it starts now.

    In the window work of the holder's queue, and queues below it; before, work that is known to end before the nodes
    are cleared.
    """
    names: list[str] = []
    until: int | None = None
    path, longest = tree.paths.get(workload.queue, ()), longest_run(workload, tree.queues)
    for each in closed:
        if each.in_window and each.is_of_holder(path):
            names.append(each.closure.id)
        elif longest is not None:
            last = each.closure.clear_at - longest
            if now <= last:
                names.append(each.closure.id)
                until = last + 1 if until is None else min(until, last + 1)
    return Entry(tuple(names), until)


def open_to(nodes: NodeFilter, closed: Sequence[ClosedNodes], mask: Mask) -> Mask:
    """(N,) those nodes of a mask that no closure closes to pods with this filter."""
    for each in closed:
        if each.closure.id not in nodes.enters:
            mask = mask & ~each.mask
    return mask


def closed_to(nodes: NodeFilter, closed: Sequence[ClosedNodes], mask: Mask) -> dict[str, Mask]:
    """The nodes of a mask that closures close to pods with this filter, each once, by why: three at the most, and the
    rest together."""
    found: dict[str, Mask] = {}
    more: Mask = np.zeros_like(mask)
    for each in closed:
        if each.closure.id in nodes.enters or not (here := mask & each.mask).any():
            continue
        mask = mask & ~each.mask
        why = f"kept for {_told(each.closure)}"
        if why in found or len(found) < _MOST_TOLD:
            found[why] = found.get(why, False) | here
        else:
            more = more | here
    return {**found, "kept for other reservations or drains": more} if more.any() else found


def _told(closure: NodeClosure) -> str:
    """A closure as all may know it: the answer is shared by workloads of several queues, and the name of a reservation
    is for users who may list it."""
    if closure.queue is None or closure.end is None:
        return str(closure)
    return f"a reservation until {rfc3339(closure.end)}"

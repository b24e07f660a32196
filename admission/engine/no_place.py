"""Why pods of one set find no place: not in one domain of a level, not for whole parts, or no room at all."""

from collections.abc import Sequence

import numpy as np

from admission.engine import reasons
from admission.engine.ask import Ask
from admission.engine.capacity import Capacity
from admission.engine.plan import Reason
from admission.engine.wanted import Where
from queues.workload import Partition, PodSet


def no_domain(where: Where, pods: PodSet, key: str, count: int, partitions: Sequence[Partition]) -> Reason:
    """Why so many pods are not in one domain of that level."""
    found = where.trial.layout.chain(key)
    assert found is not None
    chain, at = found
    return no_place(where, pods, Ask(count, where.room(pods), chain, at, required=True), partitions)


def no_place(where: Where, pods: PodSet, ask: Ask, partitions: Sequence[Partition]) -> Reason:
    """Why there is no place: no room at all, none in one domain of a level, or not for whole parts."""
    level = ask.chain[ask.at]
    plain = Capacity(ask.chain, ask.room)
    if ask.parts:
        holds = plain.at(ask.at).max(initial=0) if ask.required else plain.total()
        if holds >= ask.pods:
            part = partitions[0]
            rooms = ask.capacity.at(ask.at) if ask.required else [ask.capacity.total()]
            return reasons.parts_no_fit(
                level=part.level,
                size=part.size,
                parts=ask.pods // part.size,
                fit=max(int(room) for room in rooms) // part.size,
                takes=pods.takes,
                inside=level.key if ask.required else None,
            )
    if ask.required:
        rooms = plain.at(ask.at)
        best = int(rooms.argmax()) if len(rooms) else None
        return reasons.topology_no_fit(
            level=level.key,
            pods=ask.pods,
            takes=pods.takes,
            fit=0 if best is None else int(rooms[best]),
            domain=None if best is None else level.domains[best],
            domains=len(level.domains),
        )
    return _no_fit(where, pods, ask)


def _no_fit(where: Where, pods: PodSet, ask: Ask) -> Reason:
    layout = where.trial.layout
    chosen, tolerated = layout.chosen(pods.nodes), layout.tolerated(pods.nodes)
    usable = layout.usable
    rest = usable & chosen & tolerated
    free = where.trial.ports.free(pods.ports)
    excluded = {
        "not usable": ~usable,
        "not chosen by nodeSelector or affinity": usable & ~chosen,
        "with taints that are not tolerated": usable & chosen & ~tolerated,
        "of other flavors": rest & ~where.mask,
        "with the host port taken": rest & where.mask & ~free,
        "without room": rest & where.mask & free & (ask.room == 0),
    }
    return reasons.no_fit(
        pods=ask.pods,
        takes=pods.takes,
        fit=int(ask.room.sum()),
        nodes=len(where.trial.table),
        excluded={why: int(np.count_nonzero(nodes)) for why, nodes in excluded.items()},
    )

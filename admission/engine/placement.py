"""Which nodes: the tightest domain that holds all, in it as few domains and nodes as possible.

For pods of one shape everything starts from the room per node (how many such pods each takes). The choice is:

1. ``required`` level: one domain of it, or nothing. ``preferred`` level: one domain of it, else of the next
wider level, else as few of the widest as possible. Neither: the same, from the host upwards. 2. Of the
domains that hold all, the one with least room is taken, so that large holes stay; a host in the rack with
least room, so that empty racks stay empty. 3. Inside, level by level (``filling``): the roomiest domains first, so
that there are few, and for the rest the tightest.

Parts: a domain of a part's level takes whole parts only (``capacity``); 3 ends at that level, and every
domain of it is filled on its own. Preferred node affinity goes before all of this: as many pods as possible
on the nodes of the highest score, then the next; a required level binds it.

``spread`` placement turns 2 and 3 round: the roomiest domain, and pods evenly over its nodes; over all nodes
where no level is asked for. ``balanced`` keeps 2, and fills the fewest domains of the level evenly.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from admission.engine.ask import Ask, Place
from admission.engine.capacity import Capacity
from admission.engine.filling import fill
from admission.engine.preferences import best_scores
from admission.engine.topology import Amounts


def place(ask: Ask) -> Place | None:
    """Nodes for all pods; None: they do not fit, or not in one domain of the required level."""
    if ask.pods == 1 and ask.cost is not None and not ask.measured:
        ask = _as_cheap_as_can_be(ask)
    best = _best_score(ask)
    anywhere = ask.spread and not ask.required and ask.at == len(ask.chain) - 1
    for at in range(-1 if anywhere else ask.at, -1, -1):
        room = ask.capacity.at(at)
        fitting = np.flatnonzero(room >= ask.pods)
        if len(fitting) and ask.score is not None:
            scores = best_scores(ask, at)[fitting]
            fitting = fitting[scores >= (int(scores.max()) if ask.required else best)]
        if len(fitting):
            domain = _choose(ask, at, room, fitting)
            return _sorted(ask, fill(ask, at + 1, ask.chain[at].members(domain)))
        if ask.required:
            return None
    if ask.capacity.total() < ask.pods:
        return None
    return _sorted(ask, fill(ask, 0, np.flatnonzero(ask.room)))


def _as_cheap_as_can_be(ask: Ask) -> Ask:
    """A single pod lies in one domain of any level: what it costs others decides, among all nodes of that level."""
    host, level = len(ask.chain) - 1, ask.chain[ask.at]
    if ask.required and (level.of < 0).any():
        return replace(ask, at=host, room=ask.room * (level.of >= 0), known=[])
    return replace(ask, at=host)


def _best_score(ask: Ask) -> int:
    """What the best placement at any distance reaches; a closer one has to reach it too."""
    if ask.score is None or ask.required or ask.capacity.total() < ask.pods:
        return 0
    found = fill(ask, 0, np.flatnonzero(ask.room))
    return int((ask.score[found.columns] * found.counts).sum())


def _choose(ask: Ask, at: int, room: Amounts, fitting: NDArray[np.intp]) -> int:
    """One of the domains that hold all pods."""
    if len(fitting) == 1:
        return int(fitting[0])
    hosts = at == len(ask.chain) - 1
    if ask.parts and not ask.spread:  # of those that hold as many whole parts the tightest
        fitting = _least(fitting, room[fitting])
        fitting = _least(fitting, Capacity(ask.chain, ask.room).at(at)[fitting])
    if at == 0 or ask.spread:
        if hosts and ask.cost is not None:
            fitting = _least(fitting, ask.cost[fitting])
        return int(fitting[room[fitting].argmax() if ask.spread else room[fitting].argmin()])
    outer = ask.chain[at - 1]
    around = outer.of if hosts else outer.of[ask.chain[at].first()]
    outer_room = np.append(ask.capacity.at(at - 1), 0)  # -1, in no outer domain, reads the last one
    if hosts:
        if ask.cost is not None and not ask.measured:
            fitting = _least(fitting, ask.cost[fitting])
        # What one node holds fills up the rack with the least room, so that others stay empty for gangs.
        fitting = _least(fitting, outer_room[around[fitting]])
        if ask.cost is not None:
            fitting = _least(fitting, ask.cost[fitting])
    fitting = _least(fitting, room[fitting])
    return int(fitting[outer_room[around[fitting]].argmin()])


def _least(places: NDArray[np.intp], keys: Amounts | NDArray[np.bool_]) -> NDArray[np.intp]:
    least: NDArray[np.intp] = places[keys == keys.min()]
    return least


def _sorted(ask: Ask, found: Place) -> Place:
    """In the order of the topology, outermost level first."""
    columns = found.columns
    if len(columns) == 1:
        return found
    if all(level.order is None for level in ask.chain):
        order = np.argsort(columns, kind="stable")
    else:
        order = np.lexsort((columns, *(level.of[columns] for level in reversed(ask.chain[:-1]))))
    return Place(columns[order], found.counts[order])

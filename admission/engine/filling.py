"""Inside a domain: level by level as few domains as possible, down to the nodes.

The roomiest go first, and what is left goes where it fits most tightly. A domain of a part's level takes whole
parts and is filled on its own. What is spread or balanced is divided evenly instead.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from admission.engine.ask import Ask, Columns, Place
from admission.engine.portions import evenly, fewest
from admission.engine.preferences import best_scores, by_score
from admission.engine.topology import Amounts


def fill(ask: Ask, at: int, columns: Columns) -> Place:
    """Level by level as few domains as possible, down to the nodes. The columns hold all pods."""
    if len(columns) == 1:
        return Place(columns, np.array([ask.pods], np.int64))
    parts = tuple(part for part in ask.parts if part.at >= at)
    if ask.balanced and at <= ask.at < (parts[0].at if parts else len(ask.chain) - 1):
        return _evenly_over(replace(ask, parts=parts), at, columns)
    if not parts:
        return _preferred_first(replace(ask, parts=()) if ask.parts else ask, at, columns)
    if parts[0].at == len(ask.chain) - 1:  # a host is a domain of its own: nothing is left to choose inside
        hosts = _domains(ask if parts == ask.parts else replace(ask, parts=parts), at, columns)
        return Place(
            np.array([host for host, _ in hosts], np.intp), np.array([pods for _, pods in hosts], np.int64)
        )
    level = ask.chain[parts[0].at]
    inner = replace(ask, parts=parts[1:]) if len(parts) > 1 else replace(ask, parts=())
    pieces = [
        fill(replace(inner, pods=pods), parts[0].at + 1, _both(level.members(domain), columns))
        for domain, pods in _domains(ask if parts == ask.parts else replace(ask, parts=parts), at, columns)
    ]
    return _joined(pieces)


def _domains(ask: Ask, at: int, columns: Columns) -> list[tuple[int, int]]:
    """Domains of the outermost part's level, with how many pods each gets: whole parts."""
    part = ask.parts[0]
    level = ask.chain[part.at]
    here = np.unique(level.of[columns])
    here = here[here >= 0]
    room = ask.capacity.at(part.at)[here]
    left = ask.pods
    chosen: list[tuple[int, int]] = []
    score = (
        np.zeros(len(here), np.int64)
        if ask.score is None
        else best_scores(replace(ask, pods=part.size), part.at)[here]
    )
    for _, mask in by_score(score, room):
        alike, holds = here[mask], room[mask]
        if ask.spread:
            picked, counts = evenly(holds, min(left, int(holds.sum())), part.size)
        elif int(holds.sum()) <= left:
            picked, counts = np.arange(len(alike)), holds
        else:
            near = _narrowed(ask, at, part.at, alike, left)
            picked, counts = _filled(ask, part.at, holds[near], left, part.size)
            picked = near[picked]
        chosen += zip(alike[picked].tolist(), counts.tolist(), strict=True)
        left -= int(counts.sum())
        if not left:
            break
    return chosen


def _narrowed(ask: Ask, at: int, to: int, domains: NDArray[np.intp], pods: int) -> NDArray[np.intp]:
    """Which of these domains of a level lie in the fewest domains of the levels above it, from ``at`` on."""
    first = ask.chain[to].first()[domains]
    room = ask.capacity.at(to)[domains]
    kept = np.arange(len(domains))
    for index in range(at, to):
        of = ask.chain[index].of[first[kept]]
        sums = np.zeros(len(ask.chain[index].domains), np.int64)
        np.add.at(sums, of[of >= 0], room[kept][of >= 0])
        if int(sums.sum()) < pods:
            continue  # only together with nodes that lack this label
        chosen = np.zeros(len(sums), np.bool_)
        picked, _ = _filled(ask, index, sums, pods, 1)
        chosen[picked] = True
        kept = kept[(of >= 0) & chosen[of]]
    return kept


def _filled(
    ask: Ask, index: int, room: Amounts, pods: int, unit: int
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The fewest places that hold the pods, and how many each gets: the roomiest full, or all alike."""
    cost = ask.cost if index == len(ask.chain) - 1 and len(room) == len(ask.room) else None
    picked = fewest(room, pods, cost)
    counts = room[picked]
    if ask.balanced and index == ask.at and len(picked) > 1:
        roomiest = np.argsort(-room, kind="stable")[: len(picked)]
        even, counts = evenly(room[roomiest], pods, unit)
        return roomiest[even], counts
    counts[-1] -= int(counts.sum()) - pods
    return picked, counts


def _preferred_first(ask: Ask, at: int, columns: Columns) -> Place:
    """Nodes of the highest score first; among equal ones the closest. Nothing is left of parts."""
    if ask.score is None:
        return _closest(ask, at, columns)
    columns = _close_together(ask, at, columns)
    left = ask.pods
    pieces: list[Place] = []
    for _, mask in by_score(ask.score[columns], ask.room[columns]):
        alike = columns[mask]
        room = ask.room[alike]
        if int(room.sum()) > left:
            pieces.append(_closest(replace(ask, pods=left), at, alike))
            break
        pieces.append(Place(alike, room))
        left -= int(room.sum())
        if not left:
            break
    return _joined(pieces)


def _close_together(ask: Ask, at: int, columns: Columns) -> Columns:
    """Of these nodes those of the lowest domain that holds all pods and scores as much as all nodes together."""
    room = np.zeros_like(ask.room)
    room[columns] = ask.room[columns]
    best, left = 0, ask.pods
    assert ask.score is not None
    for score, nodes in by_score(ask.score, room):
        best += score * min(left, int(room[nodes].sum()))
        left -= min(left, int(room[nodes].sum()))
    for index in range(at, len(ask.chain) - 1):
        level = ask.chain[index]
        sums = level.sums(room)
        fitting = np.flatnonzero(sums >= ask.pods)
        fitting = fitting[best_scores(replace(ask, room=room, known=[]), index)[fitting] >= best]
        if not len(fitting):
            break
        room = room * (level.of == fitting[sums[fitting].argmin()])
    kept: Columns = np.flatnonzero(room)
    return kept


def _closest(ask: Ask, at: int, columns: Columns) -> Place:
    if ask.spread:
        picked, counts = evenly(ask.room[columns], ask.pods, 1)
        return Place(columns[picked], counts)
    hosts = len(ask.chain) - 1
    for index in range(at, hosts):
        level = ask.chain[index]
        of = level.of[columns]
        inside = of >= 0
        sums = np.zeros(len(level.domains), np.int64)
        np.add.at(sums, of[inside], ask.room[columns][inside])
        if int(sums.sum()) < ask.pods:
            continue  # only together with nodes that lack this label: decided by node
        chosen = np.zeros(len(sums), np.bool_)
        chosen[fewest(sums, ask.pods)] = True
        columns = columns[inside & chosen[of]]
    room = ask.room[columns]
    if ask.balanced and ask.at == hosts:
        picked, counts = _filled(ask, hosts, room, ask.pods, 1)
        return Place(columns[picked], counts)
    picked = fewest(room, ask.pods, None if ask.cost is None else ask.cost[columns])
    counts = room[picked]
    counts[-1] -= int(counts.sum()) - ask.pods
    return Place(columns[picked], counts)


def _evenly_over(ask: Ask, at: int, columns: Columns) -> Place:
    """The fewest domains of the level that is asked for, each with as many pods as the others if it can."""
    level = ask.chain[ask.at]
    here = np.unique(level.of[columns])
    here = here[here >= 0]
    room = ask.capacity.at(ask.at)[here]
    if int(room.sum()) < ask.pods:  # only together with nodes that lack this label
        return fill(replace(ask, balanced=False), at, columns)
    near = _narrowed(ask, at, ask.at, here, ask.pods)
    unit = ask.parts[0].size if ask.parts else 1
    picked, counts = _filled(ask, ask.at, room[near], ask.pods, unit)
    inner = replace(ask, balanced=False)
    pieces = [
        fill(replace(inner, pods=pods), ask.at + 1, _both(level.members(domain), columns))
        for domain, pods in zip(here[near[picked]].tolist(), counts.tolist(), strict=True)
    ]
    return _joined(pieces)


def _joined(pieces: Sequence[Place]) -> Place:
    if len(pieces) == 1:
        return pieces[0]
    return Place(
        np.concatenate([piece.columns for piece in pieces]),
        np.concatenate([piece.counts for piece in pieces]),
    )


def _both(members: Columns, columns: Columns) -> Columns:
    return np.intersect1d(members, columns, assume_unique=True)

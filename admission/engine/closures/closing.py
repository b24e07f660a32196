"""Reservations and drains of a turn: which nodes are closed to which work, what is evicted from them, and until when.

Everything follows from the snapshot, so that a new leader decides the same: the nodes that were chosen for a
reservation are in its status.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admission.engine.closures.choice import candidates, chosen_nodes, lacks
from admission.engine.closures.held_work import HeldWork, rested_at
from admission.engine.closures.right import clearable, nodes_within_right
from admission.engine.forced_changes import OpenAdmissions
from admission.engine.nodes.closed_nodes import ClosedNodes
from admission.engine.nodes.table import Layout, Mask, NodeTable
from admission.engine.snapshot import Rollback, Snapshot
from queues.admissions import Admission, AdmissionState
from queues.node_closures import ClosureKind, NodeClosure
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.reason_codes import ReasonCode
from queues.text_format import listed, rfc3339
from queues.workload import AdmissionId, NodeName, WorkloadKey


@dataclass(frozen=True, slots=True, eq=False)
class TurnClosures:
    """What closures mean in a turn, and in the next ones if they stay the same."""

    #: As the snapshot had it, and with its closed nodes.
    before: Layout | None = None
    layout: Layout | None = None
    #: Nodes of reservations that were chosen in this turn, by id of the closure.
    chosen: Mapping[str, tuple[NodeName, ...]] = field(default_factory=dict)
    #: The next second at which it is another one, but for work that has rested (``Leaving``). None if there is none.
    until: int | None = None
    #: What runs, as the last turn knew it. None if no reservation chose in it.
    work: HeldWork | None = None

    def follow(self, snapshot: Snapshot) -> tuple["TurnClosures", Snapshot]:
        """What the closures of a snapshot mean, and the snapshot with its closed nodes."""
        if not snapshot.closures:
            return NOTHING_CLOSED, snapshot
        now, table = snapshot.now, snapshot.nodes
        active = sorted(
            (each for each in snapshot.closures if each.closes_nodes(now)),
            key=lambda each: (each.clear_at, each.id),
        )
        work = self.work or HeldWork()
        masks, turns_until = _masks(active, snapshot, work)
        closed = tuple(
            ClosedNodes(each, masks[each.id], each.start <= now) for each in active if masks[each.id].any()
        )
        changes = [each.next_change(now) for each in snapshot.closures]
        changes.append(turns_until)
        layout = self._layout(table.layout, closed)
        after = TurnClosures(
            before=table.layout,
            layout=layout,
            chosen={
                each.id: nodes
                for each in active
                if each.kind is ClosureKind.RESERVATION
                and set(nodes := table.layout.names_in(masks[each.id])) != set(each.nodes)
            },
            until=min((each for each in changes if each is not None), default=None),
            work=work if work.is_read_from(snapshot) else None,
        )
        return after, replace(snapshot, nodes=replace(table, layout=layout))

    def close(self, table: NodeTable) -> NodeTable:
        """The nodes with those closed that are closed in this turn, if they are the same nodes."""
        same = self.before is table.layout
        return replace(table, layout=self.layout) if same and self.layout is not None else table

    def _layout(self, layout: Layout, closed: Sequence[ClosedNodes]) -> Layout:
        """The layout with these nodes closed: that of the last turn if it is the same."""
        if not closed:
            return layout
        if self.before is layout and self.layout is not None and _same(self.layout.closed, closed):
            return self.layout
        return layout.closing(tuple(closed))


NOTHING_CLOSED = TurnClosures()


def _same(before: Sequence[ClosedNodes], after: Sequence[ClosedNodes]) -> bool:
    return len(before) == len(after) and all(
        replace(one.closure, nodes=()) == replace(other.closure, nodes=())
        and one.in_window == other.in_window
        and np.array_equal(one.mask, other.mask)
        for one, other in zip(before, after, strict=True)
    )


#: Reservations that choose nodes in one turn, the first in line and others by turns: each looks at all that runs.
_FIRST: Final = 4
_BY_TURNS: Final = 4
#: Seconds after which it is the turn of others.
_TURN: Final = 5


def _masks(
    active: Sequence[NodeClosure], snapshot: Snapshot, running: HeldWork
) -> tuple[dict[str, Mask], int | None]:
    """(N,) nodes of each closure: first those that drains name, then those that reservations have and choose. And the
    second at which it is the turn of other reservations to choose; None if all that lack nodes have chosen."""
    table = snapshot.nodes
    reservations = [each for each in active if each.kind is ClosureKind.RESERVATION]
    # What one has already, no other chooses.
    masks = {each.id: drained(each, table) for each in snapshot.closures}
    windows = _Windows(snapshot.closures, masks, snapshot.now)
    open_to = _OpenNodes(table)
    lacking = [each for each in reservations if lacks(each, table, windows.kept(each, open_to.of(each)))]
    choosing, until = _in_turn(lacking, snapshot.now)
    shown = {each.id: masks[each.id] for each in active}
    for each in reservations:
        if each.id not in choosing:
            columns = windows.kept(each, open_to.of(each))
        else:
            columns = _chosen(
                each, snapshot, open_to.of(each) & ~windows.taken(each), windows, running, shown
            )
        shown[each.id] = np.zeros(len(table), np.bool_)
        shown[each.id][columns] = True
        windows.put(each, shown[each.id])
    return shown, until


def _chosen(
    closure: NodeClosure,
    snapshot: Snapshot,
    may_be: Mask,
    windows: "_Windows",
    running: HeldWork,
    masks: Mapping[str, Mask],
) -> list[int]:
    """Columns of the nodes that a reservation chooses. ``masks``: (N,) nodes of each closure, by id."""
    if not closure.of_tenant:
        return chosen_nodes(closure, snapshot, may_be, lambda: windows.soon(closure), running)

    def soon() -> Mask:
        # Work that rests would stay: its nodes are the last to be chosen, as those that others need.
        return windows.soon(closure) | (running.rests_until(snapshot) > closure.clear_at)

    return nodes_within_right(closure, snapshot, may_be, soon, running, masks)


def _in_turn(lacking: Sequence[NodeClosure], now: int) -> tuple[Set[str], int | None]:
    """Ids of the reservations that choose now, and when it is the turn of others. None if there are no others."""
    others = [each.id for each in lacking[_FIRST:]]
    first = {each.id for each in lacking[:_FIRST]}
    if len(others) <= _BY_TURNS:
        return first | set(others), None
    begin = now // _TURN * _BY_TURNS
    return first | {others[(begin + at) % len(others)] for at in range(_BY_TURNS)}, (now // _TURN + 1) * _TURN


class _OpenNodes:
    """Nodes that reservations may keep, worked out once for all that ask for the same."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._known: dict[tuple[object, ...], Mask] = {}

    def of(self, closure: NodeClosure) -> Mask:
        """(N,) ``candidates``."""
        key = (
            closure.flavor,
            closure.level,
            *sorted(name for name, units in closure.amounts.items() if units),
        )
        if (known := self._known.get(key)) is None:
            known = self._known[key] = candidates(closure, self._table)
        return known


class _Windows:
    """Which closures need which nodes at which times."""

    def __init__(self, closures: Sequence[NodeClosure], masks: Mapping[str, Mask], now: int) -> None:
        never = np.iinfo(np.int64).max
        self._row = {each.id: row for row, each in enumerate(closures)}
        self._masks = np.array([masks[each.id] for each in closures])
        self._lead = np.array([each.lead_from for each in closures], np.int64)
        self._clear = np.array([each.clear_at for each in closures], np.int64)
        self._end = np.array([never if each.end is None else each.end for each in closures], np.int64)
        self._lasts = self._end > now

    def _beside(self, closure: NodeClosure) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(C,) closures that need nodes in the window of one, and those that need them shortly before or after."""
        row = self._row[closure.id]
        others = self._lasts.copy()
        others[row] = False
        overlap = (self._clear < self._end[row]) & (self._clear[row] < self._end)
        return others & overlap, others & ~overlap & (self._lead < self._end[row])

    def taken(self, closure: NodeClosure) -> Mask:
        """(N,) nodes that others have in the window of a closure."""
        taken: Mask = np.logical_or.reduce(self._masks[self._beside(closure)[0]], axis=0)
        return taken

    def kept(self, closure: NodeClosure, may_be: Mask) -> list[int]:
        """Columns of the nodes that a closure has, as far as it may have them and no other has them in its window."""
        own = np.flatnonzero(self._masks[self._row[closure.id]] & may_be)
        if not len(own):
            return []
        beside = np.flatnonzero(self._beside(closure)[0])
        kept: list[int] = own[~self._masks[np.ix_(beside, own)].any(axis=0)].tolist()
        return kept

    def soon(self, closure: NodeClosure) -> Mask:
        """(N,) nodes that others need shortly before its window or after it."""
        soon: Mask = np.logical_or.reduce(self._masks[self._beside(closure)[1]], axis=0)
        return soon

    def put(self, closure: NodeClosure, mask: Mask) -> None:
        """A closure has other nodes."""
        self._masks[self._row[closure.id]] = mask


def drained(closure: NodeClosure, table: NodeTable) -> Mask:
    """(N,) nodes that a drain is about; of a reservation those that it has."""
    mask = _mask_of(closure.nodes, table)
    if closure.selector:
        labels = table.layout.labels
        mask = mask | np.logical_and.reduce([labels.has(key, value) for key, value in closure.selector])
    return mask


def _mask_of(nodes: Iterable[NodeName], table: NodeTable) -> Mask:
    mask = np.zeros(len(table), np.bool_)
    position = table.layout.position
    mask[[position[name] for name in nodes if name in position]] = True
    return mask


# ── what has to leave ────────────────────────────────────────────────────────────────────────────────────────


class Leaving(NamedTuple):
    """Work that has to leave nodes that are closed."""

    admissions: Mapping[AdmissionId, Rollback]
    #: The second at which more has to leave, for it has rested. None if nothing rests there.
    until: int | None


def evicted_from(snapshot: Snapshot, open_admissions: OpenAdmissions, usage: Usage) -> Leaving:
    """Admissions that stay no longer, because nodes of theirs have to be clear now: whole gangs.

    For a reservation of a tenant's administrator work that was evicted before stays until it has rested
    (``rested_at``): a tenant that makes many short ones would evict it again and again. And work stays that the tenant
    would have to be cleared for more than it deserves (``right``). ``usage``: of the snapshot.
    """
    found: dict[AdmissionId, Rollback] = {}
    resting: list[int] = []
    for closed in snapshot.nodes.layout.closed:
        if snapshot.now < closed.closure.clear_at:
            continue
        names = {*snapshot.nodes.layout.names_in(closed.mask)}
        held_by: dict[WorkloadKey, list[Admission]] = {}
        nodes_of: dict[WorkloadKey, list[NodeName]] = {}
        for key in _on(closed, snapshot, open_admissions, usage.tree, of_holder=False):
            held = [snapshot.admissions[number] for number in open_admissions.of(key)]
            on = sorted({seat.node for each in held for seat in snapshot.still_held(each)} & names)
            until = rested_at(snapshot, held) if on and closed.closure.of_tenant else 0
            if until > snapshot.now:
                resting.append(until)
            elif on:
                held_by[key], nodes_of[key] = held, on
        may_go: Collection[WorkloadKey] = held_by
        if held_by and closed.closure.of_tenant:
            may_go = clearable(closed, held_by, found, snapshot, open_admissions, usage)
        for key in [each for each in held_by if each in may_go]:
            for each in held_by[key]:
                if each.state is AdmissionState.OPEN and each.id not in snapshot.evictable:
                    found.setdefault(each.id, _rollback(closed.closure, nodes_of[key], snapshot.now))
    return Leaving(found, min(resting, default=None))


def _on(
    closed: ClosedNodes,
    snapshot: Snapshot,
    open_admissions: OpenAdmissions,
    tree: QueueTree,
    *,
    of_holder: bool,
) -> list[WorkloadKey]:
    """Workloads with a seat on closed nodes, also an ended one, the oldest first: the holder's, or those of others."""
    numbers = open_admissions.on_nodes(snapshot.nodes.layout.names_in(closed.mask), snapshot.admissions)
    admissions = (snapshot.admissions[number] for number in sorted(numbers))
    found = (
        each.workload
        for each in admissions
        if closed.is_of_holder(tree.paths.get(each.queue, ())) == of_holder
    )
    return list(dict.fromkeys(found))


def _rollback(closure: NodeClosure, nodes: Sequence[NodeName], now: int) -> Rollback:
    shown = listed(nodes)
    what = "node" if len(nodes) == 1 else "nodes"
    if closure.kind is ClosureKind.RESERVATION:
        # For users of other queues: the name of a reservation is for users who may list it.
        until = "" if closure.end is None else f" until {rfc3339(closure.end)}"
        return Rollback(ReasonCode.NODES_RESERVED, f"{what} {shown} kept for a reservation{until}", now)
    return Rollback(ReasonCode.MAINTENANCE, f"{what} {shown} out of service by {closure}", now)


def keeping_quota(
    snapshot: Snapshot, open_admissions: OpenAdmissions, tree: QueueTree
) -> frozenset[WorkloadKey]:
    """Workloads that run in a window of their queue, on its nodes: what they have is not reclaimed before its end.

    For a tenant these are workloads that run on such nodes only: one pod there would keep a gang of any size elsewhere.
    """
    kept: set[WorkloadKey] = set()
    for closed in snapshot.nodes.layout.closed:
        if closed.in_window and closed.closure.queue is not None:
            of_holder = _on(closed, snapshot, open_admissions, tree, of_holder=True)
            nodes = {*snapshot.nodes.layout.names_in(closed.mask)}
            kept.update(
                key
                for key in of_holder
                if not closed.closure.of_tenant or _is_within(nodes, key, snapshot, open_admissions)
            )
    return frozenset(kept)


def _is_within(
    nodes: Set[NodeName], key: WorkloadKey, snapshot: Snapshot, open_admissions: OpenAdmissions
) -> bool:
    """Whether all that a workload holds is on these nodes."""
    held = (snapshot.still_held(snapshot.admissions[number]) for number in open_admissions.of(key))
    return {seat.node for seats in held for seat in seats} <= nodes

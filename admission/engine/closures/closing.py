"""Reservations and drains of a turn: which nodes are closed to whom, who is evicted from them, and until when.

Everything follows from the snapshot, so that a new leader decides the same: the nodes that were chosen for a
reservation are in its status.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from admission.engine.closures.choice import TurnWork, candidates, chosen_nodes
from admission.engine.closures.right import clearable, nodes_within_right
from admission.engine.forced_changes import OpenAdmissions
from admission.engine.nodes.closed_nodes import ClosedNodes
from admission.engine.nodes.table import Layout, Mask, NodeTable
from admission.engine.snapshot import Rollback, Snapshot
from queues.admissions import Admission, AdmissionState, rest_after
from queues.closures.node_closures import ClosureKind, NodeClosure
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
    #: The next second at which it is another one. None: there is none.
    until: int | None = None

    def follow(self, snapshot: Snapshot) -> tuple["TurnClosures", Snapshot]:
        """What the closures of a snapshot mean, and the snapshot with its closed nodes."""
        if not snapshot.closures:
            return NOTHING_CLOSED, snapshot
        now, table = snapshot.now, snapshot.nodes
        active = sorted(
            (each for each in snapshot.closures if each.closes_nodes(now)),
            key=lambda each: (each.clear_at, each.id),
        )
        masks = _masks(active, snapshot)
        closed = tuple(
            ClosedNodes(each, masks[each.id], each.start <= now) for each in active if masks[each.id].any()
        )
        changes = [each.next_change(now) for each in snapshot.closures]
        if any(each.closure.of_tenant and each.closure.clear_at <= now for each in closed):
            changes += _resting(snapshot, now).values()
        chosen = {each.id: nodes for each in active if (nodes := _names(masks[each.id], each, table))}
        layout = self._layout(table.layout, closed)
        after = TurnClosures(
            before=table.layout,
            layout=layout,
            chosen={
                each.id: chosen.get(each.id, ())
                for each in active
                if each.kind is ClosureKind.RESERVATION and set(chosen.get(each.id, ())) != set(each.nodes)
            },
            until=min((each for each in changes if each is not None), default=None),
        )
        return after, replace(snapshot, nodes=replace(table, layout=layout))

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


def _names(mask: Mask, closure: NodeClosure, table: NodeTable) -> tuple[NodeName, ...]:
    if closure.kind is not ClosureKind.RESERVATION:
        return ()
    return tuple(table.layout.names[column] for column in np.flatnonzero(mask).tolist())


def _masks(active: Sequence[NodeClosure], snapshot: Snapshot) -> dict[str, Mask]:
    """(N,) nodes of each closure: first those that drains name, then those that reservations have and choose."""
    table = snapshot.nodes
    masks = {each.id: drained(each, table) for each in active if each.kind is ClosureKind.DRAIN}
    reservations = [each for each in active if each.kind is ClosureKind.RESERVATION]
    # What one has already, no other chooses.
    for each in reservations:
        masks[each.id] = _mask_of(each.nodes, table)
    running = TurnWork(snapshot)
    position = table.layout.position
    planned = {each.id: drained(each, table) for each in snapshot.closures if each.id not in masks}
    for each in reservations:
        taken, soon = np.zeros((2, len(table)), np.bool_)
        for other in snapshot.closures:
            if other.id == each.id or other.has_ended(snapshot.now):
                continue
            mask = masks[other.id] if other.id in masks else planned[other.id]
            if each.overlaps(other):
                taken |= mask
            elif each.end is None or other.lead_from < each.end:
                soon |= mask
        if each.of_tenant and (resting := _resting(snapshot, each.clear_at)):
            # Its work would stay: such nodes are the last to be chosen.
            seats = (seat for number in resting for seat in snapshot.admissions[number].seats)
            soon[[position[seat.node] for seat in seats if seat.node in position]] = True
        may_be = candidates(each, table, taken)
        if each.of_tenant:
            nodes = nodes_within_right(each, snapshot, may_be, soon, running, masks)
        else:
            nodes = chosen_nodes(each, snapshot, may_be, soon, running)
        masks[each.id] = _mask_of(nodes, table)
    return masks


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


# ── who has to leave ────────────────────────────────────────────────────────────────────────────────────────


def evicted_from(
    snapshot: Snapshot, open_admissions: OpenAdmissions, usage: Usage
) -> dict[AdmissionId, Rollback]:
    """Admissions that stay no longer, because nodes of theirs have to be clear now: whole gangs.

    For a reservation of a tenant's administrator work that was evicted before stays until it has rested
    (``rested_at``): a tenant that makes many short ones would evict it again and again. And work stays that the tenant
    would have to be cleared for more than it deserves (``right``). ``usage``: of the snapshot.
    """
    tree = usage.tree
    found: dict[AdmissionId, Rollback] = {}
    for closed in snapshot.nodes.layout.closed:
        if snapshot.now < closed.closure.clear_at:
            continue
        names = [snapshot.nodes.layout.names[column] for column in np.flatnonzero(closed.mask).tolist()]
        leaving: dict[WorkloadKey, None] = {}
        for number in sorted(open_admissions.on_nodes(names, snapshot.admissions)):
            admission = snapshot.admissions[number]
            if not closed.is_of_holder(tree.paths.get(admission.queue, ())):
                leaving[admission.workload] = None
        held_by: dict[WorkloadKey, list[Admission]] = {}
        nodes_of: dict[WorkloadKey, list[NodeName]] = {}
        for key in leaving:
            held = [snapshot.admissions[number] for number in open_admissions.of(key)]
            on = sorted({seat.node for each in held for seat in snapshot.still_held(each)} & set(names))
            if on and not (closed.closure.of_tenant and rested_at(snapshot, held) > snapshot.now):
                held_by[key], nodes_of[key] = held, on
        may_go: Collection[WorkloadKey] = held_by
        if held_by and closed.closure.of_tenant:
            may_go = clearable(closed, held_by, found, snapshot, open_admissions, usage)
        for key in [each for each in held_by if each in may_go]:
            on = nodes_of[key]
            for each in held_by[key]:
                if each.state is AdmissionState.OPEN and each.id not in snapshot.evictable:
                    found.setdefault(each.id, _rollback(closed.closure, on, snapshot.now))
    return found


def rested_at(snapshot: Snapshot, held: Iterable[Admission]) -> int:
    """The second from which on the admissions of a workload may be evicted for a reservation of a tenant; 0: now."""
    opened = [each for each in held if each.state is AdmissionState.OPEN]
    holder = snapshot.holders.get(opened[0].workload) if opened else None
    if holder is None or not holder.evictions:
        return 0
    return max(each.opened_at for each in opened) + rest_after(holder.evictions)


def _resting(snapshot: Snapshot, at: int) -> dict[AdmissionId, int]:
    """Admissions of workloads that rest still at a second, each with the second at which they have rested."""
    held: dict[WorkloadKey, list[Admission]] = {}
    for admission in snapshot.admissions.values():
        holder = snapshot.holders.get(admission.workload)
        if holder is not None and holder.evictions:
            held.setdefault(admission.workload, []).append(admission)
    return {
        each.id: until
        for admissions in held.values()
        if (until := rested_at(snapshot, admissions)) > at
        for each in admissions
    }


def _rollback(closure: NodeClosure, nodes: Sequence[NodeName], now: int) -> Rollback:
    shown = listed(nodes)
    what = "node" if len(nodes) == 1 else "nodes"
    if closure.kind is ClosureKind.RESERVATION:
        # For people of other queues: the name of a reservation is for those who may list it.
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
            names = [snapshot.nodes.layout.names[column] for column in np.flatnonzero(closed.mask).tolist()]
            admissions: Iterable[Admission] = (
                snapshot.admissions[number] for number in open_admissions.on_nodes(names, snapshot.admissions)
            )
            of_holder = {
                each.workload for each in admissions if closed.is_of_holder(tree.paths.get(each.queue, ()))
            }
            if closed.closure.of_tenant:
                of_holder = {key for key in of_holder if _is_on(names, key, snapshot, open_admissions)}
            kept |= of_holder
    return frozenset(kept)


def _is_on(
    nodes: Iterable[NodeName], key: WorkloadKey, snapshot: Snapshot, open_admissions: OpenAdmissions
) -> bool:
    """Whether all that a workload holds is on these nodes."""
    held = (snapshot.still_held(snapshot.admissions[number]) for number in open_admissions.of(key))
    return {seat.node for seats in held for seat in seats} <= set(nodes)

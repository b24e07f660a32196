"""How many nodes a reservation of a tenant's administrators may keep: as many as the tenant deserves besides its work.

For the queue of the reservation, and each queue above it that states what it deserves, two amounts count together: the
whole nodes that tenants' reservations keep for it, and what its work uses on other nodes. While that is no more than
it deserves, nodes are chosen, and work of others is evicted from them. Nodes on which its own work runs cost nothing.

What its work gets on other nodes afterwards is borrowed, and can be reclaimed (``engine.nodes.kept_nodes``).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from admission.engine.closures.choice import chosen_nodes
from admission.engine.closures.held_work import HeldWork
from admission.engine.forced_changes import OpenAdmissions
from admission.engine.nodes.closed_nodes import ClosedNodes
from admission.engine.nodes.table import Mask
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, AdmissionState
from queues.node_closures import NodeClosure
from queues.quota.accounts import Account
from queues.quota.effective_limits import numbers_of
from queues.quota.queue import ROOT, path_below_root
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import is_device
from queues.workload import NO_FLAVOR, AdmissionId, NodeName, QueueName, WorkloadKey


class Bound(NamedTuple):
    """What one queue deserves of one device."""

    #: (N,) what the queue would have more if a node were kept for it.
    more: NDArray[np.int64]
    #: What it may have more.
    left: int


# ── which nodes are chosen ──────────────────────────────────────────────────────────────────────────────────


def nodes_within_right(
    closure: NodeClosure,
    snapshot: Snapshot,
    may_be: Mask,
    wanted_soon: Callable[[], Mask],
    running: HeldWork,
    masks: Mapping[str, Mask],
) -> tuple[NodeName, ...]:
    """The nodes that a reservation of a tenant keeps from now on: as ``chosen_nodes``, within its right.

    ``masks``: (N,) nodes of each closure, by id. Nodes that it has it keeps. If not all others are within its right,
    those are taken that bring it least above its present use: nodes of its own work.
    """
    nodes = chosen_nodes(closure, snapshot, may_be, wanted_soon, running)
    position = snapshot.nodes.layout.position
    had = {name for name in nodes if name in closure.nodes}
    new = [position[name] for name in nodes if name not in had]
    if not new:
        return nodes
    bounds = list(_bounds(closure, snapshot, running, masks))
    if len(_within(new, bounds)) == len(new):
        return nodes
    more: NDArray[np.int64] = np.sum([each.more for each in bounds], axis=0)
    nodes = chosen_nodes(closure, snapshot, may_be, wanted_soon, running, more)
    new = sorted((position[name] for name in nodes if name not in had), key=lambda each: (more[each], each))
    columns = [*(position[name] for name in had), *_within(new, bounds)]
    return tuple(snapshot.nodes.layout.names[column] for column in sorted(columns))


def _within(columns: Iterable[int], bounds: Sequence[Bound]) -> list[int]:
    """Those of these nodes that no bound excludes, the first ones first."""
    waiting = np.fromiter(columns, np.intp)
    left, found = [each.left for each in bounds], []
    while len(waiting):
        # What is left never grows: a node that does not fit is never asked about again.
        more = [each.more[waiting] for each in bounds]
        fits = [(units == 0) | (units <= rest) for units, rest in zip(more, left, strict=True)]
        fitting = np.flatnonzero(np.logical_and.reduce(fits)) if fits else np.arange(len(waiting))
        if not len(fitting):
            break
        first, waiting = int(waiting[fitting[0]]), waiting[fitting[1:]]
        found.append(first)
        left = [rest - int(each.more[first]) for each, rest in zip(bounds, left, strict=True)]
    return found


def _bounds(
    closure: NodeClosure, snapshot: Snapshot, running: HeldWork, masks: Mapping[str, Mask]
) -> Iterable[Bound]:
    table = snapshot.nodes
    rows = {name: row for row, name in enumerate(table.resources)}
    whole = np.maximum(running.offers(snapshot), 0)
    for name in path_below_root(closure.queue, snapshot.queues.get):
        deserved = _devices(numbers_of(snapshot.queues[name]).deserved, rows)
        if not deserved:
            continue
        kept = np.zeros(len(table), np.bool_)
        for other in snapshot.closures:
            if (
                other.of_tenant
                and other.id in masks
                and name in path_below_root(other.queue, snapshot.queues.get)
            ):
                kept |= masks[other.id]
        for account, units in deserved.items():
            has = running.used_by(name, account.resource, snapshot)
            may_have = whole[rows[account.resource]]
            more = np.maximum(may_have - has, 0)
            if account.flavor != NO_FLAVOR:
                inside = table.layout.of_flavor(account.flavor)
                has, more = has * inside, more * inside
            left = units - int(has.sum()) - int(more[kept].sum())
            yield Bound(np.where(kept, 0, more), left)


def _devices(stated: Mapping[Account, int], resources: Collection[str]) -> dict[Account, int]:
    """Devices of the nodes, as far as it is stated what a queue deserves of them: no administrator of a tenant reserves
    anything else."""
    return {
        account: units
        for account, units in sorted(stated.items())
        if "/" in account.resource and account.resource in resources and not is_device(account.resource)
    }


# ── what is evicted ──────────────────────────────────────────────────────────────────────────────────────────


def clearable(
    closed: ClosedNodes,
    leaving: Mapping[WorkloadKey, Sequence[Admission]],
    evicted: Collection[AdmissionId],
    snapshot: Snapshot,
    open_admissions: OpenAdmissions,
    usage: Usage,
) -> set[WorkloadKey]:
    """Those of these workloads that are evicted for a reservation of a tenant: as its right allows.

    ``leaving``: the admissions of each. ``evicted``: what else is evicted in this turn. ``usage``: of the snapshot.
    """
    tree = usage.tree
    left: dict[tuple[QueueName, Account], int] = {}
    gets: dict[WorkloadKey, Counter[tuple[QueueName, Account]]] = {key: Counter() for key in leaving}
    for name in tree.paths.get(closed.closure.queue or ROOT, ()):
        deserved = _devices(tree.own_deserved[name], snapshot.nodes.resources) if name != ROOT else {}
        if not deserved:
            continue
        columns = _kept_for(name, snapshot, tree)
        for account, units in deserved.items():
            left[name, account] = units - usage.used(name, account) - _idle(account, columns, snapshot)
        names = {snapshot.nodes.layout.names[column] for column in columns.tolist()}
        for number in open_admissions.on_nodes(names, snapshot.admissions):
            admission = snapshot.admissions[number]
            if name in tree.paths.get(admission.queue, ()):
                continue
            on_nodes = _on(names, admission, deserved, snapshot)
            if (
                admission.state is not AdmissionState.OPEN
                or number in snapshot.evictable
                or number in evicted
            ):
                for account, units in on_nodes.items():
                    left[name, account] -= units  # what leaves already
            elif admission.workload in gets:
                gets[admission.workload].update(
                    {(name, account): units for account, units in on_nodes.items()}
                )
    found: set[WorkloadKey] = set()
    for key, amounts in gets.items():
        if all(not units or units <= left[bound] for bound, units in amounts.items()):
            found.add(key)
            for bound, units in amounts.items():
                left[bound] -= units
    return found


def _kept_for(name: QueueName, snapshot: Snapshot, tree: QueueTree) -> NDArray[np.intp]:
    """Columns of the nodes that tenants keep for a queue and everything below it."""
    kept = np.zeros(len(snapshot.nodes), np.bool_)
    for each in snapshot.nodes.layout.closed:
        if each.closure.of_tenant and name in tree.paths.get(each.closure.queue or ROOT, ()):
            kept |= each.mask
    return np.flatnonzero(kept)


def _idle(account: Account, columns: NDArray[np.intp], snapshot: Snapshot) -> int:
    table = snapshot.nodes
    row = table.resources.index(account.resource)
    idle = np.maximum(table.allocatable[row, columns] - table.used[row, columns], 0)
    if account.flavor != NO_FLAVOR:
        idle = idle * table.layout.of_flavor(account.flavor)[columns]
    return int(idle.sum())


def _on(
    names: Collection[NodeName], admission: Admission, accounts: Iterable[Account], snapshot: Snapshot
) -> dict[Account, int]:
    """What an admission holds on these nodes."""
    held = [seat for seat in snapshot.still_held(admission) if seat.node in names]
    return {
        account: sum(
            seat.takes.get(account.resource)
            for seat in held
            if account.flavor in (NO_FLAVOR, snapshot.nodes.flavor(seat.node))
        )
        for account in accounts
    }

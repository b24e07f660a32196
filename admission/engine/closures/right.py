"""How many nodes a reservation of a tenant's administrators may keep: as many as the tenant deserves besides its work.

For the queue of the reservation, and each queue above it that states what it deserves, two amounts count together: the
whole nodes that tenants' reservations keep for it, and what its work uses on other nodes. While that is no more than
it deserves, nodes are chosen, and work of others is evicted from them. Nodes on which its own work runs cost nothing.

What its work gets on other nodes afterwards is borrowed, and can be reclaimed (``engine.nodes.kept_nodes``).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
) -> list[int]:
    """Columns of the nodes that a reservation of a tenant keeps from now on: as ``chosen_nodes``, within its right.

    ``masks``: (N,) nodes of each closure, by id. Nodes that it has it keeps. If not all others are within its right,
    those are taken that bring it least above its present use: nodes of its own work.
    """
    columns = chosen_nodes(closure, snapshot, may_be, wanted_soon, running)
    position = snapshot.nodes.layout.position
    had = {position[name] for name in closure.nodes if name in position} & {*columns}
    new = [column for column in columns if column not in had]
    if not new:
        return columns
    bounds = list(_bounds(closure, snapshot, running, masks))
    if len(_within(new, bounds)) == len(new):
        return columns
    more: NDArray[np.int64] = np.sum([each.more for each in bounds], axis=0)
    columns = chosen_nodes(closure, snapshot, may_be, wanted_soon, running, more)
    new = sorted(
        (column for column in columns if column not in had), key=lambda column: (more[column], column)
    )
    return sorted([*had, *_within(new, bounds)])


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
    whole = np.maximum(running.offers(snapshot), 0)
    tenants = [
        (other, masks[other.id]) for other in snapshot.closures if other.of_tenant and other.id in masks
    ]
    for name, deserved, kept in _rights(
        closure, tenants, snapshot, lambda queue: path_below_root(queue, snapshot.queues.get)
    ):
        for account, units in deserved.items():
            has = running.used_by(name, account.resource, snapshot)
            more = np.maximum(whole[table.resources.index(account.resource)] - has, 0)
            if account.flavor != NO_FLAVOR:
                inside = table.layout.of_flavor(account.flavor)
                has, more = has * inside, more * inside
            left = units - int(has.sum()) - int(more[kept].sum())
            yield Bound(np.where(kept, 0, more), left)


def _rights(
    closure: NodeClosure,
    tenants: Sequence[tuple[NodeClosure, Mask]],
    snapshot: Snapshot,
    above: Callable[[QueueName | None], Iterable[QueueName]],
) -> Iterator[tuple[QueueName, dict[Account, int], Mask]]:
    """The queue of a reservation and those above it that state what they deserve of devices: each with that, and with
    (N,) the nodes that tenants keep for it and everything below it.

    No administrator of a tenant reserves anything but devices. ``tenants``: reservations of tenants, with (N,) nodes.
    ``above``: a queue, and those above it.
    """
    for name in above(closure.queue):
        stated = numbers_of(snapshot.queues[name]).deserved if name != ROOT else {}
        deserved = {
            account: units
            for account, units in sorted(stated.items())
            if "/" in account.resource and not is_device(account.resource)
            if account.resource in snapshot.nodes.resources
        }
        if deserved:
            kept: Mask = np.zeros(len(snapshot.nodes), np.bool_)
            for other, mask in tenants:
                if name in above(other.queue):
                    kept |= mask
            yield name, deserved, kept


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
    tenants = [(each.closure, each.mask) for each in snapshot.nodes.layout.closed if each.closure.of_tenant]
    for name, deserved, kept in _rights(
        closed.closure, tenants, snapshot, lambda queue: tree.paths.get(queue or ROOT, ())
    ):
        for account, units in deserved.items():
            left[name, account] = units - usage.used(name, account) - _idle(account, kept, snapshot)
        names = {*snapshot.nodes.layout.names_in(kept)}
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


def _idle(account: Account, kept: Mask, snapshot: Snapshot) -> int:
    table = snapshot.nodes
    if account.flavor != NO_FLAVOR:
        kept = kept & table.layout.of_flavor(account.flavor)
    row = table.resources.index(account.resource)
    return int(np.maximum(table.allocatable[row] - table.used[row], 0)[kept].sum())


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

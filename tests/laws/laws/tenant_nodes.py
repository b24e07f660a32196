"""Laws about nodes that reservations of tenants' administrators keep, as functions that raise.

Worlds: ``tenant_worlds``.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from hypothesis import strategies as st

from admission.engine.memo import tree_of
from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState
from queues.node_closures import ClosureKind
from queues.quota.queue import ROOT, Limits
from queues.quota.tree import QueueTree
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import NodeName, QueueName
from tests.laws.laws.closures import closing_worlds
from tests.laws.laws.decision import plan_of
from tests.laws.worlds.snapshots import GPU

Nodes = Mapping[str, Collection[NodeName]]


@st.composite
def tenant_worlds(draw: st.DrawFn, most: int = 3) -> Snapshot:
    """Small worlds with reservations of tenants only, and queues that state how many GPUs they deserve."""
    snapshot = draw(closing_worlds())
    queues = {
        name: replace(
            each,
            limits=Limits(
                deserved=draw(st.sampled_from([{}, Resources({GPU: 4000}), Resources({GPU: 12000})]))
            ),
            flavors={},
            broken=None,
        )
        for name, each in snapshot.queues.items()
    }
    closures = [
        replace(each, of_tenant=True) for each in snapshot.closures if each.kind is ClosureKind.RESERVATION
    ]
    return replace(snapshot, queues=queues, closures=tuple(closures[:most]))


def _kept_for(queue: QueueName, nodes: Nodes, snapshot: Snapshot, tree: QueueTree) -> set[NodeName]:
    return {
        name
        for each in snapshot.closures
        if each.queue is not None and queue in tree.paths.get(each.queue, ())
        for name in nodes.get(each.id, ())
        if name in snapshot.nodes
    }


def _used(
    snapshot: Snapshot, tree: QueueTree, queue: QueueName, nodes: Collection[NodeName] | None = None
) -> int:
    """GPUs that the work of a queue holds; on some nodes only."""
    return sum(
        seat.takes.get(GPU)
        for admission in snapshot.admissions.values()
        if queue in tree.paths.get(admission.queue, (ROOT,))
        for seat in snapshot.still_held(admission)
        if (seat.node in snapshot.nodes if nodes is None else seat.node in nodes)
    )


def _offered(snapshot: Snapshot, tree: QueueTree, nodes: Collection[NodeName]) -> int:
    """GPUs that these nodes have for work of queues."""
    return sum(
        max(
            0,
            snapshot.nodes[name][0].get(GPU)
            - snapshot.nodes[name][1].get(GPU)
            + _used(snapshot, tree, ROOT, {name}),
        )
        for name in nodes
    )


def a_tenant_keeps_no_more_than_it_deserves(snapshot: Snapshot) -> None:
    """Nodes that are chosen for a tenant are, with what it uses on other nodes, no more than each of its queues
    deserves; where it uses more, they are nodes that its own work fills."""
    tree, plan = tree_of(snapshot.queues, snapshot.nodes), plan_of(snapshot)
    active = [each for each in snapshot.closures if each.closes_nodes(snapshot.now)]
    before = {each.id: each.nodes for each in active}
    after = {each.id: plan.chosen_nodes.get(each.id, each.nodes) for each in active}
    for queue, deserved in ((name, tree.own_deserved[name]) for name in tree.paths if name != ROOT):
        sums = []
        for nodes in (before, after):
            kept = _kept_for(queue, nodes, snapshot, tree)
            own = _used(snapshot, tree, queue)
            sums.append(own - _used(snapshot, tree, queue, kept) + _offered(snapshot, tree, kept))
        for account, units in deserved.items():
            if account.resource == GPU:
                assert sums[1] <= max(units, sums[0]), (queue, sums, units)


def a_tenant_clears_no_more_than_it_deserves(snapshot: Snapshot) -> None:
    """Nobody is evicted for a reservation of a tenant, if the tenant then had more than each of its queues deserves."""
    tree, plan = tree_of(snapshot.queues, snapshot.nodes), plan_of(snapshot)
    cleared = {each.admission for each in plan.evicts if each.code == ReasonCode.NODES_RESERVED}
    leaving = cleared | snapshot.evictable.keys()
    leaving |= {
        number for number, each in snapshot.admissions.items() if each.state is not AdmissionState.OPEN
    }
    nodes = {each.id: plan.chosen_nodes.get(each.id, each.nodes) for each in snapshot.closures}
    for queue, deserved in ((name, tree.own_deserved[name]) for name in tree.paths if name != ROOT):
        kept = _kept_for(queue, nodes, snapshot, tree) & set(snapshot.nodes.layout.names)
        foreign = {
            number: [seat for seat in snapshot.still_held(each) if seat.node in kept]
            for number, each in snapshot.admissions.items()
            if queue not in tree.paths.get(each.queue, ())
        }
        got = sum(seat.takes.get(GPU) for number in foreign.keys() & cleared for seat in foreign[number])
        stays = sum(seat.takes.get(GPU) for number in foreign.keys() - leaving for seat in foreign[number])
        has = (
            _used(snapshot, tree, queue) - _used(snapshot, tree, queue, kept) + _offered(snapshot, tree, kept)
        )
        for account, units in deserved.items():
            if account.resource == GPU and got:
                assert has - stays <= units, (queue, has, stays, units)

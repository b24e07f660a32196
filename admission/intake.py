"""Intake: what the world saw and the cluster forgets is stored in OBSERVED, in one short transaction per turn.

The world's lists of unsaved rows are emptied after the commit only, so a failed write is tried again.
"""

import logging

from admission.facts import PodFact, QueueFact
from admission.world.world import World
from queues.admissions import PodOutcome
from queues.order.policies import devices
from queues.sql.database import Database
from queues.sql.leadership import Term
from queues.sql.observed import workloads
from queues.workload import NO_FLAVOR, NodeName, WorkloadKey

_log = logging.getLogger(__name__)


async def save(database: Database, term: Term, world: World) -> bool:
    """Store all unsaved rows; false: there were none.

    Raises Fenced when the term is over, DatabaseError when Postgres refuses or cannot be reached.
    """
    unsaved = world.unsaved
    limits, removed_nodes = _node_limits(world)
    recreations = dict(world.recreations.unsaved)
    if not (unsaved or limits or removed_nodes or recreations):
        return False
    arrivals = sorted(unsaved.arrivals, key=lambda key: _order(world, key))
    described = [key for key in (*arrivals, *unsaved.described) if key in world.states]
    departed = list(unsaved.departed)
    queues = dict(unsaved.queues)
    outcomes = dict(unsaved.outcomes)
    nodes = set(world.node_inventory.unsaved)
    async with database.transaction() as tx:
        await workloads.check_term(tx, term)
        if limits or removed_nodes:
            await workloads.record_node_limits(tx, term, limits, removed_nodes)
        if queues:
            changed = [_version(fact) for fact in queues.values() if fact is not None]
            gone = [name for name, fact in queues.items() if fact is None]
            await workloads.record_queues(tx, term, changed, gone)
        numbers = {}
        if heirs := [key for key in arrivals if key in world.recreations.successions]:
            await workloads.succeed(tx, term, [_succession(world, key) for key in heirs])
        if arrivals:
            numbers = await workloads.arrive(tx, term, [_arrival(world, key) for key in arrivals])
        if described:
            await workloads.describe(tx, term, [_description(world, key) for key in described])
        if outcomes:
            rows = [_outcome(key, pod) for key, pod in outcomes.values()]
            await workloads.record_outcomes(tx, term, rows)
        if recreations:
            kept = [each for each in recreations.values() if each is not None]
            dropped = [uid for uid, each in recreations.items() if each is None]
            await workloads.record_recreations(tx, term, kept, dropped)
        left = await workloads.depart(tx, term, departed) if departed else frozenset()
    world.number(numbers)
    world.forget(left)
    world.unsaved.saved(arrivals, described, departed, queues, outcomes)
    world.node_inventory.unsaved.difference_update(nodes)
    for key in world.recreations.saved(recreations):
        world.mark_dirty(key)
    return True


def _order(world: World, key: WorkloadKey) -> tuple[int, str]:
    workload = world.states[key].workload
    return (workload.created, workload.name)


def _node_limits(world: World) -> tuple[dict[NodeName, workloads.NodeLimit], list[NodeName]]:
    limits: dict[NodeName, workloads.NodeLimit] = {}
    removed: list[NodeName] = []
    table = world.node_inventory.table() if world.node_inventory.unsaved else None
    for name in sorted(world.node_inventory.unsaved):
        limit = world.node_inventory.limit(name)
        if limit is None or table is None:
            removed.append(name)
        else:
            usable = world.node_inventory.can_take_pods(name)
            limits[name] = workloads.NodeLimit(limits=limit, flavor=table.flavor(name), usable=usable)
    return limits, removed


def _version(fact: QueueFact) -> workloads.QueueVersion:
    queue = fact.queue
    return workloads.QueueVersion(
        name=queue.name,
        uid=fact.uid,
        generation=queue.generation,
        parent=queue.parent,
        document=fact.document,
        changed_by=fact.changed_by,
        limits={NO_FLAVOR: queue.limits, **queue.flavors},
        paused=queue.paused,
        closed=queue.closed,
        broken=queue.broken,
    )


def _arrival(world: World, key: WorkloadKey) -> workloads.Arrival:
    workload = world.states[key].workload
    return workloads.Arrival(key=key, namespace=workload.namespace, name=workload.name, queue=workload.queue)


def _succession(world: World, key: WorkloadKey) -> workloads.Succession:
    return workloads.Succession(arrival=_arrival(world, key), after=world.recreations.successions[key])


def _description(world: World, key: WorkloadKey) -> workloads.Description:
    state = world.states[key]
    workload = state.workload
    return workloads.Description(
        key=key,
        namespace=workload.namespace,
        name=workload.name,
        queue=workload.queue,
        priority=workload.priority,
        created=workload.created,
        minimum=workload.minimum,
        pods=sum(len(pods.wanted()) for pods in workload.pod_sets),
        asks=workload.asks(),
        devices=devices(workload),
        run_time=workload.run_time,
        finished=state.is_over,
    )


def _outcome(key: WorkloadKey, pod: PodFact) -> PodOutcome:
    assert pod.index is not None
    return PodOutcome(
        workload=key,
        pod_set=pod.task,
        ordinal=pod.index,
        pod_uid=pod.uid,
        phase=pod.phase.value,
        exit_code=pod.exit_code,
        version=pod.version,
    )

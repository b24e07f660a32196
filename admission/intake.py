"""Intake: what the world saw and the cluster forgets is stored in OBSERVED, in one short transaction per turn.

The world's lists of unsaved rows are emptied after the commit only, so a failed write is tried again.
"""

from collections.abc import Iterable

from admission.facts import PodFact, QueueFact
from admission.world.world import World
from queues.admissions import PodOutcome
from queues.order.policies import devices
from queues.sql.database import Database
from queues.sql.leadership import Term
from queues.sql.observed import workloads
from queues.workload import NO_FLAVOR, NodeName, WorkloadKey


async def save(database: Database, term: Term, world: World) -> bool:
    """Store all unsaved rows; false: there were none.

    Raises Fenced when the term is over, DatabaseError when Postgres refuses or cannot be reached.
    """
    batch = world.unsaved.copy()
    if not batch:
        return False
    arrivals = sorted(batch.arrivals, key=lambda key: _order(world, key))
    described = [key for key in (*arrivals, *batch.described) if key in world.states]
    async with database.transaction() as tx:
        await workloads.check_term(tx, term)
        if batch.nodes:
            limits = _node_limits(world, batch.nodes)
            await workloads.record_node_limits(tx, term, limits, batch.nodes - limits.keys())
        if batch.queues:
            changed = [_version(fact) for fact in batch.queues.values() if fact is not None]
            gone = [name for name, fact in batch.queues.items() if fact is None]
            await workloads.record_queues(tx, term, changed, gone)
        numbers = {}
        if heirs := [key for key in arrivals if key in world.recreations.successions]:
            await workloads.succeed(tx, term, [_succession(world, key) for key in heirs])
        if arrivals:
            numbers = await workloads.arrive(tx, term, [_arrival(world, key) for key in arrivals])
        if described:
            await workloads.describe(tx, term, [_description(world, key) for key in described])
        if batch.outcomes:
            rows = [_outcome(key, pod) for key, pod in batch.outcomes.values()]
            await workloads.record_outcomes(tx, term, rows)
        if batch.recreations:
            kept = [each for each in batch.recreations.values() if each is not None]
            dropped = [uid for uid, each in batch.recreations.items() if each is None]
            await workloads.record_recreations(tx, term, kept, dropped)
        left = await workloads.depart(tx, term, batch.departed) if batch.departed else frozenset()
    world.saved(batch, numbers, left)
    return True


def _order(world: World, key: WorkloadKey) -> tuple[int, str]:
    workload = world.states[key].workload
    return (workload.created, workload.name)


def _node_limits(world: World, changed: Iterable[NodeName]) -> dict[NodeName, workloads.NodeLimit]:
    """Limits of these nodes; nodes that are gone are absent."""
    inventory = world.node_inventory
    table = inventory.table()
    return {
        name: workloads.NodeLimit(
            limits=limit, flavor=table.flavor(name), usable=inventory.can_take_pods(name)
        )
        for name in sorted(changed)
        if (limit := inventory.limit(name)) is not None
    }


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

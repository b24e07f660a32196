"""Recovers nodes with unhealthy devices, for one term: looks, decides, carries out, and looks again.

Whatever is to be done follows from what the API server shows. So a new leader goes on where the last one stopped, and
what fails is tried again. Evictions, and nodes that take no gangs, are handed to the world: the plan carries them out.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NoReturn

from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NodeRecoveryFact
from admission.kube.client.client import Client
from admission.kube.node_recovery.black_holes import BlackHoles
from admission.kube.node_recovery.marked_nodes import MarkedNodes
from admission.kube.node_recovery.node_views import NodeViews
from admission.kube.node_recovery.node_writer import NodeHasChanged, NodeWriter
from admission.kube.node_recovery.recovery_jobs import RecoveryJobs
from admission.kube.node_recovery.retry_pauses import RetryPauses
from admission.node_recovery.black_hole import BlackHoleDetector
from admission.node_recovery.jobs import CreateJob
from admission.node_recovery.policy import BlackHoleRule, FaultPolicy, fault_policy
from admission.node_recovery.state import RecoveryPhase, read_state
from admission.node_recovery.step import NodeEvent, NodeTurn, plan
from admission.node_recovery.view import NodeHealth, NodeView
from admission.world.world import World
from queues.errors import Fenced
from queues.quota.queue import ROOT, Queue
from queues.workload import NodeName, QueueName, WorkloadKey

#: Seconds between two looks.
PERIOD: Final = 0.5


class NodeRecovery:
    """The loop."""

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        world: World,
        marks: MarkedNodes,
        jobs: RecoveryJobs,
        *,
        hand_in: Callable[[Change], None],
        now: Callable[[], float],
        instance: str,
    ) -> None:
        """``hand_in``: takes a change into the world's stream; ``now``: seconds since the epoch."""
        self._client = client
        self._world = world
        self._hand_in = hand_in
        self._now = now
        self._writer = NodeWriter(client, check_lease, marks, jobs, instance=instance)
        self._detector = BlackHoleDetector(BlackHoleRule())
        self._holes = BlackHoles(world, self._detector)
        self._jobs = jobs
        self._views = NodeViews(world, marks, jobs, self._detector)
        #: Nodes for which it was reported that the circuit breaker holds evictions back.
        self._held_back: frozenset[NodeName] = frozenset()
        #: What was handed in last, by node.
        self._asked: dict[NodeName, NodeRecoveryFact] = {}
        #: Looks as a whole; nodes for which nothing is asked of the API server; and nodes for which no Job is.
        self._looks = RetryPauses("recovery of nodes")
        self._put_off = RetryPauses("recovery of a node")
        self._refusals = RetryPauses("Job for a node")
        self._wake = asyncio.Event()
        marks.changed = jobs.changed = self._wake.set

    async def run(self) -> NoReturn:
        """Until cancelled. Raises Fenced."""
        while True:
            await self._contained_look()
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD):
                    await self._wake.wait()
            self._wake.clear()

    async def _contained_look(self) -> None:
        """A look that ends no term. Raises Fenced."""
        await self._looks.contain("all", int(self._now()), self.look)

    async def look(self) -> None:
        """One round over all nodes. What fails for one of them puts off that one only. Raises Fenced."""
        now, policy = int(self._now()), fault_policy(self._root())
        closed = self._holes.look(now, policy)
        namespaces = frozenset(each.partition("/")[0] for each in (policy.job, policy.verify_job) if each)
        self._jobs.namespaces = namespaces
        interesting = self._views.interesting(closed, namespaces)
        if not (interesting or self._asked):
            return
        views = self._views.all(interesting, namespaces, now)
        turns = plan(views, policy, now, failed=partial(self._step_failed, now))
        evicted: dict[NodeName, dict[WorkloadKey, str]] = {}
        for name, turn in turns.items():
            await self._carry_out(views[name], turn, evicted, now)
        for name, asked in self._asked.items():
            # Nothing can be said of the node: its gangs go on leaving.
            if asked.evicted and self._views.put_off.holds(name, now):
                evicted[name] = dict(asked.evicted)
        await self._ask(closed, evicted)
        await self._tell_of_held_back(policy)

    def health(self) -> NodeHealth:
        """The health of nodes as it is now, for metrics."""
        inventory = self._world.node_inventory
        faults = [fault for name in inventory.faulty.since for fault in inventory.nodes[name].faults]
        closed = Counter[str]({phase.value: 0 for phase in RecoveryPhase if phase.is_out})
        for marks in self._views.marks.all().values():
            if (state := read_state(marks.annotation)) is not None and state.phase.is_out:
                closed[state.phase.value] += 1
        return NodeHealth(
            nodes=len(inventory.faulty.since), faults=Counter(fault.reason for fault in faults), closed=closed
        )

    def _root(self) -> Queue | None:
        found = self._world.queues.get(QueueName(ROOT))
        return None if found is None else found.queue

    def _step_failed(self, now: int, name: NodeName, error: Exception) -> None:
        self._views.put_off.failed(name, error, now)

    async def _carry_out(
        self, view: NodeView, turn: NodeTurn, evicted: dict[NodeName, dict[WorkloadKey, str]], now: int
    ) -> None:
        """What follows for one node, as long as nothing fails; while the node is put off, without what asks the API
        server."""
        if turn.evicted:
            why = f"{turn.why_evicted}, on node {view.name}"
            evicted.setdefault(view.name, {}).update(dict.fromkeys(turn.evicted, why))
        put_off = self._put_off.holds(view.name, now)
        try:
            if not put_off:
                await self._write(view, turn, now)
        except NodeHasChanged:
            return
        except Fenced:
            raise
        except Exception as error:  # besides ApiError, such as a template that is no CronJob
            self._put_off.failed(view.name, error, now)
        else:
            if not put_off:
                self._put_off.succeeded(view.name)

    async def _write(self, view: NodeView, turn: NodeTurn, now: int) -> None:
        if turn.writes:
            await self._writer.write_state(view, turn.state)
        if turn.tries_gang:
            self._detector.try_now(view.name, now)
        if turn.event is not None:
            await self._writer.tell(view.name, turn.event)
        if turn.creates is not None:
            await self._create_job(turn.creates, now)
        for job in turn.deletes:
            await self._writer.delete_job(job)

    async def _create_job(self, create: CreateJob, now: int) -> None:
        """Make a Job. One that was refused is tried again after a pause, and holds back nothing else."""
        if self._refusals.holds(create.node, now):
            return
        refused = await self._writer.create_job(create)
        if refused:
            self._views.refused[create.node] = refused
            self._refusals.failed(create.node, refused, now)
        else:
            self._views.refused.pop(create.node, None)
            self._refusals.succeeded(create.node)

    async def _ask(
        self, closed: Mapping[NodeName, str], evicted: Mapping[NodeName, Mapping[WorkloadKey, str]]
    ) -> None:
        """Hand in what admissions are to follow, as far as it is another than before."""
        wanted = {
            name: NodeRecoveryFact(node=name, closed=closed.get(name, ""), evicted=evicted.get(name, {}))
            for name in {*closed, *evicted}
        }
        for name in sorted({*wanted, *self._asked}):
            fact, before = wanted.get(name), self._asked.get(name)
            if fact != before:
                self._hand_in(Change(FactKind.NODE_RECOVERY, name, fact))
                if fact is not None and fact.closed and (before is None or not before.closed):
                    await self._writer.tell(name, NodeEvent("NodeKillsPods", fact.closed, True))
        self._asked = wanted

    async def _tell_of_held_back(self, policy: FaultPolicy) -> None:
        """Gangs stay on unhealthy devices where too many nodes have failed at one time."""
        faulty = self._world.node_inventory.faulty
        held_back, most = faulty.held_back(), policy.most_out(len(faulty.with_devices))
        for name in sorted(held_back - self._held_back):
            message = (
                "no gang is evicted from it though its devices are unhealthy: as many nodes have failed at one time as "
                f"policy.health.recovery.maxNodesOut of queue root allows ({most})"
            )
            await self._writer.tell(name, NodeEvent("EvictionHeldBack", message, True))
        self._held_back = held_back

"""Recovers nodes with faults, for one term: looks, decides, carries out, and looks again.

Whatever is to be done follows from what the API server shows. So a new leader goes on where the last one stopped, and
what fails is tried again. Evictions, and nodes that take no gangs, are handed to the world: the plan carries them out.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NoReturn

from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NodeFact, NodeRecoveryFact
from admission.kube.client.client import Client
from admission.kube.node_recovery.failing_nodes import FailingNodes
from admission.kube.node_recovery.node_views import node_view
from admission.kube.node_recovery.node_writer import NodeWriter
from admission.kube.node_recovery.recovery_jobs import RecoveryJobs
from admission.kube.node_recovery.retry_pauses import RetryPauses
from admission.kube.writers.work_queue import EXPECTATION_SECONDS
from admission.node_recovery.jobs import CreateJob
from admission.node_recovery.state import read_state
from admission.node_recovery.step import NodeEvent, step
from admission.world.world import World
from queues.errors import ApiRefused, NotFound
from queues.workload import NodeName, WorkloadKey

#: Seconds between two looks.
PERIOD: Final = 0.5

#: What a node says of its recovery: annotation and taint. None if there is no such node.
Marks = tuple[str, str | None] | None


class NodeRecovery:
    """The loop."""

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        world: World,
        jobs: RecoveryJobs,
        *,
        hand_in: Callable[[Change], None],
        now: Callable[[], float],
        instance: str,
    ) -> None:
        """``hand_in``: takes a change into the world's stream; ``now``: seconds since the epoch."""
        self._world = world
        self._jobs = jobs
        self._inventory = world.node_inventory
        self._hand_in = hand_in
        self._now = now
        self._writer = NodeWriter(client, check_lease, instance=instance)
        self._failing = FailingNodes(world)
        #: Why the API server refused the Job of a node the last time.
        self._refused: dict[NodeName, str] = {}
        #: What nodes said of their recovery when they were written, and when, until the world shows them otherwise.
        self._written: dict[NodeName, tuple[Marks, int]] = {}
        #: Gangs that have to leave, by node, with what their users are told.
        self._evicted: dict[NodeName, Mapping[WorkloadKey, str]] = {}
        #: What was handed in last, by node.
        self._asked: dict[NodeName, NodeRecoveryFact] = {}
        #: Nodes that were reported as closed to gangs, and as ones from which evictions are held back.
        self._closed: frozenset[NodeName] = frozenset()
        self._held_back: frozenset[NodeName] = frozenset()
        self._pauses = RetryPauses("recovery of a node")

    async def run(self) -> NoReturn:
        """Until cancelled. Raises Fenced."""
        while True:
            await self._pauses.contain("all nodes", int(self._now()), self.look)
            await asyncio.sleep(PERIOD)

    async def look(self) -> None:
        """One round over all nodes. What fails for one of them puts off that one only. Raises Fenced."""
        now, faulty = int(self._now()), self._inventory.faulty
        self._written = {
            name: (marks, at)
            for name, (marks, at) in self._written.items()
            if marks == _marks(self._inventory.nodes.get(name)) and now < at + EXPECTATION_SECONDS
        }
        found = self._failing.look(now)
        to_recover = (faulty.to_recover() | found.keys()) & self._inventory.nodes.keys()
        for name in sorted(to_recover):
            kills_pods = str(found.get(name, ""))
            await self._pauses.contain(name, now, partial(self._recover, name, kills_pods, now))
        self._evicted = {name: gangs for name, gangs in self._evicted.items() if name in to_recover and gangs}
        self._ask(
            {
                name: NodeRecoveryFact(
                    node=name,
                    kills_pods=str(found.get(name, "")),
                    since=found[name].since if name in found else 0,
                    evicted=self._evicted.get(name, {}),
                )
                for name in {*found, *self._evicted}
            }
        )
        await self._tell_of_closed()
        await self._tell_of_held_back()

    async def _recover(self, name: NodeName, kills_pods: str, now: int) -> None:
        """One step of a node, unless it is gone.

        While the world does not show the last write there is nothing to decide on; and no second node is closed before
        the circuit breaker counts the first one.
        """
        fact = self._inventory.nodes.get(name)
        if fact is None or name in self._written or (self._written and fact.fault_taint is None):
            return
        view = node_view(self._world, self._jobs, name, kills_pods, self._refused.get(name, ""))
        turn = step(view, self._inventory.faulty.rules, now)
        # Gangs leave in a phase that was entered before: they do not wait for a write, nor stay if one fails.
        self._evicted[name] = turn.evicted
        if turn.deletes is not None:
            await self._writer.delete_job(turn.deletes)
        if turn.writes:
            if not await self._writer.write_state(view, turn.state):
                return
            self._written[name] = _marks(fact), now
        if read_state(fact.recovery).phase.is_out and not turn.state.phase.is_out:
            self._failing.forget(name)
        if turn.event is not None:
            await self._writer.tell(name, turn.event)
        self._refused.pop(name, None)
        if turn.creates is not None:
            await self._create_job(turn.creates)

    async def _create_job(self, create: CreateJob) -> None:
        """Make a Job. Why one is refused is told in the next step, which tries it again."""
        try:
            await self._writer.create_job(create)
        except (ApiRefused, NotFound) as error:
            self._refused[create.node] = str(error)
            raise

    def _ask(self, wanted: dict[NodeName, NodeRecoveryFact]) -> None:
        """Hand in what admissions are to follow, as far as it is another than before."""
        for name in sorted({*wanted, *self._asked}):
            if wanted.get(name) != self._asked.get(name):
                self._hand_in(Change(FactKind.NODE_RECOVERY, name, wanted.get(name)))
        self._asked = wanted

    async def _tell_of_closed(self) -> None:
        """Nodes that get no gangs any more since they kill pods."""
        closed = {name: why for name in self._asked if (why := self._inventory.faulty.closed(name))}
        for name in sorted(closed.keys() - self._closed):
            await self._writer.tell(name, NodeEvent("NodeKillsPods", closed[name], True))
        self._closed = frozenset(closed)

    async def _tell_of_held_back(self) -> None:
        """Gangs stay on unhealthy devices where too many nodes have failed at one time."""
        held_back = self._inventory.faulty.held_back()
        for name in sorted(held_back - self._held_back):
            why = self._inventory.faulty.why_held_back()
            message = f"no gang is evicted from it though its devices are unhealthy: {why}"
            await self._writer.tell(name, NodeEvent("EvictionHeldBack", message, True))
        self._held_back = held_back


def _marks(fact: NodeFact | None) -> Marks:
    return None if fact is None else (fact.recovery, fact.fault_taint)

"""Recovers nodes with unhealthy devices, for one term: looks, decides, carries out, and looks again.

Whatever is to be done follows from what the API server shows. So a new leader goes on where the last one stopped, and
what fails is tried again. Evictions, and nodes that take no gangs, are handed to the world: the plan carries them out.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn

import msgspec

from admission.decode.fields import seconds
from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NodeRecoveryFact
from admission.kube.client.client import Client
from admission.kube.node_recovery.black_holes import BlackHoles
from admission.kube.node_recovery.effect_writer import EffectWriter, NodeHasChanged
from admission.kube.node_recovery.marked_nodes import MarkedNodes
from admission.kube.node_recovery.node_views import NodeViews
from admission.kube.node_recovery.recovery_jobs import RecoveryJobs
from admission.node_recovery.black_hole import BlackHoleDetector
from admission.node_recovery.effects import CreateJob, DeleteJob, Effect, EvictGangs, Tell, TryNode, WriteNode
from admission.node_recovery.fault_policy import fault_policy
from admission.node_recovery.figures import NodeHealth, RecoveryFigures, faulty_nodes
from admission.node_recovery.plan import plan
from admission.node_recovery.policy import BlackHoleRule, FaultPolicy
from admission.node_recovery.state import RecoveryState, read_state
from admission.node_recovery.view import NodeView
from admission.world.world import World
from queues.api.api_resources import CRON_JOBS, LEASES
from queues.api.names import AGENT_LEASE_SECONDS, AGENT_NAMESPACE
from queues.errors import ApiError, NotFound
from queues.quota.queue import ROOT, Queue
from queues.workload import NodeName, QueueName, WorkloadKey

_log = logging.getLogger(__name__)

#: Seconds between two looks.
PERIOD: Final = 0.5
#: Seconds for which it is remembered that a template exists, and when an agent was heard.
_REMEMBERED: Final = 10
#: Seconds of the first pause of a node after a failed write, and of the longest.
_FIRST_PAUSE: Final = 1
_LONGEST_PAUSE: Final = 60


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
        self._writer = EffectWriter(client, check_lease, marks, jobs, instance=instance)
        self._detector = BlackHoleDetector(BlackHoleRule())
        self._holes = BlackHoles(world, self._detector)
        self._views = NodeViews(world, marks, jobs, self._detector)
        #: Nodes of which it was told that the circuit breaker holds evictions back.
        self._held_back: frozenset[NodeName] = frozenset()
        #: What was handed in last, by node.
        self._asked: dict[NodeName, NodeRecoveryFact] = {}
        self._templates: tuple[int, frozenset[str]] = (0, frozenset())
        self._heard_at: dict[NodeName, int] = {}
        #: Until when a node is left alone after a failed write, and the pause.
        self._paused: dict[NodeName, tuple[int, int]] = {}
        self._faulty: Mapping[NodeName, int] | None = None
        self._looked_at = 0
        self.figures = RecoveryFigures()
        self._wake = asyncio.Event()
        marks.changed = jobs.changed = self._wake.set

    async def run(self) -> NoReturn:
        """Until cancelled. Raises Fenced."""
        while True:
            try:
                await self.look()
            except ApiError as error:
                _log.warning("recovery of nodes put off", extra={"why": str(error)})
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD):
                    await self._wake.wait()
            self._wake.clear()

    async def look(self) -> None:
        """One round over all nodes. Raises ApiError, Fenced."""
        now, policy = int(self._now()), fault_policy(self._root())
        if policy.black_hole is not None:
            self._detector.rule = policy.black_hole
        closed = self._holes.look(now) if policy.black_hole is not None else {}
        namespaces = frozenset(
            each.partition("/")[0] for each in (policy.recovery_job, policy.verify_job) if each
        )
        interesting = self._views.interesting(closed, namespaces)
        if not (interesting or self._asked):
            self._count({}, {}, now)
            return
        await self._hear(interesting, now)
        views = self._views.all(interesting, namespaces, now)
        turns = plan(views, policy, now, templates=await self._known_templates(policy, now))
        states = {name: turn.state for name, turn in turns.items()}
        self._count(views, states, now)
        evicted: dict[NodeName, dict[WorkloadKey, str]] = {}
        for name, turn in turns.items():
            before = read_state(views[name].annotation) or RecoveryState()
            if await self._carry_out(views[name], turn.effects, evicted, now):
                self.figures = self.figures.moved(before, turn.state)
        await self._ask(closed, evicted)
        await self._tell_of_held_back(policy)

    def health(self) -> NodeHealth:
        """The health of nodes as it is now, for metrics."""
        inventory = self._world.node_inventory
        faults = [fault for name in inventory.faulty.since for fault in inventory.nodes[name].faults]
        return NodeHealth(
            nodes=len(inventory.faulty.since),
            faults=Counter(fault.reason for fault in faults),
            figures=self.figures,
        )

    def _root(self) -> Queue | None:
        found = self._world.queues.get(QueueName(ROOT))
        return None if found is None else found.queue

    async def _carry_out(
        self,
        view: NodeView,
        effects: tuple[Effect, ...],
        evicted: dict[NodeName, dict[WorkloadKey, str]],
        now: int,
    ) -> bool:
        """The effects for one node in their order, as long as none fails. Whether all were carried out."""
        if self._paused.get(view.name, (0, 0))[0] > now and any(
            isinstance(each, WriteNode) for each in effects
        ):
            return False
        try:
            for effect in effects:
                await self._carry_out_one(view, effect, evicted, now)
        except NodeHasChanged:
            return False
        except ApiError as error:
            pause = min(_LONGEST_PAUSE, 2 * self._paused.get(view.name, (0, 0))[1] or _FIRST_PAUSE)
            self._paused[view.name] = (now + pause, pause)
            _log.warning("recovery of a node put off", extra={"node": view.name, "why": str(error)})
            return False
        self._paused.pop(view.name, None)
        return True

    async def _carry_out_one(
        self, view: NodeView, effect: Effect, evicted: dict[NodeName, dict[WorkloadKey, str]], now: int
    ) -> None:
        match effect:
            case WriteNode():
                await self._writer.write_node(effect, view)
            case CreateJob():
                refused = await self._writer.create_job(effect)
                self._views.refused.pop(view.name, None)
                if refused:
                    self._views.refused[view.name] = refused
            case DeleteJob():
                await self._writer.delete_job(effect)
            case EvictGangs():
                of_node = evicted.setdefault(effect.node, {})
                of_node.update(dict.fromkeys(effect.gangs, f"{effect.message}, on node {effect.node}"))
            case TryNode():
                self._detector.try_now(effect.node, now)
            case Tell():
                await self._writer.tell(effect)

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
                    await self._writer.tell(
                        Tell(node=name, reason="NodeKillsPods", message=fact.closed, warning=True)
                    )
        self._asked = wanted

    async def _tell_of_held_back(self, policy: FaultPolicy) -> None:
        """Gangs stay on unhealthy devices where too many nodes have failed at one time."""
        held_back = self._world.node_inventory.faulty.held_back()
        for name in sorted(held_back - self._held_back):
            message = (
                "no gang is evicted from it though its devices are unhealthy: as many nodes as policy.health.recovery "
                f"of queue root allows have failed at one time ({policy.max_percent_out} % of the nodes with devices)"
            )
            await self._writer.tell(Tell(node=name, reason="EvictionHeldBack", message=message, warning=True))
        self._held_back = held_back

    async def _known_templates(self, policy: FaultPolicy, now: int) -> frozenset[str]:
        """Templates of the policy that exist."""
        named = {each for each in (policy.recovery_job, policy.verify_job) if each}
        at, known = self._templates
        if not named or (known >= named and now < at + _REMEMBERED):
            return known & named
        found: set[str] = set()
        for each in sorted(named):
            namespace, _, name = each.partition("/")
            with suppress(NotFound):
                await self._client.get(CRON_JOBS.path(namespace, name))
                found.add(each)
        self._templates = (now, frozenset(found))
        return frozenset(found)

    async def _hear(self, nodes: set[NodeName], now: int) -> None:
        """Note of nodes in recovery when their agents were last heard. One without a lease is no agent of Muster's."""
        for name in sorted(nodes):
            if not self._views.in_recovery(name) or self._heard_at.get(name, 0) > now - _REMEMBERED:
                continue
            self._heard_at[name] = now
            self._views.heard.pop(name, None)
            with suppress(NotFound):
                lease: dict[str, Any] = msgspec.json.decode(
                    await self._client.get(LEASES.path(AGENT_NAMESPACE, name))
                )
                renewed = seconds(lease.get("spec", {}).get("renewTime"))
                if renewed <= now - AGENT_LEASE_SECONDS:
                    self._views.heard[name] = renewed

    def _count(
        self, views: Mapping[NodeName, NodeView], states: Mapping[NodeName, RecoveryState], now: int
    ) -> None:
        """Keep the figures of failures and repairs."""
        faulty = faulty_nodes({name: views[name] for name in views if not views[name].is_quiet}, states, now)
        nodes = frozenset(self._world.node_inventory.nodes)
        before = faulty if self._faulty is None else self._faulty
        self.figures = self.figures.after(before, faulty, nodes=nodes, now=now)
        if self._looked_at:
            well = len(self._world.node_inventory.faulty.with_devices - faulty.keys())
            self.figures = self.figures.elapsed(well=well, seconds=now - self._looked_at)
        self._faulty, self._looked_at = faulty, now

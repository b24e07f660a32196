"""Recovers nodes with unhealthy devices, for one term: looks, decides, carries out, and looks again.

Whatever is to be done follows from what the API server shows. So a new leader goes on where the last one stopped, and
what fails is tried again. Evictions, and nodes that take no gangs, are handed to the world: the plan carries them out.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
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
from admission.kube.node_recovery.retry_pauses import RetryPauses
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
from queues.api.names import AGENT_NAMESPACE
from queues.errors import ApiUnavailable, Fenced, NotFound
from queues.quota.queue import ROOT, Queue
from queues.workload import NodeName, QueueName, WorkloadKey

#: Seconds between two looks.
PERIOD: Final = 0.5
#: Seconds for which it is remembered that a template exists, and when an agent renewed its lease.
_REMEMBERED: Final = 10
#: Effects that ask nothing of the API server.
_IN_MEMORY: Final = (EvictGangs, TryNode)


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
        self._jobs = jobs
        self._views = NodeViews(world, marks, jobs, self._detector)
        #: Nodes for which it was reported that the circuit breaker holds evictions back.
        self._held_back: frozenset[NodeName] = frozenset()
        #: What was handed in last, by node.
        self._asked: dict[NodeName, NodeRecoveryFact] = {}
        #: When templates of the policy were seen (seconds).
        self._templates: dict[str, int] = {}
        self._leases_read_at: dict[NodeName, int] = {}
        #: Looks as a whole; nodes for which nothing is asked of the API server; and nodes for which no Job is.
        self._looks = RetryPauses("recovery of nodes")
        self._put_off = RetryPauses("recovery of a node")
        self._refusals = RetryPauses("Job for a node")
        #: Templates and leases that cannot be read.
        self._unread_templates = RetryPauses("reading of a template")
        self._unread_leases = RetryPauses("reading of an agent's lease")
        self._faulty: Mapping[NodeName, int] | None = None
        self._looked_at = 0
        self.figures = RecoveryFigures()
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
        closed = self._holes.look(now, policy.black_hole)
        namespaces = frozenset(
            each.partition("/")[0] for each in (policy.recovery_job, policy.verify_job) if each
        )
        self._jobs.namespaces = namespaces
        interesting = self._views.interesting(closed, namespaces)
        if not (interesting or self._asked):
            self._count({}, {}, now)
            return
        await self._read_leases(interesting, now)
        views = self._views.all(interesting, namespaces, now)
        templates = await self._known_templates(policy, now)
        turns = plan(views, policy, now, templates=templates, failed=partial(self._step_failed, now))
        states = {name: turn.state for name, turn in turns.items()}
        self._count(views, states, now)
        evicted: dict[NodeName, dict[WorkloadKey, str]] = {}
        for name, turn in turns.items():
            before = read_state(views[name].annotation) or RecoveryState()
            if await self._carry_out(views[name], turn.effects, evicted, now):
                self.figures = self.figures.moved(before, turn.state)
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
        return NodeHealth(
            nodes=len(inventory.faulty.since),
            faults=Counter(fault.reason for fault in faults),
            figures=self.figures,
        )

    def _root(self) -> Queue | None:
        found = self._world.queues.get(QueueName(ROOT))
        return None if found is None else found.queue

    def _step_failed(self, now: int, name: NodeName, error: Exception) -> None:
        self._views.put_off.failed(name, error, now)

    async def _carry_out(
        self,
        view: NodeView,
        effects: tuple[Effect, ...],
        evicted: dict[NodeName, dict[WorkloadKey, str]],
        now: int,
    ) -> bool:
        """The effects for one node in their order, as long as none fails. Whether all were carried out.

        While the node is put off, as far as nothing is asked of the API server.
        """
        put_off = self._put_off.holds(view.name, now)
        try:
            for effect in effects:
                if put_off and not isinstance(effect, _IN_MEMORY):
                    return False
                await self._carry_out_one(view, effect, evicted, now)
        except NodeHasChanged:
            return False
        except Fenced:
            raise
        except Exception as error:  # besides ApiError, such as a template that is no CronJob
            self._put_off.failed(view.name, error, now)
            return False
        if not put_off:
            self._put_off.succeeded(view.name)
        return True

    async def _carry_out_one(
        self, view: NodeView, effect: Effect, evicted: dict[NodeName, dict[WorkloadKey, str]], now: int
    ) -> None:
        match effect:
            case WriteNode():
                await self._writer.write_node(effect, view)
            case CreateJob():
                await self._create_job(effect, now)
            case DeleteJob():
                await self._writer.delete_job(effect)
            case EvictGangs():
                of_node = evicted.setdefault(effect.node, {})
                of_node.update(dict.fromkeys(effect.gangs, f"{effect.message}, on node {effect.node}"))
            case TryNode():
                self._detector.try_now(effect.node, now)
            case Tell():
                await self._writer.tell(effect)

    async def _create_job(self, effect: CreateJob, now: int) -> None:
        """Make a Job. One that was refused is tried again after a pause, and holds back nothing else."""
        if self._refusals.holds(effect.node, now):
            return
        refused = await self._writer.create_job(effect)
        if refused:
            self._views.refused[effect.node] = refused
            self._refusals.failed(effect.node, refused, now)
        else:
            self._views.refused.pop(effect.node, None)
            self._refusals.succeeded(effect.node)

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
                "no gang is evicted from it though its devices are unhealthy: as many nodes have failed at one time as "
                f"policy.health.recovery of queue root allows ({_bounds(policy)})"
            )
            await self._writer.tell(Tell(node=name, reason="EvictionHeldBack", message=message, warning=True))
        self._held_back = held_back

    async def _known_templates(self, policy: FaultPolicy, now: int) -> frozenset[str]:
        """Templates of the policy that exist. One that cannot be read stops only what needs it."""
        named = {each for each in (policy.recovery_job, policy.verify_job) if each}
        seen = {each: at for each, at in self._templates.items() if each in named and now < at + _REMEMBERED}
        for each in sorted(named - seen.keys()):
            if self._unread_templates.holds(each, now):
                continue
            namespace, _, name = each.partition("/")
            try:
                await self._client.get(CRON_JOBS.path(namespace, name))
                seen[each] = now
            except NotFound:
                pass
            except Exception as error:
                self._unread_templates.failed(each, error, now)
                continue
            self._unread_templates.succeeded(each)
        self._templates = seen
        return frozenset(seen)

    async def _read_leases(self, nodes: set[NodeName], now: int) -> None:
        """Note when the agents of nodes in recovery renewed their leases. Other reporters have none."""
        unavailable = False
        for name in sorted(nodes):
            if not self._views.in_recovery(name) or self._leases_read_at.get(name, 0) > now - _REMEMBERED:
                continue
            if unavailable or self._unread_leases.holds(name, now):
                # It is not known that its agent has run, so what waits for that goes on waiting.
                self._views.leases_renewed.setdefault(name, 0)
                continue
            try:
                await self._read_lease(name)
            except Exception as error:
                unavailable = isinstance(
                    error, ApiUnavailable
                )  # each further call may last until its timeout
                self._views.leases_renewed.setdefault(name, 0)
                self._unread_leases.failed(name, error, now)
            else:
                self._leases_read_at[name] = now
                self._unread_leases.succeeded(name)

    async def _read_lease(self, name: NodeName) -> None:
        renewed: int | None = None
        with suppress(NotFound):
            content = await self._client.get(LEASES.path(AGENT_NAMESPACE, name))
            lease: dict[str, Any] = msgspec.json.decode(content)
            renewed = seconds(lease.get("spec", {}).get("renewTime"))
        self._views.leases_renewed.pop(name, None)
        if renewed is not None:
            self._views.leases_renewed[name] = renewed

    def _count(
        self, views: Mapping[NodeName, NodeView], states: Mapping[NodeName, RecoveryState], now: int
    ) -> None:
        """Keep the figures of failures and repairs."""
        faulty = faulty_nodes({name: views[name] for name in views if not views[name].is_quiet}, states, now)
        nodes = frozenset(self._world.node_inventory.nodes)
        before = faulty if self._faulty is None else self._faulty
        # A node whose view is unknown for now has not come back.
        faulty |= {name: before[name] for name in before if self._views.put_off.holds(name, now)}
        self.figures = self.figures.after(before, faulty, nodes=nodes, now=now)
        if self._looked_at:
            well = len(self._world.node_inventory.faulty.with_devices - faulty.keys())
            self.figures = self.figures.elapsed(well=well, seconds=now - self._looked_at)
        self._faulty, self._looked_at = faulty, now


def _bounds(policy: FaultPolicy) -> str:
    """The circuit breaker's bounds, for people."""
    nodes, percent = policy.max_nodes_out, policy.max_percent_out
    told = [] if nodes is None else [f"maxNodesOut {nodes}"]
    return ", ".join([*told, *([] if percent is None else [f"maxPercentOut {percent}"])])

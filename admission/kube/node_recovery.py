"""Recovers nodes with faults, for one term: looks, decides, carries out, and looks again.

Whatever is to be done follows from what the API server shows. So a new leader goes on where the last one stopped, and
what fails is tried again. Evictions, and nodes that take no gangs, are handed to the world: the plan carries them out.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NoReturn

import msgspec

from admission.decode.fields import is_true, seconds
from admission.decode.nodes import node_fact
from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NodeFact, NodeRecoveryFact
from admission.facts.pods import PodPhase
from admission.kube.client.client import Client
from admission.kube.retry_pauses import RetryPauses
from admission.kube.writers.events import write_event
from admission.kube.writers.work_queue import EXPECTATION_SECONDS
from admission.node_recovery.early_failures import EARLY, EarlyFailures, KillsPods, PodRun, Submitter
from admission.node_recovery.jobs import CreateJob, JobName, RecoveryJob, job_document
from admission.node_recovery.state import RecoveryState, read_state
from admission.node_recovery.step import GangOnNode, NodeEvent, NodeView, known_by, step
from admission.reconcile.status import EventNote
from admission.wire import WireNode
from admission.workloads.kinds.batch_job import WireJob
from admission.workloads.seats import is_live
from admission.world.learned.seen_times import has_devices, takes_devices
from admission.world.world import World
from queues.admissions import Admission
from queues.api import names
from queues.api.api_resources import CRON_JOBS, JOBS, NODES, ObjectRef
from queues.api.names import RECOVERY_NODE
from queues.errors import ApiRefused, Conflict, NotFound
from queues.workload import NodeName, QueueName, WorkloadKey

# ── Jobs ────────────────────────────────────────────────────────────────────────────────────────────────────


class RecoveryJobs:
    """By namespace and name: any user may write the annotation, but not in the namespaces of the templates."""

    def __init__(self) -> None:
        self.by_name: dict[JobName, RecoveryJob] = {}
        self._names: dict[str, JobName] = {}

    def seen(self, found: Any, raw: msgspec.Raw) -> None:
        """A Job as its informer shows it."""
        job: WireJob = found
        if RECOVERY_NODE not in (job.metadata.annotations or {}):
            self.gone(job.metadata.uid)
            return
        name, conditions = JobName(job.metadata.namespace, job.metadata.name), job.status.conditions
        failed, complete = is_true(conditions, "Failed"), is_true(conditions, "Complete")
        succeeded = False if failed else True if complete else None
        created, uid = seconds(job.metadata.creation_timestamp), job.metadata.uid
        self.by_name[name] = RecoveryJob(created, succeeded, uid)
        self._names[uid] = name

    def gone(self, uid: str) -> None:
        """A Job is gone. A later one may have its name."""
        name = self._names.pop(uid, None)
        if name is not None and self.by_name[name].uid == uid:
            del self.by_name[name]


# ── nodes that kill pods ────────────────────────────────────────────────────────────────────────────────────


class FailingNodes:
    """Nodes that kill the pods of any gang that they get, for one term."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._failures = EarlyFailures()

    def look(self, now: int) -> Mapping[NodeName, KillsPods]:
        """Take in how pods fared since the last call; nodes that get no gangs now."""
        for ended in self._world.ended_pods.take():
            started = ended.bound_at or now
            self._failures.saw(self._run(ended.node, ended.admission, started, now, failed=ended.failed))
        suspected = self._failures.suspected()
        for node in sorted(suspected):
            if node not in self._world.node_inventory.nodes:
                self._failures.forget(node)
            for run in self._good_runs(node, now):
                self._failures.saw(run)
        return self._failures.find(self._submitters(), now) if suspected else {}

    def forget(self, node: NodeName) -> None:
        """The node was recovered."""
        self._failures.forget(node)

    def _good_runs(self, node: NodeName, now: int) -> Iterator[PodRun]:
        """Pods with devices that have run there for long enough show that the node does not kill them."""
        for key in self._world.admission_index.seated_on(node):
            for pod in self._world.pod_index.of(key):
                runs = pod.node == node and pod.phase is PodPhase.RUNNING and has_devices(pod)
                admission = self._world.admission_index.admission_of(pod)
                if runs and admission is not None and pod.bound_at and now - pod.bound_at > EARLY:
                    yield self._run(node, admission, pod.bound_at, now, failed=False)

    def _run(self, node: NodeName, admission: Admission, started: int, until: int, *, failed: bool) -> PodRun:
        return PodRun(
            node=node,
            gang=admission.workload,
            submitter=self._submitter(admission.queue, admission.user),
            admission=admission.id,
            started=started,
            until=until,
            failed=failed,
        )

    def _submitters(self) -> set[Submitter]:
        """Submitters of gangs that wait or run; of many, those of two tenants and two users."""
        known: set[Submitter] = set()
        for fact in self._world.facts.values():
            if not fact.finished and fact.queue is not None:
                known.add(self._submitter(fact.queue, fact.conduct.user))
            if len({each.tenant for each in known}) > 1 and len({each.user for each in known}) > 1:
                break
        return known

    def _submitter(self, queue: QueueName, user: str) -> Submitter:
        return Submitter(self._world.queue_facts.tenant_of(queue), user)


# ── what a step is decided on ───────────────────────────────────────────────────────────────────────────────


#: Numbers of the devices that pods have, as is reported, by the pod's uid. Empty: nothing reports it.
Holders = Mapping[str, frozenset[int]]


def node_view(world: World, jobs: RecoveryJobs, name: NodeName, kills_pods: str, refused: str) -> NodeView:
    """The view of a node. ``kills_pods``, ``refused``: as the view has them."""
    reported, faulty = world.devices.reported(name), world.node_inventory.faulty
    fact = world.node_inventory.nodes[name]
    holders = {} if reported is None else reported.holders
    devices = () if reported is None else reported.devices
    seated = sorted(world.admission_index.seated_on(name))
    gangs = (_gang(world, key, name, holders) for key in seated)
    return NodeView(
        name=name,
        ready=fact.ready,
        taint=fact.fault_taint,
        annotation=fact.recovery,
        faults=fact.faults,
        kills_pods=kills_pods,
        reported=frozenset(known_by(device.id, device.number) for device in devices),
        gangs=tuple(gang for gang in gangs if gang is not None),
        foreign_pods=len(_foreign_pods(world, name, holders)),
        jobs=jobs.by_name,
        refused=refused,
        held_back="" if name in faulty.granted else faulty.why_held_back(),
    )


def _gang(world: World, key: WorkloadKey, name: NodeName, holders: Holders) -> GangOnNode | None:
    """A gang that holds devices of the node. None if it holds none."""
    pods = [pod for pod in world.pod_index.of(key) if pod.node == name]
    has_uncounted = any(pod.claims_uncounted or pod.uid in holders for pod in pods)
    seats = [seat for admission in world.admission_index.of(key) for seat in admission.holding()]
    if not any(seat.node == name and (has_uncounted or takes_devices(seat.takes)) for seat in seats):
        return None
    devices = [holders.get(pod.uid) for pod in pods]
    known = None if not devices or None in devices else frozenset().union(*filter(None, devices))
    return GangOnNode(key, known)


def _foreign_pods(world: World, name: NodeName, holders: Holders) -> set[str]:
    """Uids of pods that have devices, or may have, and hold no seat. Those of recovery Jobs are in the templates'
    namespaces.

    By their requests, and by what is reported: a pod may have devices that its requests do not show. What the agent
    reports of pods may be older than what the cluster shows.
    """
    found = {
        uid
        for uid, takes in world.node_inventory.foreign_on(name)
        if takes_devices(takes) or ((pod := world.pods.get(uid)) is not None and pod.claims_uncounted)
    }
    seated = world.admission_index.seated_on(name)
    found |= {uid for uid in holders if world.pod_index.owner_of(uid) not in seated}
    rules = world.node_inventory.faulty.rules
    of_recovery = {template.partition("/")[0] for template in (rules.job, rules.verify_job) if template}
    return {
        uid
        for uid in found
        if (pod := world.pods.get(uid)) is not None
        and pod.node == name
        and is_live(pod)
        and pod.namespace not in of_recovery
    }


# ── what a step writes ──────────────────────────────────────────────────────────────────────────────────────


_log = logging.getLogger(__name__)

_TAINT: Final = {"key": names.GPU_FAULT, "value": names.GPU_FAULT_BY_MUSTER, "effect": "NoSchedule"}


class NodeWriter:
    """Writes of one term. Every method may raise ApiError and Fenced."""

    def __init__(self, client: Client, check_lease: Callable[[], None], *, instance: str) -> None:
        self._client = client
        self._check_lease = check_lease
        self._instance = instance

    async def write_state(self, view: NodeView, state: RecoveryState) -> bool:
        """Annotation and taint in one patch, which holds only for the version of the Node that was read for it.

        False if the Node says something else by now than what was decided on: it is to be decided again.
        """
        path = NODES.path(name=view.name)
        content = await self._client.get(path)
        fact, node = node_fact(msgspec.json.decode(content, type=WireNode)), msgspec.json.decode(content)
        if (view.annotation, view.taint) != (fact.recovery, fact.fault_taint):
            return False
        taints = [each for each in node["spec"].get("taints") or () if not _is_own(each)]
        if state.phase.is_out and not any(each["key"] == names.GPU_FAULT for each in taints):
            taints.append(_TAINT)
        patch = {
            "metadata": {
                "resourceVersion": node["metadata"]["resourceVersion"],
                "annotations": {names.RECOVERY: state.annotation() or None},
            },
            "spec": {"taints": taints or None},
        }
        try:
            await self._client.patch(path, patch, check_lease=self._check_lease)
        except Conflict:
            return False
        return True

    async def create_job(self, create: CreateJob) -> None:
        """The Job from its template. Raises ApiRefused and NotFound if the API server refuses it."""
        node = msgspec.json.decode(await self._client.get(NODES.path(name=create.node)))
        namespace = create.job.namespace
        template = msgspec.json.decode(await self._client.get(CRON_JOBS.path(namespace, create.template)))
        document = job_document(template, create, node_uid=node["metadata"]["uid"])
        try:
            await self._client.create(JOBS.path(namespace), document, check_lease=self._check_lease)
        except Conflict as error:
            if error.facts.get("code") != "AlreadyExists":
                raise

    async def delete_job(self, job: JobName) -> None:
        """Delete a Job with its pods; it may be gone."""
        try:
            await self._client.delete(
                JOBS.path(*job), propagation="Background", check_lease=self._check_lease
            )
        except NotFound:
            return

    async def tell(self, node: NodeName, event: NodeEvent) -> None:
        """An event of the Node. That it cannot be written stops nothing."""
        ref = ObjectRef(resource=NODES, name=node, uid=node)
        note = EventNote(
            ref=ref, reason=event.reason, message=event.message, action="Recover", warning=event.warning
        )
        level = logging.WARNING if event.warning else logging.INFO
        _log.log(level, "node recovery", extra={"node": node, "what": event.message})
        await write_event(self._client, note, self._instance, self._check_lease)


def _is_own(taint: dict[str, Any]) -> bool:
    return bool(taint["key"] == names.GPU_FAULT and taint.get("value") == names.GPU_FAULT_BY_MUSTER)


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

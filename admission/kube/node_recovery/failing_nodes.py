"""Shows to the finder of nodes that kill pods what the world shows of pods with devices."""

from collections.abc import Iterator, Mapping

from admission.facts.pods import PodPhase
from admission.node_recovery.early_failures import EARLY, EarlyFailures, KillsPods, PodRun, Submitter
from admission.world.learned.seen_times import has_devices
from admission.world.world import World
from queues.admissions import Admission
from queues.workload import NodeName, QueueName


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

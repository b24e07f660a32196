"""Pods are made again in the fake cluster, one step at a time."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, cast

from admission.facts import Change
from admission.kube.client.client import Client
from admission.kube.writers.recreate import GoingPod, RecreationWriter
from admission.kube.writers.work_queue import Step, WorkQueue
from admission.world.world import World
from queues.workload import WorkloadKey
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_pod_api import FakePodApi, done


class SteppedQueue(WorkQueue[GoingPod]):
    """Steps are taken when the test says so, and pauses pass by the cluster's clock."""

    def __init__(self, cluster: FakeCluster, requeue: Callable[[GoingPod], None]) -> None:
        super().__init__(requeue, requeue)
        self.cluster = cluster
        #: By the uid of the pod that goes.
        self.steps: dict[Hashable, tuple[GoingPod, Step, str]] = {}
        self.due: dict[GoingPod, float] = {}

    def now(self) -> float:
        return self.cluster.now

    def start(self, key: GoingPod, item: Hashable, step: Step, name: str) -> None:
        self.steps[item] = (key, step, name)
        self._steps[item] = cast(Any, None)
        self._busy[key] += 1

    def requeue_after(self, key: GoingPod, seconds: float) -> None:
        when = self.now() + seconds
        self.due[key] = min(self.due.get(key, when), when)

    def ring(self) -> None:
        """Keys whose time has come are requeued."""
        for key, when in list(self.due.items()):
            if when <= self.now():
                del self.due[key]
                self._requeue(key)

    def carry_out(self, most: int) -> int:
        """Up to so many steps; how many were taken."""
        chosen = list(self.steps.items())[:most]
        for item, (key, step, name) in chosen:
            del self.steps[item]
            done(self._run(key, item, step, name))
        return len(chosen)


class SteppedRecreate(RecreationWriter):
    """The writer over a queue that the test drives."""

    def __init__(self, cluster: FakeCluster, world: World) -> None:
        #: Handed in, and not observed yet.
        self.changes: list[Change] = []
        super().__init__(
            cast(Client, FakePodApi(cluster)),
            world,
            lambda: None,
            hand_in=self.changes.append,
            requeue=world.mark_dirty,
            failpoint=lambda point: None,
        )
        self.queue: SteppedQueue = SteppedQueue(cluster, lambda pod: world.mark_dirty(pod.workload))

    def reconcile(self, keys: Iterable[WorkloadKey]) -> None:
        super().reconcile(sorted(keys))

    def drain(self) -> list[Change]:
        """Intents handed in since the last call."""
        changes = list(self.changes)
        self.changes.clear()
        return changes

"""Writers of which the test takes one step at a time, in the fake cluster."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

from admission.facts.changes import Change
from admission.kube.client.client import Client
from admission.kube.writers.recreate import GoingPod, RecreationWriter
from admission.kube.writers.release import ReleaseWriter
from admission.kube.writers.work_queue import Step, WorkQueue
from admission.world.world import World
from queues.workload import WorkloadKey
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_pod_api import FakePodApi, done

Key = TypeVar("Key", GoingPod, WorkloadKey)


class SteppedQueue(WorkQueue[Key], Generic[Key]):
    """Steps are taken when the test says so, and pauses pass by the cluster's clock."""

    def __init__(
        self, cluster: FakeCluster, requeue: Callable[[Key], None], finished: Callable[[Key], None]
    ) -> None:
        super().__init__(requeue, finished)
        self.cluster = cluster
        self.steps: dict[Any, tuple[Key, Step, str]] = {}
        self.due: dict[Key, float] = {}

    def now(self) -> float:
        return self.cluster.now

    def start(self, key: Key, item: Any, step: Step, name: str) -> None:
        self.steps[item] = (key, step, name)
        self._began(key, item, cast(Any, None))

    def cancel(self, key: Key, item: Any) -> None:
        del self.steps[item]
        self._drop(key, item)

    def requeue_after(self, key: Key, seconds: float) -> None:
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
        chosen = list(self.steps)[:most]
        for item in chosen:
            self.take(item)
        return len(chosen)

    def take(self, item: Any) -> None:
        """One step."""
        key, step, name = self.steps.pop(item)
        done(self._run(key, step, name))
        self._drop(key, item)
        self._finished(key)


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

        def look(pod: GoingPod) -> None:
            world.mark_dirty(pod.workload)

        self.queue: SteppedQueue[GoingPod] = SteppedQueue(cluster, look, look)

    def reconcile(self, keys: Iterable[WorkloadKey]) -> None:
        super().reconcile(sorted(keys))

    def drain(self) -> list[Change]:
        """Intents handed in since the last call."""
        changes = list(self.changes)
        self.changes.clear()
        return changes


class SteppedRelease(ReleaseWriter):
    """The writer over a queue that the test drives."""

    def __init__(self, cluster: FakeCluster, world: World) -> None:
        super().__init__(
            cast(Client, FakePodApi(cluster)),
            world,
            lambda: None,
            requeue=world.mark_dirty,
            failpoint=lambda point: None,
        )
        self.queue: SteppedQueue[WorkloadKey] = SteppedQueue(cluster, world.mark_dirty, lambda key: None)

    def reconcile(self, keys: Iterable[WorkloadKey]) -> None:
        super().reconcile(sorted(keys))

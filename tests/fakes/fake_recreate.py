"""Pods are made again in the toy cluster, one step at a time."""

from collections.abc import Iterable
from typing import Any, cast

from admission.kube.client.client import Client
from admission.kube.writers.recreate import RecreationWriter, Step
from admission.world.world import World
from queues.workload import WorkloadKey
from tests.fakes.fake_cluster import ToyCluster
from tests.fakes.fake_pod_api import ToyApi, done


class ToyRecreate(RecreationWriter):
    """Steps are taken when the test says so, and pauses pass by the cluster's clock."""

    def __init__(self, cluster: ToyCluster, world: World) -> None:
        super().__init__(cast(Client, ToyApi(cluster)), world, lambda: None, again=world.look_again)
        self.cluster = cluster
        self.steps: dict[str, tuple[WorkloadKey, Step]] = {}
        self.alarms: dict[str, tuple[float, WorkloadKey]] = {}

    def look_at(self, keys: Iterable[WorkloadKey]) -> None:
        for key in sorted(keys):
            for uid, step in self.steps_of(key, self.cluster.now):
                self.steps[uid] = (key, step)
                self._under_way[uid] = cast(Any, None)

    def _soon(self, key: WorkloadKey, uid: str, pause: float) -> float:
        self.alarms[uid] = (self.cluster.now + pause, key)
        return self.alarms[uid][0]

    def ring(self) -> None:
        """Whose pause is over is looked at again."""
        for uid, (when, key) in list(self.alarms.items()):
            if when <= self.cluster.now:
                del self.alarms[uid]
                self.world.look_again(key)

    def carry_out(self, most: int) -> int:
        """Up to so many steps; how many were taken."""
        chosen = list(self.steps.items())[:most]
        for uid, (key, step) in chosen:
            del self.steps[uid]
            done(self._take(key, uid, step))
        return len(chosen)

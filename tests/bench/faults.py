"""Part ``faults`` of the benchmarks: how long after its Device says so a gang on a GPU that failed is taken back."""

import statistics
import threading
import time

from deploy.local.client import LocalClient
from queues.api.api_resources import DEVICES, PODS, QUEUES, VOLCANO_JOBS
from queues.errors import ApiUnavailable
from tests.bench.documents import NAMESPACE
from tests.bench.mark import Mark
from tests.bench.rounds import Scene, scene
from tests.builders.node_agents.node_devices import Document, device, device_object
from tests.waiting import until

_QUEUE = "faults"


def play(nodes: int, gangs: int) -> list[Mark]:
    """So many gangs of one pod with eight GPUs each; one GPU of each fails, one after the other."""
    with scene(nodes) as on, on.cluster.client() as api:
        queue = {"health": {"onFault": "evict", "recovery": {"maxNodesOut": 10_000}}}
        api.create(QUEUES.path(), _queue(_QUEUE, queue))
        api.merge(QUEUES.path(name="root"), {"spec": {"policy": queue}})
        for number in range(gangs):
            api.create(VOLCANO_JOBS.path(NAMESPACE), _job(f"train-{number}"))
        until(lambda: len(_running(api)) == gangs, f"{gangs} gangs to run")
        deletions = _Deletions(on)
        seconds = sorted(_fail(api, pod, deletions) for pod in _running(api)[:gangs])
        deletions.close()
    typical = statistics.median(seconds)
    print(f"a fault until its pod is deleted: median {typical:.3f} s, longest {seconds[-1]:.3f} s of {gangs}")
    name = "a GPU fails until the pod on it is deleted, longest"
    return [Mark(name=name, reached=seconds[-1], unit="s", must=1.0, aim=0.5, upwards=False)]


class _Deletions:
    """When pods were told to go, by a watch in a thread of its own."""

    def __init__(self, on: Scene) -> None:
        self.at: dict[str, float] = {}
        self._client = on.cluster.client()
        self._closing = False
        self._thread = threading.Thread(target=self._watch, name="deletions")
        self._thread.start()

    def _watch(self) -> None:
        while not self._closing:
            try:
                for event in self._client.watch(f"{PODS.path(NAMESPACE)}?watch=1&timeoutSeconds=5"):
                    meta = event["object"]["metadata"]
                    if "deletionTimestamp" in meta or event["type"] == "DELETED":
                        self.at.setdefault(meta["uid"], time.monotonic())
            except ApiUnavailable:
                continue

    def close(self) -> None:
        self._closing = True
        self._thread.join()
        self._client.close()


def _fail(api: LocalClient, pod: Document, deletions: _Deletions) -> float:
    """Seconds from the answer to the write of a Device with a fault until the pod that has it is deleted."""
    node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
    devices = (device(number, health=number > 0) for number in range(8))
    written = device_object(node, *devices, holders={uid: list(range(8))})
    api.create(DEVICES.path(), written)
    begun = time.monotonic()
    until(lambda: uid in deletions.at, f"pod {pod['metadata']['name']} to be deleted")
    return deletions.at[uid] - begun


def _running(api: LocalClient) -> list[Document]:
    found: list[Document] = api.get(PODS.path(NAMESPACE))["items"]
    return [
        pod
        for pod in found
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def _queue(name: str, policy: Document) -> Document:
    return {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name},
        "spec": {"policy": policy},
    }


def _job(name: str) -> Document:
    container = {
        "name": "main",
        "image": "train",
        "resources": {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}},
    }
    task = {"name": "worker", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": VOLCANO_JOBS.api_version,
        "kind": VOLCANO_JOBS.kind,
        "metadata": {"name": name},
        "spec": {"queue": _QUEUE, "minAvailable": 1, "tasks": [task]},
    }

"""The workloads of the demo: each is a row of the table, and its documents are those of ``deploy/examples``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from queues.api.api_resources import DEVICES
from queues.resources import GPU

FOLDER: Final = Path(__file__).parents[1] / "examples"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExampleWorkload:
    """One workload of the examples."""

    #: As in the read API: vcjob | job | podgroup | pod.
    kind: str
    namespace: str
    name: str
    queue: str
    #: Name of the file in deploy/examples, without its ending.
    file: str
    pods: int
    #: GPUs of each pod.
    gpus: int

    @property
    def key(self) -> str:
        """``kind/name``."""
        return f"{self.kind}/{self.name}"

    def owns(self, pod: str) -> bool:
        """True if the pod, as ``namespace/name``, is one of this workload."""
        own = f"{self.namespace}/{self.name}"
        return pod == own if self.kind == "pod" else pod.startswith(f"{own}-")


ONE_RACK: Final = ExampleWorkload("vcjob", "vision", "one-rack", "vision", "rack-job", pods=8, gpus=4)
SIMULATION: Final = ExampleWorkload(
    "job", "robotics", "simulation", "robotics-sim", "indexed-job", pods=4, gpus=2
)
TRAINING: Final = ExampleWorkload(
    "job", "ml-team", "ml-training-job", "vision", "training-job", pods=1, gpus=4
)
TOPOLOGY_AWARE: Final = ExampleWorkload(
    "pod", "vision", "gpu-topology-aware", "vision", "gpu-pods", pods=1, gpus=2
)
GROUP: Final = ExampleWorkload(
    "podgroup", "default", "distributed-training", "default", "podgroup", pods=4, gpus=8
)
GANG: Final = ExampleWorkload(
    "vcjob", "language", "pytorch-distributed", "language", "volcano-job", pods=4, gpus=8
)
SMALL: Final = ExampleWorkload("pod", "robotics", "gpu-job", "robotics-main", "gpu-pods", pods=1, gpus=2)
OVER_QUOTA: Final = ExampleWorkload("job", "vision", "tune", "vision", "over-quota-job", pods=2, gpus=8)
NIGHT: Final = ExampleWorkload("vcjob", "language", "night-batch", "language", "night-jobs", pods=7, gpus=8)
CALIBRATION: Final = ExampleWorkload(
    "job", "robotics", "calibration", "robotics-main", "night-jobs", pods=1, gpus=8
)
EVALUATION: Final = ExampleWorkload(
    "job", "robotics", "evaluation", "robotics-sim", "night-jobs", pods=1, gpus=8
)
#: Of the day, in the order of the table; they are left running for people to try.
DAY: Final = (ONE_RACK, SIMULATION, TRAINING, TOPOLOGY_AWARE, GANG, SMALL, OVER_QUOTA, GROUP)
WORKLOADS: Final = (*DAY, NIGHT, CALIBRATION, EVALUATION)


def documents(workload: ExampleWorkload, *, file: str | None = None) -> list[Document]:
    """The documents of the workload, from its own or another file."""
    return [document for document in load(file or workload.file) if _is_of(document, workload)]


def load(file: str) -> Iterable[Document]:
    """All documents of one file of deploy/examples."""
    text = (FOLDER / f"{file}.yaml").read_text(encoding="utf-8")
    return [document for document in yaml.safe_load_all(text) if document is not None]


def gpus_of(pod: Mapping[str, Any]) -> int:
    """GPUs that a pod takes."""
    limits = (container.get("resources", {}).get("limits") or {} for container in pod["spec"]["containers"])
    return sum(int(amounts.get(GPU, 0)) for amounts in limits)


def faulty_device(node: str, holder: Mapping[str, Any]) -> Document:
    """A Device object as the agent of a node with eight GPUs writes it after one of them has failed.

    ``holder``: metadata of the pod that has the first GPU, which is the one that failed.
    """
    told = {
        "type": "Healthy",
        "status": "False",
        "reason": "Xid79",
        "message": "XID 79: The device has fallen off the bus",
    }
    devices = [
        {"type": "gpu", "id": f"GPU-{node}-{minor}", "minor": minor, "health": True} for minor in range(8)
    ]
    devices[0] |= {"health": False, "conditions": [told]}
    entry = {"name": holder["name"], "namespace": holder["namespace"], "uuid": holder["uid"], "minors": [0]}
    return {
        "apiVersion": DEVICES.api_version,
        "kind": DEVICES.kind,
        "metadata": {"name": node},
        "spec": {"devices": devices},
        "status": {"allocations": [{"type": "gpu", "entries": [entry]}]},
    }


def _is_of(document: Document, workload: ExampleWorkload) -> bool:
    metadata = document["metadata"]
    return metadata["namespace"] == workload.namespace and (
        metadata["name"] == workload.name or workload.owns(f"{metadata['namespace']}/{metadata['name']}")
    )

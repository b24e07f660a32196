"""The workloads of the demo: their documents are those of ``deploy/examples``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from queues.api.api_resources import DEVICES

FOLDER: Final = Path(__file__).parents[1] / "examples"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExampleWorkload:
    """One workload of the examples."""

    #: As in the read API: vcjob | job | podgroup | pod.
    kind: str
    namespace: str
    name: str
    #: Name of the file in deploy/examples, without its ending.
    file: str
    pods: int

    @property
    def key(self) -> str:
        """``kind/name``."""
        return f"{self.kind}/{self.name}"

    def owns(self, metadata: Mapping[str, Any]) -> bool:
        """True if the object with this metadata is the workload, or one of its pods."""
        name: str = metadata["name"]
        is_named = name == self.name or (self.kind != "pod" and name.startswith(f"{self.name}-"))
        return is_named and bool(metadata["namespace"] == self.namespace)


ONE_RACK: Final = ExampleWorkload("vcjob", "vision", "one-rack", "rack-job", pods=8)
SIMULATION: Final = ExampleWorkload("job", "robotics", "simulation", "indexed-job", pods=4)
TRAINING: Final = ExampleWorkload("job", "ml-team", "ml-training-job", "training-job", pods=1)
TOPOLOGY_AWARE: Final = ExampleWorkload("pod", "vision", "gpu-topology-aware", "gpu-pods", pods=1)
GROUP: Final = ExampleWorkload("podgroup", "default", "distributed-training", "podgroup", pods=4)
GANG: Final = ExampleWorkload("vcjob", "language", "pytorch-distributed", "volcano-job", pods=4)
SMALL: Final = ExampleWorkload("pod", "robotics", "gpu-job", "gpu-pods", pods=1)
OVER_QUOTA: Final = ExampleWorkload("job", "vision", "tune", "over-quota-job", pods=2)
NIGHT: Final = ExampleWorkload("vcjob", "language", "night-batch", "night-jobs", pods=7)
CALIBRATION: Final = ExampleWorkload("job", "robotics", "calibration", "night-jobs", pods=1)
EVALUATION: Final = ExampleWorkload("job", "robotics", "evaluation", "night-jobs", pods=1)
#: Of the day; they are left running for people to try.
DAY: Final = (ONE_RACK, SIMULATION, TRAINING, TOPOLOGY_AWARE, GANG, SMALL, OVER_QUOTA, GROUP)
WORKLOADS: Final = (*DAY, NIGHT, CALIBRATION, EVALUATION)


def documents(workload: ExampleWorkload, *, file: str | None = None) -> list[Document]:
    """The documents of the workload, from its own or another file."""
    return [document for document in load(file or workload.file) if workload.owns(document["metadata"])]


def load(file: str) -> Iterable[Document]:
    """All documents of one file of deploy/examples."""
    text = (FOLDER / f"{file}.yaml").read_text(encoding="utf-8")
    return [document for document in yaml.safe_load_all(text) if document is not None]


def faulty_device(node: str, holder: Mapping[str, Any]) -> Document:
    """A Device object as the agent of a node with eight GPUs writes it after one of them has failed.

    ``holder``: metadata of the pod that has the first GPU, which is the one that failed.
    """
    message = "XID 79: The device has fallen off the bus"
    condition = {"type": "Healthy", "status": "False", "reason": "Xid79", "message": message}
    devices: list[Document] = [
        {"type": "gpu", "id": f"GPU-{node}-{minor}", "minor": minor, "health": True} for minor in range(8)
    ]
    devices[0] |= {"health": False, "conditions": [condition]}
    entry = {"name": holder["name"], "namespace": holder["namespace"], "uuid": holder["uid"], "minors": [0]}
    return {
        "apiVersion": DEVICES.api_version,
        "kind": DEVICES.kind,
        "metadata": {"name": node},
        "spec": {"devices": devices},
        "status": {"allocations": [{"type": "gpu", "entries": [entry]}]},
    }

"""Who appears: each example as a row of the table, and its documents as the demo applies them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from queues.resources import GPU

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
#: KWOK ends a pod so long after it has started.
COMPLETE_AFTER: Final = "kwok.muster.dev/complete-after"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One workload of the examples."""

    #: As the read API calls it: vcjob | job | podgroup | pod.
    kind: str
    namespace: str
    name: str
    queue: str
    pods: int
    #: Of each pod.
    gpus: int
    #: The file of deploy/examples that has it.
    example: str
    #: What KWOK lets its pods run, in seconds.
    runs: int

    @property
    def key(self) -> str:
        """``kind/name``."""
        return f"{self.kind}/{self.name}"

    def owns(self, pod: str) -> bool:
        """Whether a pod, ``namespace/name``, is one of its own."""
        own = f"{self.namespace}/{self.name}"
        return pod == own if self.kind == "pod" else pod.startswith(f"{own}-")


ONE_RACK: Final = Role(
    kind="vcjob",
    namespace="vision",
    name="one-rack",
    queue="vision",
    pods=8,
    gpus=4,
    example="rack-job",
    runs=9,
)
SIMULATION: Final = Role(
    kind="job",
    namespace="robotics",
    name="simulation",
    queue="robotics-sim",
    pods=4,
    gpus=2,
    example="indexed-job",
    runs=14,
)
TRAINING: Final = Role(
    kind="job",
    namespace="ml-team",
    name="ml-training-job",
    queue="vision",
    pods=1,
    gpus=4,
    example="training-job",
    runs=14,
)
TOPOLOGY_AWARE: Final = Role(
    kind="pod",
    namespace="vision",
    name="gpu-topology-aware",
    queue="vision",
    pods=1,
    gpus=2,
    example="gpu-pods",
    runs=14,
)
GROUP: Final = Role(
    kind="podgroup",
    namespace="default",
    name="distributed-training",
    queue="default",
    pods=4,
    gpus=8,
    example="podgroup",
    runs=2,
)
GANG: Final = Role(
    kind="vcjob",
    namespace="language",
    name="pytorch-distributed",
    queue="language",
    pods=4,
    gpus=8,
    example="volcano-job",
    runs=4,
)
SMALL: Final = Role(
    kind="pod",
    namespace="robotics",
    name="gpu-job",
    queue="robotics-main",
    pods=1,
    gpus=2,
    example="gpu-pods",
    runs=6,
)
OVER_QUOTA: Final = Role(
    kind="job",
    namespace="vision",
    name="tune",
    queue="vision",
    pods=2,
    gpus=8,
    example="over-quota-job",
    runs=4,
)
#: In the order of the table.
ALL: Final = (ONE_RACK, SIMULATION, TRAINING, TOPOLOGY_AWARE, GANG, SMALL, OVER_QUOTA, GROUP)


def documents(role: Role, *, example: str | None = None, ends: bool = True) -> list[Document]:
    """The role's documents of its example file; ``ends``: as copies whose pods end by themselves."""
    wanted = list(load(example or role.example))
    mine = [document for document in wanted if _is_of(document, role)]
    if ends:
        for document in mine:
            for metadata in _pod_metadata(document):
                metadata.setdefault("annotations", {})[COMPLETE_AFTER] = f"{role.runs}s"
    return mine


def load(example: str) -> Iterable[Document]:
    """All documents of one file of deploy/examples."""
    text = (EXAMPLES / f"{example}.yaml").read_text(encoding="utf-8")
    return [document for document in yaml.safe_load_all(text) if document is not None]


def gpus_of(pod: Mapping[str, Any]) -> int:
    """GPUs that a pod takes."""
    limits = (container.get("resources", {}).get("limits") or {} for container in pod["spec"]["containers"])
    return sum(int(amounts.get(GPU, 0)) for amounts in limits)


def _is_of(document: Document, role: Role) -> bool:
    metadata = document["metadata"]
    return metadata["namespace"] == role.namespace and (
        metadata["name"] == role.name or role.owns(f"{metadata['namespace']}/{metadata['name']}")
    )


def _pod_metadata(document: Document) -> Iterable[Document]:
    """The metadata of every pod that a document describes."""
    match document["kind"]:
        case "Pod":
            return [document["metadata"]]
        case "PodGroup":
            return []
        case "Job" if document["apiVersion"] == "batch/v1":
            templates = [document["spec"]["template"]]
        case _:
            templates = [task["template"] for task in document["spec"]["tasks"]]
    return [template.setdefault("metadata", {}) for template in templates]

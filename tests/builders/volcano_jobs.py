"""A Volcano Job, its pods and its admission, for unit tests of admission.volcano_jobs."""

from collections.abc import Mapping
from typing import Any

import msgspec

from admission.decode.volcano_jobs import job_of
from admission.facts.pods import PodFact, PodPhase, PodShape
from admission.facts.volcano_jobs import JobSpec, TaskSpec
from admission.volcano_jobs.pods import PodSettings, PodTemplateRenderer
from admission.wire import WireMetadata
from queues import kind_names
from queues.admissions import Admission, AdmissionState, Seat
from queues.resources import Resources
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey

UID = "6b4de2f6-0d0a-4d8f-9d0a-3f1f6a6f1f10"
KEY = WorkloadKey(kind_names.VOLCANO_JOB, UID)
TAKES = Resources({"pods": 1})
SETTINGS = PodSettings(admission=AdmissionId(7))


def document(**spec: Any) -> dict[str, Any]:
    """A Job of 4 workers with the plugins ssh and svc."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team-a", "uid": UID},
        "spec": {
            "minAvailable": 4,
            "schedulerName": "volcano",
            "plugins": {"ssh": [], "svc": []},
            "tasks": [
                {
                    "replicas": 4,
                    "name": "worker",
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "pytorch",
                                    "image": "pytorch/pytorch",
                                    "resources": {"limits": {"nvidia.com/gpu": 8}},
                                }
                            ],
                            "restartPolicy": "OnFailure",
                        }
                    },
                }
            ],
            **spec,
        },
    }


class _Document(msgspec.Struct):
    metadata: WireMetadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def read_job(document: bytes | Mapping[str, Any]) -> JobSpec:
    raw = document if isinstance(document, bytes) else msgspec.json.encode(document)
    read = msgspec.json.decode(raw, type=_Document)
    return job_of(read.metadata, read.spec)


def job(**spec: Any) -> JobSpec:
    return read_job(document(**spec))


def made_pod(
    named: JobSpec, task: TaskSpec, index: int = 0, *, node: str = "node-3", settings: PodSettings = SETTINGS
) -> dict[str, Any]:
    """A pod of a task as Muster makes it."""
    made: dict[str, Any] = msgspec.json.decode(
        PodTemplateRenderer(named, task, settings).render(index, NodeName(node))
    )
    return made


def admission(number: int = 7, *, count: int = 4, state: AdmissionState = AdmissionState.OPEN) -> Admission:
    return Admission(
        id=AdmissionId(number),
        workload=KEY,
        namespace="team-a",
        name="train",
        queue=QueueName("default"),
        priority=0,
        seats=tuple(
            Seat(pod_set="worker", ordinal=index, node=NodeName(f"node-{index}"), takes=TAKES)
            for index in range(count)
        ),
        state=state,
        opened_at=0,
    )


def pod(index: int, phase: PodPhase = PodPhase.RUNNING, **facts: Any) -> PodFact:
    given = {"admission": AdmissionId(7), "uid": f"pod-{index}", "task": "worker", **facts}
    return PodFact(
        namespace="team-a",
        name=f"train-{given['task']}-{index}",
        phase=phase,
        shape=PodShape(takes=TAKES),
        owner=KEY,
        index=index,
        seat=(given["task"], index),
        **given,
    )

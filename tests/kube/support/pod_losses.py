"""What an editor tries to take a pod from its Job, so that the Job makes another one past its admission."""

from typing import Any

from queues.api.api_resources import Document
from tests.kube.support.evasion_attempts import (
    OF_A_VOLCANO_JOB,
    RELEASED,
    SIGNED,
    annotated,
    bare,
    labelled,
)


def member_of(made: Document) -> Document:
    """A released pod of a Volcano Job, as Muster makes it."""
    job = made["metadata"]["name"]
    said = {
        "volcano.sh/job-name": job,
        "volcano.sh/task-spec": "main",
        "volcano.sh/task-index": "0",
    }
    reference = {**OF_A_VOLCANO_JOB, "name": job, "uid": made["metadata"]["uid"]}
    return bare(
        {
            "name": f"{job}-main-0",
            "labels": {**RELEASED, **said},
            "annotations": {**SIGNED, **said},
            "ownerReferences": [reference],
        }
    )


OF_THE_CONTROLLER = (
    "batch.kubernetes.io/controller-uid",
    "controller-uid",
    "batch.kubernetes.io/job-name",
    "job-name",
)
OF_A_MEMBER = ("volcano.sh/job-name", "volcano.sh/task-spec", "volcano.sh/task-index")
DISOWNED = [{"op": "remove", "path": "/metadata/ownerReferences"}]


def _reference(field: str, value: Any) -> list[Document]:
    # To change an owner that blocks its own deletion, some clusters ask for a right on it.
    changed = {field: value, "blockOwnerDeletion": False}
    return [
        {"op": "add", "path": f"/metadata/ownerReferences/0/{key}", "value": each}
        for key, each in changed.items()
    ]


_OF_BOTH: dict[str, Any] = {
    "the owner": DISOWNED,
    "the owner by a merge": {"metadata": {"ownerReferences": None}},
    "the control": _reference("controller", False),
    "the name of the owner": _reference("name", "another"),
    "the uid of the owner": _reference("uid", "another"),
    "the kind of the owner": _reference("kind", "ReplicaSet"),
}
#: By the kind of a released pod's owner: patches of the pod, by title.
LOSSES: dict[str, dict[str, Any]] = {
    "Job": {
        **_OF_BOTH,
        "the owner and the labels": [
            *DISOWNED,
            *(
                {"op": "remove", "path": f"/metadata/labels/{key.replace('/', '~1')}"}
                for key in OF_THE_CONTROLLER[:2]
            ),
        ],
        **{f"{key}": labelled(key, None) for key in OF_THE_CONTROLLER},
        "the value of a label": labelled(OF_THE_CONTROLLER[0], "another"),
    },
    "Volcano Job": {
        **_OF_BOTH,
        **{f"the label {key}": labelled(key, None) for key in OF_A_MEMBER},
        **{f"the annotation {key}": annotated(key, "7") for key in OF_A_MEMBER},
    },
}

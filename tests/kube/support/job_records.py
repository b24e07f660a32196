"""Lives of Jobs under the real job controller, on paper: what Muster reads of each, when the controller was at rest."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from queues.api import names
from tests.kube.support.job_histories import Document, Seen, seen_in

_INDEX: Final = names.COMPLETION_INDEX
#: Fields of a pod that decide, in this order.
_POD: Final = ("name", "phase", "index", "deleted", "uncounted", "created")


def recorded(seed: int, rests: Sequence[Seen]) -> str:
    """One line."""
    return json.dumps({"seed": seed, "rests": [_rest(seen) for seen in rests]}, separators=(",", ":"))


def read(line: str) -> tuple[int, Iterator[Seen]]:
    """The seed of a history, and what was seen at each rest."""
    found = json.loads(line)
    return found["seed"], (_seen(rest) for rest in found["rests"])


def _rest(seen: Seen) -> Document:
    spec = {key: value for key, value in seen.job["spec"].items() if key not in ("template", "selector")}
    metadata, status = seen.job["metadata"], seen.job["status"]
    return {
        "metadata": {key: metadata[key] for key in ("name", "uid", "creationTimestamp", "generation")},
        "spec": spec,
        "status": {**status, "conditions": [_condition(each) for each in status.get("conditions", ())]},
        "pods": [_pod(document) for document in seen.documents],
    }


def _condition(condition: Document) -> Document:
    return {key: condition[key] for key in ("type", "status", "lastTransitionTime")}


def _pod(document: Document) -> list[Any]:
    metadata = document["metadata"]
    return [
        metadata["name"],
        document["status"]["phase"],
        metadata["annotations"].get(_INDEX) if "annotations" in metadata else None,
        metadata.get("deletionTimestamp"),
        names.JOB_TRACKING in metadata.get("finalizers", ()),
        metadata["creationTimestamp"],
    ]


def _seen(rest: Document) -> Seen:
    pods = [_document(dict(zip(_POD, pod, strict=True)), rest["metadata"]) for pod in rest["pods"]]
    container = {"name": "main", "image": "example.com/main"}
    job = {
        "metadata": {**rest["metadata"], "namespace": "ns"},
        "spec": {**rest["spec"], "template": {"spec": {"containers": [container]}}},
        "status": rest["status"],
    }
    return seen_in(job, pods)


def _document(pod: dict[str, Any], job: Document) -> Document:
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["name"],
        "uid": job["uid"],
        "controller": True,
    }
    return {
        "metadata": {
            "name": pod["name"],
            "namespace": "ns",
            "uid": pod["name"],
            "creationTimestamp": pod["created"],
            "deletionTimestamp": pod["deleted"],
            "labels": {names.CONTROLLER_UID: job["uid"]},
            "annotations": {} if pod["index"] is None else {_INDEX: pod["index"]},
            "finalizers": [names.JOB_TRACKING] if pod["uncounted"] else [],
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
        "status": {"phase": pod["phase"]},
    }

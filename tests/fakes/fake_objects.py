"""Objects of the fake cluster as JSON, and what they say."""

import copy
import time
from typing import Any

from queues.api import names

Document = dict[str, Any]

NAMESPACE = "team"
GPU = "nvidia.com/gpu"
ENDED = ("Succeeded", "Failed")


def pod_spec(gpus: int) -> Document:
    return {"containers": [{"name": "main", "image": "train", "resources": {"limits": {GPU: str(gpus)}}}]}


def gpus_of(spec: Document) -> int:
    return int(spec["containers"][0]["resources"]["limits"][GPU])


def owner_of(pod: Document) -> str | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners), None)


def is_up(node: Document) -> bool:
    return bool(node["status"]["conditions"][0]["status"] == "True")


def index_of(pod: Document) -> int | None:
    text = pod["metadata"]["annotations"].get(names.COMPLETION_INDEX)
    return None if text is None else int(text)


def time_text(now: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def json_patched(document: Document, operations: list[dict[str, Any]]) -> Document:
    """RFC 6902: test, add, replace, remove. Elements of lists are added at the end only.

    Raises KeyError, IndexError or AssertionError where it does not fit.
    """
    result = copy.deepcopy(document)
    for operation in operations:
        *path, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        at: Any = result
        for part in path:
            at = at[int(part)] if isinstance(at, list) else at[part]
        match operation["op"]:
            case "test":
                assert at[last] == operation["value"], operation
            case "add" if isinstance(at, list):
                assert last == "-", operation
                at.append(copy.deepcopy(operation["value"]))
            case "add" | "replace":
                at[last] = copy.deepcopy(operation["value"])
            case "remove":
                del at[int(last) if isinstance(at, list) else last]
            case other:
                raise NotImplementedError(other)
    return result


def merged(document: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result

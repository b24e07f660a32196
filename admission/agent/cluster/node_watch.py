"""What the agent knows of its Node and of the pods on it, by a watch each, in a thread each."""

import json
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from admission.agent.cluster.api_client import ApiClient
from admission.agent.cluster.object_watch import ObjectWatch
from admission.agent.pod_info import PodInfo, pod_info
from queues.api.api_resources import NODES, PODS, Document
from queues.api.names import GPU_UNHEALTHY, RECOVERY

#: Pods that have ended use nothing any more; when one ends, the watch shows it as deleted.
_LIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedNode:
    """The agent's Node."""

    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    #: What a person says of its devices (``muster.dev/gpu-unhealthy``). None if that is nothing.
    mark: str | None = None
    #: A Job may recover the node now (``muster.dev/recovery``).
    is_recovered: bool = False


class NodeWatch:
    """The agent's Node, and the pods on it. ``changed`` is called after each change, by the watches' threads."""

    def __init__(
        self, client: ApiClient, node: str, *, changed: Callable[[], None], rng: random.Random
    ) -> None:
        self._nodes = ObjectWatch(
            client,
            NODES.path(),
            f"metadata.name={node}",
            value=watched_node,
            changed=changed,
            rng=rng,
        )
        self._pods = ObjectWatch(
            client,
            PODS.path(),
            f"spec.nodeName={node},{_LIVE}",
            value=pod_info,
            changed=changed,
            rng=rng,
        )

    @property
    def node(self) -> WatchedNode | None:
        """The Node. None if it is not known yet, or does not exist."""
        return next(iter((self._nodes.objects or {}).values()), None)

    @property
    def pods(self) -> Mapping[str, PodInfo] | None:
        """Live pods of the Node, by uid. None while they are not known."""
        return self._pods.objects

    def threads(self, stop: threading.Event) -> list[threading.Thread]:
        """The threads of the watches, not started. They do not keep the process from ending."""
        return [
            threading.Thread(target=watch.run, args=(stop,), name=name, daemon=True)
            for name, watch in (("node watch", self._nodes), ("pod watch", self._pods))
        ]


def watched_node(document: Document) -> WatchedNode:
    """What the agent needs of its Node."""
    metadata = document["metadata"]
    return WatchedNode(
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        mark=(metadata.get("annotations") or {}).get(GPU_UNHEALTHY),
        is_recovered=_is_recovered((metadata.get("annotations") or {}).get(RECOVERY, "")),
    )


def _is_recovered(text: str) -> bool:
    try:
        told = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and told.get("phase") == "recovering"

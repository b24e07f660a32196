"""Random cases of rules about other pods, many of them side by side on one control plane without Muster.

Each case has its own nodes, namespaces and label keys, so that no case counts another's pods.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from deploy.local.nodes import NodeShape, node
from queues.errors import ApiError
from tests.laws.pod_rules.clusters import HOST, NAMESPACES, RACK, ZONE, Drawn
from tests.laws.pod_rules.scheduler_filters import Cluster, Manifest
from tests.waiting import LIMIT

CASE = "rules.test/case"


class PlayedCase:
    """One case as objects of the API server."""

    def __init__(self, drawn: Drawn, number: int) -> None:
        self.drawn, self.number = drawn, number
        self.cluster = Cluster(
            [self._node(document) for document in drawn.cluster.nodes],
            {self._renamed(name): labels for name, labels in NAMESPACES.items()},
            [self._renamed(pod) for pod in drawn.cluster.pods],
        )
        self.pods: list[Manifest] = [self._chosen(self._renamed(pod)) for pod in drawn.pods]

    def name_of(self, node: str) -> str:
        """The name of a drawn node in this case."""
        return f"c{self.number}-{node}"

    def _renamed(self, value: Any) -> Any:
        """The same with this case's keys, namespaces and nodes."""
        text = json.dumps(value)
        for key in (ZONE, RACK, HOST):
            text = text.replace(
                json.dumps(key), json.dumps(f"{key.rpartition('/')[2]}.rules.test/c{self.number}")
            )
        for name in NAMESPACES:
            text = text.replace(json.dumps(name), json.dumps(f"c{self.number}-{name}"))
        renamed = json.loads(text)
        if isinstance(renamed, dict) and "spec" in renamed and "nodeName" in renamed["spec"]:
            renamed["spec"]["nodeName"] = self.name_of(renamed["spec"]["nodeName"])
        return renamed

    def _chosen(self, pod: Manifest) -> Manifest:
        selector = {**pod["spec"].get("nodeSelector", {}), CASE: str(self.number)}
        return {**pod, "spec": {**pod["spec"], "nodeSelector": selector}}

    def _node(self, drawn: Manifest) -> Manifest:
        renamed = self._renamed(drawn)
        name = self.name_of(drawn["metadata"]["name"])
        document = node(0, NodeShape(), "unused")
        document["metadata"]["name"] = name
        labels = {**renamed["metadata"]["labels"], HOST: name, CASE: str(self.number)}
        document["metadata"]["labels"] = {**document["metadata"]["labels"], **labels}
        document["spec"] = {**document.get("spec", {}), "taints": drawn["spec"]["taints"]}
        for amounts in ("allocatable", "capacity"):
            document["status"][amounts].update(drawn["status"]["allocatable"])
        return document

    def create(self, api: LocalClient) -> None:
        """Nodes, namespaces and the pods that run."""
        for name, labels in self.cluster.namespaces.items():
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            api.create("/api/v1/namespaces", document)
        for document in self.cluster.nodes:
            api.create("/api/v1/nodes", document)
        for pod in self.cluster.pods:
            create_pod(api, pod)


def pinned(pod: Manifest, node: str, name: str) -> Manifest:
    """The pod, bound to a node as Muster binds pods: by its required node affinity."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {**pod["spec"].get("affinity", {})}
    affinity["nodeAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
    }
    return {**named(pod, name), "spec": {**pod["spec"], "affinity": affinity}}


def named(pod: Manifest, name: str) -> Manifest:
    """The pod under another name."""
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


def create_pod(api: LocalClient, pod: Manifest) -> None:
    """Create a pod. The default service account may not be there yet."""
    metadata = {key: value for key, value in pod["metadata"].items() if key != "uid"}
    spec = {**pod["spec"], "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods"
    end = time.monotonic() + LIMIT
    while True:
        try:
            api.create(path, document)
            return
        except ApiError as error:
            if "serviceaccount" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.1)


def side_by_side(cluster: LocalCluster, steps: Iterable[Callable[[LocalClient], None]]) -> None:
    """Run these with eight clients."""
    every = list(steps)

    def run(share: int) -> None:
        with cluster.client() as api:
            for step in every[share::8]:
                step(api)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))


def outcomes(cluster: LocalCluster, pods: Sequence[Manifest], *, bound: bool = False) -> list[str | None]:
    """The node of each of these pods once the scheduler has bound it or said that it cannot; None: it cannot.

    ``bound``: that it cannot is not believed at once; other pods may come first.
    """
    with cluster.client() as api:
        end = time.monotonic() + LIMIT
        while True:
            listed = {
                (item["metadata"]["namespace"], item["metadata"]["name"]): item
                for item in api.get("/api/v1/pods")["items"]
            }
            found = [listed[pod["metadata"]["namespace"], pod["metadata"]["name"]] for pod in pods]
            done = all("nodeName" in item["spec"] if bound else _is_told(item) for item in found)
            if done or time.monotonic() > end:
                return [item["spec"].get("nodeName") for item in found]
            time.sleep(0.3)


def _is_told(item: Manifest) -> bool:
    conditions = item["status"].get("conditions", ())
    return "nodeName" in item["spec"] or any(
        each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions
    )


def removed(cluster: LocalCluster, pods: Sequence[Manifest]) -> None:
    """Delete these pods, and wait until they are gone."""

    def remove(pod: Manifest) -> Callable[[LocalClient], None]:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"

        def step(api: LocalClient) -> None:
            api.send("DELETE", f"{path}?gracePeriodSeconds=0").read()
            while True:
                try:
                    api.get(path)
                except ApiError as error:
                    if error.facts["status"] == 404:
                        return
                    raise
                time.sleep(0.05)

        return step

    side_by_side(cluster, map(remove, pods))

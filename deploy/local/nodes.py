"""Simulated nodes: GPU machines in racks in blocks."""

from dataclasses import dataclass
from typing import Any

from deploy.local.components import ALIVE
from deploy.local.kubernetes import KUBERNETES
from queues.resources import GPU

HOST = "kubernetes.io/hostname"
RACK = "topology.muster.dev/rack"
BLOCK = "topology.muster.dev/block"

#: Fields of ``nodeInfo`` that the API requires; the values do not matter.
_INFO = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "simulated",
    "kernelVersion": "simulated",
    "kubeProxyVersion": "",
    "kubeletVersion": f"v{KUBERNETES}",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "simulated",
    "systemUUID": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """Resources and labels of one node, and how nodes are grouped."""

    gpus: int = 8
    nodes_per_rack: int = 16
    racks_per_block: int = 16
    labels: tuple[tuple[str, str], ...] = ()
    cordoned: bool = False


def node(index: int, shape: NodeShape, prefix: str) -> dict[str, Any]:
    """The ``index``-th node of a run. It is ready from the start: its status is part of it."""
    name = f"{prefix}-{index:05d}"
    rack = index // shape.nodes_per_rack
    block = rack // shape.racks_per_block
    has = {"cpu": "128", "memory": "1Ti", "pods": "110"}
    if shape.gpus:
        has[GPU] = str(shape.gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                HOST: name,
                RACK: f"{prefix}-r{rack:03d}",
                BLOCK: f"{prefix}-b{block:02d}",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **dict([ALIVE]),
                **dict(shape.labels),
            },
        },
        "spec": {"unschedulable": True} if shape.cordoned else {},
        "status": {
            "capacity": has,
            "allocatable": has,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}
            ],
            "addresses": [
                {"type": "Hostname", "address": name},
                {"type": "InternalIP", "address": "127.0.0.1"},
            ],
            "nodeInfo": _INFO,
        },
    }

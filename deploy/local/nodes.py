"""Simulated nodes: GPU machines in racks in blocks."""

from dataclasses import dataclass
from typing import Any

from deploy.local.components import ALIVE
from deploy.local.kubernetes import KUBERNETES

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
    gpu_resource: str = "nvidia.com/gpu"
    cpu: str = "128"
    memory: str = "1Ti"
    pods: int = 110
    nodes_per_rack: int = 16
    racks_per_block: int = 16
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()


def node(index: int, shape: NodeShape, prefix: str) -> dict[str, Any]:
    """The ``index``-th node of a run. It is ready from the start: its status is part of it."""
    name = f"{prefix}-{index:05d}"
    rack = index // shape.nodes_per_rack
    block = rack // shape.racks_per_block
    has = {"cpu": shape.cpu, "memory": shape.memory, "pods": str(shape.pods)}
    if shape.gpus:
        has[shape.gpu_resource] = str(shape.gpus)
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
        "spec": {
            "taints": [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in shape.taints]
        },
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

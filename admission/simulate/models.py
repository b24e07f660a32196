"""Models of GPUs in tables of traces."""

from typing import Final

from queues.workload import EVERYWHERE, NodeFilter, Requirement

#: Label of a node with the model of its GPUs.
MODEL: Final = "nvidia.com/gpu.product"


def nodes_with(models: str) -> NodeFilter:
    """The nodes with one of these models, as in ``T4|V100``; "": all nodes."""
    wanted = tuple(sorted(set(filter(None, models.split("|")))))
    return NodeFilter(affinity=((Requirement(MODEL, "In", wanted),),)) if wanted else EVERYWHERE

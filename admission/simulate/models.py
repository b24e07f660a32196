"""Models of GPUs, as tables name them."""

from typing import Final

from queues.workload import EVERYWHERE, NodeFilter, Requirement

#: Label of the nodes.
MODEL: Final = "nvidia.com/gpu.product"


def nodes_with(models: str) -> NodeFilter:
    """The nodes with one of these models, as in ``T4|V100``; "": all nodes."""
    wanted = tuple(sorted(set(filter(None, models.split("|")))))
    return NodeFilter(affinity=((Requirement(MODEL, "In", wanted),),)) if wanted else EVERYWHERE

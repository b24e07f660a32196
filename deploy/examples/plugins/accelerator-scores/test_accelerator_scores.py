"""Which node is best."""

from typing import Any

import numpy as np
from accelerator_scores import Accelerators

from queues.plugins.interface import PlacementNodes, PodsRequest
from queues.resources import Resources
from queues.workload import NO_FLAVOR, NO_LOAD, NodeLoad, NodeName, PodSet, QueueName

TYPES = ("a100", "v100", "t4")
LABELS = [{"accelerator": each, "gpu-interconnect": "nvlink" if each == "v100" else ""} for each in TYPES]


def best(gpus: int = 1, used: int = 0, loads: Any = (NO_LOAD,) * 3, stated: Any = None, **hints: str) -> str:
    pods = PodSet(name="main", count=1, takes=Resources({"nvidia.com/gpu": gpus * 1000}))
    said = tuple(sorted((key.replace("_", "-"), value) for key, value in hints.items()))
    offered = np.full((1, 3), 8000, np.int64)
    free, names = offered - np.array([[0, 0, used * 1000]]), list(map(NodeName, TYPES))
    nodes = PlacementNodes(names, LABELS, [NO_FLAVOR] * 3, ["nvidia.com/gpu"], offered, free, loads)
    request = PodsRequest(queue=QueueName("q"), priority=0, pods=pods, hints=said)
    scores = Accelerators(stated and Accelerators.Parameters(**stated)).score(request, nodes)
    assert 0 <= scores.min() <= scores.max() <= 100
    return TYPES[int(scores.argmax())]


def test_the_type_that_is_asked_for_goes_first_then_one_alike() -> None:
    assert best(accelerator="t4") == "t4"
    assert best(stated={"alike": {"h100": ["a100"]}}, accelerator="h100") == "a100"


def test_training_gets_fast_ones_and_development_slow_ones() -> None:
    stated = {"tiers": {"a100": 100, "v100": 60, "t4": 0}}
    assert best(stated=stated, workload_type="training") == "a100"
    assert best(stated=stated, workload_type="development") == "t4"


def test_several_devices_go_where_they_are_linked_used_nodes_fill_up_and_cool_ones_go_first() -> None:
    assert (best(gpus=4), best(used=5)) == ("v100", "t4")
    assert best(loads=[NO_LOAD, NodeLoad(2, 1), NodeLoad(2, 3)]) == "v100"
    assert best(loads=[NodeLoad(1, 1), NodeLoad(2, 1), NO_LOAD]) == "a100"

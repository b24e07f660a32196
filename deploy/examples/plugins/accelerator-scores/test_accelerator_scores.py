"""Which node is best."""

from collections.abc import Sequence

import numpy as np
from accelerator_scores import Accelerators

from queues.plugins.interface import PlacementNodes, PodsRequest
from queues.resources import Resources
from queues.workload import NO_FLAVOR, NO_LOAD, NodeLoad, NodeName, PodSet, QueueName

TYPES = ("a100", "v100", "t4")


def best(
    gpus: int = 1,
    parameters: Accelerators.Parameters | None = None,
    used: int = 0,
    loads: Sequence[NodeLoad] = (NO_LOAD,) * 3,
    **hints: str,
) -> str:
    takes = Resources({"nvidia.com/gpu": gpus * 1000})
    request = PodsRequest(
        queue=QueueName("q"),
        priority=0,
        pods=PodSet(name="main", count=1, takes=takes),
        hints=tuple(sorted((key.replace("_", "-"), value) for key, value in hints.items())),
    )
    labels = [{"accelerator": each, "gpu-interconnect": "nvlink" if each == "v100" else ""} for each in TYPES]
    offered = np.full((1, 3), 8000, np.int64)
    free = offered - np.array([[0, 0, used * 1000]])
    names = [NodeName(each) for each in TYPES]
    nodes = PlacementNodes(names, labels, [NO_FLAVOR] * 3, ["nvidia.com/gpu"], offered, free, loads)
    scores = Accelerators(parameters).score(request, nodes)
    assert scores.dtype == np.int64
    assert 0 <= scores.min() <= scores.max() <= 100
    return TYPES[int(scores.argmax())]


def test_the_type_that_is_asked_for_goes_first_then_one_alike() -> None:
    assert best(accelerator="t4") == "t4"
    assert best(parameters=Accelerators.Parameters(alike={"h100": ["a100"]}), accelerator="h100") == "a100"


def test_training_gets_fast_ones_and_development_slow_ones() -> None:
    stated = Accelerators.Parameters(tiers={"a100": 100, "v100": 60, "t4": 0})
    assert best(parameters=stated, workload_type="training") == "a100"
    assert best(parameters=stated, workload_type="development") == "t4"


def test_several_devices_go_where_they_are_linked_and_used_nodes_fill_up() -> None:
    assert best(gpus=4) == "v100"
    assert best(used=5) == "t4"


def test_cool_and_idle_nodes_go_first_where_agents_report_it() -> None:
    assert best(loads=[NO_LOAD, NodeLoad(2, 1), NodeLoad(2, 3)]) == "v100"
    assert best(loads=[NodeLoad(1, 1), NodeLoad(2, 1), NO_LOAD]) == "a100"

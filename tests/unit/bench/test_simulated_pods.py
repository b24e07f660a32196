"""Single pods on shared devices, as ``python -m tests.bench.simulate --pods`` runs them."""

from pathlib import Path
from random import Random

from click.testing import CliRunner

from queues.resources import GPU
from tests.bench.simulate.__main__ import simulate
from tests.bench.simulate.pods import PodsOutcome, arrivals, load, run

_NODES = [
    "sn,cpu_milli,memory_mib,gpu,model",
    *(f"node-{n:02},32000,131072,{1 + n % 4},T{n % 2}" for n in range(12)),
]
_HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos"
_KINDS = [
    "4000,8192,1,470,,LS",
    "2000,4096,1,810,,LS",
    "8000,8192,1,1000,T1,BE",
    "4000,4096,0,0,,BE",
    "8000,9000,2,1000,,LS",
]
_PODS = [_HEAD, *(f"pod-{n:03},{_KINDS[n % 5]}" for n in range(40))]


def _written(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def _played(folder: Path, pods: list[str], nodes: list[str], seed: int = 42) -> PodsOutcome:
    return run(load(_written(folder, "pods.csv", pods), _written(folder, "nodes.csv", nodes)), seed)


def _shuffled(lines: list[str]) -> list[str]:
    head, *rest = lines
    Random(7).shuffle(rest)
    return [head, *rest]


def test_a_seed_gives_the_same_whatever_the_order_of_the_files(tmp_path: Path) -> None:
    outcomes = [
        _played(tmp_path, pods, nodes)
        for pods, nodes in [
            (_PODS, _NODES),
            (_PODS, [_NODES[0], *reversed(_NODES[1:])]),
            (_shuffled(_PODS), _shuffled(_NODES)),
        ]
    ]
    assert len({(each.arrived, each.placed, each.allocated) for each in outcomes}) == 1
    assert 0 < outcomes[0].allocated <= outcomes[0].capacity == 30_000


def test_pods_come_until_130_percent_of_the_gpus_are_asked_for(tmp_path: Path) -> None:
    trace = load(_written(tmp_path, "pods.csv", _PODS), _written(tmp_path, "nodes.csv", _NODES))
    came = list(arrivals(trace, 42))
    asked = sum(pod.takes[GPU] for pod in came)
    assert sorted(pod.name for pod in came[:40]) == sorted(pod.name for pod in trace.pods)
    assert trace.capacity * 1.3 - 2000 < asked <= trace.capacity * 1.3
    assert came == list(arrivals(trace, 42)) != list(arrivals(trace, 43))


def test_pods_keep_to_the_models_that_they_name(tmp_path: Path) -> None:
    pods = [_HEAD, *(f"pod-{n},1000,1024,1,1000,T1|T1,LS" for n in range(40))]
    outcome = _played(tmp_path, pods, _NODES)
    assert outcome.allocated == 1000 * sum(1 + n % 4 for n in range(12) if n % 2)


def test_the_command_tells_what_is_left(tmp_path: Path) -> None:
    pods, nodes = _written(tmp_path, "pods.csv", _PODS), _written(tmp_path, "nodes.csv", _NODES)
    asked = ["--pods", str(pods), "--nodes", str(nodes), "--seed", "42"]
    answer = CliRunner().invoke(simulate, asked, catch_exceptions=False)
    assert "% of the GPUs unallocated" in answer.output

"""The small cluster of the fakes with the long names that real clusters have."""

from typing import Any, Final

import msgspec

from tests.fakes.fake_reader import FakeReader

NAMES: Final = {
    "team-a": "research-foundation-models",
    "train": "research-foundation-models-pretraining",
    "dev": "research-foundation-models-interactive",
    "team-b": "applied-vision-and-robotics",
    "ml": "ml-foundation-research-prod",
    "lab": "robotics-lab-shared-services",
    "vision": "applied-vision-production",
    "bert": "bert-large-uncased-continued-pretraining-17",
    "llama-pretrain": "llama-70b-pretraining-stage-two-restart-3",
    "tune-3": "tune-learning-rate-sweep-20261121-trial-0003",
    "sweep": "hyperparameter-sweep-robot-grasping-v12",
    "yolo": "yolo-v11-nightly-regression-on-new-dataset",
    "old": "nightly-evaluation-suite-20261121-0800",
    "ada@example.com": "system:serviceaccount:ml-foundation-research-prod:pipeline-runner",
    "node-00001": "gpu-h100-pool-eu-west-1a-node-00001",
    "node-00002": "gpu-h100-pool-eu-west-1a-node-00002",
}


class LongNames(FakeReader):
    """Answers of lists with long names."""

    async def queues(self, *given: Any, **more: Any) -> Any:
        return renamed(await super().queues(*given, **more))

    async def pending(self, *given: Any, **more: Any) -> Any:
        return renamed(await super().pending(*given, **more))

    async def workloads(self, *given: Any, **more: Any) -> Any:
        return renamed(await super().workloads(*given, **more))

    async def users(self, *given: Any, **more: Any) -> Any:
        return renamed(await super().users(*given, **more))

    async def decisions(self, *given: Any, **more: Any) -> Any:
        return renamed(await super().decisions(*given, **more))


def renamed(body: Any) -> Any:
    """An answer in which these names stand for others."""
    return msgspec.convert(_renamed(msgspec.to_builtins(body)), type(body))


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(inner) for inner in value]
    return NAMES.get(value, value) if isinstance(value, str) else value

"""The same gang as each kind, and what tests do with all of them."""

from collections.abc import Callable

from tests.e2e.yard import Document, Yard, batch_job, finish, grouped, pod_group, volcano_job

Gang = Callable[[Yard, str, int, int], list[Document]]


def as_volcano_job(yard: Yard, name: str, pods: int, gpus: int) -> list[Document]:
    return [volcano_job(yard, name, pods, gpus)]


def as_batch_job(yard: Yard, name: str, pods: int, gpus: int) -> list[Document]:
    return [batch_job(yard, name, pods, gpus)]


def as_pod_group(yard: Yard, name: str, pods: int, gpus: int) -> list[Document]:
    members = [grouped(yard, name, f"{name}-{index}", gpus) for index in range(pods)]
    return [pod_group(yard, name, pods), *members]


EACH_KIND = (as_volcano_job, as_batch_job, as_pod_group)


def finish_all(yard: Yard, prefix: str) -> None:
    """All running pods of a gang succeed."""
    finish(yard, [pod["metadata"]["name"] for pod in yard.running(prefix)])

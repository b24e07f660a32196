"""The same gang as each kind, and what tests do with all of them."""

from collections.abc import Callable, Sequence

from tests.e2e.documents import Document
from tests.e2e.objects import batch_job, grouped, pod_group, volcano_job
from tests.e2e.yard import Yard

Gang = Callable[[Yard, str, int, int], list[Document]]


def as_volcano_job(yard: Yard, name: str, pods: int, gpus: int) -> list[Document]:
    return [volcano_job(yard, name, pods, gpus)]


def as_batch_job(yard: Yard, name: str, pods: int, gpus: int) -> list[Document]:
    return [batch_job(yard, name, pods, gpus)]


def as_pod_group(yard: Yard, name: str, pods: int, gpus: int) -> list[Document]:
    members = [grouped(yard, name, f"{name}-{index}", gpus) for index in range(pods)]
    return [pod_group(yard, name, pods), *members]


EACH_KIND = (as_volcano_job, as_batch_job, as_pod_group)


def finish(yard: Yard, names: Sequence[str], *, exit_code: int = 0) -> None:
    """Running pods end."""
    how = (
        {"kwok.muster.dev/fail-after": "0s", "kwok.muster.dev/exit-code": str(exit_code)}
        if exit_code
        else {"kwok.muster.dev/complete-after": "0s"}
    )
    for name in names:
        yard.merge("Pod", name, {"metadata": {"annotations": how}})


def finish_all(yard: Yard, prefix: str) -> None:
    """All running pods of a gang succeed."""
    finish(yard, [pod["metadata"]["name"] for pod in yard.running(prefix)])

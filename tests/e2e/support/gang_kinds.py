"""The same gang as each kind, and what tests do with all of them."""

from collections.abc import Callable, Sequence

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import batch_job, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import Yard

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


def wait_released(yard: Yard, prefix: str, count: int) -> list[str]:
    """Until so many pods are ready for the scheduler; their names."""

    def released() -> list[str]:
        return [
            each["metadata"]["name"] for each in yard.pods(prefix) if not each["spec"].get("schedulingGates")
        ]

    yard.wait(lambda: len(released()) == count, f"{count} pods {prefix}* to be released")
    return released()


def bind(yard: Yard, name: str) -> None:
    """Do the scheduler's work for one pod that is pinned to one node."""
    [node] = yard.seats_of(name)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    yard.api.create(path("Pod", yard.name, name) + "/binding", binding)


def made(yard: Yard, prefix: str = "") -> set[str]:
    """Uids of all pods that ever were, whose name begins so."""
    metas = [moment.pod["metadata"] for moment in yard.history.of(yard.name)]
    return {meta["uid"] for meta in metas if meta["name"].startswith(prefix)}

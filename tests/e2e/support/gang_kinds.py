"""The same gang as each kind, and what tests do with all of them."""

from collections.abc import Callable, Sequence

from tests.e2e.support.api_paths import Document
from tests.e2e.support.manifests import batch_job, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import Sandbox

GangMaker = Callable[[Sandbox, str, int, int], list[Document]]


def as_volcano_job(sandbox: Sandbox, name: str, pods: int, gpus: int) -> list[Document]:
    return [volcano_job(sandbox, name, pods, gpus)]


def as_batch_job(sandbox: Sandbox, name: str, pods: int, gpus: int) -> list[Document]:
    return [batch_job(sandbox, name, pods, gpus)]


def as_pod_group(sandbox: Sandbox, name: str, pods: int, gpus: int) -> list[Document]:
    members = [grouped(sandbox, name, f"{name}-{index}", gpus) for index in range(pods)]
    return [pod_group(sandbox, name, pods), *members]


EACH_KIND = (as_volcano_job, as_batch_job, as_pod_group)


def finish(sandbox: Sandbox, names: Sequence[str], *, exit_code: int = 0) -> None:
    """Running pods end."""
    how = (
        {"kwok.muster.dev/fail-after": "0s", "kwok.muster.dev/exit-code": str(exit_code)}
        if exit_code
        else {"kwok.muster.dev/complete-after": "0s"}
    )
    for name in names:
        sandbox.merge("Pod", name, {"metadata": {"annotations": how}})


def finish_all(sandbox: Sandbox, prefix: str) -> None:
    """All running pods of a gang succeed."""
    finish(sandbox, [pod["metadata"]["name"] for pod in sandbox.running(prefix)])


def wait_released(sandbox: Sandbox, prefix: str, count: int) -> list[str]:
    """Until so many pods are ready for the scheduler; their names."""

    def released() -> list[str]:
        return [
            each["metadata"]["name"]
            for each in sandbox.pods(prefix)
            if not each["spec"].get("schedulingGates")
        ]

    sandbox.wait(lambda: len(released()) == count, f"{count} pods {prefix}* to be released")
    return released()


def made(sandbox: Sandbox, prefix: str = "") -> set[str]:
    """Uids of all pods that ever were, whose name begins so."""
    metas = [moment.pod["metadata"] for moment in sandbox.history.of(sandbox.name)]
    return {meta["uid"] for meta in metas if meta["name"].startswith(prefix)}

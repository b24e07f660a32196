"""How pods ended is stored before they go, so that nothing that succeeded runs twice."""

from collections.abc import Callable
from itertools import count

from deploy.local.stack import Stack
from tests.e2e.support.api_paths import Document, condition, path
from tests.e2e.support.gang_kinds import finish, made
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox


def is_held(sandbox: Sandbox, name: str) -> bool:
    """Whether a pod may not disappear yet."""
    found = sandbox.find("Pod", name)
    return found is not None and "muster.dev/outcome" in found["metadata"].get("finalizers", ())


def test_a_task_that_succeeded_and_was_deleted_while_muster_was_down_is_not_run_again(
    whole_stack: Stack, sandbox: Sandbox, absent_muster: Callable[[], None]
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 4))
    sandbox.wait_running("train-", 2)

    absent_muster()
    finish(sandbox, ["train-worker-0"])
    sandbox.wait_phase("Pod", "train-worker-0", "Succeeded")
    whole_stack.kubectl("delete", "pod", "train-worker-0", "-n", sandbox.name, "--wait=false")
    sandbox.wait(lambda: not sandbox.running("train-worker-0"), "the deletion")
    assert is_held(sandbox, "train-worker-0")
    namespace_is_held(sandbox)

    whole_stack.start_muster("muster-again")
    sandbox.wait(lambda: sandbox.find("Pod", "train-worker-0") is None, "the pod to go")
    sandbox.wait(lambda: sandbox.held().get(f"queue {sandbox.name} {GPU}") == 4_000, "its seat to come back")
    finish(sandbox, ["train-worker-1"])
    sandbox.wait_phase("Job", "train", "Completed")
    assert len(made(sandbox, "train-worker-0")) == 1
    sandbox.wait(lambda: not is_held(sandbox, "train-worker-1"), "the other one to be let go as well")


def namespace_is_held(sandbox: Sandbox) -> None:
    """A namespace that is deleted waits for the API that Muster announces, once the API server misses it."""
    attempts = count()

    def is_held() -> bool:
        name = f"{sandbox.name}-gone-{next(attempts)}"
        sandbox.api.create(path("Namespace", ""), {"metadata": {"name": name}})
        sandbox.api.delete(path("Namespace", "", name))

        def found() -> Document | None:
            return sandbox.find("Namespace", name)

        def said(namespace: Document) -> bool:
            return condition(namespace, "NamespaceDeletionDiscoveryFailure").get("status") == "True"

        sandbox.wait(
            lambda: (namespace := found()) is None or said(namespace), "the namespace to go, or to wait"
        )
        return found() is not None

    sandbox.wait(is_held, "a namespace to wait")


def test_a_namespace_with_running_gangs_can_be_deleted(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 2), volcano_job(sandbox, "next", 2, 2))
    sandbox.wait_running("train-", 2)
    sandbox.wait_running("next-", 2)
    sandbox.api.delete(path("Namespace", "", sandbox.name))
    sandbox.wait(lambda: sandbox.find("Namespace", sandbox.name) is None, "the namespace to go")
    sandbox.open()

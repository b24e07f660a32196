"""How pods ended is stored before they go, so that nothing that succeeded runs twice."""

from collections.abc import Callable

from deploy.local.stack import Stack
from tests.e2e.support.api_paths import path
from tests.e2e.support.gang_kinds import finish, made
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import GPU, Yard


def is_held(yard: Yard, name: str) -> bool:
    """Whether a pod may not disappear yet."""
    found = yard.find("Pod", name)
    return found is not None and "muster.dev/outcome" in found["metadata"].get("finalizers", ())


def test_a_task_that_succeeded_and_was_deleted_while_muster_was_down_is_not_run_again(
    whole_stack: Stack, yard: Yard, absent_muster: Callable[[], None]
) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 4))
    yard.wait_running("train-", 2)

    absent_muster()
    finish(yard, ["train-worker-0"])
    yard.wait_phase("Pod", "train-worker-0", "Succeeded")
    whole_stack.kubectl("delete", "pod", "train-worker-0", "-n", yard.name, "--wait=false")
    yard.wait(lambda: not yard.running("train-worker-0"), "the deletion")
    assert is_held(yard, "train-worker-0")

    whole_stack.start_muster("muster-again")
    yard.wait(lambda: yard.find("Pod", "train-worker-0") is None, "the pod to go")
    yard.wait(lambda: yard.held().get(f"queue {yard.name} {GPU}") == 4_000, "its seat to come back")
    finish(yard, ["train-worker-1"])
    yard.wait_phase("Job", "train", "Completed")
    assert len(made(yard, "train-worker-0")) == 1
    yard.wait(lambda: not is_held(yard, "train-worker-1"), "the other one to be let go as well")


def test_a_pod_that_ends_well_only_because_it_is_stopped_has_not_succeeded(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    polite = {"kwok.muster.dev/stop-code": "0"}
    yard.add(volcano_job(yard, "train", 2, 4, annotations=polite))
    yard.wait_running("train-", 2)

    yard.delete("Pod", "train-worker-1")
    yard.wait(
        lambda: len(made(yard, "train-worker-1")) == 2 and len(yard.running("train-")) == 2,
        "the task to run again",
    )


def test_a_namespace_with_running_gangs_can_be_deleted(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 2), volcano_job(yard, "next", 2, 2))
    yard.wait_running("train-", 2)
    yard.wait_running("next-", 2)
    yard.api.delete(path("Namespace", "", yard.name))
    yard.wait(lambda: yard.find("Namespace", yard.name) is None, "the namespace to go")
    yard.open()


def test_a_pod_that_is_deleted_by_force_goes_though_nobody_saw_it_end(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 1, 8, annotations={"kwok.muster.dev/stop-after": "1h"}))
    yard.wait_running("train-", 1)
    yard.delete("Pod", "train-worker-0")
    yard.wait(lambda: not yard.running("train-"), "the deletion")
    assert is_held(yard, "train-worker-0")
    yard.delete("Pod", "train-worker-0", now=True)
    yard.wait(lambda: len(made(yard, "train-worker-0")) == 2, "the task to run again")
    yard.delete("Job", "train")
    yard.wait(lambda: not yard.running("train-"), "the deletion")
    yard.delete("Pod", "train-worker-0", now=True)

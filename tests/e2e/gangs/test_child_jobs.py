"""Jobs of a JobSet whose pods end one by one: their seats are free, and the others run on."""

from typing import Any

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish, wait_until_unready_gangs_have_gone
from tests.e2e.support.manifests import template
from tests.e2e.support.operators import JobSetOperator
from tests.e2e.support.sandbox import GPU, Sandbox

INDEX = "batch.kubernetes.io/job-completion-index"


def sweep(sandbox: Sandbox, **job: Any) -> Document:
    """Two Jobs of three indexes each."""
    spec = {
        "completionMode": "Indexed",
        "parallelism": 3,
        "completions": 3,
        "backoffLimitPerIndex": 0,
        "template": template(sandbox.name, 1),
        **job,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "sweep", "labels": {"muster.dev/queue-name": sandbox.queues[0]}},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": spec}}]},
    }


def pods(sandbox: Sandbox) -> dict[tuple[str, str], str]:
    """Running pods by Job and index."""
    return {
        (pod["metadata"]["labels"]["job-name"], pod["metadata"]["annotations"][INDEX]): pod["metadata"][
            "name"
        ]
        for pod in sandbox.running("sweep-")
    }


def gpus_held(sandbox: Sandbox) -> int:
    return sandbox.held().get(f"queue {sandbox.queues[0]} {GPU}", 0) // 1000


def test_the_seats_of_indexes_that_ended_are_free_and_the_others_run_on(
    sandbox: Sandbox, operators: None
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    with JobSetOperator(sandbox).playing():
        sandbox.add(sweep(sandbox))
        sandbox.wait_running("sweep-", 6)
        left = pods(sandbox)
        ended = [left.pop(("sweep-w-0", "0")), left.pop(("sweep-w-1", "2"))]
        finish(sandbox, ended[:1])
        finish(sandbox, ended[1:], exit_code=1)
        sandbox.wait(lambda: gpus_held(sandbox) == 4, "their seats to be free")
        wait_until_unready_gangs_have_gone(sandbox)
        assert pods(sandbox) == left
        assert "NotReady" not in sandbox.explain("sweep")

        finish(sandbox, list(pods(sandbox).values()))
        done = {"conditions": [{"type": "Completed", "status": "True"}]}
        sandbox.api.merge(path("JobSet", sandbox.name, "sweep") + "/status", {"status": done})
        sandbox.wait_free()

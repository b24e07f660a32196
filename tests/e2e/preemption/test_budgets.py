"""A queue whose budget is used up admits nothing more until it is raised; what runs goes on."""

from tests.cluster_faults import kubectl_muster
from tests.e2e.support.api_paths import path
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, Sandbox


def test_a_gang_waits_for_a_budget_that_is_used_up_and_comes_in_when_it_is_raised(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    top = sandbox.add_queue("top", budget={"hours": {GPU: "0.002"}, "whenSpent": "hold"})
    queue = sandbox.add_queue("leaf", parent=top)

    def submit(name: str) -> None:
        job = batch_job(sandbox, name, 1, 4)
        job["metadata"]["labels"]["muster.dev/queue-name"] = queue
        sandbox.api.create(path("batch/v1 Job", sandbox.name), job)

    submit("first")
    sandbox.wait_running("first", 1)

    def used() -> bool:
        # 4 GPUs use 0.002 hours in two seconds.
        table = kubectl_muster(sandbox.stack, "quota", "show", top)
        [budget] = [line.split() for line in table.splitlines() if line.endswith(" hold")]
        return budget[4] != "-" and int(budget[4]) >= 100

    sandbox.wait(used, "the budget to be used up")
    submit("second")
    message = sandbox.wait_reason("second", "BudgetSpent")
    assert (
        f"queue {top}, above {queue}, has used up its budget of 0.002 hours of {GPU} for this month"
        in message
    )
    assert len(sandbox.running("first")) == 1
    assert not sandbox.pods("second")

    sandbox.api.merge(path("Queue", "", top), {"spec": {"budget": {"hours": {GPU: "1000"}}}})
    sandbox.wait_running("second", 1)
    assert len(sandbox.running("first")) == 1

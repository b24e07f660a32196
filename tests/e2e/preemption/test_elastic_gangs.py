"""An elastic gang that got all its pods at once gives some of them back, and runs on with its minimum."""

import json

from tests.cluster_faults import kubectl_muster
from tests.e2e.preemption.test_preemption import evicted, in_queue
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox


def test_an_owner_gets_back_as_many_pods_as_it_asks_for_and_the_gang_runs_on(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    owner = sandbox.add_queue("owner", deserved={GPU: 8})
    borrower = sandbox.add_queue("borrower", deserved={GPU: 0})
    sandbox.add(in_queue(volcano_job(sandbox, "elastic", 8, minAvailable=2), borrower))
    before = {pod["metadata"]["uid"] for pod in sandbox.wait_running("elastic-", 8)}

    sandbox.add(in_queue(volcano_job(sandbox, "mine", 3), owner))
    sandbox.wait_running("mine-", 3)
    left = {pod["metadata"]["uid"] for pod in sandbox.wait_running("elastic-", 5)}
    assert left < before, "what runs on was not started again"
    assert [code for code, _ in evicted(sandbox, "elastic")] == ["Reclaimed"], "one gang, one line"
    sandbox.wait_phase("Job", "elastic", "Running")
    listed = json.loads(kubectl_muster(sandbox.stack, "jobs", "-n", sandbox.name, "-o", "json"))["items"]
    assert [one["name"] for one in listed].count("elastic") == 1

    finish_all(sandbox, "mine-")
    after = {pod["metadata"]["uid"] for pod in sandbox.wait_running("elastic-", 8)}
    assert left < after
    sandbox.add(in_queue(volcano_job(sandbox, "all", 8), owner))
    sandbox.wait_running("all-", 8)
    assert not sandbox.running("elastic-"), "without its minimum nothing of it runs"

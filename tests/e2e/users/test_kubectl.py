"""What people see and say with kubectl and muster."""

import json
import os
import signal

from deploy.local.stack import Stack
from tests.cluster_faults import continue_muster, kubectl_muster
from tests.e2e.support.manifests import grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox
from tests.waiting import until


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line]


def test_kubectl_get_shows_what_users_of_volcano_expect(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue(weight=3)
    sandbox.add(volcano_job(sandbox, "runs", 2, 2), volcano_job(sandbox, "waits", 2, 8))
    sandbox.add(
        pod_group(sandbox, "ring", 2), *(grouped(sandbox, "ring", f"ring-{index}") for index in range(2))
    )
    sandbox.wait_phase("Job", "runs", "Running")
    sandbox.wait_phase("Job", "waits", "Pending")
    sandbox.wait_phase("PodGroup", "ring", "Running")
    sandbox.wait(
        lambda: sandbox.get("Job", "runs")["status"].get("running") == 2, "the Job to count its pods"
    )

    get = sandbox.stack.kubectl
    jobs = lines(get("get", "vcjob", "-o", "wide", "-n", sandbox.name).stdout)
    assert jobs[0] == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE", "QUEUE"]
    assert [(row[0], row[1], row[2]) for row in jobs[1:]] == [
        ("runs", "Running", "2"),
        ("waits", "Pending", "2"),
    ]
    assert jobs[1][3] == "2"
    until(
        lambda: lines(get("get", "podgroup", "ring", "-n", sandbox.name).stdout)[1][3] == "2",
        "the group to count its pods",
    )
    groups = lines(get("get", "podgroup", "ring", "-o", "wide", "-n", sandbox.name).stdout)
    assert groups[0] == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE", "QUEUE"]
    assert groups[1][:4] == ["ring", "Running", "2", "2"]
    sandbox.wait(
        lambda: lines(get("get", "queue", queue).stdout)[1][:3] == [queue, "root", "Open"],
        "the queue to be Open",
    )
    assert lines(get("get", "queue", queue, "-o", "wide").stdout)[0][:4] == [
        "NAME",
        "PARENT",
        "STATE",
        "WEIGHT",
    ]
    sandbox.wait(
        lambda: (
            json.loads(get("get", "queue", queue, "-o", "json").stdout)["status"]
            .get("allocated", {})
            .get(GPU)
            == "6"
        ),
        "the queue to tell what it has allocated",
    )
    described = get("describe", "vcjob", "waits", "-n", sandbox.name).stdout
    assert "2 pods of 8 nvidia.com/gpu" in described
    sandbox.wait(
        lambda: "Admitted" in get("describe", "vcjob", "runs", "-n", sandbox.name).stdout, "an event Admitted"
    )


def test_a_leader_that_stands_still_slows_nobody_who_submits_or_asks(
    sandbox: Sandbox, whole_stack: Stack
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    leader = whole_stack.replicas[0]
    os.kill(leader.process.pid, signal.SIGSTOP)
    try:
        # The webhook answers: a job that it did not see has none of its defaults, after both have been waited for.
        sandbox.add(volcano_job(sandbox, "waits", 1, 1))
        assert sandbox.get("Job", "waits")["spec"]["maxRetry"] == 3
        assert "QUEUE" in kubectl_muster(whole_stack, "queues")
        assert not leader.ready()
    finally:
        continue_muster(leader)
    sandbox.wait_running("waits-", 1)

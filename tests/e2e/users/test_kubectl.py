"""What people see and say with kubectl and muster."""

import json
import os
import signal

from deploy.local.stack import Stack
from tests.cluster_faults import continue_muster, kubectl_muster
from tests.e2e.support.gang_kinds import finish_all
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


def test_a_paused_queue_admits_nothing_until_it_is_resumed(sandbox: Sandbox, whole_stack: Stack) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue()
    child, other = sandbox.add_queue("child", parent=queue), sandbox.add_queue("other")
    config = ("--kubeconfig", whole_stack.cluster.kubeconfig)
    assert f"queue {queue} is paused" in whole_stack.muster("pause", queue, *config).stdout

    sandbox.add(volcano_job(sandbox, "waits", 1, 1, queue=child))
    sandbox.wait_reason("waits", "QueuePaused")
    sandbox.add(volcano_job(sandbox, "goes", 1, 1, queue=other))
    sandbox.wait_running("goes-", 1)
    assert not sandbox.history.bound(sandbox.name, "waits-")
    whole_stack.muster("resume", queue, *config)
    sandbox.wait_running("waits-", 1)


def test_pausing_everything_stops_every_queue_and_nothing_that_runs(
    sandbox: Sandbox, whole_stack: Stack
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    config = ("--kubeconfig", whole_stack.cluster.kubeconfig)
    sandbox.add(volcano_job(sandbox, "runs", 1, 1))
    sandbox.wait_running("runs-", 1)
    whole_stack.muster("pause", *config)
    try:
        sandbox.add(volcano_job(sandbox, "waits", 1, 1))
        sandbox.wait_reason("waits", "QueuePaused")
        assert len(sandbox.running("runs-")) == 1
    finally:
        whole_stack.muster("resume", *config)
    sandbox.wait_running("waits-", 1)
    finish_all(sandbox, "")
    sandbox.wait_free()


def test_queues_and_pending_tell_use_and_places(sandbox: Sandbox, whole_stack: Stack) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue(capability={GPU: 8})
    sandbox.add(volcano_job(sandbox, "runs", 2, 3))
    sandbox.wait_running("runs-", 2)
    sandbox.add(volcano_job(sandbox, "first", 1, 4))
    sandbox.wait_reason("first", "QueueLimit")
    sandbox.add(volcano_job(sandbox, "second", 1, 4))
    sandbox.wait_reason("second", "QueueLimit")

    [row] = [row for row in lines(kubectl_muster(whole_stack, "queues")) if queue in " ".join(row)]
    assert [cell for cell in row if cell.isdecimal()][:2] == ["6", "8"]
    pending = lines(kubectl_muster(whole_stack, "pending", "-n", sandbox.name))
    assert [row[:2] for row in pending[1:]] == [["1", "vcjob/first"], ["2", "vcjob/second"]]
    assert "State     running" in sandbox.explain("runs")


def test_fields_that_do_nothing_yet_are_named_on_the_object(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    policies = [{"event": "JobUpdated", "action": "RestartJob", "timeout": "1m"}]
    sandbox.add(volcano_job(sandbox, "train", 1, 1, policies=policies, plugins={"pytorch": ["--hosts=x"]}))
    sandbox.wait_running("train-", 1)
    named = "spec.policies[0].timeout"
    sandbox.wait(lambda: named in sandbox.told("Job", "train"), "the Job to name its policy")
    assert "spec.plugins.pytorch --hosts" in sandbox.told("Job", "train")


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

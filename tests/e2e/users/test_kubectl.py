"""What people see and say with kubectl and muster."""

import json

from deploy.local.stack import Stack
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import GPU, Yard
from tests.waiting import until


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line]


def test_kubectl_get_shows_what_users_of_volcano_expect(yard: Yard) -> None:
    yard.add_nodes(1)
    queue = yard.add_queue(weight=3)
    yard.add(volcano_job(yard, "runs", 2, 2), volcano_job(yard, "waits", 2, 8))
    yard.add(pod_group(yard, "ring", 2), *(grouped(yard, "ring", f"ring-{index}") for index in range(2)))
    yard.wait_phase("Job", "runs", "Running")
    yard.wait_phase("Job", "waits", "Pending")
    yard.wait_phase("PodGroup", "ring", "Running")
    yard.wait(lambda: yard.get("Job", "runs")["status"].get("running") == 2, "the Job to count its pods")

    get = yard.stack.kubectl
    jobs = lines(get("get", "vcjob", "-o", "wide", "-n", yard.name).stdout)
    assert jobs[0] == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE", "QUEUE"]
    assert [(row[0], row[1], row[2]) for row in jobs[1:]] == [
        ("runs", "Running", "2"),
        ("waits", "Pending", "2"),
    ]
    assert jobs[1][3] == "2"
    until(
        lambda: lines(get("get", "podgroup", "ring", "-n", yard.name).stdout)[1][3] == "2",
        "the group to count its pods",
    )
    groups = lines(get("get", "podgroup", "ring", "-o", "wide", "-n", yard.name).stdout)
    assert groups[0] == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE", "QUEUE"]
    assert groups[1][:4] == ["ring", "Running", "2", "2"]
    yard.wait(
        lambda: lines(get("get", "queue", queue).stdout)[1][:3] == [queue, "root", "Open"],
        "the queue to be Open",
    )
    assert lines(get("get", "queue", queue, "-o", "wide").stdout)[0][:4] == [
        "NAME",
        "PARENT",
        "STATE",
        "WEIGHT",
    ]
    yard.wait(
        lambda: (
            json.loads(get("get", "queue", queue, "-o", "json").stdout)["status"]["allocated"].get(GPU) == "6"
        ),
        "the queue to tell what it has allocated",
    )
    described = get("describe", "vcjob", "waits", "-n", yard.name).stdout
    assert "2 pods of 8 nvidia.com/gpu" in described
    yard.wait(
        lambda: "Admitted" in get("describe", "vcjob", "runs", "-n", yard.name).stdout, "an event Admitted"
    )


def test_a_paused_queue_admits_nothing_until_it_is_resumed(yard: Yard, whole_stack: Stack) -> None:
    yard.add_nodes(1)
    queue = yard.add_queue()
    child, other = yard.add_queue("child", parent=queue), yard.add_queue("other")
    config = ("--kubeconfig", whole_stack.cluster.kubeconfig)
    assert f"queue {queue} is paused" in whole_stack.muster("pause", queue, *config).stdout

    yard.add(volcano_job(yard, "waits", 1, 1, queue=child))
    yard.wait_reason("waits", "QueuePaused")
    yard.add(volcano_job(yard, "goes", 1, 1, queue=other))
    yard.wait_running("goes-", 1)
    assert not yard.history.bound(yard.name, "waits-")
    whole_stack.muster("resume", queue, *config)
    yard.wait_running("waits-", 1)


def test_pausing_everything_stops_every_queue_and_nothing_that_runs(yard: Yard, whole_stack: Stack) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    config = ("--kubeconfig", whole_stack.cluster.kubeconfig)
    yard.add(volcano_job(yard, "runs", 1, 1))
    yard.wait_running("runs-", 1)
    whole_stack.muster("pause", *config)
    try:
        yard.add(volcano_job(yard, "waits", 1, 1))
        yard.wait_reason("waits", "QueuePaused")
        assert len(yard.running("runs-")) == 1
    finally:
        whole_stack.muster("resume", *config)
    yard.wait_running("waits-", 1)
    finish_all(yard, "")
    yard.wait_free()


def test_queues_and_pending_tell_use_and_places(yard: Yard, whole_stack: Stack) -> None:
    yard.add_nodes(1)
    queue = yard.add_queue(capability={GPU: 8})
    yard.add(volcano_job(yard, "runs", 2, 3))
    yard.wait_running("runs-", 2)
    yard.add(volcano_job(yard, "first", 1, 4))
    yard.wait_reason("first", "QueueLimit")
    yard.add(volcano_job(yard, "second", 1, 4))
    yard.wait_reason("second", "QueueLimit")

    [row] = [row for row in lines(whole_stack.kubectl_muster("queues").stdout) if queue in " ".join(row)]
    assert [cell for cell in row if cell.isdecimal()][:2] == ["6", "8"]
    pending = lines(whole_stack.kubectl_muster("pending", "-n", yard.name).stdout)
    assert [row[:2] for row in pending[1:]] == [["1", "vcjob/first"], ["2", "vcjob/second"]]
    assert "State     admitted" in yard.explain("runs")


def test_fields_that_do_nothing_yet_are_named_on_the_object(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    yard.add(volcano_job(yard, "train", 1, 1, policies=policies, plugins={"pytorch": []}))
    yard.wait_running("train-", 1)
    yard.wait(lambda: "spec.policies" in yard.told("Job", "train"), "the Job to name spec.policies")
    assert "spec.plugins.pytorch" in yard.told("Job", "train")

"""A Volcano Job with plugins, and a group: each is released, runs, ends, and gives everything back."""

from collections import Counter

from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox
from tests.node_affinity import pinned_nodes


def test_a_volcano_job_runs_with_everything_its_plugins_promise(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue()
    job = volcano_job(
        sandbox, "train", 4, 4, plugins={"env": [], "svc": [], "ssh": []}, schedulerName="volcano"
    )
    sandbox.add(job)

    pods = sandbox.wait_running("train-", 4)
    assert [pod["metadata"]["name"] for pod in pods] == [f"train-worker-{index}" for index in range(4)]
    assert all(pinned_nodes(pod["spec"]) == {pod["spec"]["nodeName"]} for pod in pods)
    assert all(pod["spec"]["schedulerName"] == "default-scheduler" for pod in pods)
    assert sorted(Counter(sandbox.nodes_of().values()).values()) == [2, 2]
    assert {"queue " + queue + " " + GPU: 16_000}.items() <= sandbox.held().items()

    for index, pod in enumerate(pods):
        main = pod["spec"]["containers"][0]
        env = {each["name"]: each for each in main["env"]}
        assert env["VK_TASK_INDEX"]["value"] == env["VC_TASK_INDEX"]["value"] == str(index)
        assert "VC_WORKER_HOSTS" in env
        assert pod["spec"]["hostname"] == f"train-worker-{index}"
        assert pod["spec"]["subdomain"] == "train"
        assert "/root/.ssh" in {mount["mountPath"] for mount in main["volumeMounts"]}
    assert sandbox.get("Service", "train")["spec"]["clusterIP"] == "None"
    hosts = sandbox.get("ConfigMap", "train-svc")["data"]["worker.host"].splitlines()
    assert hosts == [f"train-worker-{index}.train" for index in range(4)]
    job = sandbox.get("Job", "train")["metadata"]
    keys = sandbox.get("Secret", f"train-ssh-{job['uid']}")["data"]
    assert {"id_rsa", "id_rsa.pub", "authorized_keys"} <= keys.keys()

    sandbox.wait_phase("Job", "train", "Running")
    finish_all(sandbox, "train-")
    sandbox.wait_free()
    sandbox.wait_phase("Job", "train", "Completed")
    status = sandbox.get("Job", "train")["status"]
    assert (status["succeeded"], status.get("running", 0)) == (4, 0)


def test_the_pods_of_a_group_run_together(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(pod_group(sandbox, "ring", 4))
    sandbox.wait(
        lambda: sandbox.reason("ring")[1] == "0 of 4 pods exist", "the group to tell what it waits for"
    )

    sandbox.add(*(grouped(sandbox, "ring", f"ring-{index}", 4) for index in range(3)))
    sandbox.wait(lambda: sandbox.reason("ring")[1] == "3 of 4 pods exist", "the group to see three pods")
    assert sandbox.held() == {}
    sandbox.add(grouped(sandbox, "ring", "ring-3", 4))

    pods = sandbox.wait_running("ring-", 4)
    assert all(pinned_nodes(pod["spec"]) == {pod["spec"]["nodeName"]} for pod in pods)
    sandbox.wait_phase("PodGroup", "ring", "Running")
    finish_all(sandbox, "ring-")
    sandbox.wait_free()
    sandbox.wait_phase("PodGroup", "ring", "Completed")

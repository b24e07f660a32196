"""Each kind is released, runs, ends, and gives everything back."""

from collections import Counter

from tests.e2e.support.gang_kinds import finish, finish_all
from tests.e2e.support.manifests import bare_pod, batch_job, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import GPU, Yard
from tests.node_affinity import pinned_to


def test_a_volcano_job_runs_with_everything_its_plugins_promise(yard: Yard) -> None:
    yard.add_nodes(2)
    queue = yard.add_queue()
    job = volcano_job(yard, "train", 4, 4, plugins={"env": [], "svc": [], "ssh": []}, schedulerName="volcano")
    yard.add(job)

    pods = yard.wait_running("train-", 4)
    assert [pod["metadata"]["name"] for pod in pods] == [f"train-worker-{index}" for index in range(4)]
    assert all(pinned_to(pod["spec"]) == {pod["spec"]["nodeName"]} for pod in pods)
    assert all(pod["spec"]["schedulerName"] == "default-scheduler" for pod in pods)
    assert sorted(Counter(yard.nodes_of().values()).values()) == [2, 2]
    assert {"queue " + queue + " " + GPU: 16_000}.items() <= yard.held().items()

    for index, pod in enumerate(pods):
        main = pod["spec"]["containers"][0]
        env = {each["name"]: each for each in main["env"]}
        assert env["VK_TASK_INDEX"]["value"] == env["VC_TASK_INDEX"]["value"] == str(index)
        assert "VC_WORKER_HOSTS" in env
        assert pod["spec"]["hostname"] == f"train-worker-{index}"
        assert pod["spec"]["subdomain"] == "train"
        assert "/root/.ssh" in {mount["mountPath"] for mount in main["volumeMounts"]}
    assert yard.get("Service", "train")["spec"]["clusterIP"] == "None"
    hosts = yard.get("ConfigMap", "train-svc")["data"]["worker.host"].splitlines()
    assert hosts == [f"train-worker-{index}.train" for index in range(4)]
    keys = yard.get("Secret", "train-ssh")["data"]
    assert {"id_rsa", "id_rsa.pub", "authorized_keys"} <= keys.keys()

    yard.wait_phase("Job", "train", "Running")
    finish_all(yard, "train-")
    yard.wait_free()
    yard.wait_phase("Job", "train", "Completed")
    status = yard.get("Job", "train")["status"]
    assert (status["succeeded"], status.get("running", 0)) == (4, 0)


def test_a_batch_job_that_fills_its_nodes_is_released_by_one_patch(yard: Yard) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(batch_job(yard, "full", 4, 4))

    pods = yard.wait_running("full-", 4)
    nodes = set(yard.nodes_of().values())
    assert len(nodes) == 2
    assert all(pinned_to(pod["spec"]) == nodes for pod in pods), "the template lists all nodes"
    assert not yard.history.ever(
        yard.name, "full-", lambda moment: bool(moment.pod["spec"].get("schedulingGates"))
    )

    finish_all(yard, "full-")
    yard.wait(lambda: yard.job_is("full", "Complete"), "the Job to be Complete")
    yard.wait_free()


def test_a_batch_job_with_room_left_on_its_nodes_is_released_pod_by_pod(yard: Yard) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(batch_job(yard, "loose", 3, 3))

    pods = yard.wait_running("loose-", 3)
    assert all(pinned_to(pod["spec"]) == {pod["spec"]["nodeName"]} for pod in pods)
    assert yard.history.ever(
        yard.name, "loose-", lambda moment: bool(moment.pod["spec"].get("schedulingGates"))
    )

    finish_all(yard, "loose-")
    yard.wait(lambda: yard.job_is("loose", "Complete"), "the Job to be Complete")
    yard.wait_free()


def test_an_indexed_job_gets_the_seat_of_its_index(yard: Yard) -> None:
    yard.add_nodes(3)
    yard.add_queue()
    yard.add(batch_job(yard, "ranks", 3, 3, completionMode="Indexed"))

    pods = yard.wait_running("ranks-", 3)
    indexes = [pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods]
    seats = [pod["metadata"]["annotations"]["muster.dev/seat"].rpartition("/")[2] for pod in pods]
    assert sorted(indexes) == ["0", "1", "2"]
    assert seats == indexes

    finish_all(yard, "ranks-")
    yard.wait(lambda: yard.job_is("ranks", "Complete"), "the Job to be Complete")
    yard.wait_free()


def test_a_job_with_more_completions_than_parallel_pods_runs_them_in_turn(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    quick = batch_job(
        yard, "waves", 2, 2, annotations={"kwok.muster.dev/complete-after": "100ms"}, completions=6
    )
    yard.add(quick)

    yard.wait(lambda: yard.job_is("waves", "Complete"), "the Job to be Complete")
    assert yard.get("batch/v1 Job", "waves")["status"]["succeeded"] == 6
    yard.wait_free()


def test_the_pods_of_a_group_run_together(yard: Yard) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(pod_group(yard, "ring", 4))
    yard.wait(lambda: yard.reason("ring")[1] == "0 of 4 pods exist", "the group to tell what it waits for")

    yard.add(*(grouped(yard, "ring", f"ring-{index}", 4) for index in range(3)))
    yard.wait(lambda: yard.reason("ring")[1] == "3 of 4 pods exist", "the group to see three pods")
    assert yard.held() == {}
    yard.add(grouped(yard, "ring", "ring-3", 4))

    pods = yard.wait_running("ring-", 4)
    assert all(pinned_to(pod["spec"]) == {pod["spec"]["nodeName"]} for pod in pods)
    yard.wait_phase("PodGroup", "ring", "Running")
    finish_all(yard, "ring-")
    yard.wait_free()
    yard.wait_phase("PodGroup", "ring", "Completed")


def test_a_bare_pod_waits_for_nobody(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    yard.add(bare_pod(yard, "alone", 8), bare_pod(yard, "behind", 8))

    [alone] = yard.wait_running("alone", 1)
    yard.wait_reason("behind", "NoFit")
    finish(yard, ["alone"])
    yard.wait_running("behind", 1)
    assert pinned_to(alone["spec"]) == {alone["spec"]["nodeName"]}
    finish(yard, ["behind"])
    yard.wait_free()

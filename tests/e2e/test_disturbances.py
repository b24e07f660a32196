"""What happens to gangs between their admission and their end, when the world does not keep still."""

from collections.abc import Callable, Iterator

import pytest

from deploy.local.stack import CommandFailed, Stack
from queues.errors import ApiError
from tests.e2e.documents import path
from tests.e2e.gangs import EACH_KIND, Gang, as_batch_job, as_volcano_job, finish, finish_all
from tests.e2e.objects import bare_pod, batch_job, grouped, pod, pod_group, volcano_job
from tests.e2e.scene import is_stopped
from tests.e2e.yard import GPU, HOST, Yard
from tests.waiting import until


@pytest.fixture
def idle_scheduler(whole_stack: Stack) -> Iterator[Stack]:
    """The stock scheduler hangs until it is resumed: gangs are admitted and released, and not bound."""
    whole_stack.cluster.pause("kube-scheduler")
    yield whole_stack
    whole_stack.cluster.resume("kube-scheduler")


def wait_released(yard: Yard, prefix: str, count: int) -> list[str]:
    """Until so many pods are ready for the scheduler; their names."""

    def released() -> list[str]:
        return [
            each["metadata"]["name"] for each in yard.pods(prefix) if not each["spec"].get("schedulingGates")
        ]

    yard.wait(lambda: len(released()) == count, f"{count} pods {prefix}* to be released")
    return released()


def bind(yard: Yard, name: str) -> None:
    """Do the scheduler's work for one pod that is pinned to one node."""
    [node] = yard.seats_of(name)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    yard.api.create(path("Pod", yard.name, name) + "/binding", binding)


# ── failures ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pod_of_a_job_that_fails_is_replaced_in_a_seat_of_its_gang(yard: Yard) -> None:
    """All at once: the Job controller waits ten seconds before it replaces a failed pod."""
    yard.add_nodes(5)
    yard.add_queue()
    names = ("directed", "podwise", "indexed")
    yard.add(batch_job(yard, "directed", 2, 8))
    yard.wait_running("directed-", 2)
    yard.add(batch_job(yard, "podwise", 3, 3), batch_job(yard, "indexed", 3, 3, completionMode="Indexed"))
    yard.wait_running("", 8)
    before = yard.held()
    failing = [yard.pods(f"{name}-")[0]["metadata"]["name"] for name in names]

    finish(yard, failing, exit_code=1)
    yard.wait(
        lambda: (
            len(running := {each["metadata"]["name"] for each in yard.running()}) == 8
            and not running & set(failing)
        ),
        "replacements to run",
    )
    assert yard.held() == before
    assert [len(yard.books.admissions(yard.name, name)) for name in names] == [1, 1, 1]
    for name in names:
        finish_all(yard, f"{name}-")
    for name in names:
        yard.wait(lambda name=name: yard.job_is(name, "Complete"), f"{name} to be Complete")
    yard.wait_free()


def test_a_failed_pod_of_a_volcano_job_without_policies_stays_failed(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 4))
    yard.wait_running("train-", 2)

    finish(yard, ["train-worker-0"], exit_code=3)
    yard.wait(lambda: yard.held().get(f"queue {yard.name} {GPU}") == 4_000, "its seat to come back")
    finish(yard, ["train-worker-1"])
    yard.wait_phase("Job", "train", "Failed")
    yard.wait_free()
    assert {each["metadata"]["name"]: each["status"]["phase"] for each in yard.pods()} == {
        "train-worker-0": "Failed",
        "train-worker-1": "Succeeded",
    }


def test_a_deleted_pod_of_a_volcano_job_is_made_again_in_its_seat(yard: Yard) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 8))
    yard.wait_running("train-", 2)
    nodes, uid = yard.nodes_of("train-"), yard.get("Pod", "train-worker-1")["metadata"]["uid"]

    yard.delete("Pod", "train-worker-1")
    yard.wait(
        lambda: (
            len(yard.running("train-")) == 2 and yard.get("Pod", "train-worker-1")["metadata"]["uid"] != uid
        ),
        "the pod to be made again",
    )
    assert yard.nodes_of("train-") == nodes
    assert len(yard.books.admissions(yard.name, "train")) == 1


# ── how pods ended is stored before they go ─────────────────────────────────────────────────────────────────


@pytest.fixture
def absent_muster(whole_stack: Stack, yard: Yard) -> Iterator[Callable[[], None]]:
    """Call it to kill Muster; it is there again when the test is over, at the latest."""

    def kill() -> None:
        replica = whole_stack.replicas[0]
        replica.kill9()
        whole_stack.stop_muster(replica)

    yield kill
    if not whole_stack.replicas:
        whole_stack.start_muster("muster-afterwards")


def made(yard: Yard, prefix: str = "") -> set[str]:
    """Uids of all pods that ever were, whose name begins so."""
    metas = [moment.pod["metadata"] for moment in yard.history.of(yard.name)]
    return {meta["uid"] for meta in metas if meta["name"].startswith(prefix)}


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


# ── nodes and foreign pods ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gang", [as_volcano_job, as_batch_job])
def test_a_gang_whose_seat_a_foreign_pod_takes_goes_back_whole_and_starts_elsewhere(
    idle_scheduler: Stack, yard: Yard, gang: Gang
) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(*gang(yard, "train", 2, 8))
    released = wait_released(yard, "train-", 2)

    yard.add(pod(yard, "foreign", 8, nodeName=yard.nodes[0]))
    yard.wait_running("foreign", 1)
    # Started anew it knows the foreign pod before it looks at any other.
    idle_scheduler.cluster.kill("kube-scheduler")
    idle_scheduler.cluster.start_component("kube-scheduler")
    yard.wait(
        lambda: [state for _, state in yard.books.admissions(yard.name, "train")] == ["closed"],
        "the gang to go back whole",
    )
    evictions = [code for kind, code, _ in yard.books.decisions(yard.name, "train") if kind == "evict"]
    assert evictions == (["Refused"] if gang is as_volcano_job else ["SeatTaken"])
    assert not yard.nodes_of("train-")

    yard.add_nodes(1)
    yard.wait_running("train-", 2)
    assert set(yard.nodes_of("train-").values()) == set(yard.nodes[1:])
    assert yard.get("Pod", "foreign")["status"]["phase"] == "Running"
    assert len(released) == 2


def add_unfriendly(yard: Yard, node: str, gpus: int = 0) -> None:
    """A foreign pod beside which the stock scheduler puts no pod of ``train``, though the node has room."""
    others = {"labelSelector": {"matchLabels": {"volcano.sh/job-name": "train"}}, "topologyKey": HOST}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [others]}}
    yard.add(pod(yard, "foreign", gpus, nodeName=node, affinity=rule))
    yard.wait_running("foreign", 1)


def rather_on(node: str) -> dict[str, object]:
    """Affinity of a pod that is to be seated on this node first, whatever else makes a node a good one."""
    here = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    terms = [{"weight": 100, "preference": here}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def test_a_gang_that_a_node_refuses_is_not_sent_there_again_at_once(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    add_unfriendly(yard, yard.nodes[0], 4)
    train = volcano_job(yard, "train", 1, 4)
    train["spec"]["tasks"][0]["template"]["spec"]["affinity"] = rather_on(yard.nodes[0])
    yard.add(train)
    yard.wait(
        lambda: len(yard.books.admissions(yard.name, "train")) == 1, "train to be sent to the only node"
    )
    yard.add_nodes(1)
    yard.wait_running("train-", 1)
    assert yard.nodes_of("train-") == {"train-worker-0": yard.nodes[1]}
    assert len(yard.books.admissions(yard.name, "train")) == 2, "the first retry found another place"


def test_a_pod_of_its_own_that_a_node_refuses_is_made_again_for_another(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    add_unfriendly(yard, yard.nodes[0], 4)
    single = bare_pod(yard, "single", 4, affinity=rather_on(yard.nodes[0]))
    single["metadata"]["labels"]["volcano.sh/job-name"] = "train"
    yard.add(single)
    yard.wait(
        lambda: len(yard.books.admissions(yard.name, "single")) == 1, "single to be sent to the only node"
    )
    yard.add_nodes(1)
    yard.wait_running("single", 1)
    assert yard.nodes_of("single") == {"single": yard.nodes[1]}
    assert len(made(yard, "single")) == 2, "the first retry found another place"


def test_a_member_that_its_node_refuses_after_the_start_goes_on_elsewhere(yard: Yard) -> None:
    yard.add_nodes(3)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 8))
    yard.wait_running("train-", 2)
    nodes, uid = yard.nodes_of("train-"), yard.get("Pod", "train-worker-1")["metadata"]["uid"]

    add_unfriendly(yard, nodes["train-worker-0"])
    yard.delete("Pod", "train-worker-0")
    yard.wait(
        lambda: len(yard.running("train-")) == 2 and yard.nodes_of("train-") != nodes,
        "the member to run elsewhere",
    )
    assert yard.nodes_of("train-")["train-worker-0"] not in nodes.values()
    assert yard.get("Pod", "train-worker-1")["metadata"]["uid"] == uid, "the other one stays"


def test_a_node_that_is_removed_costs_its_seats_and_nothing_else(yard: Yard) -> None:
    yard.add_nodes(3)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 8))
    yard.wait_running("train-", 2)
    nodes = yard.nodes_of("train-")
    other = yard.get("Pod", "train-worker-1")["metadata"]["uid"]

    yard.remove_node(nodes["train-worker-0"])
    yard.wait(
        lambda: (
            len(yard.running("train-")) == 2
            and yard.nodes_of("train-")["train-worker-0"] != nodes["train-worker-0"]
        ),
        "the lost member to run elsewhere",
    )
    assert yard.get("Pod", "train-worker-1")["metadata"]["uid"] == other


def test_a_gang_goes_on_elsewhere_once_its_dead_node_is_gone(yard: Yard) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 8))
    yard.wait_running("train-", 2)
    dead = yard.nodes_of("train-")["train-worker-0"]
    yard.add(volcano_job(yard, "next", 1, 8))
    yard.wait_reason("next", "NoFit")

    yard.stack.cluster.kill_node(dead, at_once=True)
    yard.wait(
        lambda: "deletionTimestamp" in yard.get("Pod", "train-worker-0")["metadata"],
        "Kubernetes to give the pod up",
    )
    yard.add_nodes(1)
    yard.wait_running("next-", 1)
    assert dead not in yard.nodes_of("next-").values(), "the silent node may still run the old pod"
    assert len(yard.running("train-")) == 1

    yard.add_nodes(1)
    yard.remove_node(dead)
    yard.wait_running("train-", 2)


def test_a_node_that_dies_before_its_gang_has_started_sends_it_back_whole(
    idle_scheduler: Stack, yard: Yard
) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 8))
    wait_released(yard, "train-", 2)
    bind(yard, "train-worker-1")
    [dead] = yard.seats_of("train-worker-0")

    yard.stack.cluster.kill_node(dead, at_once=True)
    yard.delete("Pod", "train-worker-0", now=True)
    yard.wait(
        lambda: "closed" in [state for _, state in yard.books.admissions(yard.name, "train")],
        "the gang to go back",
    )
    # Nobody of it runs any more; what has ended stays until that is stored.
    bound = [each for each in yard.pods("train-") if each["spec"].get("nodeName")]
    assert all(each["status"]["phase"] in ("Succeeded", "Failed") for each in bound), bound
    yard.wait(lambda: not yard.nodes_of("train-"), "no pod of the gang to be left on a node")
    yard.add_nodes(1)
    idle_scheduler.cluster.resume("kube-scheduler")
    yard.wait_running("train-", 2)
    assert dead not in yard.nodes_of("train-").values()


# ── deletion ────────────────────────────────────────────────────────────────────────────────────────────────


def delete_gang(yard: Yard, gang: Gang, name: str) -> None:
    match gang:
        case _ if gang is as_volcano_job:
            yard.delete("Job", name)
        case _ if gang is as_batch_job:
            yard.delete("batch/v1 Job", name)
        case _:
            yard.delete("PodGroup", name)
            for each in yard.pods(f"{name}-"):
                yard.delete("Pod", each["metadata"]["name"])


@pytest.mark.parametrize("gang", EACH_KIND)
def test_a_pending_gang_that_is_deleted_leaves_nothing(yard: Yard, gang: Gang) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    yard.add(*gang(yard, "train", 2, 8))
    yard.wait_reason("train", "NoFit")
    delete_gang(yard, gang, "train")
    yard.wait(lambda: not yard.books.workloads(yard.name), "the gang to be forgotten")
    assert not yard.pods()
    assert yard.held() == {}


@pytest.mark.parametrize("gang", EACH_KIND)
def test_a_half_released_gang_that_is_deleted_gives_everything_back(
    idle_scheduler: Stack, yard: Yard, gang: Gang
) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    # Three pods of three: no node is filled, so Jobs are released pod by pod.
    yard.add(*gang(yard, "train", 3, 3))
    names = wait_released(yard, "train-", 3)
    bind(yard, names[0])
    yard.wait_running("train-", 1)
    assert yard.held()

    delete_gang(yard, gang, "train")
    yard.wait(lambda: not yard.pods(), "its pods to go")
    yard.wait_free()
    yard.wait(lambda: not yard.books.workloads(yard.name), "the gang to be forgotten")


@pytest.mark.parametrize("gang", EACH_KIND)
def test_a_running_gang_that_is_deleted_makes_room_for_the_next(yard: Yard, gang: Gang) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(*gang(yard, "train", 2, 8))
    yard.wait_running("train-", 2)
    yard.add(*gang(yard, "next", 2, 8))
    yard.wait_reason("next", "NoFit")

    delete_gang(yard, gang, "train")
    yard.wait_running("next-", 2)
    delete_gang(yard, gang, "next")
    yard.wait_free()


def test_seats_are_held_until_the_last_pod_is_really_gone(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    slow = {"kwok.muster.dev/stop-after": "1500ms"}
    yard.add(volcano_job(yard, "slow", 1, 8, annotations=slow))
    yard.wait_running("slow-", 1)
    yard.add(volcano_job(yard, "next", 1, 8))
    yard.wait_reason("next", "NoFit")

    yard.delete("Job", "slow")
    yard.wait_running("next-", 1)
    moments = yard.history.of(yard.name)
    gone = [i for i, m in enumerate(moments) if m.kind == "DELETED" and "/slow-" in m.name]
    bound = [i for i, m in enumerate(moments) if m.node and "/next-" in m.name]
    assert gone
    assert gone[0] < bound[0]


# ── people ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_user_who_takes_the_gate_off_a_pod_is_refused(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    yard.add(pod_group(yard, "ring", 2), grouped(yard, "ring", "ring-0"))
    yard.add(batch_job(yard, "waits", 2, 8))
    yard.wait_reason("ring", "NotEnoughPods")
    yard.wait_reason("waits", "NoFit")
    alice = yard.somebody("alice")

    for target, change, words in (
        ("pod/ring-0", '{"spec":{"schedulingGates":null}}', "Scheduling gate muster.dev/admission"),
        ("pod/ring-0", '{"metadata":{"labels":{"muster.dev/released":"true"}}}', "muster.dev/released"),
        ("pod/ring-0", '{"metadata":{"annotations":{"muster.dev/admission-id":"1"}}}', "admission-id"),
        ("job/waits", '{"spec":{"suspend":false}}', "expected true until Muster admits"),
    ):
        with pytest.raises(CommandFailed) as refused:
            yard.stack.kubectl("patch", target, "-n", yard.name, "--type=merge", "-p", change, user=alice)
        assert "orbidden" in str(refused.value)
        assert words in str(refused.value)
    assert yard.get("Pod", "ring-0")["spec"]["schedulingGates"] == [{"name": "muster.dev/admission"}]
    assert not yard.history.bound(yard.name)


def test_a_user_cannot_make_a_pod_that_is_released_already(yard: Yard) -> None:
    yard.add_queue()
    forged = pod(yard, "forged", labels={"muster.dev/released": "true", "muster.dev/queue-name": yard.name})
    with yard.as_user("alice") as alice, pytest.raises(ApiError, match="which only Muster writes"):
        alice.create(path("Pod", yard.name), forged)


def test_a_job_that_grows_gets_no_pod_past_its_quota(yard: Yard) -> None:
    """Released as a whole or pod by pod, running or suspended by its user."""
    yard.add_nodes(1)
    queue = yard.add_queue(capability={GPU: 4})
    yard.add(batch_job(yard, "train", 2, 2, completions=9))
    yard.wait_running("train-", 2)
    alice = yard.somebody("alice")

    def patch(change: str) -> None:
        yard.stack.kubectl("patch", "job/train", "-n", yard.name, "--type=merge", "-p", change, user=alice)

    with pytest.raises(CommandFailed, match="expected at most 2: the Job is admitted with so many seats"):
        patch('{"spec":{"parallelism":3}}')
    patch('{"spec":{"suspend":true,"parallelism":3}}')
    message = yard.wait_reason("train", "QueueLimit")
    assert message == f"queue {queue} may use 4 {GPU}: 4 used, 2 asked, 2 too many"
    yard.wait_running("train-", 2)
    patch('{"spec":{"parallelism":4}}')
    yard.wait(lambda: "4 asked" in yard.reason("train")[1], "both to be asked for")
    assert bound_at_most(yard, "train-") == 2


def test_a_job_that_grows_in_the_moment_of_its_release_gets_no_pod_past_its_quota(
    whole_stack: Stack, yard: Yard, absent_muster: Callable[[], None]
) -> None:
    yard.add_nodes(1)
    yard.add_queue(capability={GPU: 4})
    absent_muster()
    muster = whole_stack.start_muster("muster-pauses", environment={"MUSTER_FAULT": "applied:STOP"})
    yard.add(batch_job(yard, "train", 2, 2, completions=9))
    until(lambda: is_stopped(muster), "the admission to be stored")
    yard.merge("batch/v1 Job", "train", {"spec": {"parallelism": 3}})

    muster.wake()
    yard.wait_running("train-", 2)
    finish(yard, [yard.running("train-")[0]["metadata"]["name"]])
    yard.wait(lambda: len(made(yard)) > 2 and len(yard.running("train-")) == 2, "the next to run")
    assert bound_at_most(yard, "train-") == 2


def bound_at_most(yard: Yard, prefix: str) -> int:
    """How many pods were on nodes at the same time, and had not ended."""
    there: set[str] = set()
    most = 0
    for moment in yard.history.of(yard.name):
        meta = moment.pod["metadata"]
        if not moment.node or not meta["name"].startswith(prefix):
            continue
        over = moment.kind == "DELETED" or moment.phase in ("Succeeded", "Failed")
        (there.discard if over else there.add)(meta["uid"])
        most = max(most, len(there))
    return most


def test_a_quota_shrunk_below_its_use_evicts_nothing_and_admits_nothing(yard: Yard) -> None:
    yard.add_nodes(3)
    queue = yard.add_queue(capability={GPU: 16})
    yard.add(volcano_job(yard, "first", 1, 8), volcano_job(yard, "second", 1, 8))
    yard.wait_running("first-", 1)
    yard.wait_running("second-", 1)

    yard.api.merge(path("Queue", "", queue), {"spec": {"capability": {GPU: 8}}})
    yard.add(volcano_job(yard, "third", 1, 2))
    message = yard.wait_reason("third", "QueueLimit")
    assert message == f"queue {queue} may use 8 {GPU}: 16 used, 2 asked, 10 too many"
    assert message in yard.explain("third")

    finish_all(yard, "first-")
    yard.wait(lambda: yard.held().get(f"queue {queue} {GPU}") == 8_000, "the first one's seat to come back")
    yard.wait(lambda: "8 used, 2 asked, 2 too many" in yard.reason("third")[1], "the new numbers")
    assert len(yard.running("second-")) == 1
    finish_all(yard, "second-")
    yard.wait_running("third-", 1)

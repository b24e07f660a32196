"""Pods without an owner go back by being deleted and made again: whole, gated, and nobody is lost on the way."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from admission.failpoints import RECREATION_POINTS
from deploy.local.stack import Stack
from tests.e2e.support.api_paths import Document, condition
from tests.e2e.support.crash_harness import Scene, balances_are_sums_of_open_seats, own_scene
from tests.e2e.support.gang_kinds import finish, finish_all
from tests.e2e.support.manifests import bare_pod, grouped, pod, pod_group
from tests.e2e.support.sandbox import Yard
from tests.node_affinity import pinned_to

#: What the API server fills in, or merges into what it was given.
RICH: Document = {
    "priorityClassName": "calm",
    "topologySpreadConstraints": [
        {
            "maxSkew": 8,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "train"}},
            "matchLabelKeys": ["run"],
        }
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}
                ]
            }
        }
    },
}


@contextmanager
def no_scheduler(stack: Stack) -> Iterator[None]:
    """Gangs are admitted and released, and not bound. The scheduler that comes then knows all pods at once."""
    stack.cluster.kill("kube-scheduler")
    try:
        yield
    finally:
        stack.cluster.start_component("kube-scheduler")


def arrive(yard: Yard, **spec: object) -> list[Document]:
    """A group of two pods that fill a node each."""
    members = [grouped(yard, "train", f"train-{index}", 8, **spec) for index in range(2)]
    for member in members:
        member["metadata"]["labels"] = {"app": "train", "run": "7"}
    yard.add(pod_group(yard, "train", 2))
    return yard.add(*members)


def lose_a_seat(yard: Yard, prefix: str, count: int) -> None:
    """Pods are released, and a foreign pod takes the seat of one of them."""
    yard.wait(
        lambda: [bool(each["spec"].get("schedulingGates")) for each in yard.pods(prefix)] == [False] * count,
        f"{count} pods {prefix}* to be released",
    )
    yard.add(pod(yard, "foreign", 8, nodeName=yard.nodes[0]))
    yard.wait_running("foreign", 1)


def uids(yard: Yard, prefix: str) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in yard.pods(prefix)}


def wait_made_again(yard: Yard, prefix: str, before: dict[str, str]) -> None:
    """All of them are there under their names, each another one."""

    def again() -> bool:
        now = uids(yard, prefix)
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    yard.wait(again, f"pods {prefix}* to be made again")


def test_a_group_that_cannot_start_goes_back_whole_and_starts_elsewhere(yard: Yard) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    arrival = "SELECT arrival FROM workloads WHERE namespace = $1"
    calm = {"metadata": {"name": "calm"}, "value": 7, "preemptionPolicy": "Never"}
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    yard.api.create(classes, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **calm})
    with no_scheduler(yard.stack):
        created = arrive(yard, **RICH)
        before = uids(yard, "train-")
        lose_a_seat(yard, "train-", 2)
        number = yard.books.ask(arrival, yard.name)
    wait_made_again(yard, "train-", before)
    evictions = [code for kind, code, _ in yard.books.decisions(yard.name, "train") if kind == "evict"]
    assert evictions[:1] == ["Refused"]

    yard.add_nodes(1)
    pods = yard.wait_running("train-", 2)
    assert set(yard.nodes_of("train-").values()) == set(yard.nodes[1:])
    assert yard.get("Pod", "foreign")["status"]["phase"] == "Running"
    for made, again in zip(created, pods, strict=True):
        assert again["metadata"]["labels"].items() >= {"app": "train", "run": "7"}.items()
        assert pinned_to(again["spec"]) == {again["spec"]["nodeName"]}
        for field in ("containers", "volumes", "tolerations", "topologySpreadConstraints", "priority"):
            assert again["spec"].get(field) == made["spec"].get(field), field
    assert yard.books.ask(arrival, yard.name) == number
    assert yard.books.ask("SELECT * FROM recreations WHERE namespace = $1", yard.name) == []
    yard.api.delete(f"{classes}/calm")
    finish_all(yard, "train-")
    finish(yard, ["foreign"])
    yard.wait_free()


def test_a_pod_of_its_own_goes_back_and_keeps_its_place_in_line(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    with no_scheduler(yard.stack):
        yard.add(bare_pod(yard, "alone", 8))
        before = uids(yard, "alone")
        lose_a_seat(yard, "alone", 1)
    wait_made_again(yard, "alone", before)
    yard.wait(lambda: yard.books.workloads(yard.name) == ["alone"], "its predecessor to be forgotten")
    yard.add(bare_pod(yard, "late", 8))
    yard.wait(lambda: yard.books.workloads(yard.name) == ["alone", "late"], "another pod to come later")
    rollbacks = "SELECT rollbacks FROM backoffs WHERE uid = $1"
    assert yard.books.ask(rollbacks, uids(yard, "alone")["alone"])[0][0] >= 1

    yard.delete("Pod", "late")
    finish(yard, ["foreign"])
    yard.wait_running("alone", 1)
    finish(yard, ["alone"])
    yard.wait_free()


def test_what_a_quota_refuses_is_told_and_made_again_once_it_may(yard: Yard) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    quotas = f"/api/v1/namespaces/{yard.name}/resourcequotas"
    with no_scheduler(yard.stack):
        arrive(yard)
        before = uids(yard, "train-")
        quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "1"}}}
        lose_a_seat(yard, "train-", 2)
        yard.api.create(quotas, {"apiVersion": "v1", "kind": "ResourceQuota", **quota})
        yard.wait(
            lambda: "used" in yard.api.get(f"{quotas}/none").get("status", {}), "the quota to be counted"
        )
    yard.wait(lambda: "exceeded quota" in yard.told("PodGroup", "train"), "the group to say what is refused")
    unschedulable = condition(yard.get("PodGroup", "train"), "Unschedulable")
    assert unschedulable["reason"] == "RecreationRefused"
    yard.api.delete(f"{quotas}/none")
    wait_made_again(yard, "train-", before)
    finish(yard, ["foreign"])
    yard.wait_running("train-", 2)
    finish_all(yard, "train-")
    yard.wait_free()


# ── Muster dies on the way ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def scene(kubernetes_binaries: dict[str, Path]) -> Iterator[Scene]:
    """A cluster of its own: here Muster is killed."""
    with own_scene(durable=False) as found:
        yield found


@pytest.mark.parametrize("point", RECREATION_POINTS)
def test_killed_while_a_group_goes_back_nobody_is_lost_or_doubled(scene: Scene, point: str) -> None:
    scene.leave()
    with scene.yard(f"killed-{point}") as yard:
        victim = scene.start(f"{point}:KILL")
        for name in yard.nodes[2:]:
            yard.merge("Node", name, {"spec": {"unschedulable": True}})
        with no_scheduler(yard.stack):
            arrive(yard)
            before = uids(yard, "train-")
            lose_a_seat(yard, "train-", 2)
        scene.dies(victim)
        scene.start()
        wait_made_again(yard, "train-", before)
        for name in yard.nodes[2:]:
            yard.merge("Node", name, {"spec": {"unschedulable": None}})
        yard.wait_running("train-", 2)
        made = Counter(
            moment.name.partition("/")[2]
            for moment in yard.history.of(yard.name)
            if moment.kind == "ADDED" and "train-" in moment.name
        )
        rounds = len([kind for kind, _, _ in scene.books.decisions(yard.name, "train") if kind == "evict"])
        assert made == {"train-0": 1 + rounds, "train-1": 1 + rounds}
        assert scene.books.ask("SELECT * FROM recreations") == []
        finish_all(yard, "train-")
        finish(yard, ["foreign"])
        yard.wait_free()
        balances_are_sums_of_open_seats(scene.books)

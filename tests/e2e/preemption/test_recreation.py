"""Pods without an owner go back by being deleted and made again: whole, gated, and nobody is lost on the way."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from admission.failpoints import RECREATION_POINTS
from deploy.local.stack import Stack
from tests.cluster_faults import kill_component
from tests.e2e.support.api_paths import Document, condition
from tests.e2e.support.crash_harness import CrashHarness, balances_are_sums_of_open_seats
from tests.e2e.support.gang_kinds import finish, finish_all
from tests.e2e.support.manifests import bare_pod, grouped, pod, pod_group
from tests.e2e.support.sandbox import Sandbox
from tests.node_affinity import pinned_nodes

#: What the API server fills in, or merges into what it was given.
RICH: Document = {
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
    kill_component(stack.cluster, "kube-scheduler")
    try:
        yield
    finally:
        stack.cluster.start_component("kube-scheduler")


def arrive(sandbox: Sandbox, **spec: object) -> list[Document]:
    """A group of two pods that fill a node each."""
    members = [grouped(sandbox, "train", f"train-{index}", 8, **spec) for index in range(2)]
    for member in members:
        member["metadata"]["labels"] = {"app": "train", "run": "7"}
    sandbox.add(pod_group(sandbox, "train", 2))
    return sandbox.add(*members)


def lose_a_seat(sandbox: Sandbox, prefix: str, count: int) -> None:
    """Pods are released, and a foreign pod takes the seat of one of them."""
    sandbox.wait(
        lambda: (
            [bool(each["spec"].get("schedulingGates")) for each in sandbox.pods(prefix)] == [False] * count
        ),
        f"{count} pods {prefix}* to be released",
    )
    sandbox.add(pod(sandbox, "foreign", 8, nodeName=sandbox.nodes[0]))
    sandbox.wait_running("foreign", 1)


def uids(sandbox: Sandbox, prefix: str) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in sandbox.pods(prefix)}


def wait_made_again(sandbox: Sandbox, prefix: str, before: dict[str, str]) -> None:
    """All of them are there under their names, each another one."""

    def again() -> bool:
        now = uids(sandbox, prefix)
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    sandbox.wait(again, f"pods {prefix}* to be made again")


def test_a_group_that_cannot_start_goes_back_whole_and_starts_elsewhere(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    arrival = "SELECT arrival FROM workloads WHERE namespace = $1"
    calm = sandbox.add_priority_class(7, preemptionPolicy="Never")
    with no_scheduler(sandbox.stack):
        created = arrive(sandbox, priorityClassName=calm, **RICH)
        before = uids(sandbox, "train-")
        lose_a_seat(sandbox, "train-", 2)
        number = sandbox.ledger.ask(arrival, sandbox.name)
    wait_made_again(sandbox, "train-", before)
    evictions = [code for kind, code, _ in sandbox.ledger.decisions(sandbox.name, "train") if kind == "evict"]
    assert evictions[:1] == ["Refused"]

    sandbox.add_nodes(1)
    pods = sandbox.wait_running("train-", 2)
    assert set(sandbox.nodes_of("train-").values()) == set(sandbox.nodes[1:])
    assert sandbox.get("Pod", "foreign")["status"]["phase"] == "Running"
    for made, again in zip(created, pods, strict=True):
        assert again["metadata"]["labels"].items() >= {"app": "train", "run": "7"}.items()
        assert pinned_nodes(again["spec"]) == {again["spec"]["nodeName"]}
        for field in ("containers", "volumes", "tolerations", "topologySpreadConstraints", "priority"):
            assert again["spec"].get(field) == made["spec"].get(field), field
    assert sandbox.ledger.ask(arrival, sandbox.name) == number
    assert sandbox.ledger.ask("SELECT * FROM recreations WHERE namespace = $1", sandbox.name) == []
    finish_all(sandbox, "train-")
    finish(sandbox, ["foreign"])
    sandbox.wait_free()


def test_a_pod_of_its_own_goes_back_and_keeps_its_place_in_line(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    with no_scheduler(sandbox.stack):
        sandbox.add(bare_pod(sandbox, "alone", 8))
        before = uids(sandbox, "alone")
        lose_a_seat(sandbox, "alone", 1)
    wait_made_again(sandbox, "alone", before)
    sandbox.wait(
        lambda: sandbox.ledger.workloads(sandbox.name) == ["alone"], "its predecessor to be forgotten"
    )
    sandbox.add(bare_pod(sandbox, "late", 8))
    sandbox.wait(
        lambda: sandbox.ledger.workloads(sandbox.name) == ["alone", "late"], "another pod to come later"
    )
    rollbacks = "SELECT rollbacks FROM backoffs WHERE uid = $1"
    assert sandbox.ledger.ask(rollbacks, uids(sandbox, "alone")["alone"])[0][0] >= 1

    sandbox.delete("Pod", "late")
    finish(sandbox, ["foreign"])
    sandbox.wait_running("alone", 1)
    finish(sandbox, ["alone"])
    sandbox.wait_free()


def test_what_a_quota_refuses_is_told_and_made_again_once_it_may(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    quotas = f"/api/v1/namespaces/{sandbox.name}/resourcequotas"
    with no_scheduler(sandbox.stack):
        arrive(sandbox)
        before = uids(sandbox, "train-")
        quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "1"}}}
        lose_a_seat(sandbox, "train-", 2)
        sandbox.api.create(quotas, {"apiVersion": "v1", "kind": "ResourceQuota", **quota})
        sandbox.wait(
            lambda: "used" in sandbox.api.get(f"{quotas}/none").get("status", {}), "the quota to be counted"
        )
    sandbox.wait(
        lambda: "exceeded quota" in sandbox.told("PodGroup", "train"), "the group to say what is refused"
    )
    unschedulable = condition(sandbox.get("PodGroup", "train"), "Unschedulable")
    assert unschedulable["reason"] == "RecreationRefused"
    sandbox.api.delete(f"{quotas}/none")
    wait_made_again(sandbox, "train-", before)
    finish(sandbox, ["foreign"])
    sandbox.wait_running("train-", 2)
    finish_all(sandbox, "train-")
    sandbox.wait_free()


# ── Muster dies on the way ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=[] if point == "pod-removed" else [pytest.mark.long])
        for point in RECREATION_POINTS
    ],
)
def test_killed_while_a_group_goes_back_nobody_is_lost_or_doubled(harness: CrashHarness, point: str) -> None:
    harness.leave()
    with harness.sandbox(f"killed-{point}") as sandbox:
        victim = harness.start(f"{point}:KILL")
        for name in sandbox.nodes[2:]:
            sandbox.merge("Node", name, {"spec": {"unschedulable": True}})
        with no_scheduler(sandbox.stack):
            arrive(sandbox)
            before = uids(sandbox, "train-")
            lose_a_seat(sandbox, "train-", 2)
        harness.dies(victim)
        harness.start()
        wait_made_again(sandbox, "train-", before)
        for name in sandbox.nodes[2:]:
            sandbox.merge("Node", name, {"spec": {"unschedulable": None}})
        sandbox.wait_running("train-", 2)
        made = Counter(
            moment.name.partition("/")[2]
            for moment in sandbox.history.of(sandbox.name)
            if moment.kind == "ADDED" and "train-" in moment.name
        )
        rounds = len(
            [kind for kind, _, _ in harness.ledger.decisions(sandbox.name, "train") if kind == "evict"]
        )
        assert made == {"train-0": 1 + rounds, "train-1": 1 + rounds}
        assert harness.ledger.ask("SELECT * FROM recreations") == []
        finish_all(sandbox, "train-")
        finish(sandbox, ["foreign"])
        sandbox.wait_free()
        balances_are_sums_of_open_seats(harness.ledger)

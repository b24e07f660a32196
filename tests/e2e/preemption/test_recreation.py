"""Pods without an owner go back by being deleted and made again: whole, gated, and nobody is lost on the way."""

from collections.abc import Iterator
from contextlib import contextmanager

from deploy.local.stack import Stack
from tests.cluster_faults import kill_component
from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish, finish_all
from tests.e2e.support.manifests import grouped, pod, pod_group
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


# ── Muster dies on the way ──────────────────────────────────────────────────────────────────────────────────

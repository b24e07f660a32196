"""Users try Jobs before they submit them, with their own rights; what they are told then happens."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.cluster_faults import plugin
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import batch_job, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import GPU, RBAC, Sandbox


def answer(sandbox: Sandbox, kubeconfig: Path, *words: str | Path, code: int = 0) -> Any:
    """What ``kubectl muster try`` answers a user as soon as the leader has time: as JSON, or the complaint."""
    answers: list[subprocess.CompletedProcess[str]] = []

    def is_answered() -> bool:
        answers.append(plugin(kubeconfig, "try", *words, "-o", "json"))
        return "Ask again" not in answers[-1].stderr

    sandbox.wait(is_answered, "an answer about what would become of it")
    assert answers[-1].returncode == code, answers[-1].stderr
    return json.loads(answers[-1].stdout) if answers[-1].stdout else answers[-1].stderr


def told(sandbox: Sandbox, kubeconfig: Path, folder: Path, *documents: Document) -> Any:
    """What a user is told of documents that are not submitted."""
    file = folder / "tried.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return answer(sandbox, kubeconfig, "-f", file, "-n", sandbox.name)


def nodes_of(item: dict[str, Any]) -> list[str]:
    return sorted(place["node"] for place in item["places"] for _ in range(place["count"]))


def test_what_a_user_is_told_of_a_job_happens_when_it_is_submitted(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue(deserved={GPU: 8}, capability={GPU: 12})
    alice = sandbox.somebody(f"alice-{sandbox.name}")
    job = batch_job(sandbox, "train", 2, 4)
    kinds = [
        job,
        volcano_job(sandbox, "volcano", 1, 2),
        pod_group(sandbox, "ring", 2),
        *(grouped(sandbox, "ring", f"ring-{index}") for index in range(2)),
    ]

    sandbox.wait(
        lambda: told(sandbox, alice, tmp_path, job)["items"][0]["state"] == "admitted",
        "the nodes and the queue to be known",
    )
    several = told(sandbox, alice, tmp_path, *kinds)["items"]
    assert [(each["kind"], each["name"], each["state"]) for each in several] == [
        ("job", "train", "admitted"),
        ("vcjob", "volcano", "admitted"),
        ("podgroup", "ring", "admitted"),
    ]
    # Nothing of it is there.
    assert sandbox.pods() == []
    (item,) = told(sandbox, alice, tmp_path, job)["items"]
    (gpus,) = (each for each in item["quota"] if each["resource"] == GPU)
    assert (gpus["queue"], gpus["takes"], gpus["owned"], gpus["borrowed"]) == (queue, "8", "8", "0")

    sandbox.add(job)
    sandbox.wait_running("train-", 2)
    assert sorted(sandbox.nodes_of("train-").values()) == nodes_of(item)

    second = batch_job(sandbox, "second", 2, 4)
    (waits,) = told(sandbox, alice, tmp_path, second)["items"]
    assert (waits["state"], waits["position"], waits["queueLength"]) == ("waits", 1, 1)
    assert waits["changes"]
    sandbox.add(second)
    assert sandbox.wait_reason("second", waits["reason"]["code"]) == waits["reason"]["message"]


def test_administrators_try_quota_and_what_they_are_told_happens(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2, nodes_per_rack=1)
    user = f"tim-{sandbox.name}"
    tenant = sandbox.add_queue("tenant", deserved={GPU: 16}, access={"admins": [{"user": user}]})
    queue = sandbox.add_queue("q", parent=tenant, deserved={GPU: 8}, capability={GPU: 8})
    tim, admin = sandbox.somebody(user), sandbox.stack.cluster.kubeconfig
    role = add_role_to_get(sandbox, queue)
    sandbox.bind(user, role)
    try:
        for name in ("first", "second"):
            job = batch_job(sandbox, name, 1, 8)
            job["metadata"]["labels"] = {"muster.dev/queue-name": queue}
            sandbox.add(job)
        sandbox.wait(lambda: len(sandbox.running()) == 1, "one of the Jobs to run")
        sandbox.wait(
            lambda: "QueueLimit" in {sandbox.reason(each)[0] for each in ("first", "second")}, "one to wait"
        )
        waits = next(each for each in ("first", "second") if sandbox.reason(each)[0])

        for who in (tim, admin):
            more = ("--quota", f"{queue}.gpu=16", "--quota", f"{queue}.capability.gpu=16")
            found = answer(sandbox, who, *more)["comparison"]
            mine = [each for each in found["workloads"] if each["namespace"] == sandbox.name]
            assert [(each["name"], each["what"]) for each in mine] == [(waits, "starts")]
        # Nothing has changed. Then it is done.
        assert len(sandbox.running()) == 1
        refused = answer(sandbox, tim, "--quota", f"{tenant}.gpu=16", code=1)
        assert refused == f"Error: There is no queue {tenant} that you may see.\n"
        sandbox.api.merge(
            path("Queue", "", queue), {"spec": {"deserved": {GPU: "16"}, "capability": {GPU: "16"}}}
        )
        sandbox.wait_running("", 2)
    finally:
        sandbox.api.delete(f"/apis/{RBAC}/v1/clusterroles/{role}")


def add_role_to_get(sandbox: Sandbox, queue: str) -> str:
    """A ClusterRole of who may get a queue; its name."""
    name = f"trials-{sandbox.name}"
    rule = {
        "apiGroups": ["scheduling.volcano.sh"],
        "resources": ["queues"],
        "verbs": ["get"],
        "resourceNames": [queue],
    }
    head = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    sandbox.api.create(f"/apis/{RBAC}/v1/clusterroles", {**head, "rules": [rule]})
    return name
